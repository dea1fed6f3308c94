"""Projections commute where they claim to, and what they cannot tell is found, shortest first (B8)."""

import attrs
import pytest

from kvspec.counterexamples.systems import find_instance
from kvspec.models.symbolic import prove
from kvspec.properties.canonical_lifecycle import properties as canonical_claims
from kvspec.properties.projections import BOTTOM, check
from kvspec.properties.runtimes import (
    sglang_receipts,
    tensorrt_llm_receipts,
    transformers_receipts,
    vllm_receipts,
)
from kvspec.spec import canonical_lifecycle as sigma
from kvspec.spec import projections
from kvspec.spec.language import DefinitionError
from kvspec.spec.projections import absent, as_refinement, derived, direct, near, projection
from kvspec.spec.runtimes import receipt_views, tensorrt_llm, transformers, views, vllm
from kvspec.spec.runtimes.believed import BELIEVED

REFINED = (
    (receipt_views.transformers_refines, transformers_receipts.properties),
    (receipt_views.vllm_refines, vllm_receipts.properties),
    (receipt_views.sglang_refines, sglang_receipts.properties),
    (receipt_views.tensorrt_llm_refines, tensorrt_llm_receipts.properties),
)


def one(found):
    """The verdict on the first instance of the projection's system."""
    return check(found, find_instance(found.runtime.name, "ONE"))


@pytest.fixture(scope="module")
def seen():
    """What is found of each view."""
    return {view.name: one(view) for view in views.VIEWS}


@pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt_llm"])
def test_claimed_coordinates_commute(seen, name):
    """Every direct or derived fact moves as the canonical operation of each step moves it."""
    found = seen[name]
    assert (found.verdict, found.refused, found.breaches) == ("holds", None, ())
    claimed = [n for n, s in found.projection.seen.items() if s.is_claimed]
    assert claimed
    assert all(found.compared[n] > 0 for n in claimed)


def test_figures_of_the_views(seen):
    """Pairs, transitions and comparisons are exact, so that a change of a model is noticed."""
    figures = {n: (f.pairs, f.transitions, sum(f.compared.values())) for n, f in seen.items()}
    assert figures == {
        "transformers": (650, 792, 792),
        "vllm": (705, 966, 4_480),
        "sglang": (936, 1_599, 6_842),
        "tensorrt_llm": (2_582, 6_163, 30_300),
    }


def test_a_projection_that_claims_nothing_is_unknown(seen):
    """The cache object alone claims no coordinate, and that is no success."""
    found = seen["transformers"]
    assert found.verdict == "unknown"
    assert found.reason == "the projection claims no coordinate"


def test_layer_0_is_ahead_during_a_forward_pass(seen):
    """`get_seq_length` says 1 when one layer of two has a row, and none is committed."""
    sight = seen["transformers"].differences["committed"].sight
    assert [step.partition("(")[0] for step in sight.run] == ["start", "begin_forward", "update"]
    assert "l=layer0" in sight.run[-1]
    assert (sight.shown["committed"], sight.required["committed"]) == (("1",), ("0",))


def test_the_scheduled_counter_is_ahead_before_the_output(seen):
    """`num_computed_tokens` has the prompt when it is scheduled; K has it one step later."""
    found = seen["vllm"]
    sight = found.differences["committed"].sight
    assert sight.run[-1] == "schedule_prefill(h=handle0)"
    assert (sight.shown["committed"], sight.required["committed"]) == (("1",), ("0",))
    pair = found.collapses["committed"]
    assert pair.one.run == pair.two.run[:-1]
    assert pair.two.run[-1] == "reconcile_prefill(h=handle0)"


@pytest.mark.parametrize("name", [view.name for view in views.VIEWS])
def test_a_collapsed_pair_looks_alike_and_differs(seen, name):
    """Each pair told agrees in all that the projection shows, and differs in the coordinate named."""
    found = seen[name]
    assert found.collapses
    for coordinate, pair in found.collapses.items():
        assert pair.one.shown == pair.two.shown
        assert pair.one.required[coordinate] != pair.two.required[coordinate]


def test_no_coordinate_that_is_always_known_collapses(seen):
    """What is claimed wherever there is a request is told apart; generation and snapshot never are."""
    for name in ("vllm", "sglang", "tensorrt_llm"):
        assert {"generation", "snapshot", "committed", "closed"} <= set(seen[name].collapses)
        assert not {"identity", "outputs"} & set(seen[name].collapses)


def test_bottom_stands_before_and_after_a_request(seen):
    """Where the runtime has no request its facts are bottom, and nothing stands in for them."""
    pair = seen["vllm"].collapses["closed"]
    assert pair.one.run == ()
    assert set(pair.one.shown.values()) == {(BOTTOM,)}
    assert (pair.one.required["closed"], pair.two.required["closed"]) == (("false",), ("true",))


