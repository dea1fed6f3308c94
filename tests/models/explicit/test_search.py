"""What a search finds, when it stops, and what it says of a run that is cut short."""

from itertools import pairwise

import attrs
import numpy as np
import pytest

from kvspec.models.concrete.machine import Machine
from kvspec.models.explicit import compile_instance, explore, gaps, parallel, search
from kvspec.models.explicit.program import Program
from kvspec.models.explicit.visited import Visited
from kvspec.spec.examples import livelock, lock, peer, river, two_phase_commit
from kvspec.spec.language import ANY, Counts, Instance, Module, Properties, System, forall

CLAIMS = tuple(peer.properties.by_name.values())
SAFETY = tuple(claim for claim in CLAIMS if claim.kind != "leads_to")


def without_generation_check(instance):
    """The peer model whose publish does not compare generations."""
    system = instance.system
    publish = system.actions["publish"]
    guards = tuple(g for g in publish.guards if g.code.name != "STALE_GENERATION")
    actions = {**system.actions, "publish": attrs.evolve(publish, guards=guards)}
    faulty = System(system.name, system.doc, system.variables, system.constants, actions)
    return attrs.evolve(instance, system=faulty, expected=None)


def replay(instance, trace):
    """Every step of a trace is a transition of the concrete machine."""
    machine = Machine(instance)
    assert trace[0].state in machine.initial_states()
    for before, step in pairwise(trace):
        assert machine.within_limits(before.state, step.event)
        outcome = machine.step(before.state, step.event)
        assert (outcome.kind, outcome.state) == (step.outcome, step.state)
        assert outcome.code == step.code


@pytest.mark.parametrize("row", ["1,1,1,2,2", "1,1,2,3,4", "2,1,2,3,4", "1,2,2,3,4", "2,2,1,2,2"])
@pytest.mark.parametrize("coverage", [False, True])
def test_small_rows_of_the_peer_model_have_their_counts(row, coverage):
    """Counts of the table are asserted by the search itself, and every claim holds."""
    instance = peer.ROWS[row]
    result = explore(instance, CLAIMS, coverage=coverage)
    assert (result.verdict, result.violations) == ("holds", ())
    expected = instance.expected
    found = result.states, result.transitions, result.depth, result.terminal
    assert found == (expected.states, expected.transitions, expected.depth, expected.terminal)
    assert result.deadlocks == 0


def test_counts_that_differ_are_a_violation():
    """An instance that expects other counts fails, and the message gives both."""
    wrong = attrs.evolve(peer.ROWS["1,1,2,3,4"], expected=Counts(829, 3_188, 27, 5))
    result = explore(wrong)
    assert result.verdict == "violated"
    assert result.violations[0].property == "counts differ"
    assert "states 828, expected 829" in result.violations[0].message


@pytest.mark.parametrize("symmetry", [False, True])
def test_the_planted_fault_is_found_by_a_shortest_trace(symmetry):
    """Without the comparison of generations, fourteen steps lead to a wrong publication."""
    faulty = without_generation_check(peer.ROWS["1,2,2,3,4"])
    result = explore(faulty, SAFETY, coverage=False, symmetry=symmetry)
    assert result.verdict == "violated"
    (found,) = result.violations
    assert found.property in {
        "publication_is_of_the_captured_generation",
        "a_published_append_moved_its_handle_on",
    }
    assert len(found.trace) - 1 == 14
    assert found.trace[-1].event.action == "publish"
    replay(faulty, found.trace)


def test_a_search_too_long_to_keep_is_run_again_for_its_trace(monkeypatch):
    """The trace is the same whether levels were kept or not."""
    monkeypatch.setattr(search, "HISTORY", 10)
    faulty = without_generation_check(peer.ROWS["1,2,2,3,4"])
    (found,) = explore(faulty, SAFETY, coverage=False).violations
    assert len(found.trace) - 1 == 14
    replay(faulty, found.trace)


def test_the_river_is_crossed_in_seven():
    """The shortest counterexample is the solution of the puzzle."""
    (found,) = explore(river.PUZZLE, river.properties.by_name.values()).violations
    assert len(found.trace) - 1 == 7
    replay(river.PUZZLE, found.trace)


def test_two_phase_commit_has_288_states():
    """The count that other checkers record; outcomes agree and both witnesses are reached."""
    result = explore(two_phase_commit.THREE, two_phase_commit.properties.by_name.values())
    assert (result.verdict, result.states) == ("holds", 288)
    assert {w.property for w in result.witnesses} == {"reaches_commitment", "reaches_a_mixture"}
    for witness in result.witnesses:
        trace = witness.trace()
        assert len(trace) - 1 == witness.depth
        replay(two_phase_commit.THREE, trace)


