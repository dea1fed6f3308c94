"""The program `kvspec`: it reads the command line and ends with the exit code of the command."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cyclopts import App, CycloptsError

import kvspec
from kvspec.cli.atlas import atlas
from kvspec.cli.audit import audit
from kvspec.cli.bench import bench
from kvspec.cli.check import check
from kvspec.cli.conform import conform
from kvspec.cli.errors import UsageError, from_cyclopts, from_exception, internal
from kvspec.cli.examples import EXAMPLES, example_text
from kvspec.cli.explore import explore
from kvspec.cli.export import export
from kvspec.cli.formulas import formulas
from kvspec.cli.interleave import interleave
from kvspec.cli.interrupts import ended_by_interrupts
from kvspec.cli.ledger import ledger
from kvspec.cli.linearize import linearize
from kvspec.cli.manifest import manifest
from kvspec.cli.mutants import mutants
from kvspec.cli.output import encodable
from kvspec.cli.pins import pins
from kvspec.cli.projections import projections
from kvspec.cli.prove import prove
from kvspec.cli.record import record
from kvspec.cli.replay import replay
from kvspec.cli.report import report
from kvspec.cli.service import service
from kvspec.cli.show import show
from kvspec.cli.test import drive
from kvspec.cli.verdicts import BROKEN_PIPE, INTERNAL, INTERRUPTED, USAGE
from kvspec.cli.verify import verify

EXIT_CODES = (
    "Exit codes: 0 holds, 1 violated, 2 wrong usage or input, "
    "3 unknown (a run cut short is never 0) or an internal error."
)
COMMANDS: dict[str, Callable[..., int]] = {
    "verify": verify,
    "explore": explore,
    "prove": prove,
    "mutants": mutants,
    "test": drive,
    "conform": conform,
    "replay": replay,
    "atlas": atlas,
    "interleave": interleave,
    "record": record,
    "show": show,
    "export": export,
    "projections": projections,
    "pins": pins,
    "report": report,
    "check": check,
    "manifest": manifest,
    "ledger": ledger,
    "service": service,
    "audit": audit,
    "linearize": linearize,
    "formulas": formulas,
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
    _open_what_is_closed()
    try:
        with ended_by_interrupts():
            return _run(words)
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain again at its end.
        _silence()
        return BROKEN_PIPE
    except SystemExit as end:
        # The help's printer ends with 1, which means violated, where its reader has gone.
        return BROKEN_PIPE if end.code == 1 else _code(end)
    except KeyboardInterrupt:
        return INTERRUPTED


def _code(end: SystemExit) -> int:
    return end.code if isinstance(end.code, int) else INTERNAL if end.code else 0


def _run(words: list[str]) -> int:
    try:
        found = app(words, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except CycloptsError as error:
        return _refuse(from_cyclopts(error, list(EXAMPLES)), words)
    except Exception as error:  # noqa: BLE001  # Python would end with 1, which means violated
        return _fail(error, words)
    return found if isinstance(found, int) else 0


def _fail(error: Exception, words: list[str]) -> int:
    """Tell an error of the user's or of our own; its exit code is never that of a verdict."""
    try:
        sys.stdout.flush()
    except OSError:
        _silence()
    if os.environ.get("KVSPEC_TRACEBACK") == "1":
        traceback.print_exception(error)
    usage = from_exception(error)
    if usage is not None:
        return _refuse(usage, words)
    told = internal(error)
    if "--json" in words:
        _print_json({"error": {"message": told}})
    print(told, file=sys.stderr)
    return INTERNAL


def _print_json(data: dict[str, Any]) -> None:
    """Print an error for a program, if stdout can still be written."""
    try:
        print(json.dumps(encodable(data), indent=2), flush=True)
    except BrokenPipeError:
        raise
    except OSError:
        _silence()


def _open_what_is_closed() -> None:
    """Python has no stream for an output that was closed from the start: what is told goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # to the end
            setattr(sys, name, stream)


def _silence() -> None:
    """Send what is left for stdout nowhere: it cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(error: UsageError, words: list[str]) -> int:
    """Tell what is wrong with the command line, on stderr, and as JSON if that was asked for."""
    if "--json" in words:
        _print_json({"error": error.data()})
    print(error, file=sys.stderr)
    return USAGE
