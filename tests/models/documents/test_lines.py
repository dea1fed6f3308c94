"""Logs of lines: what is written is read back, and what cannot be read is told with line and column."""

import json
from itertools import islice

import attrs
import pytest

from kvspec.models.documents import DocumentError
from kvspec.models.documents.lines import (
    EventLine,
    read_events,
    read_header,
    write_event,
    write_header,
)
from kvspec.properties.audit.synthetic import HEADER, long_log
from kvspec.spec.documents.event import Event

EVENTS = list(islice(long_log(), 40))
LINES = [write_event(event).encode() for event in EVENTS]


def plain_event(line):
    """An event line as an `Event`."""
    return Event(**{field.name: getattr(line, field.name) for field in attrs.fields(Event)})


def test_a_log_is_read_back_as_it_was_written():
    """Header and events come back, with their lines; nulls need not be written."""
    assert read_header(write_header(HEADER).encode(), "a log") == HEADER
    found = list(read_events(LINES, "a log"))
    assert [plain_event(event) for _, event in found] == EVENTS
    assert [line for line, _ in found] == list(range(2, 42))
    assert b"null" not in b"".join(LINES)


def test_a_line_has_the_fields_of_an_event():
    """What is read from a line is the table's event, with no field more or less."""
    assert set(EventLine.__struct_fields__) == {field.name for field in attrs.fields(Event)}


def test_blank_lines_are_passed_over():
    """They count as lines and say nothing."""
    found = list(read_events([b"\n", LINES[0], b"  \r\n", LINES[1]], "a log"))
    assert [line for line, _ in found] == [3, 5]


BAD = LINES[3].rstrip(b"\n")
BEYOND = '{"event_id": "üß", "trace_id" 2}'


@pytest.mark.parametrize(
    ("raw", "code", "column"),
    [
        (BAD[:30], "NOT_JSON", 31),
        (BAD.replace(b": ", b"; ", 1), "NOT_JSON", BAD.index(b": ") + 1),
        (b"[1]", "WRONG_TYPE", 1),
        (BAD.replace(b'"local_sequence": ', b'"local_sequence": "x", "y": '), "WRONG_TYPE", None),
        (b'{"event_id": "e"}', "MISSING_FIELD", 1),
        (BAD[:-1] + b', "colour": 1}', "UNKNOWN_FIELD", len(BAD) + 2),
        (BEYOND.encode(), "NOT_JSON", BEYOND.index("2") + 1),
        (b"\xff\xfe", "NOT_JSON", 1),
    ],
    ids=["cut", "semicolon", "list", "type", "missing", "unknown", "beyond ascii", "not utf-8"],
)
def test_what_cannot_be_read_is_told_with_its_place(raw, code, column):
    """The code, the line, and the column in characters."""
    with pytest.raises(DocumentError) as told:
        list(read_events([LINES[0], raw], "a log"))
    assert told.value.code == code
    expected = BAD.index(b'"local_sequence"') + 1 if column is None else column
    assert told.value.where == f"a log, line 3, column {expected}"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"document": "manifest"}, "WRONG_KIND"),
        ({"version": 2}, "WRONG_VERSION"),
        ({"header": {}}, "MISSING_FIELD"),
        ({"events": []}, "UNKNOWN_FIELD"),
    ],
)
def test_another_header_is_refused(change, code):
    """A log begins with a header of its kind and version."""
    made = {**json.loads(write_header(HEADER)), **change}
    with pytest.raises(DocumentError) as told:
        read_header(json.dumps(made).encode(), "a log")
    assert told.value.code == code
    assert "line 1, column " in told.value.where
