"""Pages whose blocks are run as they stand: files to be written, and commands with what they print."""

import fnmatch
import os
import re
import shlex
import subprocess
import sys

import attrs

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\w+\.py)(, go on)?\n")


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
