"""Tables as text and Markdown."""

from kvspec.report.tables import indent, markdown_table, text_table


def test_columns_line_up() -> None:
    """Text to the left, numbers to the right, no blanks at the end of a line."""
    table = text_table(("what", "n"), [("a", "1"), ("longer", "20")], right=(1,))
    assert table.splitlines() == ["what     n", "a        1", "longer  20"]


def test_a_bar_in_a_cell_does_not_break_markdown() -> None:
    """A bar is written so that it does not end its cell."""
    assert markdown_table(("a",), [("x | y",)]).splitlines()[-1] == "| x &#124; y |"


def test_empty_lines_stay_empty() -> None:
    """Moving text to the right leaves no blanks behind."""
    assert indent("a\n\nb") == "  a\n\n  b"
