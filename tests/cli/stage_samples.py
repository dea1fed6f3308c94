"""Stages for the tests of stages."""

import os
import time

from kvspec.cli.verdicts import HOLDS, Answer


def sleeps(seconds, tell):
    """A stage that takes a while and tells its progress."""
    tell(0, 1, "asleep")
    time.sleep(seconds)
    tell(1, 1, "awake")
    return Answer("sleep", HOLDS, {}, "")


def fails(tell):
    """A stage with a mistake in it."""
    return 1 / 0


def dies(tell):
    """A stage whose process is ended from outside."""
    os._exit(9)
