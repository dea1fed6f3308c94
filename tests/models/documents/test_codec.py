"""Documents are read strictly: what is not of the format is told with its place."""

import json
from typing import Annotated, Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvspec.models.documents import (
    READING,
    DocumentError,
    blank,
    convert,
    decode,
    line_of,
    read,
    replaced,
    schema,
    write,
)
from kvspec.spec.documents.contracts import DocumentKind


@attrs.frozen
class Inner:
    """A part."""

    name: str
    size: int | None


@attrs.frozen
class Outer:
    """A toy document."""

    flag: bool
    parts: tuple[Inner, ...]
    how: Literal["up", "down"]
    ratio: Annotated[str | None, "a ratio, such as 28/3, or null"]
    counts: dict[str, int]


KIND = DocumentKind("toy", Outer, "For tests.", version=3)
GOOD = {
    "document": "toy",
    "version": 3,
    "flag": True,
    "parts": [{"name": "a", "size": 1}, {"name": "b", "size": None}],
    "how": "up",
    "ratio": "1/2",
    "counts": {"a": 1},
}


def refused(text):
    """The error with which a text is refused."""
    with pytest.raises(DocumentError) as refusal:
        read(KIND, text, "toy.json")
    assert refusal.value.code in READING
    return refusal.value


def test_reading():
    """JSON becomes the attrs document."""
    parts = (Inner("a", 1), Inner("b", None))
    expected = Outer(True, parts, "up", "1/2", {"a": 1})
    assert read(KIND, json.dumps(GOOD), "toy.json") == expected


PARTS = st.builds(Inner, st.text(st.characters(codec="utf-8")), st.none() | st.integers(-99, 99))


@given(st.builds(Outer, st.booleans(), st.lists(PARTS).map(tuple)))
def test_what_is_written_is_read_again(document):
    """Writing loses nothing."""
    text = write(KIND, document)
    assert text.endswith("}\n")
    assert read(KIND, text, "toy.json") == document


@pytest.mark.parametrize(
    ("path", "value", "code", "where"),
    [
        ("/document", "tov", "WRONG_KIND", "/document"),
        ("/version", 2, "WRONG_VERSION", "/version"),
        ("/version", True, "WRONG_VERSION", "/version"),
        ("/flag", 1, "WRONG_TYPE", "/flag"),
        ("/parts/1/size", "1", "WRONG_TYPE", "/parts/1/size"),
        ("/parts/0/size", 1.0, "WRONG_TYPE", "/parts/0/size"),
        ("/parts/0/size", True, "WRONG_TYPE", "/parts/0/size"),
        ("/parts/0/name", None, "WRONG_TYPE", "/parts/0/name"),
        ("/parts", {}, "WRONG_TYPE", "/parts"),
        ("/parts/0", {"name": "a"}, "MISSING_FIELD", "/parts/0"),
        ("/parts/1/colour", "red", "UNKNOWN_FIELD", "/parts/1/colour"),
        ("/colour", "red", "UNKNOWN_FIELD", "/colour"),
        ("", [], "WRONG_TYPE", ""),
    ],
)
def test_what_is_not_of_the_format(path, value, code, where):
    """Each fault has its code and the pointer to its place."""
    error = refused(json.dumps(replaced(GOOD, path, value)))
    assert error.code == code
    assert error.where == (f"toy.json at {where} (line 1)" if where else "toy.json")


@pytest.mark.parametrize(
    ("path", "value", "found", "expected"),
    [
        ("/flag", 1, "1", "true or false"),
        ("/how", "sideways", '"sideways"', "one of up, down"),
        ("/ratio", 9, "9", "a ratio, such as 28/3, or null"),
        ("/parts/1/size", "1", '"1"', "a whole number, or null"),
        ("/parts", 3, "3", "a list, each item an object with the fields name, size"),
        ("/counts/b", "x", '"x"', "a whole number"),
        ("/parts/0", {"name": "a"}, "no field size; there are name", "the field size: a whole num"),
        ("/parts/0/sise", 2, "/parts/0/sise", "one of name, size"),
    ],
)
def test_what_does_not_fit_says_what_would(path, value, found, expected):
    """What is allowed at the place is told in words: literals, forms, fields, and the line."""
    text = json.dumps(replaced(GOOD, path, value), indent=2)
    error = refused(text)
    assert error.found == found
    assert error.expected.startswith(expected)
    assert "kvspec check --schema toy" in error.advice
    assert error.where == f"toy.json at {error.path} (line {line_of(text, error.path)})"


def test_a_field_that_is_nearly_right():
    """Whoever mistypes a field is told the one that was meant."""
    assert "did you mean size?" in refused(json.dumps(replaced(GOOD, "/parts/0/sise", 2))).advice


def test_a_blank_document_can_be_read():
    """What says nothing is of its type all the same."""
    assert convert(KIND, {"document": "toy", "version": 3, **blank(Outer)}, "blank").parts == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "nothing"),
        ('{"a": 1', "invalid JSON"),
        ('{"a": {"b": 1, "c": 2, "b": 1}}', "the key b twice"),
        ("[NaN]", "NaN"),
        ('["\\ud800"]', "surrogate"),
        ("[" * 100_000, "recursion"),
        ("1" * 5_000, "digits"),
    ],
)
def test_what_is_no_json(text, found):
    """Text that is not one JSON document, or an ambiguous one, is NOT_JSON."""
    with pytest.raises(DocumentError, match="NOT_JSON") as refusal:
        decode(text, "toy.json")
    assert found in refusal.value.found


def test_the_schema_says_what_reading_asks():
    """Kind, version and all fields are required, others refused, at every depth."""
    made = schema(KIND)
    outer, inner = made["$defs"]["Outer"], made["$defs"]["Inner"]
    assert outer["properties"]["document"] == {"const": "toy"}
    assert outer["properties"]["version"] == {"const": 3}
    assert outer["required"] == list(GOOD)
    assert inner["required"] == ["name", "size"]
    assert outer["additionalProperties"] is inner["additionalProperties"] is False
