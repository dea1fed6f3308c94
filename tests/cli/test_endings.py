"""Errors while a command runs end with 2 or 3, never with 1: that code is for what is violated."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvspec.cli.verdicts import BROKEN_PIPE

UNWRITABLE = [
    ("explore", "core", "TINY", "--junit", "/proc/x.xml"),
    ("explore", "core", "TINY", "--sarif", "/proc/x.sarif"),
    ("explore", "broken_lock", "--trace-out", "/proc/t.json"),
    ("export", "core", "TINY", "--to", "promela", "--out", "/proc/x"),
    ("export", "core", "TINY", "--to", "tla", "--out", "/proc/x"),
    ("export", "peer", "--to", "smtlib", "--out", "/proc/x"),
    ("prove", "peer", "--smtlib", "/proc/x"),
    ("mutants", "peer", "--traces", "/proc/x"),
]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that takes no file")
@pytest.mark.parametrize("words", UNWRITABLE, ids=lambda words: " ".join(words[::3]))
def test_an_output_that_cannot_be_written_is_told_before_the_work(
    kvspec, monkeypatch, words
) -> None:
    """The file is tried out first, and the error has its four parts."""
    for name in ("explore.run", "prove.run", "mutants.run"):
        monkeypatch.setattr(f"kvspec.cli.{name}", lambda *_: pytest.fail("the work began"))
    ran = kvspec(*words)
    assert ran.code == 2
    assert "/proc" in ran.err
    assert all(f"  {part:<8}  " in ran.err for part in ("found", "expected", "where", "do"))


def test_trying_out_a_file_leaves_no_trace(kvspec, tmp_path) -> None:
    """A file that exists keeps its content; nothing else appears beside it."""
    kept = tmp_path / "kept.json"
    kept.write_text("old")
    assert kvspec("explore", "peer", "1,1,1,2,2", "--trace-out", str(kept)).code == 0
    assert kept.read_text() == "old"
    assert list(tmp_path.iterdir()) == [kept]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("more", [(), ("--json",)], ids=["text", "json"])
def test_a_full_disk_behind_stdout_is_no_verdict(more) -> None:
    """What cannot be printed ends with 2 and one message."""
    command = [sys.executable, "-m", "kvspec", "explore", "peer", "1,1,1,2,2", *more]
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: the output cannot be read or written")
    assert "Traceback" not in ran.stderr
    assert "Exception ignored" not in ran.stderr


@pytest.mark.parametrize("words", ["kvspec --help", "kvspec explore --help"])
def test_a_reader_of_the_help_who_goes_is_no_violation(words: str) -> None:
    """Help that is longer than a closed pipe can take ends like every other output."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        ran = subprocess.run(
            [sys.executable, "-m", *words.split()], check=False, stdout=gone, stderr=subprocess.PIPE
        )
    assert ran.returncode == BROKEN_PIPE
    assert b"Traceback" not in ran.stderr


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_an_output_that_is_closed_from_the_start_changes_no_verdict(closed: str) -> None:
    """What would be printed goes nowhere, and the exit code is that of the verdict."""
    for system, code in (("peer 1,1,1,2,2", 0), ("broken_lock", 1), ("nothing", 2)):
        line = f"{sys.executable} -m kvspec explore {system} --json {closed}"
        ran = subprocess.run(["/bin/sh", "-c", line], check=False, stderr=subprocess.PIPE)
        assert (ran.returncode, b"Traceback" in ran.stderr) == (code, False), system


def test_a_profile_of_the_environment_that_is_not_there_is_an_error_of_usage(
    kvspec_process,
) -> None:
    """HYPOTHESIS_PROFILE is looked up as --profile is."""
    pytest.importorskip("torch")
    ran = kvspec_process("test", env={**os.environ, "HYPOTHESIS_PROFILE": "foo"})
    assert ran.code == 2
    assert "there is no profile 'foo'" in ran.err
    assert "HYPOTHESIS_PROFILE" in ran.err


def test_a_file_that_fails_later_is_an_error_of_usage(kvspec, monkeypatch) -> None:
    """An error of the operating system names the file."""

    def fails(*_):
        raise OSError(28, "No space left on device", "some.file")

    monkeypatch.setattr("kvspec.cli.explore.run", fails)
    ran = kvspec("explore", "peer", "1,1,1,2,2")
    assert ran.code == 2
    assert "some.file" in ran.err
    assert "No space left" in ran.err


def test_any_other_error_is_internal(kvspec, monkeypatch) -> None:
    """It ends with 3, in one line; the traceback is shown to who asks for it."""

    def fails(*_):
        raise ZeroDivisionError("of\nours")

    monkeypatch.setattr("kvspec.cli.explore.run", fails)
    monkeypatch.delenv("KVSPEC_TRACEBACK", raising=False)
    words = ("explore", "peer", "1,1,1,2,2")
    ran = kvspec(*words)
    assert ran.code == 3
    assert ran.err.startswith("internal error: ZeroDivisionError: of ours (")
    assert "test_endings, line " in ran.err
    assert ran.err.count("\n") == 1
    told = kvspec(*words, "--json")
    assert told.code == 3
    assert told.json["error"]["message"].startswith("internal error: ")
    monkeypatch.setenv("KVSPEC_TRACEBACK", "1")
    assert "Traceback" in kvspec(*words).err


def test_a_cache_of_another_system_is_an_error_of_usage(kvspec) -> None:
    """That says nothing about the cache, so it is not violated."""
    pytest.importorskip("torch")
    ran = kvspec("test", "lock", "--backend", "kvspec.models.decode.backend:DecodeBackend")
    assert ran.code == 2
    assert "speaks of lock" in ran.err
