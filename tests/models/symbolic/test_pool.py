"""Solver processes are stopped when they overrun, and started anew when they die."""

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from kvspec.models.symbolic import pool
from kvspec.models.symbolic.pool import SolverPool, SolverProcess

EASY = "(declare-fun x () Int)(assert (< x 0))(assert (> x 0))"
ENDLESS = """
(declare-sort N 0)(declare-fun f (N) N)(declare-fun g (N) Int)(declare-fun h (N) N)
(assert (forall ((x N)) (= (g (f x)) (+ 1 (g x)))))
(assert (forall ((x N)) (= (g (h x)) (- (g x) 1))))
(assert (exists ((x N)) (forall ((y N)) (= (h (f y)) y))))
"""


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("solver", ["z3", "cvc5"])
def test_answers_come_back(workers: int, solver: str) -> None:
    """Problems are answered in this process or in others."""
    pytest.importorskip(solver)
    check = "(check-sat)" if solver == "cvc5" else ""
    with SolverPool(workers) as solvers:
        text = f"(set-logic ALL){EASY}{check}"
        asked = [solvers.submit(text, 10.0, solver=solver) for _ in range(4)]
        assert [found.result().result for found in asked] == ["unsat"] * 4


def test_an_overrun_is_stopped_and_unknown(monkeypatch: Any) -> None:
    """A solver that does not keep its limit is stopped; the next problem gets a new process."""
    monkeypatch.setattr(pool, "GRACE", 0.0)
    process = SolverProcess()
    request = {"text": ENDLESS, "seconds": 60.0, "solver": "z3", "expect": "unsat"}
    try:
        found = process.ask(request, 0.5)
        assert found.result == "unknown"
        assert found.reason == "stopped after 0.5 s"
        assert process.ask({**request, "text": EASY}, 20.0).result == "unsat"
    finally:
        process.stop()


def test_a_process_that_dies_is_unknown(capfd: Any) -> None:
    """A crash is no verdict, and takes nothing else with it."""
    process = SolverProcess()
    request = {"text": EASY, "seconds": 10.0, "solver": "z3", "expect": "unsat"}
    try:
        found = process.ask({"solver": "z3"}, 20.0)
        assert (found.result, found.reason) == ("unknown", "the solver process ended with code 1")
        assert process.ask(request, 20.0).result == "unsat"
    finally:
        process.stop()
    assert "KeyError" in capfd.readouterr().err


def test_an_interrupt_is_for_the_one_who_asks(capfd: Any) -> None:
    """A solver process goes on after an interrupt, and says nothing of it."""
    process = SolverProcess()
    request = {"text": EASY, "seconds": 10.0, "solver": "z3", "expect": "unsat"}
    try:
        assert process.ask(request, 20.0).result == "unsat"
        running = process._running()
        os.kill(running.pid, signal.SIGINT)
        assert process.ask(request, 20.0).result == "unsat"
        assert process._running() is running
    finally:
        process.stop()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("end", ["no listener", "no request", "half a request"])
def test_a_worker_that_is_left_alone_ends_quietly(end: str) -> None:
    """A worker whose asker has gone ends without a complaint."""
    request = json.dumps({"text": EASY, "seconds": 10.0, "solver": "z3", "expect": "unsat"})
    worker = subprocess.Popen(
        [sys.executable, "-c", f"from {pool.main.__module__} import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    assert worker.stderr is not None
    if end == "no listener":
        worker.stdout.close()
        worker.stdin.write(f"{request}\n")
    elif end == "half a request":
        worker.stdin.write(request[:20])
    worker.stdin.close()
    try:
        assert worker.wait(timeout=60) == 0
        assert worker.stderr.read() == ""
    finally:
        worker.kill()
        worker.stdout.close()
        worker.stderr.close()


def test_text_that_is_no_problem_is_unknown() -> None:
    """What a solver cannot read is unknown, with the solver's complaint."""
    with SolverPool(0) as solvers:
        z3_says = solvers.submit("(assert (= x 1))", 1.0).result()
        assert z3_says.result == "unknown"
        assert "unknown constant x" in z3_says.reason
