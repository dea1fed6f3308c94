"""The runtimes' models and the canonical lifecycle: counts, no dead line, claims that hold (B8, C1, C7)."""

import pytest

from kvspec.counterexamples.systems import known_systems
from kvspec.models.explicit import explore, gaps

MODULES = "kvspec.spec.runtimes."
NAMES = [
    "canonical",
    "transformers",
    "transformers_crop",
    "transformers_receipts",
    "vllm",
    "vllm_receipts",
    "sglang",
    "sglang_receipts",
    "tensorrt_llm",
    "tensorrt_llm_receipts",
    "tensorrt_llm_rewind",
]


def test_every_system_of_the_runtimes_is_known():
    """Each is found by name, so that it can be explored and proved."""
    found = {k.name for k in known_systems().values() if k.module.startswith(MODULES)}
    assert found == set(NAMES) - {"canonical"}


def test_claims_are_found_in_the_module_of_the_same_name():
    """The claims of a runtime are under `kvspec.properties.runtimes`."""
    from kvspec.properties import canonical_lifecycle
    from kvspec.properties.runtimes import vllm_receipts

    assert known_systems()["vllm_receipts"].properties() is vllm_receipts.properties
    assert known_systems()["canonical"].properties() is canonical_lifecycle.properties
    assert not known_systems()["vllm"].properties().by_name


@pytest.mark.parametrize("name", NAMES)
def test_every_instance_has_its_counts_and_its_claims_hold(name):
    """States, transitions, depth and classes are those asserted, on each instance, with every claim."""
    known = known_systems()[name]
    claims = known.properties().by_name.values()
    assert known.instances
    for instance in known.instances.values():
        result = explore(instance, claims)
        assert result.verdict == "holds", (instance, result.reason, result.violations)
        counts = instance.expected
        found = result.states, result.transitions, result.depth, result.terminal
        assert found == (counts.states, counts.transitions, counts.depth, counts.terminal)
        small = explore(instance, symmetry=True)
        assert (small.verdict, small.states) == ("holds", counts.symmetric)


@pytest.mark.parametrize("name", NAMES)
def test_every_action_fires_and_every_guard_refuses(name):
    """On some instance of the system each line of it has its case, and each witness is reached."""
    known = known_systems()[name]
    claims = known.properties()
    results = [explore(i, claims.by_name.values()) for i in known.instances.values()]
    void = [{(gap.kind, gap.name) for gap in gaps(result)} for result in results]
    left = set.intersection(*void)
    if name == "transformers_crop":  # one row alone: beams are those of `transformers`
        left = {
            gap
            for gap in left
            if gap[1].split(".")[0] not in {"reorder_cache", "repeat_interleave"}
        }
    assert left == set()
    reached = {w.property for result in results for w in result.witnesses}
    assert reached == {claim.name for claim in claims.of_kind("witness")}
