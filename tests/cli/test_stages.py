"""Stages: side by side, and one that fails or dies does not take the others with it."""

from pathlib import Path

from kvspec.cli.stages import Stage, run_stages
from kvspec.cli.verdicts import HOLDS, UNKNOWN, Answer, worst

HERE = "stage_samples"


def test_results_come_in_the_order_of_the_stages(monkeypatch) -> None:
    """Whatever ends first, the answers stand in the order asked for."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    told = []
    stages = [
        Stage("slow", f"{HERE}:sleeps", (0.5,)),
        Stage("fails", f"{HERE}:fails"),
        Stage("dies", f"{HERE}:dies"),
        Stage("quick", f"{HERE}:sleeps", (0.0,)),
    ]
    done = run_stages(stages, 2, lambda stage, *_: told.append(stage.name))
    assert [one.stage.name for one in done] == ["slow", "fails", "dies", "quick"]
    assert [one.answer.verdict for one in done] == [HOLDS, UNKNOWN, UNKNOWN, HOLDS]
    assert "ZeroDivisionError" in done[1].answer.text
    assert "died (exit code 9)" in done[2].answer.text
    assert {"slow", "quick"} <= set(told)


def test_the_worst_verdict_counts() -> None:
    """Violated before unknown before holds, and nothing is unknown."""
    assert worst(["holds", "violated", "unknown"]) == "violated"
    assert worst(["holds", "unknown"]) == "unknown"
    assert worst(["holds"]) == "holds"
    assert worst([]) == "unknown"


def test_an_answer_is_told_by_its_verdict() -> None:
    """An answer is data; it can travel between processes."""
    import pickle

    answer = Answer("x", HOLDS, {"verdict": HOLDS}, "text")
    assert pickle.loads(pickle.dumps(answer)) == answer  # noqa: S301  # our own bytes


def test_sigterm_ends_the_stages_as_well(tmp_path) -> None:
    """Who ends the parent ends its children, and none of them prints a traceback."""
    import os
    import signal
    import subprocess
    import sys
    import time

    code = (
        "from kvspec.cli.stages import Stage, run_stages\n"
        "if __name__ == '__main__':\n"
        "    told = lambda *_: print('begun', flush=True)\n"
        "    run_stages([Stage('s', 'stage_samples:sleeps', (60.0,))], 1, told)\n"
    )
    script = tmp_path / "run.py"
    script.write_text(code)
    more = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    pipe = subprocess.PIPE
    run = subprocess.Popen([sys.executable, str(script)], stdout=pipe, stderr=pipe, env=more)
    assert run.stdout is not None
    run.stdout.readline()
    start = time.monotonic()
    run.send_signal(signal.SIGTERM)
    _, err = run.communicate(timeout=30)  # ends when the children have closed stderr too
    assert run.returncode == 128 + signal.SIGTERM
    assert time.monotonic() - start < 30
    assert b"Traceback" not in err
