"""What Hypothesis draws for one walk, and what it means: which planned events to take, what to add.

A walk's script is a few plain values, so that Hypothesis can shrink it: zero always means less. In
`takes` there is a byte for each planned event: 0 leaves it out, 1 puts the plainest enabled event of the
same action in its place, anything else takes it. In `extras` there is a byte for each place between
events: an odd one tries another event there. Where the specification accepts that event it is taken in
a loose walk only, so that it does not lead other walks astray; where it refuses, the refusal is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import attrs
from hypothesis import strategies as st

from kvspec.models.concrete import Outcome, State
from kvspec.properties.stateful.oracle import Oracle
from kvspec.properties.stateful.walks import Walk

_RUNS = 63  # of so many values of `run` one drops the walk
_LOOSE = 15  # and of so many values of `loose` one makes it loose
_WHICH = 128  # odd bytes


@attrs.frozen
class Script:
    """What was drawn for a walk. is_dropped: nothing of it is done."""

    is_dropped: bool
    is_loose: bool = False
    takes: bytes = b""
    extras: bytes = b""


_RUN = st.integers(0, _RUNS)
_LOOSENESS = st.integers(0, _LOOSE)


@cache
def scripts(length: int) -> st.SearchStrategy[Script]:
    """Scripts for a walk of so many planned events."""
    return _scripts(st.binary(min_size=length, max_size=length))


@st.composite
def _scripts(draw: st.DrawFn, places: st.SearchStrategy[bytes]) -> Script:
    if draw(_RUN) == 0:
        return Script(is_dropped=True)
    is_loose = draw(_LOOSENESS) == _LOOSE
    return Script(is_dropped=False, is_loose=is_loose, takes=draw(places), extras=draw(places))


class Choice:
    """The events that a script chooses, one at a time, as the state of the run unfolds."""

    def __init__(self, oracle: Oracle, script: Script) -> None:
        self.oracle = oracle
        self.script = script

    def planned(self, state: State, walk: Walk, place: int) -> int | None:
        """The event for a place of the walk: the planned one, a plainer one, or none."""
        take = self.script.takes[place]
        if take == 0:
            return None
        return self.oracle.plainest(state, walk[place]) if take == 1 else walk[place]

    def added(self, state: State, place: int) -> int | None:
        """The event tried before a place of the walk, or none."""
        which, is_tried = divmod(self.script.extras[place], 2)
        if not is_tried:
            return None
        number = self.oracle.pick(state, which, _WHICH, place)
        found = self.oracle.outcome(state, number)
        return number if self.script.is_loose or _is_silent(found) else None

    def places(self) -> Iterator[int]:
        """The places of the walk, in order."""
        yield from range(len(self.script.takes))


def _is_silent(outcome: Outcome | None) -> bool:
    """Whether an event changes nothing because it is refused."""
    return outcome is not None and not outcome.is_transition
