"""The claims about the core hold, say something, and can fail (C1, C3, C7)."""

from collections import Counter

import attrs
import pytest

from kvspec.models.explicit import compile_instance, explore
from kvspec.properties.core import properties
from kvspec.properties.mutation import mutate
from kvspec.spec import core
from kvspec.spec.append import append
from kvspec.spec.handles import length
from kvspec.spec.language import FALSE, Const, Symbol, the, type_of
from kvspec.spec.language.actions import Assignment
from kvspec.spec.prefix import Block, filled

SAFETY = properties.of_kind("invariant", "lemma", "step")
FAIR = properties.of_kind("leads_to")

# Where each claim is broken: an instance, and the actions whose mutants are tried on it.
SEARCHED = (
    (core.TINY, None),
    (core.REUSE, None),
    (core.RACE, None),
    (core.BATCH, {"enter"}),
    (core.LAYERS, {"truncate"}),
)
# What no dropped or altered line of an action breaks, since it forbids a line that is not there.
PLANTED = ("nothing_staged_is_seen", "release_evicts_nothing")


@pytest.fixture(scope="module")
def explored():
    """The result of every named instance with every claim."""
    return {i.name: explore(i, properties.by_name.values()) for i in core.INSTANCES}


@pytest.mark.parametrize("name", [found.name for found in core.INSTANCES])
def test_every_claim_holds_on(explored, name):
    """Invariants, steps, ends and leads-to hold on the instance, which is explored whole (C1)."""
    result = explored[name]
    assert result.verdict == "holds", (result.reason, result.violations)
    assert result.complete
    assert result.deadlocks == 0


def test_every_witness_is_reached(explored):
    """What the claims guard against can come about: each witness is reached on some instance (C7)."""
    reached = {w.property for result in explored.values() for w in result.witnesses}
    assert reached == {claim.name for claim in properties.of_kind("witness")}


def test_a_witness_is_reached_by_a_run(explored):
    """The trace of a witness ends in a state that satisfies it, and has as many steps as its depth."""
    from kvspec.models.concrete import Machine

    for name in ("TINY", "RACE"):
        machine = Machine(next(i for i in core.INSTANCES if i.name == name))
        for witness in explored[name].witnesses:
            trace = witness.trace()
            assert len(trace) - 1 == witness.depth
            assert machine.holds(properties[witness.property], trace[-1].state)


def test_every_action_fires_and_every_guard_refuses(explored):
    """No action, guard, refusal with an effect or phase of the core is idle on all instances (C7)."""
    fired, refused, effects, members = Counter(), Counter(), Counter(), Counter()
    for result in explored.values():
        found = result.coverage
        fired.update(found.actions)
        for table, total in ((found.guards, refused), (found.effects, effects)):
            for action, codes in table.items():
                total.update({(action, code): n for code, n in codes.items()})
        for variable, seen in found.members.items():
            members.update({(variable, member): int(was) for member, was in seen.items()})
    assert [name for name, count in fired.items() if not count] == []
    assert [place for place, count in refused.items() if not count] == []
    assert [place for place, count in members.items() if not count] == []
    with_effect = {
        (action.name, guard.code.name)
        for action in core.system.actions.values()
        for guard in action.guards
        if guard.refusal
    }
    assert {place for place, count in effects.items() if count} == with_effect
    assert len(refused) == sum(len(action.guards) for action in core.system.actions.values())


def test_every_antecedent_is_true_somewhere(explored):
    """No claim is conditional on what never comes about (C7)."""
    found = Counter()
    for result in explored.values():
        found.update(result.coverage.antecedents)
    assert set(found) == {claim.name for claim in SAFETY if claim.antecedent is not None}
    assert [name for name, count in found.items() if not count] == []


@pytest.fixture(scope="module")
def broken():
    """The claims that some mutant breaks, each with the first mutant that does."""
    found = {}
    mutated = mutate(core.system)
    for instance, actions in SEARCHED:
        program = compile_instance(mutated.on(instance), SAFETY)
        for mutant in mutated.mutants:
            if actions is None or mutant.action in actions:
                result = program.explore(
                    variant=mutant.number, coverage=False, stop_at_first=False, threads=1
                )
                for violation in result.violations:
                    found.setdefault(violation.property, (mutant.name, instance.name))
    return found


