"""What is particular to the groups of completion, of loads in parts, of locks and of fan-out."""

from __future__ import annotations

import attrs
import pytest

from kvspec.models.concrete import Event, Machine
from kvspec.models.explicit import compile_instance
from kvspec.properties.atlas import completion as releases
from kvspec.properties.atlas import coverage as loads
from kvspec.properties.atlas import fan_out as samples
from kvspec.properties.atlas import locks as receipts
from kvspec.properties.atlas.run import search_faulty
from kvspec.properties.completion import completion
from kvspec.spec import completion as spec
from kvspec.spec.handles import Handle
from kvspec.spec.language import Expr, Properties, weak


def last(case):
    """The machine of a case with its fault, and the last state of its trace."""
    found = search_faulty(case).violations[0]
    return Machine(case.fault.on(case.instance)), found.trace[-1].state


@pytest.mark.parametrize("first", [0, 1])
def test_both_orders_of_two_reports_release_too_early(first: int) -> None:
    """Whichever transfer reports first, the other still uses rows that are released (A-B11)."""
    machine = Machine(releases.FIRST_REPORT_RELEASES.on(releases.TWO_WAYS))
    (state,) = machine.initial_states()
    run = [("allocate", {"h": 0, "b": 0, "a": 0})]
    run += [("hold", {"h": 0, "p": p}) for p in (0, 1)]
    run += [("register", {"h": 0, "p": first}), ("cancel_request", {"h": 0})]
    run += [("land", {"h": 0, "p": first}), ("arrive", {"h": 0, "p": first})]
    for action, values in [*run, ("release", {"h": 0})]:
        outcome = machine.step(state, Event(action, tuple(values.items())))
        assert outcome.kind == "accepted", outcome.refusal
        state = outcome.state
    assert machine.value(state, "phase", 0) == "RELEASED"
    assert machine.value(state, "peer", 0, 1 - first) == "BUSY"


@pytest.mark.parametrize("case", releases.A_B56.cases, ids=lambda case: case.fault.name)
def test_a_lease_hides_the_leak(case) -> None:
    """A lease drops the pins of A-B56, though late: only a claim without a lease sees them."""
    whole = attrs.evolve(
        case.instance,
        limits=tuple(found for found in case.instance.limits if found.action is not spec.expire),
    )
    faulty = case.fault.on(whole)
    with_lease = compile_instance(faulty, [completion["every_pin_is_dropped"]])
    assert with_lease.explore(coverage=False, threads=1).verdict == "holds"
    without = compile_instance(faulty, [completion["every_pin_is_dropped_without_a_lease"]])
    assert without.explore(coverage=False, threads=1).violations[0].loop is not None


@pytest.mark.parametrize("number", [2, 3])
def test_a_release_too_many_hits_the_next_request(number: int) -> None:
    """In cases 3 and 4 of A-B11 a peer uses rows of the second request, which is released."""
    machine, state = last(releases.A_B11.cases[number])
    assert machine.value(state, "generation", 0) == 2
    assert machine.value(state, "phase", 0) == "RELEASED"
    assert "BUSY" in [machine.value(state, "peer", 0, p) for p in range(2 - (number == 3))]


def test_a_lease_needs_nothing_of_its_peer() -> None:
    """A pin is dropped where the worker registers and leases run out, though no peer ever reports."""
    alone = Properties(spec.system)

    @alone.leads_to(weak(spec.register, "h", "p"), weak(spec.expire, "h", "p"))
    def every_pin_is_dropped(h: Handle, p: spec.Part) -> tuple[Expr, Expr]:
        """A pin is dropped by its lease."""
        return spec.is_owed(h, p), ~spec.is_owed(h, p)

    claims = [alone["every_pin_is_dropped"]]
    searched = compile_instance(spec.BOTH_WAYS, claims).explore(coverage=False, threads=1)
    assert searched.verdict == "holds"


def test_the_rows_were_taken_for_every_sibling() -> None:
    """In the leak of A-B56 both peers are done, and the pin that stays has no report on its way."""
    machine, state = last(releases.A_B56.cases[0])
    left = [h for h in (0, 1) if machine.value(state, "pin", h, 0) in ("HELD", "AWAITED")]
    assert [machine.value(state, "peer", h, 0) for h in left] == ["DONE"] * len(left)
    assert [machine.value(state, "mail", h, 0) for h in left] == [0] * len(left) != []


def test_a_stage_is_missing_in_what_is_read() -> None:
    """The append of A-B21 is published with one stage awaited."""
    machine, state = last(loads.A_B21.cases[1])
    assert machine.value(state, "state", 0) == "PUBLISHED"
    outcomes = {machine.value(state, "outcome", 0, 0, s, 0) for s in (0, 1)}
    assert outcomes == {"ARRIVED", "AWAITED"}


def test_ranks_go_different_ways() -> None:
    """In A-B22 one rank uses its rows and one computes them."""
    machine, state = last(loads.A_B22.cases[0])
    assert {machine.value(state, "verdict", 0, r, 0) for r in (0, 1)} == {"USED", "RECOMPUTED"}


def test_a_count_that_is_too_low_lets_go_of_a_locked_component() -> None:
    """In A-B58 the lock that is left has what is not there any more."""
    machine, state = last(receipts.A_B58.cases[1])
    assert machine.value(state, "took", 0, 0)
    assert not machine.value(state, "present", 0, 0)


def test_the_cancel_ends_the_prompt_alone() -> None:
    """In A-B77 the cancel ends the prompt, and a sample that is in no group runs on."""
    machine, state = last(samples.A_B77.cases[2])
    assert sorted(machine.value(state, "phase", h) for h in (0, 1)) == ["CANCELLED", "DECODE_READY"]
    assert [machine.value(state, "group", h) for h in (0, 1)] == [None, None]
