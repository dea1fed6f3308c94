"""Byte counts for a reader: exact, and in the largest binary unit that fits."""

from __future__ import annotations

from typing import Final

UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")


def bytes_text(count: int) -> str:
    """`131,072 B (128 KiB)`; from 1,024 on, a part of a unit is rounded to two digits."""
    exact = f"{count:,} B"
    scale = 0
    while scale < len(UNITS) and abs(count) >= 1024 ** (scale + 1):
        scale += 1
    if not scale:
        return exact
    whole = 1024**scale
    short = f"{count // whole:,}" if count % whole == 0 else f"{count / whole:,.2f}"
    return f"{exact} ({short} {UNITS[scale - 1]})"