@pytest.mark.parametrize("found", receipt_views.WITH_RECEIPTS, ids=lambda p: p.name)
def test_receipts_restore_commutation(found):
    """With what a wrapper owns every coordinate commutes, and no two pairs look alike."""
    result = one(found)
    assert found.is_total
    assert (result.verdict, result.differences, result.collapses) == ("holds", {}, {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("found", "name"),
    [
        (views.sglang, "TWO"),
        (views.transformers, "BEAMS"),
        (receipt_views.with_transformers, "BEAMS"),
    ],
)
def test_commutation_with_two_handles(found, name):
    """Forks, beams and a shared tree break no claim, and no operation is refused."""
    result = check(found, find_instance(found.runtime.name, name), versions=2)
    assert (result.breaches, result.refused) == ((), None)


@pytest.mark.slow
@pytest.mark.parametrize("believed", BELIEVED, ids=lambda b: b.projection.name)
def test_what_is_believed_is_refuted(believed):
    """The check finds by itself the coordinate in which a mistaken projection fails."""
    result = one(believed.projection)
    assert result.verdict == "violated"
    assert believed.coordinate in result.breaches
    sight = result.differences[believed.coordinate].sight
    assert sight.shown[believed.coordinate] != sight.required[believed.coordinate]


def test_a_rewind_alone_leaves_the_outputs():
    """After a rewind of the sequence O is still 1, and the request that was truncated has none."""
    (believed,) = [b for b in BELIEVED if b.projection.name == "rewind_is_truncation"]
    sight = one(believed.projection).differences["outputs"].sight
    assert sight.run[-1] == "rewind_kv_cache(h=handle0, n=1)"
    assert (sight.shown["outputs"], sight.required["outputs"]) == (("1",), ("0",))


def test_a_refused_operation_is_told():
    """A step whose operation the canonical lifecycle refuses is a violation, with code and run."""
    (believed,) = [b for b in BELIEVED if b.projection.name == "crop_is_truncation"]
    refused = one(believed.projection).refused
    assert (refused.operation, refused.code) == ("prefill_publish(h=handle0)", "NOT_NEW")
    assert refused.sight.run


def test_a_wrapper_without_one_receipt_is_refuted():
    """Dropped receipts are noticed: the snapshot no longer follows the publications."""
    view = receipt_views.with_vllm
    steps = {**views.VLLM_STEPS, vllm.reconcile_decode: lambda h: views.call(sigma.output_emit, h)}
    facts = {v: view.seen[v.name].fact for v in sigma.SIGMA}
    found = projection("wrong", view.runtime, facts, steps, "A decode step taken for an output.")
    assert one(found).verdict == "violated"


@pytest.mark.slow
@pytest.mark.parametrize(("found", "claims"), REFINED, ids=lambda x: getattr(x, "name", ""))
def test_receipts_are_a_refinement_for_all_sizes(found, claims):
    """For any number of handles, requests, layers and rows: proved, not searched."""
    report = prove(found.concrete, claims, [found], workers=0)
    assert report.verdict == "holds", report.show()
    assert report.obligations > 200


def test_the_canonical_claims_are_proved():
    """Each operation moves its own coordinates alone, for all sizes."""
    report = prove(sigma.system, canonical_claims, workers=0)
    assert report.verdict == "holds", report.show()


def test_statuses_decide_what_a_fact_has():
    """A fact without evidence has no value, and one with a value has a source."""
    facts = {v: absent("caller") for v in sigma.SIGMA}
    bad = (
        (attrs.evolve(absent("caller"), value=lambda _: 0), "a fact of status absent has a value"),
        (attrs.evolve(absent("caller"), source="somewhere"), "a source if and only if"),
        (
            attrs.evolve(near(transformers.seq_length, "Cache", "x"), value=None),
            "of status near_correspondence has no value",
        ),
    )
    for fact, message in bad:
        with pytest.raises(DefinitionError, match=message):
            projection(
                "bad",
                transformers.system,
                {**facts, sigma.committed: fact},
                views.TRANSFORMERS_STEPS,
                "",
            )


def test_a_projection_names_every_coordinate_and_every_step():
    """A coordinate or a step that is left out is an error."""
    facts = {v: absent("caller") for v in sigma.SIGMA if v is not sigma.closed}
    with pytest.raises(DefinitionError, match=r"missing: \['closed'\]"):
        projection("short", transformers.system, facts, views.TRANSFORMERS_STEPS, "")
    facts[sigma.closed] = absent("caller")
    with pytest.raises(DefinitionError, match="must name exactly"):
        projection("short", transformers.system, facts, {}, "")


def test_a_partial_projection_is_no_refinement():
    """What is bottom somewhere cannot be proved everywhere."""
    with pytest.raises(DefinitionError, match="is partial"):
        as_refinement(views.vllm, {}, views.VLLM_STEPS)


def test_an_instance_of_another_system_is_refused():
    """A projection is checked on its own runtime."""
    with pytest.raises(ValueError, match="is checked on an instance of vllm"):
        check(views.vllm, tensorrt_llm.ONE)


def test_a_claim_that_is_never_known_is_unknown():
    """A coordinate that is bottom everywhere was not checked, and does not hold."""
    facts = {v: absent("caller") for v in sigma.SIGMA}
    facts[sigma.outputs] = derived(
        lambda h: vllm.output_token_ids[h], "x", "x", lambda h: vllm.sampled[h] > 9
    )
    facts[sigma.identity] = direct(lambda h: vllm.request_id[h], "x", "x", views.is_in_scheduler)
    found = projection("void", vllm.system, facts, views.VLLM_STEPS, "")
    result = one(found)
    assert (result.verdict, result.reason) == ("unknown", "never known after a step: outputs")


def test_the_names_of_the_coordinates_are_those_of_the_vector():
    """Each coordinate of Sigma has one name, in order."""
    assert tuple(projections.NAMES.values()) == sigma.SIGMA
