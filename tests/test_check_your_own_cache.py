"""The page "check your own cache in fifteen minutes" is run as it stands, in order."""

from pathlib import Path

import pytest
from page_steps import differs, follow, steps

PAGE = Path(__file__).resolve().parent.parent / "docs" / "check-your-own-cache.md"
REAL = "## 8. "
"""The step from which on Transformers is needed."""


def parts():
    """The steps that need kvspec alone, and those with Transformers."""
    plain, mark, real = PAGE.read_text(encoding="utf-8").partition(REAL)
    assert mark
    return steps(plain), steps(real)


@pytest.mark.slow
def test_the_page_does_what_it_says(tmp_path):
    """Each file and each command up to the step with Transformers, in order (F4)."""
    plain, _ = parts()
    follow(plain, tmp_path)


@pytest.mark.slow
def test_the_step_with_transformers_does_what_it_says(tmp_path):
    """The same adapter on a real cache, the worked adapter, and the wrapper (F4)."""
    pytest.importorskip(
        "transformers", reason="an extra: make adapters runs this, with two releases"
    )
    plain, real = parts()
    follow([step for step in plain if not step.is_command], tmp_path)
    follow(real, tmp_path)


def test_what_the_page_shows_is_compared():
    """An output that lacks a line, has one more, or another in its place, is told."""
    assert differs("a\n...\nd: ...\n", "a\nb\nc\nd: 1\n") is None
    assert differs("a\nb [0]\n", "a\nb [0]\n") is None
    assert differs("a\n...\nd\n", "a\nb\n") == "d"
    assert differs("a\n", "a\nb\n") == "(nothing, but there was 'b')"
    assert differs("a\nc\n", "a\nb\nc\n") == "c"


def test_the_page_has_files_and_commands():
    """The blocks are found: at least four files, and a command in every step from the second on."""
    found = steps(PAGE.read_text(encoding="utf-8"))
    files = {step.name for step in found if not step.is_command}
    assert {
        "my_cache.py",
        "my_adapter.py",
        "my_wrapper.py",
        "my_paged.py",
        "real_adapter.py",
    } <= files
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")[2:]
    assert len(sections) == 7
    assert all("\n$ " in section for section in sections)
