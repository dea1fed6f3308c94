"""Canonical JSON, so that equal content has equal bytes and thus one SHA-256 digest.

The form is that of RFC 8785 for what documents hold: objects with sorted keys, no blanks, UTF-8 without
needless escapes. Numbers are integers; a float has no canonical form here and is refused.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import attrs


def plain(value: Any) -> Any:
    """A document, or a part of one, as dicts, lists and scalars: what its JSON text says."""
    if attrs.has(type(value)):
        fields = attrs.fields(type(value))
        return {field.name: plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    return value


def canonical_json(value: Any) -> bytes:
    """The canonical JSON of a document, a part of one, or plain data."""
    return json.dumps(
        _sorted(plain(value), "$"), separators=(",", ":"), ensure_ascii=False
    ).encode()


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON: 64 lower-case hexadecimal digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def _sorted(value: Any, where: str) -> Any:
    """The value with keys in the order of RFC 8785, which is that of their UTF-16 code units."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{where} has the key {key!r}: keys of an object are text")
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return {key: _sorted(value[key], f"{where}.{key}") for key in keys}
    if isinstance(value, list):
        return [_sorted(inner, f"{where}[{place}]") for place, inner in enumerate(value)]
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(
        f"{where} is {value!r} of Python type {type(value).__name__}, which has no canonical JSON: "
        "use integers, text, booleans, null, lists and objects"
    )
