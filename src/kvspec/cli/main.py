"""The program `kvspec`: it reads the command line and ends with the exit code of the command."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence

from cyclopts import App, CycloptsError

import kvspec
from kvspec.cli.bench import bench
from kvspec.cli.errors import UsageError, from_cyclopts
from kvspec.cli.examples import EXAMPLES, example_text
from kvspec.cli.explore import explore
from kvspec.cli.export import export
from kvspec.cli.interrupts import ended_by_interrupts
from kvspec.cli.mutants import mutants
from kvspec.cli.prove import prove
from kvspec.cli.replay import replay
from kvspec.cli.report import report
from kvspec.cli.show import show
from kvspec.cli.test import drive
from kvspec.cli.verdicts import BROKEN_PIPE, INTERRUPTED, USAGE
from kvspec.cli.verify import verify

EXIT_CODES = (
    "Exit codes: 0 holds, 1 violated, 2 wrong usage or input, "
    "3 unknown (a run cut short is never 0)."
)
COMMANDS: dict[str, Callable[..., int]] = {
    "verify": verify,
    "explore": explore,
    "prove": prove,
    "mutants": mutants,
    "test": drive,
    "replay": replay,
    "show": show,
    "export": export,
    "report": report,
    "bench": bench,
}

app = App(
    name="kvspec",
    help="An executable, formally checked specification of the KV-cache lifecycle of LLM serving.",
    help_epilogue=f"{EXIT_CODES}\n\nEach command's help has examples: `kvspec explore --help`.",
    help_format="markdown",
    version=kvspec.__version__,
    suppress_keyboard_interrupt=False,
)
for _order, (_name, _command) in enumerate(COMMANDS.items()):
    app.command(
        _command,
        name=_name,
        help_epilogue=f"Examples:\n\n{example_text(_name)}\n\n{EXIT_CODES}",
        sort_key=_order,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        with ended_by_interrupts():
            code = _run(words)
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _run(words: list[str]) -> int:
    try:
        found = app(words, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        return _refuse(from_cyclopts(error, list(EXAMPLES)), words)
    except UsageError as error:
        return _refuse(error, words)
    return found if isinstance(found, int) else 0


def _refuse(error: UsageError, words: list[str]) -> int:
    """Tell what is wrong with the command line, on stderr, and as JSON if that was asked for."""
    if "--json" in words:
        told = {
            "message": error.message,
            "found": error.found,
            "expected": error.expected,
            "where": error.where,
            "do": error.do,
        }
        print(json.dumps({"error": told}, indent=2))
    print(error, file=sys.stderr)
    return USAGE
