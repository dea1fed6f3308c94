"""What is particular to the groups of transfers and hand-offs."""

import attrs
import pytest

from kvspec.models.concrete import Machine
from kvspec.models.explicit import compile_instance
from kvspec.properties.atlas import handoff, transfer
from kvspec.properties.atlas.run import search_faulty
from kvspec.properties.atlas.transfer import bare
from kvspec.properties.handoff import handoff as handoff_claims
from kvspec.spec.handoff import expire, withdraw
from kvspec.spec.language import strong, weak
from kvspec.spec.transfer import acknowledge_abort, crash, deliver, end_lease, lose, report

CASES = {
    f"{group.name}-{number}": case
    for group in (*transfer.GROUPS, *handoff.GROUPS)
    for number, case in enumerate(group.cases, 1)
}


def broken(name):
    """The shortest break of a case's claim: the machine with the fault, the events, and the violation."""
    case = CASES[name]
    found = search_faulty(case).violations[0]
    machine = Machine(case.fault.on(case.instance))
    return machine, [step.event for step in found.trace[1:]], found


def test_the_chunk_lands_behind_the_next_request():
    """The block is pinned by nobody, given away, and then written for the request that had it."""
    machine, events, found = broken("A-B07-1")
    assert [event.action for event in events[-3:]] == ["evict", "allocate", "land"]
    assert machine.value(found.trace[-1].state, "content", 0, 0) == "FOREIGN"


def test_the_chunk_lands_on_rows_that_were_computed():
    """Both ends are given back early: rows are computed, the source is dropped, none are copied."""
    machine, events, found = broken("A-B07-2")
    told = [event.action for event in events]
    assert told[-1] == "land"
    assert told.index("drain") < told.index("recompute")
    assert machine.value(found.trace[-1].state, "content", 0, 0) == "NOTHING"


def test_the_lease_has_ended_where_the_chunk_is_taken():
    """The target was given back as the rule says, and takes a layer that the rule has it refuse."""
    machine, events, found = broken("A-B07-3")
    told = [event.action for event in events]
    assert (
        told.index("end_lease") < told.index("drain") < told.index("recompute") < told.index("land")
    )
    assert machine.value(found.trace[-1].state, "lease", 0) == "ENDED"


def test_an_answer_that_comes_is_all_that_the_hold_needs():
    """If senders answer before the lease ends and no notice is lost, every block is freed in the end."""
    case = CASES["A-B07-4"]
    faulty = case.fault.on(bare("ANSWERED", "", None, layers=0))
    away = {crash.name, lose.name, end_lease.name}
    kept = {name: action for name, action in faulty.system.actions.items() if name not in away}
    steady = attrs.evolve(faulty, system=attrs.evolve(faulty.system, actions=kept))
    claim = case.property
    own = tuple(fair for fair in claim.fairness if fair.action.name not in away)
    answers = (weak(report, "t", "n"), weak(acknowledge_abort, "t", "n"), weak(deliver, "n"))
    for assumed, verdict in ((own, "violated"), ((*own, *answers), "holds")):
        asked = attrs.evolve(claim, fairness=assumed)
        assert compile_instance(steady, [asked]).explore(coverage=False).verdict == verdict


def test_the_report_that_is_taken_is_of_the_attempt_before():
    """The entry is listed by a notice of the first attempt, and the second has written nothing."""
    machine, _, found = broken("A-B10-1")
    state = found.trace[-1].state
    assert (machine.value(state, "notice_attempt", 0), machine.value(state, "attempt", 0)) == (1, 2)
    assert not machine.value(state, "landed", 0, 0)


def test_the_second_way_is_by_a_report_that_came_twice():
    """A load is completed by the notice of the store before it, which is on its way again."""
    _, events, _ = broken("A-B10-2")
    told = [event.action for event in events]
    assert told.count("report") == 1
    assert told.index("repeat") < told.index("queue_load") < len(told) - 1


@pytest.mark.parametrize("name", ["A-B14-1", "A-B14-2"])
def test_the_transfer_stays_where_it_is(name):
    """In the lasso the transfer runs, its wait is closed, and both ends are pinned."""
    machine, _, found = broken(name)
    assert found.loop is not None
    for step in found.trace[found.loop :]:
        seen = [machine.value(step.state, at, 0) for at in ("stage", "waiter", "block_pin")]
        assert seen == ["RUNNING", "CLOSED", True]


def test_both_transfers_are_under_way_when_the_store_reads():
    """In A-B26 the load is pending when the store reads the block, and what was stored is loaded later."""
    machine, events, found = broken("A-B26-2")
    told = [(event.action, dict(event.values).get("t")) for event in events]
    ended = told.index(("drain", 0))
    assert told.index(("queue_load", 0)) < told.index(("land", 1)) < told.index(("give_up", 0))
    assert told.index(("queue_load", 0), ended) < told.index(("admit_rows", 0))
    state = found.trace[-1].state
    assert machine.value(state, "entry", 0) == machine.value(state, "entry", 1) == 1
    assert machine.value(state, "content", 0, 0) == "NOTHING"


def test_the_lease_is_all_that_frees_what_a_cancel_ignored():
    """A-B13 is a wait and no leak: with the end of the lease the claim holds of the faulty rule, too."""
    case = CASES["A-B13-1"]
    claim = case.property
    ends = (*claim.fairness, strong(expire, "h"))
    faulty = case.fault.on(case.instance)
    assert withdraw.name in case.fault.name
    for assumed, verdict in ((claim.fairness, "violated"), (ends, "holds")):
        asked = attrs.evolve(claim, fairness=assumed)
        found = compile_instance(faulty, [asked]).explore(coverage=False)
        assert found.verdict == verdict


def test_sets_of_layers_are_equal_where_their_order_is_not():
    """In the second case of A-B35 the sender has every layer, and one is read for another."""
    machine, events, found = broken("A-B35-2")
    order = next(dict(e.values)["o"] for e in events if e.action == "offer")
    assert sorted(order) == [0, 1]
    state = found.trace[-1].state
    assert [machine.value(state, "reads", 1, layer) for layer in range(2)] != [0, 1]


def test_the_first_token_is_the_last_by_its_kind():
    """In the first case of A-B51 the prefill emits the end, below the limit, and the decode goes on."""
    machine, events, found = broken("A-B51-1")
    tokens = [dict(e.values)["s"] for e in events if e.action == "emit"]
    assert tokens[0] == "END"
    assert len(tokens) == 2
    assert machine.value(found.trace[-1].state, "told", 1) == 2


def test_the_claims_that_a_cancel_needs_do_not_wait_for_the_lease():
    """What is claimed of a client that has gone assumes nothing of the end of a lease."""
    claim = handoff_claims["a_client_that_has_gone_leaves_nothing_behind"]
    assert expire.name not in {fair.action.name for fair in claim.fairness}
