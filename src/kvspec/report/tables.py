"""Tables as plain text and as Markdown, from rows of text."""

from __future__ import annotations

from collections.abc import Sequence

Rows = Sequence[Sequence[str]]


def text_table(head: Sequence[str], rows: Rows, *, right: Sequence[int] = ()) -> str:
    """Columns side by side, two spaces apart; the columns in `right` end together."""
    widths = [max(len(row[n]) for row in (head, *rows)) for n in range(len(head))]

    def line(row: Sequence[str]) -> str:
        cells = [
            text.rjust(width) if n in right else text.ljust(width)
            for n, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join(line(row) for row in (head, *rows))


def markdown_table(head: Sequence[str], rows: Rows, *, right: Sequence[int] = ()) -> str:
    """The same as a Markdown table."""
    rule = ["---:" if n in right else "---" for n in range(len(head))]
    lines = [head, rule, *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in lines
    )


def indent(text: str, by: str = "  ") -> str:
    """The text with every line moved to the right."""
    return "\n".join(f"{by}{line}" if line else line for line in text.splitlines())
