"""A whole log: header, events and closing come to one verdict, each finding in its line."""

import attrs
import pytest
from telling import Teller, sampled

from kvspec.models.documents.lines import write_closing, write_event
from kvspec.properties.audit import Limits
from kvspec.properties.audit.rules import RULES
from kvspec.properties.audit.stream import audit_lines, rule
from kvspec.properties.audit.synthetic import HEADER, closing_of
from kvspec.properties.documents.event_log import event_log
from kvspec.spec.documents.closing import Closing, SourceEnd
from kvspec.spec.documents.log import HandleEnd, MetricFamily, Source
from kvspec.spec.documents.log_header import HEADER_RULES

RUNNING = HandleEnd(
    request_id="r",
    handle_generation=0,
    end_generation=0,
    phase="DECODE_READY",
    snapshot=2,
    committed_tokens=5,
)
CACHE = SourceEnd(source_instance="cache-0", next_sequence=6)
SOURCE = Source(runtime="vllm", release="v0.22.0", commit="0" * 40)


def family(name, *labels):
    """A metric family with these labels."""
    return MetricFamily(name=name, kind="counter", labels=labels, outcomes=())


def audited(events, closing=None, header=HEADER, **limits):
    """The audit of a log of these events, with a closing if there is one."""
    lines = [write_event(event).encode() for event in events]
    if closing is not None:
        lines.append(write_closing(closing).encode())
    return audit_lines(header, lines, "the log", Limits(**limits))


def test_a_log_and_its_closing_agree():
    """What the cache held is what the log comes to."""
    found = audited(Teller().running(), Closing(is_all=True, sources=(CACHE,), handles=(RUNNING,)))
    assert (found.verdict, found.closed, found.total) == ("holds", True, 0)
    assert not audited(Teller().running()).closed


@pytest.mark.parametrize(
    ("held", "code"),
    [
        ({"snapshot": 1, "committed_tokens": 4}, "PREMATURE_SUCCESS"),
        ({"snapshot": 3}, "EVENT_LOST"),
    ],
)
def test_a_log_that_is_ahead_or_behind_is_violated(held, code):
    """The difference is told in the line of the closing; a sample proves nothing by it."""
    closing = Closing(is_all=True, sources=(CACHE,), handles=(attrs.evolve(RUNNING, **held),))
    found = audited(Teller().running(), closing)
    (told,) = found.findings
    assert (found.verdict, told.code, told.line, told.event_type) == (
        "violated",
        code,
        8,
        "closing",
    )
    assert found.codes == {code: 1}
    assert audited(Teller().running(), closing, sampled()).verdict == "unknown"


def test_a_header_that_breaks_a_rule_is_violated():
    """A broken header is told in line 1, before all events."""
    header = attrs.evolve(HEADER, producer_revision=" ")
    events = Teller().running()
    events[3] = attrs.evolve(events[3], trace_id="")
    found = audited(events, header=header)
    assert [(each.line, each.code) for each in found.findings] == [
        (1, "PRODUCER_REVISION"),
        (5, "TRACE_MISSING"),
    ]


@pytest.mark.parametrize("code", HEADER_RULES)
def test_each_rule_of_the_header_is_seen_to_fail(code):
    """The contracts of the document that speak of the header are the same functions."""
    broken = {
        "SCHEMA_VERSION": {"schema_version": 2},
        "PRODUCER_REVISION": {"producer_revision": ""},
        "SOURCE_PIN": {"source": SOURCE},
        "CONVERSION": {"conversion": attrs.evolve(HEADER.conversion, token_bytes=-1)},
        "HEADER_FIELD": {"completeness": "foo"},
        "METRIC_CARDINALITY": {"metric_families": (family("x", "trace_id"),)},
        "METRIC_DENOMINATOR": {"metric_families": (family("x_outcomes_total"),)},
    }
    found = audited(Teller().running(), header=attrs.evolve(HEADER, **broken[code]))
    assert set(found.codes) == {code}
    assert code in event_log.contracts


def test_findings_beyond_the_limit_are_counted():
    """Header and events share the limit."""
    header = attrs.evolve(HEADER, producer_revision="", schema_version=0)
    events = [attrs.evolve(each, trace_id="") for each in Teller().running()]
    found = audited(events, header=header, findings=3)
    assert (len(found.findings), found.total) == (3, 2 + len(events))


