"""The audit log: a header, an event a line, and a closing."""

import io

import attrs
import pytest

from kvspec.models.documents import DocumentError
from kvspec.models.documents.lines import read_events, read_header
from kvspec.models.telemetry.audit_log import AuditLog
from kvspec.models.telemetry.telemetry import Telemetry
from kvspec.spec.documents.closing import Closing, SourceEnd
from kvspec.spec.documents.log import HandleEnd

END = HandleEnd(
    request_id="r", handle_generation=0, end_generation=0,
    phase="DECODE_READY", snapshot=0, committed_tokens=0,
)  # fmt: skip
TOLD = SourceEnd(source_instance="engine.1.cache", next_sequence=1)
WHOSE = {"trace_id": "t", "request_id": "r", "handle_generation": 0, "caused_by_event_id": None}
ALLOCATE = {"result_snapshot": 0, "committed_tokens": 0, "outcome": "success"}


def written(*closings: Closing, begins: int = 1) -> tuple[list[bytes], Telemetry]:
    """The lines of a log of one event, and who wrote them."""
    stream = io.StringIO()
    telemetry = Telemetry([AuditLog(stream)], clock=lambda: 1, wall=lambda: 2)
    for _ in range(begins):
        telemetry.begin("a" * 64, 128)
    telemetry.tell("request_allocate", **WHOSE, **ALLOCATE)
    for closing in closings:
        telemetry.end(closing)
    telemetry.close()
    return stream.getvalue().encode().splitlines(), telemetry


def test_a_log_begins_with_its_header_and_is_read_again() -> None:
    """Header, events and closing come back as they were told."""
    closing = Closing(is_all=True, sources=(), handles=(END,))
    lines, _ = written(closing)
    header = read_header(lines[0], "log")
    assert (header.cache_abi_sha256, header.conversion.token_bytes) == ("a" * 64, 128)
    assert header.completeness == "complete"
    found: list[Closing] = []
    ((line, event),) = read_events(lines[1:], "log", closing=found)
    assert (line, event.event_type, event.event_id) == (2, "request_allocate", "engine.1.cache:0")
    assert found == [attrs.evolve(closing, sources=(TOLD,))]


def test_a_log_without_closing_is_read_as_well() -> None:
    """The closing is no event, and need not be there."""
    lines, _ = written()
    found: list[Closing] = []
    assert len(list(read_events(lines[1:], "log", closing=found))) == 1
    assert found == []


def test_nothing_follows_the_closing() -> None:
    """An event after it is refused with its line, and so is a second closing."""
    closing = Closing(is_all=True, sources=(), handles=())
    lines, _ = written(closing)
    with pytest.raises(DocumentError, match="line 4, column 1") as late:
        list(read_events([*lines[1:], lines[1]], "log"))
    assert late.value.code == "AFTER_CLOSING"
    with pytest.raises(DocumentError, match="line 4"):
        list(read_events([*lines[1:], lines[2]], "log"))


def test_a_closing_of_another_form_is_refused() -> None:
    """A field that is not its own is named."""
    lines, _ = written(Closing(is_all=True, sources=(), handles=()))
    spoiled = lines[2].replace(b'"is_all"', b'"is_some"')
    with pytest.raises(DocumentError) as refused:
        list(read_events([lines[1], spoiled], "log"))
    assert refused.value.code in {"UNKNOWN_FIELD", "MISSING_FIELD"}


def test_a_cache_that_begins_again_is_a_new_source_in_the_same_log() -> None:
    """The header is written once; the sources of the second run count from 0 under names of their own."""
    lines, telemetry = written(begins=2)
    assert len(lines) == 2
    assert b"engine.2.cache:0" in lines[1]
    assert not telemetry.channel.failures


def test_another_header_and_an_event_without_one_are_failures_of_the_exporter() -> None:
    """One log has one header, before its first event."""
    log = AuditLog(io.StringIO())
    _, telemetry = written()
    header = read_header(written()[0][0], "log")
    with pytest.raises(ValueError, match="expected the header"):
        log.export(Closing(is_all=True, sources=(), handles=()))
    log.export(header)
    log.export(header)
    with pytest.raises(ValueError, match="second header"):
        log.export(attrs.evolve(header, cache_abi_sha256="b" * 64))
    assert not telemetry.channel.failures


def test_a_closing_tells_of_the_sources_of_every_run() -> None:
    """Each has the number of its next event; those that told nothing are left out."""
    stream = io.StringIO()
    telemetry = Telemetry([AuditLog(stream)])
    for told in (2, 1):
        telemetry.begin("a" * 64, 128)
        for _ in range(told):
            telemetry.tell("request_allocate", **WHOSE, **ALLOCATE)
    telemetry.end(Closing(is_all=False, sources=(), handles=()))
    telemetry.close()
    found: list[Closing] = []
    assert (
        len(list(read_events(stream.getvalue().encode().splitlines()[1:], "log", closing=found)))
        == 3
    )
    (closing,) = found
    second = attrs.evolve(TOLD, source_instance="engine.2.cache")
    assert closing.sources == (attrs.evolve(TOLD, next_sequence=2), second)


def test_a_closing_without_its_sources_is_refused() -> None:
    """One of an older version cannot show a lost tail: it is an error of input, with its line."""
    lines, _ = written(Closing(is_all=True, sources=(), handles=()))
    older = b'{"closing": {"is_all": true, "handles": []}}'
    with pytest.raises(DocumentError, match="sources") as raised:
        list(read_events([*lines[1:-1], older], "log"))
    assert "line 3" in str(raised.value)
    assert "older version" in str(raised.value)


@pytest.mark.parametrize(
    ("end", "is_open", "events"), [(b"", True, 1), (b"", False, 0), (b"\n", True, 0)]
)
def test_a_last_line_that_is_being_written_is_left_for_later(
    end: bytes, is_open: bool, events: int
) -> None:
    """Of an open log alone, and only where the line has no end yet."""
    lines = [written()[0][1] + b"\n", b'{"event_id": "engine' + end]
    if events:
        assert len(list(read_events(lines, "log", is_open=is_open))) == events
        return
    with pytest.raises(DocumentError):
        list(read_events(lines, "log", is_open=is_open))
