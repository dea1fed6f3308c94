"""The worked service trace of the text: every record and every metric is computed, not typed (B6)."""

from fractions import Fraction

import attrs
import pytest

from kvspec.counterexamples.negative_cases import documents_of, load_document
from kvspec.models.documents import convert
from kvspec.properties.documents import find_kind
from kvspec.properties.documents.service import (
    REFUSALS,
    VIEWS,
    computed_metrics,
    computed_view,
)
from kvspec.properties.documents.service_replay import replay
from kvspec.spec.documents.byte_trajectory import Rows
from kvspec.spec.documents.service import FIELDS, Action, Served
from kvspec.spec.documents.service_metrics import Limits
from kvspec.spec.failures import CODES
from kvspec.spec.serving import POLICY_FIELDS, VIEW_FIELDS

KIND = find_kind("service")
TRACE = convert(KIND, load_document("service"), "service.json")
PARTIAL = convert(
    KIND,
    documents_of("service")["service-partial-prefill.json"],
    "service-partial-prefill.json",
)

# Section 0x05: time, request, emitted / processed, committed rows, frontier, next append, retained bytes.
TEXT = (
    (0, "A", 0, 0, 0, (), 0, 0),
    (2, "A", 0, 0, 0, (), 0, 0),
    (5, "B", 0, 0, 0, (), 0, 0),
    (8, "B", 0, 0, 0, (), 0, 0),
    (12, "A", 0, 0, 4, (), 0, 0),
    (14, "A", 1, 0, 4, ("a0",), 64, 0),
    (15, "B", 0, 0, 2, (), 0, 0),
    (18, "B", 1, 0, 2, ("b0",), 0, 128),
    (19, "B", 0, 0, 0, (), 0, 0),
    (20, "A", 1, 1, 5, (), 0, 0),
    (21, "A", 2, 1, 5, ("a1",), 64, 0),
    (29, "A", 2, 2, 6, (), 0, 0),
    (30, "A", 3, 2, 6, ("a2",), 64, 0),
    (41, "A", 3, 3, 7, (), 0, 0),
    (42, "A", 4, 3, 7, ("a3",), 0, 448),
    (50, "A", 0, 0, 0, (), 0, 0),
)


def blank(trace):
    """A trace without what is computed: clocks, operations and sizes alone."""
    records = tuple(attrs.evolve(each, frontier=(), view={}) for each in trace.records)
    return attrs.evolve(trace, records=records, metrics=(), aggregate=None)


def test_the_sixteen_records_are_those_of_the_text():
    """Counters, rows, frontier and bytes of the text come out of the specification (B6)."""
    bare = blank(TRACE)
    assert len(bare.records) == len(TEXT) == 16
    for n, (each, text) in enumerate(zip(TRACE.records, TEXT, strict=True)):
        view = computed_view(bare, n)
        counts = view["emitted_output_tokens"], view["processed_generated_tokens"]
        payloads = (
            view["next_ordinary_append_bytes"],
            view["terminal_retained_logical_payload_bytes"],
        )
        told = (each.time, each.request, *counts, view["committed_tokens"], each.frontier)
        assert (*told, *payloads) == text


def test_the_phases_of_the_first_request():
    """Each phase of the interface is taken in its turn, and none is written down elsewhere (B6, A11)."""
    found = [
        computed_view(TRACE, n)["phase"] for n, (_, name, *_) in enumerate(TEXT) if name == "A"
    ]
    assert found == [
        "WAITING_PREFILL",
        "PREFILL_IN_FLIGHT",
        *["OUTPUT_READY", "DECODE_FRONTIER_READY"] * 3,
        "OUTPUT_READY",
        "FINISHED_RETAINED",
        "RELEASED",
    ]


def test_the_metrics_are_those_of_the_text():
    """A: 14, [7,9,12], 28/3, 42, 8, not valid; B: 13, [], undefined, 13, 1, valid (B6)."""
    (a, b), _ = computed_metrics(blank(TRACE))
    assert (a.ttft, a.tbt, Fraction(a.tpot), a.e2e) == (14, (7, 9, 12), Fraction(28, 3), 42)
    assert (a.release_lag, a.slo_valid) == (8, False)
    assert (b.ttft, b.tbt, b.tpot, b.e2e, b.release_lag, b.slo_valid) == (13, (), None, 13, 1, True)


def test_the_rates_and_areas_are_those_of_the_text():
    """20 and 10 requests/s, half of them good, 10 tokens/s; 13,568 + 512 = 14,080 byte-ms (B6)."""
    (a, b), found = computed_metrics(blank(TRACE))
    assert (found.request_throughput, found.request_goodput) == ("20", "10")
    assert (found.goodput_fraction, found.token_goodput) == ("1/2", "10")
    assert (a.byte_time, b.byte_time, found.byte_time) == (13_568, 512, 14_080)


def test_other_limits_change_the_verdicts_alone():
    """With a TBT limit of 12 the first request is valid too, and all else is as before (B6)."""
    (a, b), found = computed_metrics(TRACE, Limits(ttft=15, tbt=12, window=100))
    assert (a.slo_valid, b.slo_valid, found.request_goodput, found.token_goodput) == (
        True,
        True,
        "20",
        "50",
    )
    assert found.byte_time == TRACE.aggregate.byte_time
    (a, b), _ = computed_metrics(TRACE, Limits(ttft=13, tbt=12, window=100))
    assert (a.slo_valid, b.slo_valid) == (False, True)


