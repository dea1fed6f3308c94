"""Means to run the command line in this process and in one of its own."""

import json
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from kvspec.cli import main


@attrs.frozen
class Ran:
    """What a run of the command line gave."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        """Its answer, which must be all that it printed."""
        return json.loads(self.out)


@pytest.fixture
def kvspec(capsys):
    """Run the command line in this process: `kvspec("explore", "peer")`."""

    def run(*words: str) -> Ran:
        capsys.readouterr()
        code = main(list(words))
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def kvspec_process(tmp_path: Path):
    """Run the command line in a process of its own."""

    def run(*words: str, **more) -> Ran:
        command = [sys.executable, "-m", "kvspec", *words]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=tmp_path, timeout=300, **more
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def broken_trace(kvspec, tmp_path: Path) -> Path:
    """The trace of a violation, written by explore."""
    path = tmp_path / "broken.json"
    assert kvspec("explore", "broken_lock", "--trace-out", str(path)).code == 1
    return path
