"""Ctrl-C: the run ends, if need be by force, and says so in one word."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from kvspec.cli.verdicts import INTERRUPTED

GRACE = 3.0
"""Seconds that threads and files have to come to an end after the first Ctrl-C."""


@contextmanager
def ended_by_interrupts() -> Iterator[None]:
    """Within, Ctrl-C raises KeyboardInterrupt; a second one, or 3 seconds, ends the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    is_told = False

    def end() -> None:
        if not is_told:
            sys.stderr.write("interrupted\n")
            sys.stderr.flush()
        os._exit(INTERRUPTED)

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGINT, lambda *_: end())
        timer = threading.Timer(GRACE, end)
        timer.daemon = True
        timer.start()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        is_told = True
        sys.stderr.write("interrupted\n")
        raise
    finally:
        if not is_told:
            signal.signal(signal.SIGINT, before)
