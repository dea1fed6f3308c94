"""Stages: independent parts of a check, side by side in processes of their own.

A stage is a function of this package, named by module and function, that is given a way to tell its
progress and gives an `Answer`. A stage that fails or dies is `unknown`, with the reason; it never
takes the others with it.
"""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from time import perf_counter
from types import FrameType
from typing import Any, NoReturn

import attrs

from kvspec.cli.verdicts import UNKNOWN, Answer, Check

Tell = Callable[[int, int, str], None]
Watch = Callable[["Stage", int, int, str], None]


@attrs.frozen
class Stage:
    """A part of a check: `target` is "module:function", called with `arguments` and a `Tell`."""

    name: str
    target: str
    arguments: tuple[Any, ...] = ()


@attrs.frozen
class Done:
    """A stage that has ended, and how long it took, start-up included."""

    stage: Stage
    answer: Answer
    seconds: float


def run_stages(stages: list[Stage], jobs: int, watch: Watch | None = None) -> list[Done]:
    """Run the stages, at most `jobs` at a time, begun in the given order; results in that order."""
    waiting = list(stages)
    running: dict[Connection, tuple[Stage, SpawnProcess, float]] = {}
    ended: dict[str, Done] = {}
    try:
        with _ended_by_sigterm():
            while waiting or running:
                while waiting and len(running) < jobs:
                    stage = waiting.pop(0)
                    running |= _begin(stage)
                for found in wait(list(running)):
                    channel: Any = found
                    stage, process, start = running[channel]
                    answer = _hear(channel, stage, watch)
                    if answer is None:
                        continue
                    process.join()
                    if answer is _DIED:
                        answer = _died(stage, process.exitcode)
                    del running[channel]
                    ended[stage.name] = Done(stage, answer, perf_counter() - start)
                    if watch is not None:
                        watch(stage, 1, 1, answer.verdict)
    finally:
        for _, process, _ in running.values():
            process.terminate()
            process.join()
    return [ended[stage.name] for stage in stages]


def unknown_answer(name: str, reason: str) -> Answer:
    """The answer of a stage that could not be run."""
    data = {"verdict": UNKNOWN, "reason": reason}
    return Answer(name, UNKNOWN, data, reason, (Check(name, name, UNKNOWN, 0.0, reason),))


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Within, SIGTERM ends this process by way of `finally`, so that it ends its children first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


_DIED = Answer("", UNKNOWN, {}, "")


def _died(stage: Stage, code: int | None) -> Answer:
    """The answer for a stage whose process ended without one."""
    how = f"exit code {code}"
    if code is not None and code < 0:
        how = f"signal {-code}, {signal.strsignal(-code) or 'without a name'}"
    memory = ": was it out of memory?" if code == -signal.SIGKILL else ""
    return unknown_answer(stage.name, f"the process of this stage died ({how}){memory}")


def _begin(stage: Stage) -> dict[Connection, tuple[Stage, SpawnProcess, float]]:
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(stage, theirs), name=stage.name)
    resource_tracker.ensure_running()  # it lets interrupts through again when it starts
    with _without_interrupts():
        process.start()
    theirs.close()
    return {ours: (stage, process, perf_counter())}


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """What is started within never sees Ctrl-C: this process tells what happened, and ends it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _hear(channel: Connection, stage: Stage, watch: Watch | None) -> Answer | None:
    """The stage's answer, if that is what it says; None for progress."""
    try:
        kind, content = channel.recv()
    except EOFError:
        return _DIED
    if kind == "progress":
        if watch is not None:
            watch(stage, *content)
        return None
    answer: Answer = content
    return answer


def _work(stage: Stage, channel: Connection) -> None:
    """What a stage's process does."""
    module, name = stage.target.split(":")
    told = 0.0

    def tell(done: int, total: int, text: str) -> None:
        nonlocal told
        now = perf_counter()
        if now - told > 0.1 or done == total:
            told = now
            channel.send(("progress", (done, total, text)))

    try:
        answer = getattr(import_module(module), name)(*stage.arguments, tell)
    except BrokenPipeError:
        return  # nobody listens any more
    except Exception as error:  # noqa: BLE001  # a stage that fails is a result
        last = "".join(traceback.format_exception(error))
        answer = unknown_answer(stage.name, f"{type(error).__name__}: {error}\n{last}")
    with suppress(BrokenPipeError):
        channel.send(("answer", answer))
