"""Faulty backends: each is caught within so many sequences and shrunk to a shortest run."""

from collections.abc import Callable

import pytest

from kvspec.models.backend import Backend, Damage, Reply
from kvspec.models.concrete import Event, State
from kvspec.properties.core import properties as core_properties
from kvspec.properties.stateful import (
    MutantBackend,
    Plan,
    SpecBackend,
    StatefulReport,
    make_plan,
    plain_choice,
    run,
)
from kvspec.properties.stateful.reference import (
    AcceptsBackend,
    LayerwiseBackend,
    MeddlingBackend,
    StaleBackend,
    WrongCodeBackend,
)
from kvspec.spec import core
from kvspec.spec.handles import k_rows, v_rows
from kvspec.spec.language import Instance, Property

SKIPS_THE_GENERATION = "publish.drop-guard.STALE_GENERATION"

# The backend, the kind of mismatch, sequences at most, events of the shortest run.
FAULTS: list[tuple[Callable[[], Backend], str, int, int]] = [
    (lambda: MutantBackend(SKIPS_THE_GENERATION), "accepted", 200, 16),
    (lambda: MutantBackend("prepare.drop-guard.LAYER_INCOMPLETE"), "accepted", 50, 2),
    (lambda: MutantBackend("recycle.drop-assignment.base_gen"), "state", 200, 16),
    (lambda: MeddlingBackend("cancel_request", "HANDLE_TERMINAL"), "effect", 50, 2),
    (lambda: WrongCodeBackend("STALE_GENERATION", "NOT_PREPARED"), "code", 200, 16),
    (lambda: AcceptsBackend("NOT_SHORTER"), "accepted", 50, 1),
    (lambda: StaleBackend("truncate"), "state", 200, 8),
]
NAMES = [
    "skips the generation check",
    "skips the check of layers",
    "forgets to clear what it captured",
    "changes state on a refusal",
    "refuses with the wrong code",
    "accepts a disabled event",
    "shows an old state",
]


def drive(row: Instance, claims: list[Property], plan: Plan, make: Callable) -> StatefulReport:
    """One run of the default size against one backend."""
    backend = make()
    return run(row, claims, lambda: backend, profile="ci", plan=plan)


@pytest.mark.parametrize(("make", "kind", "sequences", "length"), FAULTS, ids=NAMES)
def test_a_fault_is_caught_early_and_shrunk_to_a_shortest_run(
    make: Callable,
    kind: str,
    sequences: int,
    length: int,
    row: Instance,
    claims: list[Property],
    plan: Plan,
) -> None:
    """C4: caught within the stated number of sequences, and no shorter run shows the fault."""
    report = drive(row, claims, plan, make)
    assert report.verdict == "violated"
    assert report.failure is not None
    assert report.failure.kind == kind, report.failure.message
    assert report.sequences <= sequences
    assert report.failure.length == length, [str(event) for event in report.failure.events]


def test_no_event_of_a_shrunk_run_can_be_left_out(
    row: Instance, claims: list[Property], plan: Plan
) -> None:
    """Finish, release, finish again, or cancel and finish: no part of either run shows the fault."""
    report = drive(row, claims, plan, lambda: MeddlingBackend("finish", "HANDLE_TERMINAL"))
    assert report.failure is not None
    assert report.failure.kind == "effect"
    actions = [event.action for event in report.failure.events]
    assert actions in (["finish", "release", "finish"], ["cancel_request", "finish"])


def test_plain_choice_does_not_find_the_missing_generation_check(row: Instance) -> None:
    """Where the plan needs at most 200 sequences, 10,000 without one do not show the fault."""
    plain = plain_choice(
        row, lambda: MutantBackend(SKIPS_THE_GENERATION), steps=80_000, refused=0.5
    )
    assert plain.sequences > 10_000
    assert plain.found is None


def test_layers_that_are_published_one_by_one_are_seen() -> None:
    """A reader between two steps sees uneven layers, and the message says which claims that breaks."""
    claims = list(core_properties.by_name.values())
    plan = make_plan(core.LAYERS, claims, most=150)
    backend = LayerwiseBackend("publish", k_rows, v_rows)
    report = run(core.LAYERS, claims, lambda: backend, profile="ci", plan=plan)
    assert report.failure is not None
    assert report.failure.kind == "state"
    assert report.failure.length == 8, [str(event) for event in report.failure.events]
    assert "k_rows[handle0, layer1] is 0, expected 1" in report.failure.message
    assert "every_layer_shows_the_committed_k_rows" in report.failure.message


