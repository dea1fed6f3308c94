"""JSON read strictly: no key twice in an object, no number that JSON lacks, no half of a character.

Whoever reads says what is told of a fault, since a trace, a document and a log expect different things.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal

Reason = Literal["twice", "constant", "syntax", "depth", "value", "surrogate"]

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""How an escape begins that writes half of a surrogate pair, with its other half beside it or not."""


class JsonError(ValueError):
    """What is wrong with a text. place: within it, to be put behind its name, or nothing."""

    def __init__(self, reason: Reason, found: str, place: str = "") -> None:
        self.reason = reason
        self.found = found
        self.place = place
        super().__init__(found)


def strict_loads(text: str) -> Any:
    """The JSON value of a text; a JsonError if it has none."""
    try:
        value = json.loads(text, object_pairs_hook=_pairs, parse_constant=_constant)
        (json.dumps(value, ensure_ascii=False) if _HALF.search(text) else text).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start : error.start + 1]
        raise JsonError("surrogate", f"half of a surrogate pair, {half!a}") from error
    except json.JSONDecodeError as error:
        place = f", line {error.lineno}, column {error.colno}"
        raise JsonError("syntax", f"invalid JSON ({error.msg})", place) from error
    except JsonError:
        raise
    except RecursionError as error:
        raise JsonError("depth", str(error) or type(error).__name__) from error
    except ValueError as error:
        raise JsonError("value", str(error)) from error
    return value


def _pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(found)
    if len(result) < len(found):
        names = [key for key, _ in found]
        twice = sorted({key for key in names if names.count(key) > 1})
        raise JsonError("twice", f"the key {', '.join(twice)} twice")
    return result


def _constant(name: str) -> Any:
    raise JsonError("constant", name)
