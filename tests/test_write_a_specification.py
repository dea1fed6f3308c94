"""The page "write a specification of your own" is run as it stands, in order."""

from pathlib import Path

import pytest
from page_steps import follow, steps

PAGE = Path(__file__).resolve().parent.parent / "docs" / "write-a-specification.md"


@pytest.mark.slow
def test_the_page_does_what_it_says(tmp_path):
    """Each file and each command in order: what is printed is what the page shows."""
    follow(steps(PAGE.read_text(encoding="utf-8")), tmp_path)


def test_the_page_has_files_and_commands():
    """The blocks are found: two files, one of which goes on, and a command in every part."""
    text = PAGE.read_text(encoding="utf-8")
    found = steps(text)
    files = [(step.name, step.more) for step in found if not step.is_command]
    assert files == [("leases.py", False), ("pinned.py", False), ("pinned.py", True)]
    assert all("\n$ kvspec " in part for part in text.split("\n## ")[1:])
