"""Where in a JSON text a pointer leads: for messages that an editor can follow."""

from __future__ import annotations

import json
import re
from typing import Final

from kvspec.models.documents.pointers import steps_of

_DECODER: Final = json.JSONDecoder()
_BLANKS: Final = re.compile(r"[ \t\n\r]*")


def line_of(text: str, path: str) -> int:
    """The line, from 1, on which the value at a pointer begins, or the deepest one above it that exists.

    The text is valid JSON.
    """
    place = _skip(text, 0)
    for step in steps_of(path):
        inner = _inside(text, place, step)
        if inner is None:
            break
        place = inner
    return text.count("\n", 0, place) + 1


def _skip(text: str, place: int) -> int:
    """The first place from here on that is not blank."""
    found = _BLANKS.match(text, place)
    return found.end() if found else place


def _inside(text: str, place: int, step: str) -> int | None:
    """Where the field or item of the object or list at a place begins."""
    opening = text[place]
    if opening not in "{[":
        return None
    place, count = _skip(text, place + 1), 0
    while text[place] not in "}]":
        name = str(count)
        if opening == "{":
            name, place = _DECODER.raw_decode(text, place)
            place = _skip(text, _skip(text, place) + 1)
        if name == step:
            return place
        _, place = _DECODER.raw_decode(text, place)
        place, count = _skip(text, place), count + 1
        if text[place] == ",":
            place = _skip(text, place + 1)
    return None