def test_a_partial_prefill_waits_again():
    """Three rows of four are published, and the request waits for the last one (B6, A11)."""
    assert KIND.first_broken(PARTIAL) is None
    views = [computed_view(blank(PARTIAL), n) for n in range(5)]
    assert [view["phase"] for view in views] == [
        "WAITING_PREFILL",
        "PREFILL_IN_FLIGHT",
        "WAITING_PREFILL",
        "PREFILL_IN_FLIGHT",
        "OUTPUT_READY",
    ]
    assert [view["prompt_rows_remaining"] for view in views] == [4, 4, 1, 1, 0]
    assert [view["committed_tokens"] for view in views] == [0, 0, 3, 3, 4]


def test_a_repair_after_the_last_output():
    """The row of the last output may still be published; no output follows from it (B6, A10)."""
    repair = next(
        n for n, each in enumerate(PARTIAL.records) if each.operation == "emit_and_finish"
    )
    assert PARTIAL.records[repair + 1].operation == "publish_decode"
    before, after = computed_view(PARTIAL, repair), computed_view(PARTIAL, repair + 1)
    assert before["phase"] == after["phase"] == "FINISHED_RETAINED"
    assert after["committed_tokens"] == before["committed_tokens"] + 1
    assert after["output_frontier_count"] == 0
    assert after["emitted_output_tokens"] == before["emitted_output_tokens"]


def test_a_view_has_the_facts_of_the_specification_and_no_policy():
    """Fields of the view are those of the specification, bytes and clocks; each has a contract (B6, A11)."""
    assert set(VIEW_FIELDS) < set(FIELDS)
    assert not set(POLICY_FIELDS) & set(FIELDS)
    covered = [name for names, _, _ in VIEWS.values() for name in names]
    assert sorted(covered) == sorted(FIELDS)


def test_a_released_request_has_nothing_left_in_view():
    """After the release no count is left or negative: a tombstone has no rows (B6)."""
    for trace in (TRACE, PARTIAL):
        for n, each in enumerate(trace.records):
            view = computed_view(trace, n)
            counts = [view[name] for name in VIEW_FIELDS if isinstance(view[name], int)]
            assert min(counts) >= 0
            if each.operation == "release":
                assert (view["handle_generation"], view["committed_tokens"]) == (1, 0)
                assert view["processed_generated_tokens"] == view["output_frontier_count"] == 0


def test_the_cache_abi_is_that_of_the_manifest():
    """Records are bound to the cache ABI of the worked manifest by its digest (B6, B1)."""
    expected = load_document("manifest")["digests"]["cache_abi_sha256"]
    assert TRACE.cache_abi_sha256 == PARTIAL.cache_abi_sha256 == expected


def test_refusals_are_codes_of_the_specification():
    """Each refusal of a trace is one of the specification, by its own name (B6)."""
    assert set(REFUSALS) <= set(CODES)


@pytest.mark.parametrize(
    ("actions", "code"),
    [
        ([("emit", None)], "NO_LOGITS"),
        ([("publish_decode", (2, 1))], "POSITION_MISMATCH"),
        ([("release", None)], "NOT_TERMINAL"),
        ([("begin_prefill", (0, 1)), ("begin_prefill", (0, 1))], "TXN_IN_USE"),
        ([("begin_prefill", (0, 3))], "UNKNOWN_TOKEN"),
        ([("begin_prefill", (0, 4000))], "UNKNOWN_TOKEN"),
        ([("begin_prefill", (0, 2)), ("publish_prefill", (0, 1))], "K_INCOMPLETE"),
    ],
)
def test_what_cannot_be_served_is_refused_by_the_specification(actions, code):
    """A request of two prompt tokens that was just made can do none of these (B6)."""
    steps = [Action("R", "arrive", None)]
    steps.extend(Action("R", name, rows and Rows(*rows)) for name, rows in actions)
    found = replay((Served("R", 2, 1),), tuple(steps))
    place, refusal = found.refused
    assert (place, refusal.code) == (len(actions), code)
    assert len(found.facts) == place


def test_a_request_is_served_once():
    """After its release a request does not arrive again: its block is another one's affair (B6)."""
    twice = ("arrive", "begin_prefill", "publish_prefill", "emit_and_finish", "release", "arrive")
    actions = tuple(Action("R", name, Rows(0, 1) if "prefill" in name else None) for name in twice)
    place, refusal = replay((Served("R", 1, 1),), actions).refused
    assert (place, refusal.code) == (5, "BLOCK_IN_USE")
    records = [
        attrs.evolve(TRACE.records[0], request="B", operation=name, rows=action.rows)
        for name, action in zip(twice, actions, strict=True)
    ]
    trace = attrs.evolve(TRACE, records=tuple(records), requests=(Served("B", 1, 1),))
    assert next(iter(KIND.contracts["HANDLE_LIVE"].check(trace))).path == "/records/5"
