"""JSON text for people and for diffs: stable, indented, short parts on one line.

Indented by two spaces, with a newline at the end. A part that fits within 100 columns stands on one
line, except that the document and the lists of its steps are always spread out.
"""

from __future__ import annotations

import json
from typing import Any

WIDTH = 100
_SPREAD = 2  # levels of the document that always take a line for each entry


def to_text(value: Any) -> str:
    """The JSON text of a document; keys keep their order."""
    return _write(value, 0, 0) + "\n"


def _write(value: Any, level: int, used: int) -> str:
    """The text of a value `level` deep, whose line has `used` columns taken before it."""
    flat = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if not value or not isinstance(value, dict | list):
        return flat
    is_short = len(flat) + used + 2 * level < WIDTH  # a comma may follow
    if is_short and (level > 0 if isinstance(value, dict) else level >= _SPREAD):
        return flat
    inner = "  " * (level + 1)
    if isinstance(value, dict):
        keys = {key: f"{json.dumps(key, ensure_ascii=False)}: " for key in value}
        parts = [
            f"{inner}{keys[key]}{_write(item, level + 1, len(keys[key]))}"
            for key, item in value.items()
        ]
        return "{\n" + ",\n".join(parts) + f"\n{'  ' * level}}}"
    parts = [f"{inner}{_write(item, level + 1, 0)}" for item in value]
    return "[\n" + ",\n".join(parts) + f"\n{'  ' * level}]"
