"""Every rule of the audit is seen to fail, on a short log, with its own code first."""

import attrs
import pytest
from telling import Teller, audit, codes

from kvspec.properties.audit.rules import ALWAYS_VIOLATED, GUARDS, NEVER_VIOLATED, OWN, RULES
from kvspec.properties.audit.window import LARGEST


def with_change(place, **fields):
    """The life of a request with other fields in one event."""

    def make(t):
        events = t.whole()
        events[place] = attrs.evolve(events[place], **fields)
        return events

    return make


def observed(kind, **fields):
    """A prefill, and an observation of its publication."""

    def make(t):
        events = [t.allocate(), t.start("p", 0, 0, 4), t.publish("p", 0, 4)]
        after = events[2].event_id
        made = t.slots(after, 1, 8, 4) if kind == "slots" else t.bytes(after, 4 * 64)
        return [*events, attrs.evolve(made, **fields)]

    return make


def open_appends(t):
    """One append more than are followed."""
    return [t.allocate(), *(t.start(f"o{n}", 0, 0, 1) for n in range(5))]


def freed_at_finish(t):
    """Memory that is gone while rows are still owned."""
    events = [*t.running(), t.finish(2, 5)]
    return [*events, t.slots(events[-1].event_id, 0, 0, 0)]


def cause_of_another_base(t):
    """An output said to follow an earlier publication than the one whose snapshot it names."""
    events = t.running()
    return [*events, t.emit(2, 1, caused_by_event_id=events[2].event_id)]


def late_observation(t):
    """An observation of an event that is long forgotten; the limits of the test are small."""
    events = t.whole("a")
    return [*events, *t.whole("b"), *t.whole("c"), t.slots(events[2].event_id, 1, 8, 4, "a")]


def skipped_generation(t):
    """A second life that does not begin where the first ended."""
    return [*t.whole(), *t.whole(handle_generation=3)]


def child_of_another_generation(t):
    """A released handle is a child again, in the generation that is over."""
    events = [*t.whole("c"), t.allocate()]
    return [*events, t.fork(0, "c", 0, child_generation=0)]


def swapped(t):
    """Two events of one source in the other order."""
    events = t.whole()
    return [*events[:3], events[4], events[3], *events[5:]]


def finish_twice(t):
    """A request that has ended ends again."""
    return [*t.running(), t.finish(2, 5), t.finish(2, 5)]


def stale_publication(t):
    """Two appends on one base; the second is published on a snapshot that has changed."""
    events = [t.allocate(), t.start("a", 0, 0, 2), t.start("b", 0, 0, 1), t.publish("a", 0, 2)]
    return [*events, t.publish("b", 0, 1)]


def late_publication(t):
    """An append that is published after the release of its handle."""
    events = [t.allocate(), t.start("a", 0, 0, 2), t.finish(0, 0), t.release(0)]
    return [*events, t.publish("a", 0, 2)]


