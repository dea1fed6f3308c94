"""Byte counts are told exactly and in a unit."""

import pytest

from kvspec.report.units import bytes_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1,024 B (1 KiB)"),
        (1536, "1,536 B (1.50 KiB)"),
        (131_072, "131,072 B (128 KiB)"),
        (2_147_483_648, "2,147,483,648 B (2 GiB)"),
        (1024**6, "1,152,921,504,606,846,976 B (1,024 PiB)"),
    ],
)
def test_units(count, text):
    """The largest unit of which there is at least one, and bytes below the smallest."""
    assert bytes_text(count) == text
