"""Documents are read strictly: what is not of the format is told with its place."""

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvspec.models.documents import READING, DocumentError, decode, read, replaced, schema, write
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


KIND = DocumentKind("toy", Outer, "For tests.", version=3)
GOOD = {
    "document": "toy",
    "version": 3,
    "flag": True,
    "parts": [{"name": "a", "size": 1}, {"name": "b", "size": None}],
}


def refused(text):
    """The error with which a text is refused."""
    with pytest.raises(DocumentError) as refusal:
        read(KIND, text, "toy.json")
    assert refusal.value.code in READING
    return refusal.value


def test_reading():
    """JSON becomes the attrs document."""
    expected = Outer(True, (Inner("a", 1), Inner("b", None)))
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
    assert error.where == (f"toy.json at {where}" if where else "toy.json")


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
    assert outer["required"] == ["document", "version", "flag", "parts"]
    assert inner["required"] == ["name", "size"]
    assert outer["additionalProperties"] is inner["additionalProperties"] is False
