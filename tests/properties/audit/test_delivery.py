"""Delivery: loss, duplication and reordering are told apart, for each source by itself."""

import attrs
import pytest
from telling import Teller, audit, codes, sampled

from kvspec.properties.audit.delivery import Source


def test_a_byte_equal_duplicate_is_counted_and_nothing_else():
    """The same event again changes nothing, however often and however late."""
    events = Teller().whole()
    found = audit(*events, events[2], events[0], events[2])
    assert (found.verdict, found.duplicates, found.events) == ("holds", 3, 11)


def test_other_content_under_one_id_is_corruption():
    """The field that differs is told, with both values."""
    events = Teller().whole()
    found = audit(*events, attrs.evolve(events[5], committed_tokens=6))
    (told,) = found.findings
    assert (told.code, told.line, told.field) == ("EVENT_ID_REUSED", 9, "committed_tokens")
    assert (told.expected, told.found) == ("committed_tokens 5", "committed_tokens 6")
    assert found.duplicates == 0


def test_a_lost_event_is_a_gap_and_what_follows_from_it_no_proof():
    """The gap is violated; that a handle cannot be explained after it is not."""
    events = Teller().whole()
    found = audit(*events[:4], *events[5:])
    assert [(each.code, each.verdict) for each in found.findings] == [
        ("SEQUENCE_GAP", "violated"),
        ("UNKNOWN_OPERATION", "unknown"),
    ]
    assert (found.lost, found.unjudged, found.findings[0].line) == (1, 2, 5)
    assert found.findings[0].expected == "event 4 of cache-0"


def test_a_request_that_begins_after_a_loss_is_judged():
    """What a loss cannot explain is a proof again."""
    t = Teller()
    events = [*t.whole("a")[:-1], *t.whole("b")]
    events[-1] = attrs.evolve(events[-1], committed_tokens=5)
    found = audit(*events)
    assert [(each.code, each.verdict) for each in found.findings] == [
        ("SEQUENCE_GAP", "violated"),
        ("COMMITTED_TOKENS", "violated"),
    ]


def test_reordered_events_are_replayed_in_the_order_of_their_source():
    """The history is that of the source; that it came in another order is told."""
    events = Teller().whole()
    found = audit(*events[:2], events[5], events[3], events[4], events[2], *events[6:])
    assert [(each.code, each.line) for each in found.findings] == [("REORDERED", 6)]
    assert found.lost == 0


def test_an_event_that_comes_after_it_was_given_up_is_reordered():
    """A source waits for so many events and no longer."""
    events = Teller().whole()
    late = [*events[:3], *events[4:], events[3]]
    assert codes(*late, reorder=2) == ["SEQUENCE_GAP", "REORDERED"]
    assert codes(*late, reorder=20) == ["REORDERED"]


def test_a_source_that_does_not_begin_at_0_has_lost_its_first_events():
    """A log that was cut off at its head is not complete."""
    events = Teller().whole()[1:]
    found = audit(*events)
    assert found.findings[0].code == "SEQUENCE_GAP"
    assert found.lost == 1


def test_sources_are_counted_apart():
    """Requests interleave within a source, and sources in the log, without any gap."""
    t, other = Teller(), Teller()
    one = t.whole("a")
    two = [
        attrs.evolve(each, source_instance="cache-1", event_id=f"x{n}", trace_id="u")
        for n, each in enumerate(other.whole("b"))
    ]
    mixed = [each for pair in zip(one, two, strict=True) for each in pair]
    found = audit(*mixed)
    assert (found.verdict, found.sources) == ("holds", 2)


def test_clocks_of_different_sources_are_never_compared():
    """A source whose clock is far behind that of the event it follows is in order."""
    t = Teller()
    life = t.running()
    life = [attrs.evolve(each, monotonic_ns=10**12 + each.monotonic_ns) for each in life]
    seen = t.slots(life[2].event_id, 1, 8, 4, monotonic_ns=1)
    found = audit(*life, seen)
    assert found.verdict == "holds"
    later = t.slots(life[2].event_id, 1, 8, 4, monotonic_ns=0)
    assert codes(*life, seen, later) == ["CLOCK_REGRESSION"]


def test_equal_clocks_are_in_order():
    """A clock may stand still between two events."""
    events = [attrs.evolve(each, monotonic_ns=5) for each in Teller().whole()]
    assert codes(*events) == []


def test_a_gap_in_a_sample_is_no_finding():
    """A sampled log lacks events by its nature, and proves nothing by that."""
    events = Teller().whole()
    found = audit(*events[:4], *events[6:], header=sampled())
    assert (found.verdict, found.lost) == ("unknown", 2)
    assert {each.verdict for each in found.findings} <= {"unknown"}


def test_an_event_out_of_turn_in_a_sample_is_violated():
    """A sample leaves events out; it does not change their order."""
    events = Teller().whole()
    found = audit(*events[:2], events[3], events[2], header=sampled())
    told = [(each.code, each.verdict) for each in found.findings]
    assert told == [("BASE_SNAPSHOT", "unknown"), ("REORDERED", "violated")]
    assert found.verdict == "violated"


@pytest.mark.parametrize(("number", "code"), [(1, "SEQUENCE_REUSED"), (0, "BEYOND_WINDOW")])
def test_an_old_number_is_judged_as_far_as_ids_are_remembered(number, code):
    """Below the floor a late duplicate looks like a number that was used twice."""
    event = Teller().allocate(local_sequence=number)
    source = Source("cache")
    source.next, source.mark = 1, 1
    source.age()
    source.next = 3
    assert source.arrive(1, event).code == code


def test_ids_beyond_the_window_leave_the_answer_unknown():
    """A duplicate that comes after its id was forgotten is neither counted nor called corrupt."""
    t = Teller()
    events = [event for n in range(9) for event in t.whole(f"r{n}")]
    found = audit(*events, events[0], window=16)
    assert (found.verdict, found.codes) == ("unknown", {"BEYOND_WINDOW": 1})
    assert audit(*events, events[0]).verdict == "holds"


def test_a_negative_number_is_told_as_that():
    """It has no place among the others, and is no late event; that its own place is empty is told as well."""
    events = Teller().whole()
    events[3] = attrs.evolve(events[3], local_sequence=-1)
    found = audit(*events)
    assert [(each.line, each.code, each.found) for each in found.findings[:1]] == [
        (4, "NEGATIVE_COUNT", "-1")
    ]
    assert set(found.codes) == {"NEGATIVE_COUNT", "SEQUENCE_GAP"}


def test_events_without_an_id_are_told_as_that():
    """They are no two versions of one event."""
    events = Teller().whole()
    events[2:4] = [attrs.evolve(each, event_id="") for each in events[2:4]]
    assert codes(*events) == ["IDENTITY_MISSING"] * 2


def test_what_may_follow_from_a_loss_comes_after_the_loss():
    """Whoever reads from the top reads of the loss first, though an observation stands before it."""
    t = Teller()
    life = t.running()
    seen = t.slots(life[2].event_id, 1, 8, 4)
    found = audit(*life[:2], seen, *life[3:])
    assert [(each.line, each.code) for each in found.findings] == [
        (4, "SEQUENCE_GAP"),
        (3, "CAUSE_UNKNOWN"),
        (4, "BASE_SNAPSHOT"),
    ]
