"""The acceptor: verdicts, findings that are kept apart, and memory that does not grow."""

import tracemalloc
from itertools import islice

import attrs
import pytest
from telling import Teller, audit, codes, sampled

from kvspec.properties.audit import Acceptor, Limits
from kvspec.properties.audit.synthetic import HEADER, long_log
from kvspec.spec.documents.event import TYPES


def test_an_empty_log_is_unknown():
    """Nothing was told, so nothing holds."""
    found = audit()
    assert (found.verdict, found.reason) == ("unknown", "the log has no event")


def test_a_log_without_a_step_of_the_cache_is_unknown():
    """Observations alone match nothing of the specification."""
    t = Teller()
    seen = t.slots("elsewhere", 0, 0, 0)
    found = audit(seen, header=sampled())
    assert found.verdict == "unknown"
    assert audit(t.slots("e", 0, 0, 0), t.slots("e", 0, 0, 0)).verdict == "violated"


def test_a_sampled_log_never_holds():
    """Even when nothing is found in it."""
    found = audit(*Teller().whole(), header=sampled())
    assert (found.verdict, found.findings) == ("unknown", ())
    assert "sampled" in found.reason


def test_a_sampled_log_can_still_be_violated_by_an_event_alone():
    """What an event says by itself needs no other event."""
    events = Teller().whole()
    events[3] = attrs.evolve(events[3], trace_id="")
    assert audit(*events, header=sampled()).verdict == "violated"


def test_one_handle_is_given_up_and_the_others_go_on():
    """After a finding a handle is not judged until its next generation; others are."""
    t = Teller()
    bad, good = t.whole("bad"), t.whole("good")
    bad[2] = attrs.evolve(bad[2], result_snapshot=7)
    good[5] = attrs.evolve(good[5], committed_tokens=9)
    again = t.whole("bad", handle_generation=1)
    again[3] = attrs.evolve(again[3], output_index=3)
    found = audit(*bad, *good, *again)
    assert [(each.line, each.code) for each in found.findings] == [
        (3, "RESULT_SNAPSHOT"),
        (14, "COMMITTED_TOKENS"),
        (20, "OUTPUT_INDEX"),
    ]
    assert found.unjudged == 5 + 2 + 4


def test_a_stranger_is_told_once():
    """Events of a request that nobody allocated are one finding, and then not judged."""
    t = Teller()
    strange = t.running("stranger")[1:]
    events = [attrs.evolve(e, local_sequence=n, event_id=f"e{n}") for n, e in enumerate(strange)]
    found = audit(*events)
    assert (found.codes, found.unjudged) == ({"UNKNOWN_HANDLE": 1}, 4)


def test_late_events_of_a_released_generation_do_not_harm_the_next():
    """A stale completion is refused, and the request that has the handle now goes on."""
    t = Teller()
    first = [t.allocate(), t.start("old", 0, 0, 4), t.finish(0, 0), t.release(0)]
    second = [t.allocate(handle_generation=1), t.start("new", 0, 0, 2, handle_generation=1)]
    stale = t.publish("old", 0, 4)
    rest = [t.publish("new", 0, 2, handle_generation=1)]
    found = audit(*first, *second, stale, *rest)
    assert [(each.line, each.code) for each in found.findings] == [(7, "STALE_GENERATION")]
    assert (found.unjudged, found.live) == (0, 1)


def test_a_lost_race_is_told_as_a_conflict():
    """A failure with the code of the refusal is what the specification does itself."""
    t = Teller()
    begun = [t.allocate(), t.start("a", 0, 0, 2), t.start("b", 0, 0, 1), t.publish("a", 0, 2)]
    lost = t.fail("b", 0, outcome="conflict", reason="STALE_SNAPSHOT")
    assert codes(*begun, lost, t.start("c", 1, 2, 3), t.publish("c", 1, 3)) == []


def test_a_cancelled_request_ends_its_appends():
    """An append that the cancellation ended has no failure of its own."""
    t, u = Teller(), Teller()
    for each, last, expected in ((t, t.release, []), (u, u.fail, ["TXN_CLOSED"])):
        begun = [each.allocate(), each.start("a", 0, 0, 2), each.finish(0, 0, outcome="cancelled")]
        end = last("a", 0) if each is u else last(0)
        assert codes(*begun, end) == expected


def test_a_request_that_has_ended_puts_out_nothing():
    """The guard is that of the frontier's emit."""
    t = Teller()
    events = [*t.running(), t.finish(2, 5), t.emit(2, 1)]
    assert codes(*events) == ["HANDLE_TERMINAL"]


