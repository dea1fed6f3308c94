"""A pointer into a JSON text leads to the line on which its value begins."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvspec.models.documents import leaves, line_of

TEXT = """{
  "a": [1, {
    "b/c": "]}"
  }],
  "d~": {},

  "e": [[],
    null]
}
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", 1),
        ("/a", 2),
        ("/a/0", 2),
        ("/a/1", 2),
        ("/a/1/b~1c", 3),
        ("/d~0", 5),
        ("/e/0", 7),
        ("/e/1", 8),
        ("/a/1/none", 2),
        ("/a/7", 2),
        ("/none", 1),
        ("/d~0/none/deeper", 5),
    ],
)
def test_lines(path, line):
    """Each value by its own line, one that is missing by the deepest line above it."""
    assert line_of(TEXT, path) == line


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=9,
)


@given(VALUES)
def test_any_leaf_is_found_on_its_line(value):
    """In an indented text the line of a leaf ends with that leaf."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    lines = text.split("\n")
    for path, leaf in leaves(value):
        told = json.dumps(leaf, ensure_ascii=False)
        assert lines[line_of(text, path) - 1].rstrip(",").endswith(told)