def test_a_broken_lock_lets_two_in():
    """The sound lock holds; the broken one is violated by asking, looking and entering twice."""
    assert explore(lock.PAIR, lock.properties.by_name.values()).verdict == "holds"
    for symmetry in (False, True):
        result = explore(
            lock.BROKEN_PAIR, lock.broken_properties.by_name.values(), symmetry=symmetry
        )
        (found,) = result.violations
        assert len(found.trace) - 1 == 6
        replay(lock.BROKEN_PAIR, found.trace)


def test_a_deadlock_is_told_from_an_end():
    """A state without steps is a deadlock unless an end property holds there."""
    result = explore(peer.ROWS["1,1,1,2,2"])
    assert (result.verdict, result.deadlocks, result.terminal) == ("holds", 3, 3)
    result = explore(peer.ROWS["1,1,1,2,2"], deadlock=True, stop_at_first=False)
    assert result.verdict == "violated"
    (found,) = result.violations
    assert found.kind == "deadlock"
    replay(peer.ROWS["1,1,1,2,2"], found.trace)
    assert Machine(peer.ROWS["1,1,1,2,2"]).transitions(found.trace[-1].state) == []
    narrow = Properties(peer.system)

    @narrow.end
    def finished():
        """Only a handle that is finished is at its end: no state without steps is like that."""
        return forall(peer.Handle, lambda h: peer.phase[h] == peer.Phase.FINISHED)

    assert explore(peer.ROWS["1,1,1,2,2"], [finished]).verdict == "violated"


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ({"max_states": 500}, "max_states"),
        ({"max_bytes": 20_000}, "max_bytes"),
        ({"max_seconds": 0.0}, "max_seconds"),
    ],
)
def test_a_limit_gives_unknown_and_its_name(limit, reason):
    """A run that meets a limit is not complete and does not pass."""
    instance = peer.ROWS["2,1,2,3,4"]
    result = explore(instance, SAFETY, coverage=False, **limit)
    assert (result.verdict, result.complete) == ("unknown", False)
    assert reason in result.reason
    assert result.states < instance.expected.states


def test_an_instance_without_initial_states_gives_unknown():
    """Where nothing can begin, nothing holds."""
    row = peer.ROWS["1,1,1,2,2"]
    kind = peer.phase.type
    empty = attrs.evolve(kind, name="Nothing", kind="open", members=())
    nowhere = Module("nowhere", "A variable without values.")
    nowhere.variable("at", to=empty, init=ANY, meaning="no value")
    system = System.of("nowhere", "Nothing can begin.", nowhere)
    result = explore(attrs.evolve(row, system=system, sizes={"Nothing": 0}, expected=None))
    assert (result.verdict, result.states) == ("unknown", 0)
    assert "no initial state" in result.reason


def test_cut_steps_give_unknown():
    """Where a bound of the instance cuts steps off, the search is not complete."""
    row = peer.ROWS["1,1,1,2,2"]
    lower = attrs.evolve(row, bounds={**row.bounds, "Generation": 1}, expected=None)
    result = explore(lower)
    assert (result.verdict, result.complete) == ("unknown", False)
    assert result.cut > 0
    assert "cut" in result.reason


def test_progress_is_told():
    """The callback is given counts that grow."""
    told = []
    compile_instance(peer.ROWS["2,2,2,3,2"]).explore(progress=told.append, threads=1)
    assert all(one.states <= two.states for one, two in pairwise(told))


def test_several_words_give_the_same_counts():
    """Narrow words force several of them; counts stay, and so does symmetry's."""
    instance = peer.ROWS["2,1,2,3,4"]
    program = Program(instance, SAFETY, word_bits=9)
    assert program.layout.words > 2
    assert program.explore().verdict == "holds"
    result = program.explore(symmetry=("Handle", "Txn"))
    assert (result.verdict, result.states) == ("holds", instance.expected.symmetric)


def test_the_visited_set_keeps_everything_while_it_grows():
    """After many doublings every state inserted is found again, and nothing else."""
    for words in (1, 3):
        rng = np.random.default_rng(7)
        keys = rng.integers(1, 1 << 62, size=50_000 * words)
        visited = Visited(words)
        out = np.empty(50_000 * words, np.int64)
        assert visited.insert(keys, 0, 50_000, out, 0) == (50_000, 50_000)
        assert visited.slots >= 50_000 / 0.85
        assert np.array_equal(out, keys)
        assert visited.insert(keys, 0, 50_000, out, 0) == (50_000, 0)
        visited.insert(keys ^ 1, 0, 100, out, 0)
        assert visited.count == 50_100


def test_the_visited_set_grows_with_crowded_homes():
    """Keys in a row, which crowd the beginning of the table, survive growth as well."""
    visited = Visited(1)
    out = np.empty(100_000, np.int64)
    keys = np.arange(1, 100_001, dtype=np.int64)
    visited.insert(keys, 0, 100_000, out, 0)
    assert visited.count == 100_000
    assert visited.insert(keys, 0, 100_000, out, 0) == (100_000, 0)