class TornInside(SpecBackend):
    """Shows a new generation before the new length, inside publish."""

    def watch(self) -> None:
        """Replaced by who watches."""

    def perform(self, event: Event) -> Reply:
        """Publish in two visible parts."""
        before = self._state
        reply = super().perform(event)
        after = self._state
        if event.action == "publish" and reply.accepted:
            self._state = State((after.tables[0], *before.tables[1:]))
            self.watch()
            self._state = after
        return reply


def test_a_reader_inside_a_step_sees_before_or_after(
    row: Instance, claims: list[Property], plan: Plan
) -> None:
    """A publication that becomes visible in two parts is caught, though both ends of it are right."""
    report = drive(row, claims, plan, TornInside)
    assert report.failure is not None
    assert report.failure.kind == "torn"
    assert report.failure.length == 7
    assert "a reader inside the step saw neither the state before it nor" in report.failure.message


class Harmed(SpecBackend):
    """Comes to harm when it is cancelled."""

    def damage(self) -> list[Damage]:
        """Two rows of another request, while the handle is cancelled."""
        cancelled = "CANCELLED" in self._state.tables[2]
        return [Damage("rows", "handle0", 2, "rows of another request")] if cancelled else []


class Raises(SpecBackend):
    """Answers one event with an exception."""

    def perform(self, event: Event) -> Reply:
        """Raise where a truncation would be accepted."""
        if event.action == "truncate" and super().step(event).kind == "accepted":
            raise IndexError("row 3 of 3")
        return super().perform(event)


class WrongStart(SpecBackend):
    """Begins in a state that is not initial."""

    def observe(self) -> State:
        """Show generation 1 where it is 0."""
        return State(((1,), *super().observe().tables[1:]))


class Leaky(SpecBackend):
    """Forgets to begin anew once it has published."""

    count = 0

    def perform(self, event: Event) -> Reply:
        """Refuse everything after some publications."""
        reply = super().perform(event)
        if event.action == "publish" and reply.accepted:
            self.count += 1
        return Reply(accepted=False, code="WORN_OUT") if self.count > 40 else reply


@pytest.mark.parametrize(
    ("make", "kind", "length", "said"),
    [
        (Harmed, "damage", 1, "rows at handle0: 2 (rows of another request); expected: no damage"),
        (Raises, "raised", 8, "the backend raised IndexError: row 3 of 3"),
        (WrongStart, "start", 0, "after a reset: gen[handle0] is 1, expected 0"),
    ],
    ids=["damage", "an exception", "a wrong start"],
)
def test_other_faults_are_told_in_their_own_words(
    make: Callable,
    kind: str,
    length: int,
    said: str,
    row: Instance,
    claims: list[Property],
    plan: Plan,
) -> None:
    """Damage, an exception and a wrong initial state are found and named."""
    report = drive(row, claims, plan, make)
    assert report.failure is not None
    assert (report.failure.kind, report.failure.length) == (kind, length)
    assert said in report.failure.message


def test_a_backend_that_wears_out_is_called_unrepeatable(
    row: Instance, claims: list[Property], plan: Plan
) -> None:
    """What a reset does not undo does not fail the same way twice, and that is said."""
    report = drive(row, claims, plan, Leaky)
    assert report.verdict == "violated"
    assert report.failure is not None


def test_the_message_says_found_expected_and_where(
    row: Instance, claims: list[Property], plan: Plan
) -> None:
    """F5: the event, what was found, what was expected and why, and at which step of the run."""
    report = drive(row, claims, plan, lambda: MutantBackend(SKIPS_THE_GENERATION))
    assert report.failure is not None
    message = report.failure.message
    assert message.startswith("publish(t=txn0): it was accepted; expected: refused with STALE_GEN")
    assert "gen[handle0] = " in message
    assert message.endswith("[step 16 of the run]")
    assert report.failure.events[-1].action == "publish"
