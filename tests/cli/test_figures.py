"""Every figure of the text is what its command prints (B1-B6, B9)."""

import shlex
from pathlib import Path

import pytest

from kvspec.report.figures import figures

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = sorted({one.command for one in figures()})


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_its_figures(command, kvspec, monkeypatch):
    """The command of the table holds, and prints each figure that the table says it makes."""
    monkeypatch.chdir(ROOT)
    ran = kvspec(*shlex.split(command))
    assert ran.code == 0, ran.err
    words = ran.out.replace("(", " ").replace(")", " ").replace("B\n", " B ").split()
    for one in figures():
        if one.command == command:
            parts = one.value.replace("(", " ").replace(")", " ").split()
            assert all(part.strip(",[]") in [w.strip(",[]") for w in words] for part in parts), one