def test_an_observation_may_come_before_its_cause():
    """Sources are not ordered: an observation waits for the event that it follows."""
    t = Teller()
    life = t.running()
    early = t.slots(life[2].event_id, 1, 8, 4)
    assert codes(early, *life) == []
    wrong = attrs.evolve(early, used_slots=5)
    assert codes(wrong, *life) == ["USED_SLOTS"]
    assert codes(early, *life, waiting=0) == ["BEYOND_WINDOW"], "a limit, and no violation"


def test_an_unrelated_plane_is_not_compared():
    """Without a model, slots and bytes may be any number."""
    t = Teller()
    life = t.running()
    seen = [t.slots(life[2].event_id, 3, 48, 17), t.bytes(life[2].event_id, 12_345)]
    assert codes(*life, *seen) == ["USED_SLOTS", "RESIDENT_BYTES"]
    model = attrs.evolve(HEADER.conversion, used_slots="unrelated", resident_bytes="unrelated")
    assert codes(*life, *seen, header=attrs.evolve(HEADER, conversion=model)) == []


def test_findings_are_counted_beyond_those_told():
    """The limit is on what is told, not on what is seen."""
    t = Teller()
    events = [attrs.evolve(each, trace_id="") for each in t.whole()]
    found = audit(*events, findings=3)
    assert (len(found.findings), found.codes) == (3, {"TRACE_MISSING": 8})


def test_many_appends_one_after_the_other_use_few_transactions():
    """Ended transactions are forgotten and used again, in any number."""
    t = Teller()
    events = [t.allocate()]
    for n in range(50):
        events += [t.start(f"o{n}", n, n, n + 1), t.publish(f"o{n}", n, n + 1)]
    assert codes(*events) == []


def test_a_released_handle_is_remembered_by_its_generation_alone():
    """A second life must begin where the first ended, as long as the table reaches."""
    t = Teller()
    lives = [event for n in range(40) for event in t.whole(f"r{n}")]
    again = t.whole("r0", handle_generation=0)
    assert codes(*lives, *again)[0] == "STALE_GENERATION"
    found = audit(*lives, again[0], tombstones=4)
    assert (found.verdict, found.taken) == ("holds", 41)


def test_memory_does_not_grow_with_released_handles():
    """Five times as many requests leave no more behind than the bounded tables hold."""
    limits = Limits(window=256, tombstones=256)

    def held(events):
        acceptor = Acceptor(HEADER, limits)
        tracemalloc.start()
        for line, event in enumerate(islice(long_log(outputs=1), events)):
            acceptor.feed(line, event)
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert acceptor.close().verdict == "holds"
        return size, len(acceptor.replay.live), len(acceptor.replay.released)

    held(6_000)  # what is made once, and kept
    (small, live, dead), (large, more, gone) = held(6_000), held(30_000)
    assert large < 1.25 * small
    assert max(live, more) <= 16
    assert max(dead, gone) <= 512


def test_a_long_log_holds():
    """The log that the measurements use is lawful, whatever its length and shape."""
    types = set()
    for live, outputs in ((1, 1), (3, 5), (8, 12)):
        events = list(islice(long_log(live, outputs), 1_500))
        found = audit(*events)
        assert (found.verdict, found.codes) == ("holds", {})
        types |= set(found.types)
    assert types == set(TYPES)


def observed(t, publication, rows):
    """The allocator and the tier, as seen after a publication of so many rows."""
    return [t.slots(publication.event_id, 1, 8, rows), t.bytes(publication.event_id, 64 * rows)]


def test_nothing_is_held_against_an_event_that_was_found_false():
    """One wrong number is one finding: correct observations after it are not judged by it."""
    t = Teller()
    life = t.running()
    life[5] = attrs.evolve(life[5], committed_tokens=6)
    found = audit(*life, *observed(t, life[5], 5))
    assert [(each.line, each.code) for each in found.findings] == [(6, "COMMITTED_TOKENS")]
    assert found.unjudged == 2


def test_nothing_is_held_against_an_event_that_was_not_judged():
    """Nobody knows whether what it tells is so, nor what follows it; what cannot be at all is still told."""
    t = Teller()
    life = t.running()
    life[2] = attrs.evolve(life[2], committed_tokens=5)
    life[5] = attrs.evolve(life[5], committed_tokens=6)
    seen = observed(t, life[5], 5)
    assert codes(*life, *seen) == ["COMMITTED_TOKENS"]
    assert codes(*life, attrs.evolve(seen[0], used_slots=9), seen[1]) == [
        "COMMITTED_TOKENS",
        "ALLOCATOR_OVERFLOW",
    ]


