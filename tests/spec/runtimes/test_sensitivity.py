"""The claims about the runtimes can fail, receipts are needed one and all, and Spin counts alike (C3, C6)."""

import attrs
import pytest

from kvspec.counterexamples.systems import known_systems
from kvspec.models.explicit import compile_instance, explore
from kvspec.models.export import run_spin, spin_absent
from kvspec.properties.mutation import mutate
from kvspec.properties.projections import check
from kvspec.properties.runtimes import transformers_receipts as transformers_claims
from kvspec.properties.runtimes import vllm_receipts as vllm_claims
from kvspec.spec.language.actions import Assignment
from kvspec.spec.runtimes import (
    receipt_views,
    transformers,
    transformers_receipts,
    vllm,
    vllm_receipts,
)

CLAIMED = (
    "canonical",
    "transformers_receipts",
    "vllm_receipts",
    "sglang_receipts",
    "tensorrt_llm_receipts",
)
# What no dropped or altered line of an action breaks, since it forbids a line that is not there.
PLANTED = {
    "transformers_receipts": {"an_update_moves_no_receipt"},
    "vllm_receipts": {"a_schedule_moves_no_receipt"},
}
COUNTED = (
    "canonical",
    "transformers",
    "transformers_receipts",
    "vllm",
    "vllm_receipts",
    "sglang",
    "sglang_receipts",
    "tensorrt_llm",
    "tensorrt_llm_receipts",
)


@pytest.mark.parametrize("name", CLAIMED)
def test_every_claim_is_broken_by_some_mutant(name):
    """Each claim can fail: some mutant breaks it, but for those that forbid an added line."""
    known = known_systems()[name]
    safety = known.properties().of_kind("invariant", "lemma", "step")
    mutated, broken = mutate(known.system), set()
    for instance in known.instances.values():
        program = compile_instance(mutated.on(instance), safety)
        for mutant in mutated.mutants:
            result = program.explore(
                variant=mutant.number, coverage=False, stop_at_first=False, threads=1
            )
            broken |= {violation.property for violation in result.violations}
    assert {claim.name for claim in safety} - broken == PLANTED.get(name, set())


def with_line(instance, action, variable, value):
    """The instance where an action assigns something more to the handle that it is about."""
    changed = instance.system.actions[action]
    h = changed.parameters[0]
    line = Assignment(variable, (h,), (), value(h), changed.place)
    changed = attrs.evolve(changed, assignments=(*changed.assignments, line))
    actions = {**instance.system.actions, action: changed}
    system = attrs.evolve(instance.system, actions=actions)
    return attrs.evolve(instance, system=system, expected=None)


def test_a_receipt_at_the_schedule_is_noticed():
    """A receipt that is written when work is scheduled breaks the claim against it."""
    rows = vllm_receipts.receipts.rows
    early = with_line(
        vllm_receipts.ONE, "schedule_decode", rows, lambda h: vllm.num_computed_tokens[h] + 1
    )
    claim = vllm_claims.properties["a_schedule_moves_no_receipt"]
    assert [v.property for v in explore(early, [claim]).violations] == [claim.name]


def test_a_receipt_at_the_update_is_noticed():
    """A receipt that is written when one layer is updated breaks the claim against it."""
    rows = transformers_receipts.receipts.rows
    early = with_line(transformers_receipts.ONE, "update", rows, lambda h: transformers.pass_end[h])
    claim = transformers_claims.properties["an_update_moves_no_receipt"]
    assert [v.property for v in explore(early, [claim]).violations] == [claim.name]


@pytest.mark.slow
def test_each_line_of_the_receipts_is_needed():
    """A receipt that is left out, or off by one, breaks commutation: each of those mutants is noticed."""
    view = receipt_views.with_vllm
    mutated = mutate(view.runtime)
    found = mutated.on(vllm_receipts.ONE)
    own = vllm_receipts.receipts.module.variables
    mutants = [m for m in mutated.mutants if m.variable in own]
    verdicts = {m.name: check(view, found, versions=3, variant=m.number).verdict for m in mutants}
    assert len(verdicts) > 20
    assert [name for name, verdict in verdicts.items() if verdict != "violated"] == []


@pytest.mark.spin
@pytest.mark.skipif(spin_absent() is not None, reason=str(spin_absent()))
@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTED)
def test_spin_counts_the_same_states(name):
    """An outside checker finds the states, transitions and depth of the first instance."""
    instance = known_systems()[name].instances["ONE"]
    result, counts = run_spin(instance, optimize=0), instance.expected
    found = result.states, result.transitions, result.depth
    assert found == (counts.states, counts.transitions, counts.depth)
