"""Canonical JSON: equal content has equal bytes, and other content has others."""

import hashlib
import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvspec.spec.documents.canonical import canonical_json, digest, plain

TEXT = st.text(st.characters(exclude_categories=("Cs",)))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=9,
)


@attrs.frozen
class Pair:
    """A document of two fields."""

    b: int
    a: tuple[str, ...]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([11, 22, 33, 44], b"[11,22,33,44]"),
        ({"b": 1, "a": [True, None]}, b'{"a":[true,null],"b":1}'),
        (Pair(1, ("x",)), b'{"a":["x"],"b":1}'),
        ({"é": "\u2028\n/"}, '{"é":"\u2028\\n/"}'.encode()),
        # UTF-16 units: a character beyond the first plane comes before U+FB33.
        ({"\ufb33": 1, "\U0001f600": 2}, '{"\U0001f600":2,"\ufb33":1}'.encode()),
    ],
)
def test_bytes(value, expected):
    """Sorted keys, no blanks, UTF-8 without needless escapes."""
    assert canonical_json(value) == expected
    assert digest(value) == hashlib.sha256(expected).hexdigest()


@given(VALUES)
def test_it_is_json_of_the_same_value(value):
    """Reading the bytes gives the value back, so that unequal values have unequal bytes."""
    assert json.loads(canonical_json(value)) == value


@given(st.dictionaries(TEXT, st.integers(), min_size=2), st.randoms())
def test_the_order_of_keys_is_not_told(value, random):
    """Equal objects have one digest, in whatever order their keys came."""
    keys = list(value)
    random.shuffle(keys)
    assert digest({key: value[key] for key in keys}) == digest(value)


def test_documents_are_plain_data():
    """A tuple is a list, and a document an object with its fields in their order."""
    assert list(plain(Pair(1, ("x", "y"))).items()) == [("b", 1), ("a", ["x", "y"])]


@pytest.mark.parametrize(("value", "where"), [({"a": [1.0]}, r"\$\.a\[0\]"), ({1: 2}, "key 1")])
def test_what_has_no_canonical_form_is_refused(value, where):
    """A float, or a key that is no text, is told with its place."""
    with pytest.raises(TypeError, match=where):
        canonical_json(value)
