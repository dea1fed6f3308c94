"""Asking somebody's code: whatever it raises is an answer of that code, and never ends the suite.

`sys.exit()` in a cache, a cancelled task or a test framework's own exceptions are no `Exception`, so that
they would pass every handler here and end the program with a verdict that nobody reached. Only an interrupt
from the keyboard does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class EndedError(Exception):
    """Code that was asked tried to end the program, or its own task; the cause has what it raised."""


def ask(called: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
    """What the call returns; what it raises as an Exception, but an interrupt from the keyboard as it is."""
    try:
        return called(*args, **named)
    except (Exception, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise EndedError(told(error)) from error


def told(error: BaseException) -> str:
    """An exception in one line: its class and message."""
    if isinstance(error, EndedError):
        return str(error)
    try:
        words = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - the message is somebody's code as well
        words = ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