CASES = {
    "EVENT_TYPE": with_change(3, event_type="emit"),
    "FIELD_MISSING": with_change(2, result_snapshot=None),
    "FIELD_FOREIGN": with_change(6, operation_id="r-0-d"),
    "PLANE_MIXED": with_change(2, allocated_blocks=1),
    "FAILURE_MUTATES": lambda t: [
        t.allocate(),
        t.start("p", 0, 0, 4),
        t.fail("p", 0, result_snapshot=1),
    ],
    "OUTPUT_COMMITS": with_change(3, committed_tokens=5),
    "TRACE_MISSING": with_change(3, trace_id=""),
    "IDENTITY_MISSING": with_change(1, operation_id=""),
    "NEGATIVE_COUNT": with_change(1, interval_start=-1),
    "WALL_TIME": with_change(5, observed_wall_time="yesterday"),
    "OUTCOME": with_change(5, outcome="failure"),
    "SOURCE_COMPONENT": with_change(5, source_component="allocator"),
    "EVENT_ID_REUSED": with_change(5, event_id="cache-0/3"),
    "SEQUENCE_REUSED": with_change(5, local_sequence=4),
    "SEQUENCE_GAP": lambda t: [each for each in t.whole() if each.event_type != "output_emit"],
    "REORDERED": swapped,
    "BEYOND_WINDOW": late_observation,
    "CLOCK_REGRESSION": with_change(5, monotonic_ns=3_999),
    "TRACE_CHANGED": with_change(5, trace_id="u"),
    "UNKNOWN_HANDLE": with_change(5, request_id="s"),
    "GENERATION_SKIPPED": skipped_generation,
    "UNKNOWN_OPERATION": with_change(5, operation_id="x"),
    "BASE_SNAPSHOT": with_change(5, base_snapshot=0),
    "RESULT_SNAPSHOT": with_change(5, result_snapshot=3),
    "COMMITTED_TOKENS": with_change(5, committed_tokens=6),
    "RESULT_GENERATION": with_change(7, result_generation=0),
    "CHILD_GENERATION": child_of_another_generation,
    "CHILD_SNAPSHOT": lambda t: [*t.running(), t.fork(2, "c", 5, child_snapshot=2)],
    "OUTPUT_INDEX": with_change(3, output_index=1),
    "NO_LOGITS": lambda t: [t.allocate(), t.emit(0, 0)],
    "NO_CONFLICT": lambda t: [
        t.allocate(),
        t.start("p", 0, 0, 4),
        t.fail("p", 0, outcome="conflict", reason="STALE_SNAPSHOT"),
    ],
    "OPEN_APPENDS": open_appends,
    "BEYOND_BOUNDS": lambda t: t.whole(handle_generation=LARGEST),
    "CAUSE_MISSING": observed("slots", caused_by_event_id=None),
    "CAUSE_UNKNOWN": observed("bytes", caused_by_event_id="nothing"),
    "CAUSE_TYPE": with_change(6, caused_by_event_id="cache-0/0"),
    "CAUSE_TARGET": with_change(5, caused_by_event_id="cache-0/1"),
    "CAUSE_SNAPSHOT": cause_of_another_base,
    "ALLOCATOR_OVERFLOW": observed("slots", used_slots=9),
    "ALLOCATOR_EMPTY": observed("slots", allocated_slots=0, used_slots=0),
    "FREED_EARLY": freed_at_finish,
    "USED_SLOTS": observed("slots", used_slots=5),
    "RESIDENT_BYTES": observed("bytes", resident_payload_bytes=4),
    "HANDLE_LIVE": lambda t: [t.allocate(), t.allocate()],
    "HANDLE_TERMINAL": finish_twice,
    "NOT_TERMINAL": lambda t: [t.allocate(), t.release(0)],
    "TXN_IN_USE": lambda t: [t.allocate(), t.start("p", 0, 0, 1), t.start("p", 0, 0, 1)],
    "TXN_CLOSED": lambda t: [*t.running(), t.publish("r-0-d", 2, 6)],
    "POSITION_MISMATCH": with_change(4, interval_start=3),
    "EMPTY_APPEND": with_change(4, interval_end=4),
    "BEYOND_COMMITTED": lambda t: [*t.running(), t.truncate(2, 6)],
    "STALE_GENERATION": late_publication,
    "STALE_SNAPSHOT": stale_publication,
    "CHILD_IN_USE": lambda t: [*t.running(), t.fork(2, "r", 5)],
}

OUT_OF_REACH = {
    "CONTEXT_FULL": "the context of the window is as long as the bounds: more is BEYOND_BOUNDS",
    "OUTPUT_STOPPED": "no event tells the last output",
    "NOT_PREPARED": "the staging and preparing that no event tells are always done",
    "NOT_PUBLISHED": "no event asks for a receipt again",
    "HANDLE_CONFLICT": "no event asks for a receipt again",
    "KEY_CONFLICT": "no event asks for a receipt again",
    "BASE_CONFLICT": "no event asks for a receipt again",
    "INTERVAL_CONFLICT": "no event asks for a receipt again",
    "TXN_LIVE": "only ended transactions are forgotten",
    "NO_CHILD": "a fork event names its child",
    "K_INCOMPLETE": "all rows are staged",
    "V_INCOMPLETE": "all rows are staged",
    "INTERVAL_FULL": "no row is staged twice",
    "ABI_MISMATCH": "a log has one cache ABI",
    "CANNOT_REWIND": "the window's cache can go back by any number of rows",
    "BLOCK_IN_USE": "the block of a handle is evicted before it is allocated again",
    "BLOCK_EMPTY": "a block is evicted only where it is filled",
    "STILL_OWNED": "a block is evicted only where nobody owns it",
    "ROW_TAKEN": "the window has no batch",
    "NOT_IN_BATCH": "the window has no batch",
    "IN_BATCH": "the window has no batch",
    "NOT_A_PERMUTATION": "the window has no batch",
    "ROW_HOLDS_HANDLE": "the window has no batch",
}
"""Codes of the specification that no event can bring about, and why."""


@pytest.mark.parametrize("code", CASES)
def test_a_rule_is_seen_to_fail(code):
    """The log breaks this rule, and this is the first thing that is told."""
    limits = {"window": 8} if code == "BEYOND_WINDOW" else {}
    found = audit(*CASES[code](Teller()), **limits)
    assert found.findings[0].code == code
    expected = "unknown" if code in NEVER_VIOLATED else "violated"
    assert (found.findings[0].verdict, found.verdict) == (expected, expected)


def test_every_rule_has_a_case_or_a_reason():
    """No rule is there that nothing breaks, unless it is said why none can."""
    assert set(CASES) | set(OUT_OF_REACH) == set(RULES)
    assert not set(CASES) & set(OUT_OF_REACH)
    assert set(OWN) <= set(CASES)
    assert set(OUT_OF_REACH) <= set(GUARDS)


def test_each_rule_says_what_to_do():
    """A rule has a meaning and an advice, and its weight is decided once."""
    assert all(rule.meaning and rule.advice for rule in RULES.values())
    assert set(RULES) >= ALWAYS_VIOLATED | NEVER_VIOLATED
    assert not ALWAYS_VIOLATED & NEVER_VIOLATED