def test_every_code_has_a_rule():
    """Whatever is told, it can be said what it asks and what to do."""
    for code in (*RULES, *HEADER_RULES, *event_log.contracts):
        assert rule(code).meaning
        assert rule(code).advice


def test_a_tick_tells_the_line(monkeypatch):
    """Now and then, while the log is read."""
    monkeypatch.setattr("kvspec.properties.audit.stream.TICKS", 3)
    lines = [write_event(event).encode() for event in Teller().running()]
    told = []
    audit_lines(HEADER, lines, "the log", tick=told.append)
    assert told == [3, 6]


def test_a_log_without_its_closing_is_unknown():
    """Events at its end may be missing, which no other shows; an open log is judged by what it tells."""
    found = audited(Teller().running())
    assert (found.verdict, "no closing" in found.reason, found.is_open) == ("unknown", True, False)
    lines = [write_event(event).encode() for event in Teller().running()]
    told = audit_lines(HEADER, lines, "the log", is_open=True)
    assert (told.verdict, told.is_open, told.closed) == ("holds", True, False)
    broken = audited(Teller().running()[1:])
    assert broken.verdict == "violated"


def test_a_log_with_its_closing_is_not_open():
    """Whoever says that it may lack a closing is told no less by one."""
    closing = Closing(is_all=True, sources=(CACHE,), handles=(attrs.evolve(RUNNING, snapshot=3),))
    lines = [write_event(event).encode() for event in Teller().running()]
    found = audit_lines(HEADER, [*lines, write_closing(closing).encode()], "the log", is_open=True)
    assert (found.verdict, found.is_open) == ("violated", False)


@pytest.mark.parametrize("cut", range(1, 5))
def test_the_lost_tail_of_a_source_is_counted(cut):
    """An observation or an output changes nothing that the closing lists, and is missed all the same."""
    t = Teller()
    events = t.running()
    tail = [t.slots(events[5].event_id, 1, 8, 5), *(t.emit(2, 1 + n) for n in range(3))]
    closing = closing_of([*events, *tail])
    assert audited([*events, *tail], closing).verdict == "holds"
    found = audited([*events, *tail][:-cut], closing)
    assert (found.verdict, set(found.codes)) == ("violated", {"EVENT_LOST"})
    assert found.summary.lost == cut


def test_a_source_that_is_not_listed_leaves_the_answer_unknown():
    """How many events it told is not known, so that some may be missing."""
    found = audited(Teller().running(), Closing(is_all=True, sources=(), handles=(RUNNING,)))
    assert (found.verdict, set(found.codes)) == ("unknown", {"SOURCE_UNLISTED"})


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"completeness": "foo"}, "completeness"),
        ({"cache_abi_sha256": "0"}, "cache_abi_sha256"),
        ({"metric_families": (attrs.evolve(family("x"), kind="foo"),)}, "metric_families/0/kind"),
        ({"metric_families": (family(""),)}, "metric_families/0/name"),
        (
            {"metric_families": (attrs.evolve(family("x"), outcomes=("foo",)),)},
            "metric_families/0/outcomes/0",
        ),
        ({"conversion": attrs.evolve(HEADER.conversion, token_bytes=0)}, "conversion/token_bytes"),
    ],
)
def test_a_field_of_the_header_that_cannot_be_is_told_as_that(changes, field):
    """It is violated, whatever else the value might be taken for."""
    events = Teller().running()
    found = audited(events, closing_of(events), attrs.evolve(HEADER, **changes))
    assert found.verdict == "violated"
    assert found.findings[0].field == field


@pytest.mark.parametrize("changes", [{"token_bytes": 0}, {"used_slots": "some"}])
def test_nothing_is_compared_by_a_model_that_is_broken(changes):
    """One finding of the header, and none of the observations that would be held against it."""
    t = Teller()
    events = t.running()
    events += [t.slots(events[5].event_id, 1, 8, 5), t.bytes(events[5].event_id, 5 * 64)]
    header = attrs.evolve(HEADER, conversion=attrs.evolve(HEADER.conversion, **changes))
    found = audited(events, closing_of(events), header)
    assert (found.verdict, found.codes) == ("violated", {"CONVERSION": 1})
