"""JSON read strictly: what is no JSON, and what no file could hold, is refused with its reason."""

import pytest

from kvspec.models.documents.strict import JsonError, strict_loads

HALVES = {
    "a high one": r'["\ud800"]',
    "a low one": r'{"a": "\uDFFF"}',
    "in a key": r'{"\ud83d": 1}',
    "the wrong way round": r'"\ude00\ud83d"',
    "as it is": '["\ud800"]',
}
WHOLE = {
    "a pair": (r'"\ud83d\ude00"', "\U0001f600"),
    "a backslash before it": (r'"\\ud800"', "\\ud800"),
    "none": ('"é"', "é"),
}


@pytest.mark.parametrize("case", HALVES)
def test_half_of_a_surrogate_pair_is_refused(case: str) -> None:
    """Text that cannot be written again is no text, in a value or a key."""
    with pytest.raises(JsonError, match="half of a surrogate pair") as told:
        strict_loads(HALVES[case])
    assert told.value.reason == "surrogate"


@pytest.mark.parametrize("case", WHOLE)
def test_whole_characters_are_read(case: str) -> None:
    """A pair of escapes is one character; a backslash that is escaped begins nothing."""
    text, value = WHOLE[case]
    assert strict_loads(text) == value
