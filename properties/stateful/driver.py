"""Driver: performs events on a backend and compares everything that can be seen with the specification.

Checked at each event: it is accepted if and only if the specification accepts it; a refusal has the
code of the first guard that fails; the observed state is the specification's next state, so that a
refusal changes nothing but what it is meant to change. Checked every few events and at the end of a
run: no damage. Where the backend offers `watch`, and calls it whenever something becomes visible
inside a step, a reader there sees of every handle the state before the step or the one after it. Claims
are evaluated on the specification's run unless they are known to hold, and named where an observed
state breaks them: a reader who sees uneven layers is told so.
"""

from __future__ import annotations

from typing import NoReturn

from kvspec.models.backend import Backend, Damage, Reply
from kvspec.models.concrete import Outcome, State, show_event, show_state
from kvspec.properties.stateful.mismatch import (
    BrokenClaim,
    Damaged,
    Entry,
    Mismatch,
    Raised,
    RefusalChanged,
    Torn,
    WrongCode,
    WronglyAccepted,
    WronglyRefused,
    WrongStart,
    WrongState,
)
from kvspec.properties.stateful.oracle import Oracle
from kvspec.properties.stateful.tally import Tally

CELLS_SHOWN = 12
READ_BY = "Handle"
"""Readers look at what is indexed by this sort first; a transaction's own records are not theirs."""