def test_two_threads_find_what_one_finds(monkeypatch):
    """Counts, depth, coverage and the verdict do not depend on the number of threads."""
    monkeypatch.setattr(search, "PARALLEL", 1_000)
    program = compile_instance(peer.ROWS["2,2,1,2,2"], SAFETY)
    for options in ({}, {"coverage": True}, {"symmetry": True}):
        one = program.explore(threads=1, **options)
        for threads in (2, 3):
            more = program.explore(threads=threads, **options)
            assert more.threads == threads
            same = (
                "states",
                "transitions",
                "depth",
                "terminal",
                "by_action",
                "coverage",
                "verdict",
            )
            for name in (*same, "represented", "deadlocks"):
                assert getattr(one, name) == getattr(more, name), name
    wide = Program(peer.ROWS["2,1,2,3,4"], SAFETY, word_bits=9)
    assert wide.explore(threads=2).verdict == "holds"


def test_two_threads_find_a_shortest_trace(monkeypatch):
    """The fault is found at its depth by several threads too."""
    monkeypatch.setattr(search, "PARALLEL", 1_000)
    faulty = without_generation_check(peer.ROWS["1,2,2,3,4"])
    (found,) = explore(faulty, SAFETY, coverage=False, threads=2).violations
    assert len(found.trace) - 1 == 14
    replay(faulty, found.trace)


def test_nothing_in_the_peer_model_is_vacuous():
    """On an instance with room for everything, all is exercised."""
    result = explore(peer.ROWS["1,2,2,3,4"], SAFETY)
    assert gaps(result, SAFETY) == ()


def test_gaps_are_named():
    """What the smallest instance leaves out is listed, with the guard in the way."""
    narrow = Properties(peer.system)

    @narrow.witness
    def reaches_the_impossible():
        """A handle is released and has rows."""
        return ~forall(
            peer.Handle,
            lambda h: (peer.phase[h] != peer.Phase.RELEASED) | (peer.length[h] == 0),
        )

    result = explore(
        attrs.evolve(
            peer.ROWS["1,1,1,2,2"], constants={"max_length": 0, "max_generation": 2}, expected=None
        )
    )
    found = {(gap.kind, gap.name): gap.message for gap in gaps(result, [reaches_the_impossible])}
    assert (
        found["action", "publish"]
        == "publish never fires: the last guard in its way is NOT_PREPARED"
    )
    assert ("witness", "reaches_the_impossible") in found
    assert ("member", "status.OPEN") in found
    assert ("guard", "begin.NO_GENERATION") in found
    with pytest.raises(ValueError, match="no coverage"):
        gaps(explore(peer.ROWS["1,1,1,2,2"], coverage=False))


@pytest.mark.slow
@pytest.mark.parametrize("row", ["2,2,2,3,2", "2,2,2,3,4", "2,2,2,3,6"])
def test_large_rows_of_the_peer_model_have_their_counts(row):
    """The large rows, with and without symmetry, one thread and two."""
    instance: Instance = peer.ROWS[row]
    program = compile_instance(instance, SAFETY)
    result = program.explore(threads=1)
    assert (result.verdict, result.violations) == ("holds", ())
    assert result.bytes_per_state <= 16
    if row == "2,2,2,3,4":
        assert result.by_action == {
            "begin": 91_012,
            "stage_k": 16_938_880,
            "stage_v": 16_938_880,
            "prepare": 1_058_680,
            "publish": 91_012,
            "reject": 967_668,
            "cancel_txn": 17_997_560,
            "recycle": 1_467_064,
            "truncate": 3_302_980,
            "finish": 5_544_432,
            "cancel_request": 5_544_432,
            "release": 11_109_432,
        }
    assert program.explore(threads=2).verdict == "holds"
    quotient = program.explore(symmetry=peer.SWAPPED)
    assert (quotient.verdict, quotient.states) == ("holds", instance.expected.symmetric)
    assert quotient.represented == instance.expected.states


def test_livelock_needs_strong_fairness():
    """Going in is possible again and again: weak fairness does not bring it about, strong does."""
    weak, strong = livelock.properties.by_name.values()
    result = explore(livelock.HOUSE, [weak])
    assert result.verdict == "violated"
    (found,) = result.violations
    replay(livelock.HOUSE, found.trace)
    assert found.trace[found.loop].state == found.trace[-1].state
    loop = found.trace[found.loop :]
    assert {step.event.action for step in loop[1:]} == {"open_door", "shut_door"}
    assert explore(livelock.HOUSE, [strong]).verdict == "holds"


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_error_in_one_thread_ends_the_search(monkeypatch, error):
    """No thread waits for one that was interrupted, and the error is told."""
    monkeypatch.setattr(search, "PARALLEL", 1_000)
    level = parallel.Shard._level

    def interrupted(shard, states):
        if shard.number == 1 and shard.depth > 20:
            raise error
        level(shard, states)

    monkeypatch.setattr(parallel.Shard, "_level", interrupted)
    with pytest.raises(error):
        compile_instance(peer.ROWS["2,1,2,3,4"]).explore(threads=3)
