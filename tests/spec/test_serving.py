"""Service phases and the service view: projections of the cache, told as short runs (A11)."""

import pytest
from served import H, Served, prefilled, request

from kvspec.models.explicit import compile_instance, explore
from kvspec.properties.mutation import mutate
from kvspec.properties.serving import serving as claims
from kvspec.spec import serving
from kvspec.spec.frontier import emitted, prompt
from kvspec.spec.handles import Handle, Length, length
from kvspec.spec.language import DefinitionError, Expr, Module, Properties, forall, where

ALL = pytest.mark.parametrize("instance", serving.INSTANCES, ids=lambda found: found.name)


def test_the_phases_of_a_request_in_order():
    """P = 4, G = 3, from before the arrival to the release: each step with its phase (A11)."""
    cache = Served()
    found = [cache.phase()]

    def then(step):
        step()
        found.append(cache.phase())

    then(lambda: cache.do("allocate", h=0, b=0, a=0, p=4))
    then(lambda: cache.begin(4))
    then(cache.prepare)
    then(cache.publish)
    for _ in range(2):
        then(cache.emit)
        then(cache.begin)
        then(lambda: cache.prepare().publish())
    then(cache.emit)
    then(lambda: cache.do("stop", h=0))
    then(lambda: cache.do("finish", h=0))
    then(lambda: cache.do("release", h=0))
    assert found == [
        "NO_REQUEST",
        "WAITING_PREFILL",
        "PREFILL_IN_FLIGHT",
        "PREFILL_IN_FLIGHT",
        "OUTPUT_READY",
        *["DECODE_FRONTIER_READY", "DECODE_FRONTIER_READY", "OUTPUT_READY"] * 2,
        "DECODE_FRONTIER_READY",
        "FINISHED_RETAINED",
        "FINISHED_RETAINED",
        "RELEASED",
    ]


def test_a_partial_prefill_goes_back_to_waiting():
    """A published chunk leaves the rest of the prompt to be selected; the last one gives logits (A11)."""
    cache = request()
    seen = []
    for rows in (1, 2, 1):
        cache.begin(rows)
        seen.append((cache.phase(), cache.view()["prompt_rows_remaining"]))
        cache.prepare().publish()
        seen.append((cache.phase(), cache.view()["prompt_rows_remaining"]))
    assert seen == [
        ("PREFILL_IN_FLIGHT", 4),
        ("WAITING_PREFILL", 3),
        ("PREFILL_IN_FLIGHT", 3),
        ("WAITING_PREFILL", 1),
        ("PREFILL_IN_FLIGHT", 1),
        ("OUTPUT_READY", 0),
    ]


def test_an_aborted_prefill_waits_again():
    """Work in flight is no state of the cache: without it the request is where it was (A11)."""
    cache = request()
    before = cache.view()
    cache.begin(4).do("cancel_txn", x=0)
    assert cache.view() == before


def test_work_in_flight_changes_no_count_of_the_view():
    """Until the publication readers see the old snapshot, whatever is staged (A11, A4)."""
    cache = prefilled().emit()
    before = cache.view()
    cache.begin().prepare()
    assert cache.view() == before
    cache.publish()
    assert cache.view()["snapshot_version"] == before["snapshot_version"] + 1


def test_the_view_after_an_output():
    """One token is ahead, its row may be selected, and the counters differ (A11)."""
    assert prefilled().emit().view() == {
        "handle_generation": 0,
        "snapshot_version": 1,
        "phase": "DECODE_FRONTIER_READY",
        "eligible_work": "DECODE_FRONTIER_AVAILABLE",
        "prompt_rows_remaining": 0,
        "emitted_output_tokens": 1,
        "processed_generated_tokens": 0,
        "committed_tokens": 4,
        "output_frontier_count": 1,
        "next_ordinary_append_tokens": 1,
        "terminal_retained_tokens": 0,
    }


def test_the_view_of_an_end():
    """An ended request retains its rows; a released one has none in view (A11, A8)."""
    for end in ("stop", "finish", "cancel_request"):
        cache = prefilled().emit().do(end, h=0)
        view = cache.view()
        assert (view["phase"], view["terminal_retained_tokens"]) == ("FINISHED_RETAINED", 4)
        assert (view["eligible_work"], view["next_ordinary_append_tokens"]) == ("NOTHING", 0)
        if end == "stop":
            cache.do("finish", h=0)
        view = cache.do("release", h=0).view()
        assert cache["length", 0] == 4
        assert (view["phase"], view["handle_generation"]) == ("RELEASED", 1)
        numbers = [view[name] for name in view if name.endswith(("tokens", "count", "remaining"))]
        assert numbers == [0] * 7


