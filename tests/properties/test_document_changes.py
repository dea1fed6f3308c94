"""Changes of one place: all of them are made, and each is one."""

from hypothesis import find, given

from kvspec.models.documents import changed_paths
from kvspec.properties.document_changes import changes, every_change

DATA = {"n": 3, "t": "ab", "none": None, "l": [1, 1, 2], "o": {"e": []}}


def made(what):
    """What the systematic changes of this sort give."""
    return [change.data for change in every_change(DATA) if change.what == what]


def test_every_field_and_item_is_removed():
    """Five fields, an inner field, and three items."""
    assert len(made("removed")) == 9
    assert {**DATA, "l": [1, 2]} in made("removed")
    assert {**DATA, "o": {}} in made("removed")


def test_items_are_doubled_and_swapped():
    """Two equal neighbours that are swapped are no change."""
    assert [data["l"] for data in made("doubled")] == [[1, 1, 1, 2], [1, 1, 1, 2], [1, 1, 2, 2]]
    assert [data["l"] for data in made("swapped")] == [[1, 2, 1]]


def test_every_scalar_gets_other_values():
    """Numbers near it, text near it, null, a value of elsewhere, an item in an empty list."""
    found = made("value")
    for expected in (
        {**DATA, "n": 4},
        {**DATA, "n": 0},
        {**DATA, "n": None},
        {**DATA, "n": 2},
        {**DATA, "t": "a0"},
        {**DATA, "none": 0},
        {**DATA, "o": {"e": [0]}},
    ):
        assert expected in found


@given(changes(DATA))
def test_a_drawn_change_is_a_change(change):
    """Something differs, and only within the place that is told, or in the list that it is an item of."""
    found = changed_paths(DATA, change.data)
    assert found
    place = change.path.rsplit("/", 1)[0] if change.what == "removed" else change.path
    assert all(path.startswith(place) for path in found)


def test_distant_items_can_be_swapped():
    """Not only neighbours are swapped when changes are drawn."""
    found = find(changes(DATA), lambda change: change.data.get("l") == [2, 1, 1])
    assert found.what == "swapped"


def test_a_list_of_one_can_be_drawn_from():
    """A document without two items anywhere has changes, too."""
    assert find(changes({"a": [1]}), lambda change: change.what == "removed").data in (
        {},
        {"a": []},
    )