def test_a_lawful_log_holds():
    """The lives that the cases change have nothing to find."""
    t = Teller()
    found = audit(*t.whole(), *t.whole(handle_generation=1), *t.whole("other"))
    assert (found.verdict, found.codes, found.taken, found.live) == ("holds", {}, 2, 0)


@pytest.mark.parametrize(
    "make", [observed("slots"), observed("bytes"), with_change(0)], ids=["slots", "bytes", "life"]
)
def test_the_unchanged_bases_of_the_cases_hold(make):
    """Without its change, the log of a case has nothing to find."""
    assert codes(*make(Teller())) == []


def test_a_finding_tells_line_rule_expected_and_found():
    """All that a reader needs stands in one line."""
    (found,) = audit(*CASES["POSITION_MISMATCH"](Teller())).findings[:1]
    told = str(found)
    for part in (
        "line 5",
        "append_start cache-0/4 of r, generation 0",
        "POSITION_MISMATCH",
        "[3, 5)",
    ):
        assert part in told


@pytest.mark.parametrize(
    ("place", "fields"),
    [
        (4, {"interval_end": LARGEST + 1}),
        (4, {"interval_start": LARGEST + 1}),
        (4, {"base_snapshot": LARGEST + 1}),
        (4, {"handle_generation": LARGEST + 1}),
        (0, {"handle_generation": LARGEST + 1}),
        (5, {"committed_tokens": LARGEST + 1}),
        (5, {"result_snapshot": LARGEST + 1}),
        (7, {"result_generation": LARGEST + 1}),
    ],
)
def test_a_number_beyond_the_bounds_is_no_violation(place, fields):
    """Nothing that follows from it is, either: the audit cannot follow such a handle."""
    found = audit(*with_change(place, **fields)(Teller()))
    assert (found.verdict, found.codes) == ("unknown", {"BEYOND_BOUNDS": 1})


@pytest.mark.parametrize("field", ["child_generation", "child_snapshot", "child_tokens"])
def test_a_child_beyond_the_bounds_is_no_violation(field):
    """Neither its fork nor its own events are held against the specification."""
    t = Teller()
    forked = [*t.running(), t.fork(2, "c", 5, **{field: LARGEST + 1}), t.truncate(0, 4, "c")]
    found = audit(*forked)
    assert (found.verdict, found.codes) == ("unknown", {"BEYOND_BOUNDS": 1})


def test_the_largest_number_is_within_the_bounds():
    """The bound itself can be told."""
    assert codes(Teller().allocate(handle_generation=LARGEST)) == []


@pytest.mark.parametrize(
    ("code", "expected", "found"),
    [
        ("POSITION_MISMATCH", "p = length[h]", "[3, 5), where p = 3, length[r] = 4"),
        ("NOT_TERMINAL", "phase[h] = FINISHED or", "release, where phase[r] = DECODE_READY"),
        ("HANDLE_TERMINAL", "phase[h] = DECODE_READY", "finish, where phase[r] = FINISHED"),
        ("HANDLE_LIVE", "phase[h] = VACANT or", "request_allocate, where phase[r] = DECODE_READY"),
        ("TXN_CLOSED", "state[x] = OPEN", "r-0-d, where state[r-0-d] = PUBLISHED"),
        ("BEYOND_COMMITTED", "n <= length[h]", "6, where n = 6, length[r] = 5"),
        ("EMPTY_APPEND", "1 <= n", "[4, 4), where n = 0"),
        ("STALE_SNAPSHOT", "version[target[x]] = base_version[x]", "base_version[b] = 0"),
        ("STALE_GENERATION", "generation[target[x]] = base_generation[x]", "generation[r] = 1"),
        ("CHILD_IN_USE", "for all c in Handle", "r, where "),
    ],
)
def test_a_refusal_tells_its_guard_and_what_it_read(code, expected, found):
    """The condition of the specification, and the values that made it fail, by the names of the log."""
    told = audit(*CASES[code](Teller())).findings[0]
    assert told.code == code
    assert told.expected.startswith(expected)
    assert found in told.found


def test_an_output_of_a_request_that_has_ended_tells_its_phase():
    """The guard of the frontier is read like those of the core."""
    t = Teller()
    (told,) = audit(*t.running(), t.finish(2, 5), t.emit(2, 1)).findings
    assert (told.expected, told.found) == (
        "phase[h] = DECODE_READY",
        "output_emit, where phase[r] = FINISHED, h = r",
    )


@pytest.mark.parametrize("reason", ["device error", "STALE_SNAPSHOT", "whatever"])
@pytest.mark.parametrize("outcome", ["failure", "cancelled"])
def test_a_failure_may_give_any_reason(reason, outcome):
    """Only that of a conflict is the specification's own; an empty one is no reason."""
    t = Teller()
    events = [t.allocate(), t.start("p", 0, 0, 4), t.fail("p", 0, reason=reason, outcome=outcome)]
    assert codes(*events) == []
