"""The documents name what is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TOP = {"spec", "models", "properties", "counterexamples", "src", "docs", "tests", ".venv"}
MADE = {".venv"}  # not in a fresh checkout
CODE = re.compile(r"`([^`\s]+)`")


def named_paths(text: str) -> set[str]:
    """What stands in backticks and looks like a path of the repository."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return {
        word
        for word in CODE.findall(prose)
        if "/" in word and word.split("/")[0] in TOP - MADE and re.fullmatch(r"[\w./-]+", word)
    }


def missing(text: str) -> list[str]:
    """The paths that a text names and that do not exist."""
    return sorted(path for path in named_paths(text) if not (ROOT / path).exists())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_in_a_document_exists(page: Path) -> None:
    """A document does not describe a file or a folder that is not there."""
    assert missing(page.read_text(encoding="utf-8")) == []


def test_a_path_that_is_not_there_is_noticed() -> None:
    """The check finds paths in tables and in prose, and lets other words be."""
    text = "| `models/nothing` | `spec/` |\n\nsee `docs/nowhere.md`, `core/TINY`, `kvspec`\n"
    assert missing(text) == ["docs/nowhere.md", "models/nothing"]
