"""Behaviour at a terminal, in a pipe, and when somebody has had enough."""

import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

PROGRAM = [sys.executable, "-m", "kvspec"]


def at_a_terminal(words: list[str], **environment: str) -> str:
    """What a run prints whose stdout and stderr are a terminal."""
    ours, theirs = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {
        "TERM": "xterm",
        **environment,
    }
    with subprocess.Popen([*PROGRAM, *words], stdout=theirs, stderr=theirs, env=env) as run:
        os.close(theirs)
        text = b""
        while True:
            ready, _, _ = select.select([ours], [], [], 120)
            try:
                piece = os.read(ours, 65_536) if ready else b""
            except OSError:
                break
            if not piece:
                break
            text += piece
        run.wait(timeout=60)
    os.close(ours)
    return text.decode()


def test_no_escape_codes_in_a_pipe(kvspec_process) -> None:
    """Neither stdout nor stderr has colours or bars when nobody looks."""
    for words in (("explore", "broken_lock"), ("--help",), ("explore", "--help"), ("explore", "x")):
        ran = kvspec_process(*words)
        assert "\x1b" not in ran.out + ran.err


def test_colours_at_a_terminal_unless_refused() -> None:
    """Verdicts have a colour at a terminal; NO_COLOR takes it away."""
    assert "\x1b[31mviolated\x1b[0m" in at_a_terminal(["explore", "broken_lock"])
    assert "\x1b[31m" not in at_a_terminal(["explore", "broken_lock"], NO_COLOR="1")


def test_json_has_no_colours_at_a_terminal() -> None:
    """The object is plain text wherever it goes."""
    text = at_a_terminal(["explore", "broken_lock", "--json"], NO_COLOR="1")
    assert '"verdict": "violated"' in text


def test_progress_is_shown_at_a_terminal() -> None:
    """A long search tells states a second, frontier and depth on stderr."""
    text = at_a_terminal(["explore", "peer", "2,2,2,3,4", "--no-coverage"])
    assert "a second, frontier" in text


def test_a_reader_that_leaves_is_no_error() -> None:
    """A closed pipe ends the run quietly."""
    with subprocess.Popen(
        [*PROGRAM, "show", "core"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        run.stdout.read(10)
        run.stdout.close()
        said = run.stderr.read()
        assert run.wait(timeout=60) in (0, 141)
    assert said == b""


def is_alive(group: int) -> bool:
    """Whether a process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    "words",
    [
        ["explore", "peer", "2,2,2,3,8"],
        ["verify", "--stage", "prove", "--stage", "mutants"],
        ["verify", "--stage", "explore", "--stage", "mutants"],
    ],
    ids=str,
)
def test_ctrl_c_ends_with_130(words: list[str]) -> None:
    """An interrupted run says so in a word, without a traceback, and leaves no process behind."""
    with subprocess.Popen(
        [*PROGRAM, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as run:
        time.sleep(6)
        os.killpg(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=60)
    assert run.returncode == 130
    assert out == ""
    assert err.strip() == "interrupted"
    deadline = time.monotonic() + 20
    while is_alive(run.pid):
        assert time.monotonic() < deadline, "a process of the run lives on"
        time.sleep(0.1)


def test_ctrl_c_ends_a_run_whose_threads_hang() -> None:
    """A thread that never ends does not keep an interrupted run alive."""
    program = (
        "import sys, threading, time\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from kvspec.cli import main\n"
        "def hang(words):\n"
        "    with ThreadPoolExecutor(1) as pool:\n"
        "        pool.submit(threading.Event().wait)\n"
        "        print('started', flush=True)\n"
        "        time.sleep(100)\n"
        "sys.modules['kvspec.cli.main']._run = hang\n"
        "sys.exit(main([]))\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout.readline() == "started\n"
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=30)
    assert (run.returncode, err) == (130, "interrupted\n")
