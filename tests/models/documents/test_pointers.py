"""JSON pointers look up, change and compare plain data."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvspec.models.documents import (
    at,
    below,
    changed_paths,
    containers,
    leaves,
    removed,
    replaced,
)

DATA = {"a": [1, {"b/c": None, "~": []}], "d": {}}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=9,
)


def test_look_up():
    """A slash and a tilde in a key are escaped."""
    assert at(DATA, "") is DATA
    assert at(DATA, "/a/0") == 1
    assert at(DATA, "/a/1/b~1c") is None
    assert at(DATA, below("/a/1", "~")) == []


@pytest.mark.parametrize(
    ("path", "told"), [("/x", "there are a, d"), ("/a/2", "a list of 2"), ("a", "begins with /")]
)
def test_what_is_not_there(path, told):
    """A failed look-up says what there is."""
    with pytest.raises(KeyError, match=told):
        at(DATA, path)


@given(VALUES, st.data())
def test_a_changed_leaf_is_the_only_difference(value, data):
    """Replacing one scalar changes exactly its place, in a copy."""
    before = copy.deepcopy(value)
    path, old = data.draw(st.sampled_from(list(leaves(value))))
    changed = replaced(value, path, "new" if old != "new" else "newer")
    assert changed_paths(value, changed) == [path]
    assert value == before


def test_a_boolean_is_no_number():
    """JSON tells true from 1, and so does the comparison."""
    assert changed_paths([True], [1]) == ["/0"]


def test_lists_of_unequal_length_differ_as_a_whole():
    """No item is taken for the one that was added."""
    assert changed_paths({"a": [1, 2]}, {"a": [1]}) == ["/a"]


def test_fields_and_items_can_be_removed():
    """A removed field is a difference at its place."""
    assert removed(DATA, "/a/0") == {"a": [{"b/c": None, "~": []}], "d": {}}
    assert changed_paths(DATA, removed(DATA, "/d")) == ["/d"]


def test_containers():
    """Every object and list that holds something, from the top."""
    assert [path for path, _ in containers(DATA)] == ["", "/a", "/a/1"]
