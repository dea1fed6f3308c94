"""Threads that hand over a baton: exactly one runs, and a strategy says which at every point.

Modelled: a program calls `point` before each access to something shared, and takes `ControlledLock`s
instead of real ones. A point before each access is enough: behind it a thread only does what others
cannot see, so that a second point there would give no run that differs. Real threads are used, not
generators, because the code under test is then the code as it is, at whatever depth it calls.
Left out: races between accesses that have no point, memory orders weaker than one after the other.

No thread outlives its run: one that cannot go on is unwound by an exception at its point. Only one that is
stuck in a wait that nobody controls cannot be, which is an error of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from kvspec.models.interleaving.schedule import (
    Choice,
    Ending,
    NotApplicableError,
    Run,
    Step,
    StuckError,
)
from kvspec.models.interleaving.strategies import Strategy

MOST_STEPS = 20_000
PATIENCE = 60.0
"""Seconds in which a thread must come to its next point."""

_FAREWELL = 1.0
"""Seconds in which a thread of a run that is over must end; one that is stuck does not."""


class _Unwound(BaseException):
    """Ends a thread whose run is over; no handler of ordinary errors takes it."""


class _Thread:
    """A thread of a run: where it stands, and what it waits for."""

    def __init__(self, number: int, body: Callable[[], None]) -> None:
        self.number = number
        self.body = body
        self.at = ""
        self.can: Callable[[], bool] | None = None
        self.why = ""
        self.baton = threading.Semaphore(0)
        self.has_ended = False
        self.real: threading.Thread | None = None


class Scheduler:
    """Runs threads one at a time.

    Attributes:
        strategy: says who goes on.
        most_steps: a longer run is cut.
        patience: seconds in which a thread must come to its next point.
    """

    def __init__(
        self, strategy: Strategy, most_steps: int = MOST_STEPS, patience: float = PATIENCE
    ) -> None:
        self.strategy = strategy
        self.most_steps = most_steps
        self.patience = patience
        self._own = threading.local()
        self._threads: list[_Thread] = []
        self._home = threading.Semaphore(0)
        self._is_gathering = False
        self._is_over = False
        self._current: int | None = None
        self._steps: list[Step] = []
        self._choices: list[Choice] = []
        self._errors: list[tuple[int, BaseException]] = []
        self._failure: BaseException | None = None
        self._ending: Ending = "whole"
        self._told = ""

    def run(self, bodies: Sequence[Callable[[], None]]) -> Run:
        """Run these as threads 0, 1, ... until all have ended, none can go on, or it is cut.

        What a thread does before its first point is done first, one thread after the other.

        Raises:
            NotApplicableError: the strategy follows a schedule that does not apply.
            StuckError: a thread did not come to a point in time.
            ValueError: this scheduler has run before.
        """
        if self._threads:
            raise ValueError("this scheduler has run before: make a new one for each run")
        self._threads = [_Thread(number, body) for number, body in enumerate(bodies)]
        try:
            self._gather()
            if any(not thread.has_ended for thread in self._threads):
                self._pass_on()
                self._await_home("the run")
        finally:
            self._end_all()
        if self._failure is not None:
            raise self._failure
        return Run(
            tuple(self._steps),
            tuple(self._choices),
            self._ending,
            self._told,
            tuple(self._errors),
        )

    def point(self, at: str, can: Callable[[], bool] | None = None, why: str = "") -> None:
        """Let others run here, until this thread is chosen again.

        Called before an access to something shared; a thread of no run passes at once. ``can``: it
        can only be chosen when this is true; ``why`` tells what it waits for until then.
        """
        thread: _Thread | None = getattr(self._own, "thread", None)
        if thread is None:
            return
        if self._is_over:
            raise _Unwound
        thread.at, thread.can, thread.why = at, can, why
        if self._is_gathering:
            self._home.release()
            self._await(thread)
        else:
            self._hand_over(thread)
        thread.can = None

    @property
    def me(self) -> int | None:
        """The number of the thread that asks, None in a thread of no run."""
        thread: _Thread | None = getattr(self._own, "thread", None)
        return None if thread is None else thread.number

    @property
    def is_over(self) -> bool:
        """The run has ended, and what threads are left are unwound."""
        return self._is_over

    # The baton.

    def _gather(self) -> None:
        """Start every thread, and let each run up to its first point."""
        self._is_gathering = True
        for thread in self._threads:
            real = threading.Thread(target=self._live, args=(thread,), daemon=True)
            thread.real = real
            real.start()
            self._await_home(f"the start of thread {thread.number}")
        self._is_gathering = False

    def _live(self, thread: _Thread) -> None:
        """The life of a thread: its body, and then the baton goes on."""
        self._own.thread = thread
        try:
            thread.body()
        except _Unwound:
            pass
        except BaseException as error:  # noqa: BLE001  # carried to whoever started the run
            self._errors.append((thread.number, error))
        thread.has_ended = True
        if self._is_gathering:
            self._home.release()
        elif not self._is_over:
            self._pass_on()

    def _hand_over(self, thread: _Thread) -> None:
        """Choose who goes on; if it is another thread, wait to be chosen again."""
        chosen = self._choose()
        if chosen is None:
            self._stop()
            raise _Unwound
        if chosen is not thread:
            chosen.baton.release()
            self._await(thread)

    def _pass_on(self) -> None:
        """Choose who goes on when the current thread has ended, or before the first step."""
        chosen = self._choose()
        if chosen is None:
            self._stop()
        else:
            chosen.baton.release()

    def _await(self, thread: _Thread) -> None:
        """Wait for the baton."""
        thread.baton.acquire()
        if self._is_over:
            raise _Unwound

    def _await_home(self, what: str) -> None:
        """Wait in the thread that started the run, as long as steps are taken."""
        seen = -1
        while not self._home.acquire(timeout=self.patience):
            if len(self._steps) == seen or self._is_gathering:
                where = self._steps[-1] if self._steps else "its start"
                raise StuckError(
                    f"{what}: found no point for {self.patience:g} s after {where}, expected one "
                    "before each access to something shared: give the program a controlled lock "
                    "wherever it waits"
                )
            seen = len(self._steps)

    def _stop(self) -> None:
        self._is_over = True
        self._home.release()

    def _end_all(self) -> None:
        """Unwind the threads that are left, one after the other."""
        self._is_over = True
        for thread in self._threads:
            if thread.real is not None:
                thread.baton.release()
                thread.real.join(timeout=_FAREWELL)

    # The choice.

    def _choose(self) -> _Thread | None:
        """The next thread, or None if the run is over; notes the step."""
        live = [thread for thread in self._threads if not thread.has_ended]
        if not live:
            return None
        enabled = tuple(t.number for t in live if t.can is None or t.can())
        if not enabled:
            waits = "; ".join(f"thread {t.number} at {t.at} ({t.why})" for t in live)
            self._ending, self._told = "deadlock", f"no thread can go on: {waits}"
            return None
        if len(self._steps) >= self.most_steps:
            self._ending = "cut"
            self._told = f"{self.most_steps:,} steps, and {len(live)} threads have not ended"
            return None
        at = tuple((thread.number, thread.at) for thread in live)
        choice = Choice(len(self._steps), self._current, enabled, at)
        try:
            number = self.strategy.choose(choice)
        except NotApplicableError as error:
            self._failure = error
            return None
        if number not in enabled:
            self._failure = ValueError(
                f"step {choice.number}: the strategy chose thread {number}, expected one of {enabled}"
            )
            return None
        chosen = self._threads[number]
        self._choices.append(choice)
        self._steps.append(Step(number, chosen.at))
        self._current = number
        return chosen


class ControlledLock:
    """A lock that its holder may take again, and for which other threads wait at a point.

    Threads of no run take it as well: before and after a run, when nobody contends for it.
    """

    def __init__(self, scheduler: Scheduler, name: str = "lock") -> None:
        self._scheduler = scheduler
        self._name = name
        self._owner: int | None = None
        self._depth = 0

    def acquire(self) -> bool:
        """Take it, when it is free or held by this thread."""
        me = self._me()
        if self._depth == 0 or self._owner != me:
            self._scheduler.point(f"{self._name} acquire", self._is_free, f"waits for {self._name}")
            if self._depth and not self._scheduler.is_over:
                raise StuckError(
                    f"{self._name} is held by thread {self._owner} and taken by a thread of no run: "
                    "take it before the run, or in one of its threads"
                )
            self._owner = me
        self._depth += 1
        return True

    def release(self) -> None:
        """Give it up, as often as it was taken."""
        if self._depth == 0 or self._owner != self._me():
            raise RuntimeError(f"{self._name} is not held by this thread: acquire it first")
        if self._depth == 1 and not self._scheduler.is_over:
            try:
                self._scheduler.point(f"{self._name} release")
            finally:
                self._let_go()
        elif self._depth == 1:
            self._let_go()
        else:
            self._depth -= 1

    @property
    def is_mine(self) -> bool:
        """The thread that asks holds it."""
        return self._depth > 0 and self._owner == self._me()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def _let_go(self) -> None:
        self._depth, self._owner = 0, None

    def _is_free(self) -> bool:
        return self._depth == 0

    def _me(self) -> int:
        found = self._scheduler.me
        return -1 if found is None else found
