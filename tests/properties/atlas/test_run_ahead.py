"""What is particular to the groups of run-ahead and of drafting: the steps that their traces take."""

import pytest

from kvspec.models.concrete import Machine
from kvspec.properties.atlas import drafting, run_ahead
from kvspec.properties.atlas.run import search_faulty

CASES = {
    (group.name, number): case
    for module in (run_ahead, drafting)
    for group in module.GROUPS
    for number, case in enumerate(group.cases, 1)
}


def broken(name, number=1):
    """The violation of a case, with the machine of its fault."""
    case = CASES[name, number]
    (found,) = search_faulty(case).violations
    return found, Machine(case.fault.on(case.instance))


def actions(found):
    """The names of the steps of a trace."""
    return [step.event.action for step in found.trace[1:]]


def value(machine, found, name, index=0, step=-1):
    """A variable in a state of the trace."""
    return machine.value(found.trace[step].state, name, index)


def test_a_late_output_leaves_minus_one_row_to_come():
    """The request waits with nothing scheduled, and a row has settled (A-B06)."""
    found, machine = broken("A-B06")
    assert actions(found)[-2:] == ["preempt", "settle"]
    assert value(machine, found, "scheduled") - value(machine, found, "settled") == -1


def test_the_second_emission_is_of_the_first_row():
    """Both outputs come of row 0, one from each incarnation (A-B06)."""
    found, machine = broken("A-B06", 2)
    steps = [
        i for i, step in enumerate(found.trace) if step.event and step.event.action == "settle"
    ]
    assert [value(machine, found, "first", 0, i - 1) for i in steps] == [0, 0]
    assert value(machine, found, "emitted") == 2


def test_preemption_without_a_bound_is_a_lasso_of_starts_and_preemptions():
    """The loop takes the request on the device and off it, and settles nothing (A-B06)."""
    found, _ = broken("A-B06", 4)
    assert found.loop is not None
    assert set(actions(found)[found.loop :]) == {"start", "preempt"}


def test_the_published_row_is_still_in_flight():
    """When the request finishes, the step of its second published row has not come back (A-B49)."""
    found, machine = broken("A-B49")
    assert actions(found)[-1] == "finish"
    assert value(machine, found, "indexed") == value(machine, found, "settled") + 1
    assert 1 in (value(machine, found, "first", f) for f in range(2))


def test_the_second_chunk_begins_at_row_0():
    """The rows that settled are dispatched again, in one slot more (A-B61)."""
    found, machine = broken("A-B61", 2)
    assert actions(found)[-3:] == ["dispatch", "settle", "dispatch"]
    assert value(machine, found, "first") == 0
    assert (value(machine, found, "reserved"), value(machine, found, "scheduled")) == (2, 1)


def test_a_prompt_whose_progress_is_lost_waits_with_every_slot_taken():
    """The lasso stands still: no slot is left, and less than the prompt has settled (A-B61)."""
    found, machine = broken("A-B61", 3)
    assert value(machine, found, "reserved") == 2
    assert value(machine, found, "settled") < value(machine, found, "prompt") == 2


def test_two_tokens_move_the_position_by_one():
    """The round accepted a draft, and its position goes on by one (A-B41)."""
    found, machine = broken("A-B41")
    assert actions(found).count("deliver") == 2
    assert value(machine, found, "written") == value(machine, found, "position") + 1


def test_the_end_of_a_round_makes_the_cache_longer():
    """The second round writes one row and is interrupted, and one row more is there (A-B44)."""
    found, machine = broken("A-B44")
    assert actions(found)[-2:] == ["draft", "lose"]
    assert value(machine, found, "written") == value(machine, found, "written", step=-2) + 1


@pytest.mark.parametrize("number", [1, 2])
def test_the_key_is_longer_than_what_the_client_has(number):
    """The request ends, and its key has a token that was never delivered (A-B53)."""
    found, machine = broken("A-B53", number)
    assert value(machine, found, "key") == value(machine, found, "known") + 1