def test_an_observation_that_comes_before_a_false_event_is_not_judged():
    """Whatever the order of arrival of two sources."""
    t = Teller()
    life = t.running()
    life[5] = attrs.evolve(life[5], committed_tokens=6)
    assert codes(*observed(t, life[5], 5), *life) == ["COMMITTED_TOKENS"]


@pytest.mark.parametrize("wrong", [1, 7])
def test_a_wrong_generation_of_an_allocation_is_told_once(wrong):
    """The first event of another one tells where the generation was told; the others are not judged."""
    t = Teller()
    good, bad = t.whole("good"), t.whole("bad")
    bad[0] = attrs.evolve(bad[0], handle_generation=wrong)
    again = t.whole("bad", handle_generation=1)
    found = audit(*good, *bad, *again)
    (told,) = found.findings
    assert (told.line, told.code) == (10, "STALE_GENERATION")
    assert told.expected == f"{wrong}, as told in line 9"
    assert found.unjudged == 6


def test_a_generation_that_is_told_too_small_in_an_allocation_is_told_once():
    """As above, where the other events are right and ahead of it."""
    events = Teller().whole(handle_generation=3)
    events[0] = attrs.evolve(events[0], handle_generation=2)
    (told,) = audit(*events).findings
    assert (told.line, told.code) == (2, "GENERATION_SKIPPED")
    assert told.expected == "2, as told in line 1"


@pytest.mark.parametrize("wrong", [0, 3])
def test_a_second_life_with_a_wrong_generation_is_told_once(wrong):
    """The message names the release after which another generation was due."""
    t = Teller()
    (told,) = audit(*t.whole(), *t.whole(handle_generation=wrong)).findings
    assert (told.line, told.expected) == (9, "1, after the release in line 8")


def test_late_events_of_one_generation_are_told_once():
    """Those after the first are not judged, and the request that has the handle now is."""
    t = Teller()
    first, second = t.whole(), t.running(handle_generation=1)
    late = [t.emit(2, 1), t.emit(2, 2), t.finish(2, 5)]
    wrong = t.finish(2, 6, handle_generation=1)
    found = audit(*first, *second, *late, wrong)
    assert [each.code for each in found.findings] == ["STALE_GENERATION", "COMMITTED_TOKENS"]
    assert found.unjudged == 2


def test_an_event_of_no_type_leaves_its_handle_unjudged():
    """What it did to the handle is not known."""
    events = Teller().whole()
    events[2] = attrs.evolve(events[2], event_type="publish")
    assert codes(*events) == ["EVENT_TYPE"]


def test_an_observation_waits_until_its_cause_was_judged():
    """An event that came before its turn is not judged yet, and may be found false."""
    t = Teller()
    life = t.running()
    seen = observed(t, life[5], 5)
    events = [*life[:4], life[5], *seen, life[4]]
    assert codes(*events) == ["REORDERED"]
    false = attrs.evolve(life[5], committed_tokens=6)
    assert codes(*life[:4], false, *seen, life[4]) == ["COMMITTED_TOKENS", "REORDERED"]
    assert codes(*life[:4], false, *seen) == ["SEQUENCE_GAP", "UNKNOWN_OPERATION"]


def test_an_output_has_the_rows_of_a_prompt_and_of_the_outputs_before():
    """However long the prompt is, n outputs need n rows before the next one (A10)."""
    t = Teller()
    one_row = [t.allocate(), t.start("p", 0, 0, 1), t.publish("p", 0, 1)]
    first = t.emit(1, 0)
    assert codes(*one_row, first) == []
    assert codes(*one_row, first, t.emit(1, 1)) == ["NO_LOGITS"]
    t = Teller()
    child = [*t.running(), t.fork(2, "c", 0), t.emit(0, 0, "c", handle_generation=0)]
    assert codes(*child) == ["NO_LOGITS"]


def test_an_append_is_published_under_the_generation_that_it_began_in():
    """A publication that names another generation is told, whatever the handle has now (A2, A9)."""
    t = Teller()
    assert codes(
        t.allocate(), t.start("p", 0, 0, 4), t.publish("p", 0, 4, handle_generation=1)
    ) == ["STALE_GENERATION"]
