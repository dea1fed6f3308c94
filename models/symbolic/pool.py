"""A few solver processes, each asked one problem at a time, stopped when it overruns."""

from __future__ import annotations

import json
import queue
import select
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

import attrs

from kvspec.models.symbolic.worker import answer_request, main

GRACE = 20.0
"""Seconds that a solver may overrun its own limit, start-up included, before it is stopped."""


@attrs.frozen
class Answer:
    """What a solver said: "sat", "unsat" or "unknown" with the reason."""

    result: str
    reason: str
    seconds: float


class SolverProcess:
    """One solver process, started when first asked."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def ask(self, request: dict[str, object], seconds: float) -> Answer:
        """The answer to a request, or unknown if it takes longer or the process dies."""
        process = self._running()
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the solver process has no pipes: start it with pipes")
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            self.stop()
            return Answer("unknown", "the solver process had ended", 0.0)
        ready, _, _ = select.select([process.stdout], [], [], seconds + GRACE)
        if not ready:
            self.stop()
            return Answer("unknown", f"stopped after {seconds + GRACE:g} s", seconds + GRACE)
        line = process.stdout.readline()
        if not line:
            code = process.wait()
            self.stop()
            return Answer("unknown", f"the solver process ended with code {code}", 0.0)
        return Answer(**json.loads(line))

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            # The worker ignores interrupts, and so do the imports before it.
            start = f"from {main.__module__} import main; main()"
            ignore = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
            command = [sys.executable, "-c", f"{ignore}; {start}"]
            # A group of its own: an interrupt at the terminal is for us, and we end the process.
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                process_group=0,
            )
        return self._process

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


class SolverPool:
    """Solver processes; with none of them, problems are solved in this process, one by one."""

    def __init__(self, workers: int) -> None:
        self._threads = ThreadPoolExecutor(workers) if workers else None
        self._idle: queue.SimpleQueue[SolverProcess] = queue.SimpleQueue()
        self._all = [SolverProcess() for _ in range(workers)]
        for process in self._all:
            self._idle.put(process)

    def submit(
        self, text: str, seconds: float, *, solver: str = "z3", expect: str = "unsat"
    ) -> Future[Answer]:
        """Ask for the satisfiability of an SMT-LIB 2 text."""
        request: dict[str, object] = {
            "text": text,
            "seconds": seconds,
            "solver": solver,
            "expect": expect,
        }
        if self._threads is None:
            done: Future[Answer] = Future()
            done.set_result(Answer(**answer_request(request)))
            return done
        return self._threads.submit(self._ask, request, seconds)

    def _ask(self, request: dict[str, object], seconds: float) -> Answer:
        process = self._idle.get()
        try:
            return process.ask(request, seconds)
        finally:
            self._idle.put(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:  # nobody waits for the answers any more
            for process in self._all:
                process.stop()
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        for process in self._all:
            process.stop()
