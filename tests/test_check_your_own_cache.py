"""The page "check your own cache in fifteen minutes" is run as it stands, in order."""

import fnmatch
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "check-your-own-cache.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\w+\.py)(, go on)?\n")
REAL = "## 8. "
"""The step from which on Transformers is needed."""


@attrs.frozen
class Step:
    """A file to be written, or a command with what it prints. more: the text goes on with a file."""

    name: str
    text: str
    is_command: bool = False
    more: bool = False


def steps(page):
    """What a reader of the page does, in order."""
    found = []
    for kind, body in BLOCK.findall(page):
        if kind == "python":
            name, more = FILE.match(body).groups()
            found.append(Step(name, body, more=bool(more)))
        elif kind == "console":
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, told = part.partition("\n")
                found.append(Step(command, told, is_command=True))
        else:
            raise ValueError(f"the page has a block of the kind {kind}: python or console expected")
    return found


def differs(expected, found):
    """The first line that was expected and did not come, or None.

    A line of three dots stands for any number of lines, and three dots within a line for any words.
    """
    lines, at, is_free = [line.rstrip() for line in found.splitlines()], 0, False
    for wanted in expected.splitlines():
        if wanted == "...":
            is_free = True
            continue
        pattern = re.sub(r"([\[*?])", r"[\1]", wanted.rstrip()).replace("...", "*")
        while is_free and at < len(lines) and not fnmatch.fnmatchcase(lines[at], pattern):
            at += 1
        if at >= len(lines) or not fnmatch.fnmatchcase(lines[at], pattern):
            return wanted
        at, is_free = at + 1, False
    return None if is_free or at >= len(lines) else f"(nothing, but there was {lines[at]!r})"


def follow(todo, folder):
    """Do what the page says, in a folder of its own."""
    environment = {**os.environ, "COLUMNS": "100", "PYTHONPATH": "", "OMP_NUM_THREADS": "1"}
    for step in todo:
        if not step.is_command:
            with (folder / step.name).open("a" if step.more else "w", encoding="utf-8") as file:
                file.write(("\n\n" if step.more else "") + step.text)
            continue
        program, *words = shlex.split(step.name)
        start = [] if program == "python" else ["-m", program]
        run = subprocess.run(
            [sys.executable, *start, *words],
            cwd=folder,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )
        told = run.stdout + run.stderr
        missing = differs(step.text, told)
        assert missing is None, f"$ {step.name}\nexpected: {missing}\nfound:\n{told[-6000:]}"


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