def test_every_claim_is_broken_by_some_mutant(broken):
    """Each claim can fail: some mutant breaks it, but for those that forbid an added line (C3, C7)."""
    assert {claim.name for claim in SAFETY} - set(broken) == set(PLANTED)


def with_line(action, *lines):
    """The core on RACE, where an action assigns something more."""
    changed = core.system.actions[action]
    changed = attrs.evolve(changed, assignments=(*changed.assignments, *lines))
    system = attrs.evolve(core.system, actions={**core.system.actions, action: changed})
    return attrs.evolve(core.RACE, system=system, expected=None)


def shown_too_early():
    """Stage K makes the row visible at once, before publication."""
    stage = append.actions["stage_k"]
    rows = core.system.variables["k_rows"]
    target = core.system.variables["target"]
    x, layer, position = stage.parameters
    line = Assignment(rows, (the(target[x]), layer), (), position + 1, stage.place)
    return with_line("stage_k", line)


def freed_with_the_claim():
    """Release empties every block at once."""
    release = core.system.actions["release"]
    block = Symbol(type_of(Block), "block_9", "bound")
    return with_line("release", Assignment(filled, (block,), (block,), FALSE, release.place))


def longer_when_begun():
    """Begin makes the handle's length one already."""
    begin = append.actions["begin"]
    handle = begin.parameters[1]
    one = Const(type_of(length.type), 1)
    return with_line("begin", Assignment(length, (handle,), (), one, begin.place))


@pytest.mark.parametrize(
    ("planted", "claim"),
    [
        (shown_too_early, "nothing_staged_is_seen"),
        (longer_when_begun, "nothing_staged_is_seen"),
        (freed_with_the_claim, "release_evicts_nothing"),
    ],
)
def test_a_claim_against_an_added_line_is_broken_by_it(planted, claim):
    """What forbids a line that is not there fails as soon as the line is put in (C3, C7)."""
    assert claim in PLANTED
    result = explore(planted(), [properties[claim]])
    assert result.verdict == "violated"
    assert result.violations[0].property == claim
    assert explore(core.RACE, [properties[claim]]).verdict == "holds"


@pytest.mark.parametrize("claim", FAIR, ids=lambda claim: claim.name)
def test_what_happens_in_the_end_needs_its_fairness(claim):
    """Without any one of the assumed fairnesses the claim fails, by a run that goes on for ever (C1, C7)."""
    assert explore(core.TINY, [claim]).verdict == "holds"
    for left_out in claim.fairness:
        kept = tuple(fair for fair in claim.fairness if fair is not left_out)
        result = explore(core.TINY, [attrs.evolve(claim, fairness=kept)])
        assert result.verdict == "violated", left_out.action.name
        (lasso,) = result.violations
        assert lasso.property == claim.name
        assert lasso.loop is not None


def test_an_end_is_told_from_a_deadlock():
    """Without release a request that has ended is stuck, and that is no proper end (C1)."""
    actions = {n: a for n, a in core.system.actions.items() if n not in ("release", "retry")}
    stuck = attrs.evolve(
        core.TINY, system=attrs.evolve(core.system, actions=actions), expected=None
    )
    result = explore(stuck, properties.of_kind("end"))
    assert result.verdict == "violated"
    (found,) = result.violations
    assert found.kind == "deadlock"
    assert result.deadlocks > 0


def test_claims_are_sentences_with_names():
    """Each claim has one sentence that ends, and a name that can be read aloud, of one system."""
    assert properties.system is core.system
    for claim in properties.by_name.values():
        assert claim.doc.endswith(".")
        assert "\n" not in claim.doc
        assert claim.name.isidentifier()
        assert claim.name == claim.name.lower()
    witnesses = properties.of_kind("witness")
    assert all(claim.name.startswith("reaches_") for claim in witnesses)
    assert [c.kind for c in properties.of_kind("lemma", "end")] == ["end"]