def test_work_is_eligible_where_it_can_begin():
    """What the view offers is what the specification then accepts, and nothing else is (A11)."""
    cache = request(prompt=2)
    offers = []
    for step in ("begin", "emit", "begin", "emit"):
        work = cache.view()["eligible_work"]
        rows = cache["length", 0]
        outcome = cache.outcome("begin", x=0, h=0, k=0, a=0, p=rows, n=1, d=0)
        offers.append((work, outcome.kind))
        if step == "begin":
            cache.append(2 if work == "PREFILL_ROWS_AVAILABLE" else 1)
        else:
            cache.emit()
    assert offers == [
        ("PREFILL_ROWS_AVAILABLE", "accepted"),
        ("NOTHING", "refused"),
        ("DECODE_FRONTIER_AVAILABLE", "accepted"),
        ("NOTHING", "refused"),
    ]


def test_a_prefill_of_another_request_is_not_in_flight_here():
    """Two requests of one service have phases of their own (A11)."""
    cache = request().do("allocate", h=1, b=1, a=0, p=2).begin(2, txn=1, handle=1)
    assert (cache.phase(0), cache.phase(1)) == ("WAITING_PREFILL", "PREFILL_IN_FLIGHT")


def test_an_append_of_the_last_request_is_not_in_flight_for_the_next():
    """A handle given away again starts by waiting, though an append to the old request is open (A11, A9)."""
    cache = request().begin(4).do("finish", h=0).do("release", h=0)
    cache.do("evict", b=0).do("allocate", h=0, b=0, a=0, p=4)
    assert cache["state", 0] == "OPEN"
    assert cache.phase() == "WAITING_PREFILL"


@pytest.mark.parametrize("name", serving.POLICY_FIELDS)
def test_a_decision_is_no_field_of_the_view(name):
    """The names of a scheduler's decisions are refused, though the formula be a fact (A11)."""
    assert name not in serving.VIEW_FIELDS
    with pytest.raises(DefinitionError, match=f"{name} is a decision of a scheduler"):
        serving.view_field(name, length[H])


def test_a_view_reads_the_serving_system_alone():
    """A variable of another module is refused wherever it stands; a fact is let through (A11)."""
    other = Module("other", "Somebody else's state.", uses=serving.system.modules)
    rank = other.variable("rank", Handle, to=Length, init=0, meaning="place in a queue")
    with pytest.raises(DefinitionError, match="waiting reads rank of module other"):
        serving.view_field("waiting", length[H] + rank[H])
    same_name = Module("same", "The same name.").variable(
        "length", Handle, to=Length, init=0, meaning="not the committed length"
    )
    with pytest.raises(DefinitionError, match="reads length of module same"):
        serving.view_field("rows", same_name[H])
    fact = length[H] + 1
    assert serving.view_field("rows", fact) is fact


@ALL
def test_an_instance_has_its_counts(instance):
    """States, transitions, depth and ends are the figures asserted, and every claim holds (A11, C1)."""
    result = explore(instance, claims.by_name.values(), coverage=False)
    expected = instance.expected
    assert result.verdict == "holds", result.violations
    found = result.states, result.transitions, result.depth, result.terminal
    assert found == (expected.states, expected.transitions, expected.depth, expected.terminal)
    assert (result.cut, result.complete) == (0, True)


def test_every_instance_has_figures():
    """All instances are named once and assert every figure (C1)."""
    names = [found.name for found in serving.INSTANCES]
    assert names == ["CHAT", "AGAIN", "TWINS", "SPECULATIVE", "OVERLAP"]
    for found in serving.INSTANCES:
        expected = found.expected
        figures = (expected.states, expected.transitions, expected.depth, expected.terminal)
        assert None not in figures


EXCLUSIVE = {"no_handle_is_in_two_phases", "every_handle_is_in_a_phase"}
"""Claims about the formulas of the phases alone: no change of a rule can break them."""


@pytest.mark.slow
def test_every_claim_is_broken_by_some_mutant():
    """Each claim can fail: some mutant of a guard or an assignment breaks it (A11, C3, C7)."""
    mutated, broken = mutate(serving.system), set()
    safety = claims.of_kind("invariant", "lemma", "step")
    for instance in (serving.CHAT, serving.TWINS, serving.SPECULATIVE):
        program = compile_instance(mutated.on(instance), safety)
        for mutant in mutated.mutants:
            limits = {"stop_at_first": False, "max_states": 20_000, "coverage": False}
            result = program.explore(variant=mutant.number, threads=1, **limits)
            broken |= {violation.property for violation in result.violations}
    assert {claim.name for claim in safety} - broken == EXCLUSIVE


def test_a_tombstones_length_would_make_a_negative_count():
    """Processed outputs are counted from rows that are held, not from the length on record (A11)."""
    by_length = Properties(serving.system)

    @by_length.invariant
    def the_frontier_is_counted_from_the_length_on_record() -> Expr:
        """A request has no more rows on record behind its prompt than outputs."""
        return forall(
            Handle,
            lambda h: where(length[h] <= prompt[h], 0, length[h] - prompt[h]) <= emitted[h],
        )

    result = explore(serving.CHAT, by_length.by_name.values(), coverage=False)
    assert result.verdict == "violated"
    assert result.violations[0].trace[-1].event.action == "release"
