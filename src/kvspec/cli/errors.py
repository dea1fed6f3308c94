"""Usage errors: what was found, what was expected, where, and what to do."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable
from difflib import get_close_matches
from textwrap import TextWrapper
from typing import Any

import attrs
from cyclopts import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnknownOptionError,
    ValidationError,
)
from cyclopts.exceptions import UnknownCommandError

_WRAP = TextWrapper(
    width=100, subsequent_indent=" " * 12, break_long_words=False, break_on_hyphens=False
)
MOST_NAMES = 60
_NAMES = {int: "a whole number", float: "a number", str: "text"}


@attrs.frozen
class UsageError(Exception):
    """The command line, or a file that it names, is not what the command takes: exit code 2."""

    message: str
    found: str
    expected: str
    where: str
    do: str

    def data(self) -> dict[str, str]:
        """The error for a program."""
        return {"message": self.message, **self._parts()}

    def _parts(self) -> dict[str, str]:
        return {
            "found": self.found,
            "expected": self.expected,
            "where": self.where,
            "do": self.do,
        }

    def __str__(self) -> str:
        lines = [f"error: {self.message}"]
        for name, text in self._parts().items():
            lines.extend(_WRAP.wrap(f"  {name:<8}  {text}"))
        return "\n".join(lines)


MOST_DIGITS = 18
"""Digits of a number on the command line: products of several still can be printed."""


def shortened(text: str) -> str:
    """A text of the user's, cut where it is very long."""
    return text if len(text) <= 60 else f"{text[:40]}... ({len(text):,} characters)"


def unknown(kind: str, found: str, known: Iterable[str], where: str, do: str) -> UsageError:
    """A look-up that failed: it lists what exists, and the nearest name."""
    names = list(known)
    near = [name for name in names if name.casefold() == found.casefold()]
    near = near or get_close_matches(found, names, n=1)
    return UsageError(
        f"there is no {kind} {found!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
        found,
        f"one of {_listed(found, names)}",
        where,
        do,
    )


def _listed(found: str, names: list[str]) -> str:
    """All names, or of very many those that are most like the one that was given."""
    if len(names) <= MOST_NAMES:
        return ", ".join(names) or "(there is none)"
    near = get_close_matches(found, names, n=8, cutoff=0.3) or names[:8]
    return f"{', '.join(near)}, or {len(names) - len(near):,} others"


def from_exception(error: Exception) -> UsageError | None:
    """What went wrong with a file or a name, in our words; None for anything else."""
    if isinstance(error, UsageError):
        return error
    if isinstance(error, OSError):
        file = error.filename if isinstance(error.filename, str) else None
        return UsageError(
            f"{file or 'the output'} cannot be read or written",
            error.strerror or str(error) or type(error).__name__,
            "a file that can be read or written, with space left",
            file or "standard output, or another file of this command",
            "check the path and the space that is left, or name another file",
        )
    from kvspec.counterexamples.errors import TraceError, UnknownNameError

    if isinstance(error, TraceError):
        told = "what is named is not there, or is no trace, history or cache that can be used"
        return UsageError(told, error.found, error.expected, error.where, error.advice)
    from kvspec.models.documents import DocumentError

    if isinstance(error, DocumentError):
        told = f"a file is no document that can be checked: {error.code}"
        return UsageError(told, error.found, error.expected, error.where, error.advice)
    from kvspec.spec.language import DefinitionError

    if isinstance(error, DefinitionError):
        where = f"{error.file}:{error.line}"
        return UsageError(
            "a specification is not well formed",
            str(error).removeprefix(f"{where}: "),
            "a definition that can be read",
            where,
            "mend the definition there",
        )
    if isinstance(error, UnknownNameError):
        do = "choose one of these"
        return unknown(error.kind, error.name, error.known, "the command line or a file", do)
    return None


def internal(error: Exception) -> str:
    """A mistake of this program in one line: its type, its message, and where it came up."""
    place, trace = "", error.__traceback__
    while trace is not None:
        place = f"{trace.tb_frame.f_globals.get('__name__', '?')}, line {trace.tb_lineno}"
        trace = trace.tb_next
    told = " ".join(str(error).split())
    return f"internal error: {type(error).__name__}: {told or 'no message'} ({place or 'nowhere'})"


def from_cyclopts(error: CycloptsError, commands: list[str]) -> UsageError:
    """The errors of the command line parser in our words."""
    chain = " ".join(("kvspec", *(error.command_chain or ())))
    do = f"see {chain} --help"
    given = next(iter(error.unused_tokens or ()), "nothing")
    if isinstance(error, UnknownCommandError):
        return unknown("command", given, commands, "the command line", "see kvspec --help")
    if isinstance(error, UnknownOptionError):
        found = error.token.keyword or error.token.value
        return unknown("option", found, _options(error), chain, do)
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        name = _name(error)
        return UsageError(f"{name} has no value", "nothing", f"a value for {name}", chain, do)
    if isinstance(error, CoercionError) and error.argument is not None and error.token is not None:
        name = error.token.keyword or _name(error)
        return _wrong(name, error.token.value, _kind(error), chain, do)
    if isinstance(error, ValidationError) and error.argument is not None:
        name, told = _name(error), str(error.exception_message)
        value = error.argument.tokens[0].value if error.argument.tokens else str(error.value)
        expected = f"a value that {told[0].lower()}{told[1:]}".rstrip(".")
        return _wrong(name, value, expected, chain, do)
    told = " ".join(str(error).split())
    if error.unused_tokens:
        told = f"{chain} takes no further argument {given!r}"
    return UsageError(told, given, f"the arguments of {chain}", chain, do)


def _name(error: CycloptsError) -> str:
    """What to call an argument: as it is written, `FILE` or `--layers`."""
    argument: Any = error.argument
    name = str(argument.names[0])
    by_place = argument.index is not None
    return name.removeprefix("--").upper() if by_place else name


def _wrong(name: str, value: str, expected: str, chain: str, do: str) -> UsageError:
    return UsageError(f"{name} cannot be {value!r}", value, expected, f"{name} of {chain}", do)


def _kind(error: CoercionError) -> str:
    """What values an argument takes, in words."""
    argument: Any = error.argument
    choices = argument.get_choices()
    if choices:
        return f"one of {', '.join(choices)}"
    hint = argument.hint
    if isinstance(hint, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    return _NAMES.get(hint, getattr(hint, "__name__", str(hint)))


def _options(error: UnknownOptionError) -> list[str]:
    """The options of the command that was given a wrong one."""
    arguments = error.argument_collection or ()
    names = [name for argument in arguments for name in argument.names if name.startswith("--")]
    return [*dict.fromkeys(names), "--help"]