class Driver:
    """A backend and the specification, side by side. `begin` starts a run, `perform` takes a step.

    damage_every: damage is looked for after so many events, and at the end.
    """

    def __init__(
        self, oracle: Oracle, backend: Backend, tally: Tally, *, damage_every: int = 16
    ) -> None:
        self.oracle = oracle
        self.backend = backend
        self.tally = tally
        self.damage_every = damage_every
        self.state = oracle.initial[0]
        self.steps: list[Entry] = []
        self._glimpse: State | None = None
        self._read = [
            place
            for place, variable in enumerate(oracle.instance.system.variables.values())
            if variable.domain and variable.domain[0].name == READ_BY
        ]
        if hasattr(backend, "watch"):
            backend.watch = self._glance

    def begin(self) -> None:
        """Reset the backend; it must be in an initial state."""
        self.steps = [Entry(None, "initial", self.oracle.initial[0])]
        try:
            self.backend.reset(self.oracle.instance)
            seen = self.backend.observe()
        except Exception as error:  # noqa: BLE001 - _raised raises
            self._raised("reset", error)
        if seen not in self.oracle.initial:
            differ = self._difference(self.oracle.initial[0], seen)
            self._fail(WrongStart, f"after a reset: {differ}")
        self.state = seen
        self.steps = [Entry(None, "initial", seen)]
        if not self.tally.is_closed:
            self.tally.sequences += 1

    def perform(self, number: int) -> Outcome | None:
        """Perform an event and check everything; None, and nothing done, where it is not tried."""
        outcome = self.oracle.outcome(self.state, number)
        if outcome is None:
            return None
        before, event = self.state, self.oracle.events[number]
        self._glimpse = None
        self.steps.append(Entry(event, outcome.kind, outcome.state, outcome.code))
        try:
            reply = self.backend.perform(event)
            seen = self.backend.observe()
        except Exception as error:  # noqa: BLE001 - _raised raises
            self._raised(show_event(self.oracle.machine, event), error)
        self._compare(outcome, reply, seen)
        if self._glimpse is not None:
            what = "a reader inside the step saw neither the state before it nor the one after it"
            self._fail(Torn, what, self._glimpse, differ=True)
        broken = self.oracle.broken_by(before, number, outcome)
        if broken:
            self._fail(BrokenClaim, f"the specification's own step breaks the claim {broken}")
        if (len(self.steps) - 1) % self.damage_every == 0:
            self._look_for_damage()
        self.state = outcome.state
        pair = (event.action, outcome.code)
        self.tally.count(before, number, pair, is_transition=outcome.is_transition)
        return outcome

    def end(self) -> None:
        """The run is over: the backend must be undamaged."""
        self._look_for_damage()

    def _compare(self, outcome: Outcome, reply: Reply, seen: State) -> None:
        found = _reply(reply)
        if outcome.refusal is None:
            if not reply.accepted:
                self._fail(WronglyRefused, f"it was {found}; expected: accepted", seen)
            if seen != outcome.state:
                self._fail(
                    WrongState, "it was accepted and led to another state", seen, differ=True
                )
            return
        refusal = outcome.refusal
        expected = (
            f"refused with {refusal.code}, which needs {refusal.expected} where {refusal.found}"
        )
        if reply.accepted:
            self._fail(WronglyAccepted, f"it was accepted; expected: {expected}", seen)
        if reply.code != refusal.code:
            self._fail(WrongCode, f"it was {found}; expected: {expected}", seen)
        if seen != outcome.state:
            what = "has not the effect it must have" if outcome.effect else "changed the state"
            self._fail(RefusalChanged, f"the refusal with {refusal.code} {what}", seen, differ=True)

    def _glance(self) -> None:
        """Read in the middle of a step, and keep what must not be seen there."""
        seen, before, after = self.backend.observe(), self.state, self.steps[-1].state
        views = [[state.tables[place] for place in self._read] for state in (seen, before, after)]
        if views[0] not in views[1:] and self._glimpse is None:
            self._glimpse = seen

    def _look_for_damage(self) -> None:
        try:
            found = self.backend.damage()
        except Exception as error:  # noqa: BLE001 - _raised raises
            self._raised("damage", error)
        if found:
            text = "; ".join(_damage(harm) for harm in found)
            self._fail(Damaged, f"the backend is damaged: {text}; expected: no damage")

    def _raised(self, what: str, error: Exception) -> NoReturn:
        if isinstance(error, Mismatch):
            raise error
        self.tally.is_closed = True
        text = f"{type(error).__name__}: {error}"
        message = self._place(f"the backend raised {text}; expected: an answer to {what}")
        raise Raised(message, tuple(self.steps)) from error

    def _fail(
        self, kind: type[Mismatch], what: str, seen: State | None = None, *, differ: bool = False
    ) -> NoReturn:
        self.tally.is_closed = True
        parts = [what]
        if seen is not None and differ:
            parts.append(self._difference(self.steps[-1].state, seen))
        if seen is not None and self._has_shape(seen):
            broken = self.oracle.broken(seen)
            if broken:
                parts.append(f"the observed state breaks {', '.join(broken)}")
        raise kind(self._place("; ".join(parts)), tuple(self.steps))

    def _place(self, text: str) -> str:
        event, number = self.steps[-1].event, len(self.steps) - 1
        if event is None:
            return text
        return f"{show_event(self.oracle.machine, event)}: {text} [step {number} of the run]"

    def _difference(self, expected: State, found: State) -> str:
        """Each cell that differs, as expected and as found."""
        if not self._has_shape(found):
            return f"observe() gave {found!r}, which is no state of {self.oracle.instance!r}"
        lines = show_state(self.oracle.machine, found, before=expected).splitlines()
        cells = []
        for line in lines[:CELLS_SHOWN]:
            name, _, values = line.partition(": ")
            wanted, _, got = values.partition(" -> ")
            cells.append(f"{name} is {got}, expected {wanted}")
        rest = len(lines) - CELLS_SHOWN
        return "; ".join(cells) + (f"; and {rest} more" if rest > 0 else "")

    def _has_shape(self, found: State) -> bool:
        """Whether a state has a value for each variable at each index."""
        sizes = [len(table) for table in self.oracle.initial[0].tables]
        return [len(table) for table in found.tables] == sizes


def _reply(reply: Reply) -> str:
    if reply.accepted:
        return "accepted"
    detail = f" ({reply.detail})" if reply.detail else ""
    return f"refused with {reply.code or 'no code'}{detail}"


def _damage(harm: Damage) -> str:
    return f"{harm.kind} at {harm.where}: {harm.amount:g} ({harm.text})"
