"""Clients that choose by what they were told, and real threads that run them, for load.

Modelled: each client has one append of its own and goes through all that an append may do, on handles that
it shares with the others: it looks, begins where a request is ready, allocates where none is, stages,
prepares, publishes, asks again, forgets, and now and then truncates, forks, ends, releases and evicts.
What it chooses depends on its seed and on its answers alone. It stays within the bounds of the instance:
versions by what it saw last, generations by a share that it has of each handle's releases.
Left out: the batch; clients that do not wait for an answer.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

from attrs import define, field, frozen

from kvspec.models.decode.concurrent import ConcurrentBackend, Look
from kvspec.models.decode.concurrent_record import Answer, Asked, Call, Recorder
from kvspec.models.decode.concurrent_scenarios import event, one_compute_thread
from kvspec.spec.append import Key, Txn
from kvspec.spec.core import make_instance
from kvspec.spec.handles import Generation, Handle, Layer, Version
from kvspec.spec.language import Instance
from kvspec.spec.prefix import Block

LOAD = make_instance(
    "LOAD",
    "four clients with an append each, on three handles with two layers",
    handles=3,
    txns=4,
    layers=2,
    keys=2,
    blocks=2,
    longest=3,
    versions=12,
    generations=8,
)
"""For random clients: room for many publications and several requests of each handle."""

SWITCH_SECONDS = 1e-6
"""After so many seconds the interpreter lets another thread run, as far as it can be had."""

Calls = Generator[Call, Answer, None]
"""Yields a call, and is sent its answer."""


@define
class _Client:
    """What one client knows.

    Attributes:
        seen: what it saw last of each handle: phase, version, length.
        releases: how often it has released each handle.
        state: of its append; ``target`` is the handle it extends.
    """

    number: int
    clients: int
    chance: random.Random
    instance: Instance
    seen: dict[int, tuple[str, int, int]] = field(factory=dict)
    releases: dict[int, int] = field(factory=dict)
    state: str = "IDLE"
    target: int = 0
    start: int = 0
    base: int = 0
    key: int = 0

    def size(self, of: type) -> int:
        """Members of a sort."""
        return self.instance.sizes[of.__name__]

    def next(self) -> Iterator[Call]:
        """The calls that come next: one, or the two of an event that needs a look before it."""
        if self.state == "IDLE" or self.chance.random() < 0.3:
            yield Look(self.chance.randrange(self.size(Handle)))
        elif self.state == "OPEN":
            yield from self._stage()
        else:
            yield event("publish", x=self.number)
            yield event("retry", x=self.number, h=self.target, k=self.key, v=self.base, n=1)
            yield event("forget", x=self.number)

    def react(self, handle: int) -> Call | None:
        """What it does about a handle that it has just looked at."""
        phase, version, length = self.seen[handle]
        has_room = version + self.clients < self.instance.bounds[Version.__name__]
        if phase in {"VACANT", "RELEASED"}:
            return self._enter(handle)
        if phase in {"FINISHED", "CANCELLED"}:
            return self._leave(handle)
        if self.chance.random() < 0.15:
            action = self.chance.choice(("finish", "cancel_request"))
            return event(action, h=handle)
        if has_room and length and self.chance.random() < 0.2:
            return event("truncate", h=handle, n=self.chance.randrange(length))
        fits = length < int(self.instance.constants["context"] or 0)
        if self.state == "IDLE" and has_room and fits:
            self.target, self.start, self.base = handle, length, version
            self.key = self.chance.randrange(self.size(Key))
            return event("begin", x=self.number, h=handle, k=self.key, a=0, p=length, n=1)
        return None

    def told(self, call: Call, answer: Answer) -> None:
        """Take an answer in."""
        if isinstance(call, Look):
            if isinstance(answer, tuple):
                self.seen[call.handle] = (str(answer[0]), int(answer[1] or 0), int(answer[2] or 0))
            return
        if isinstance(answer, tuple):
            return
        if call.action == "begin" and answer.accepted:
            self.state = "OPEN"
        elif call.action == "prepare":
            self.state = "PREPARED"
        elif call.action == "forget" and answer.accepted:
            self.state = "IDLE"
        elif call.action == "release" and answer.accepted:
            handle = int(call.names["h"])  # type: ignore[arg-type]
            self.releases[handle] = self.releases.get(handle, 0) + 1

    def _stage(self) -> Iterator[Call]:
        for layer in range(self.size(Layer)):
            yield event("stage_k", x=self.number, l=layer, p=self.start)
            yield event("stage_v", x=self.number, l=layer, p=self.start)
        yield event("prepare", x=self.number)

    def _enter(self, handle: int) -> Call:
        ready = [other for other, seen in self.seen.items() if seen[0] == "DECODE_READY"]
        if ready and self.chance.random() < 0.5:
            parent = self.chance.choice(ready)
            free = [h for h, seen in self.seen.items() if seen[0] in {"VACANT", "RELEASED"}]
            children = tuple(h in free for h in range(self.size(Handle)))
            return event("fork", p=parent, children=children, n=self.seen[parent][2])
        return event("allocate", h=handle, b=self.chance.randrange(self.size(Block)), a=0)

    def _leave(self, handle: int) -> Call:
        share = self.instance.bounds[Generation.__name__] // self.clients
        if self.releases.get(handle, 0) < share and self.chance.random() < 0.7:
            return event("release", h=handle)
        return event("evict", b=self.chance.randrange(self.size(Block)))


def random_client(instance: Instance, number: int, clients: int, seed: int, calls: int) -> Calls:
    """About so many calls of one client among several; it ends with a whole piece of work."""
    chance = random.Random(f"{seed}/{number}")
    who, done = _Client(number, clients, chance, instance), 0
    while done < calls:
        for call in tuple(who.next()):
            answer = yield call
            who.told(call, answer)
            done += 1
            if isinstance(call, Look):
                then = who.react(call.handle)
                if then is not None:
                    answer = yield then
                    who.told(then, answer)
                    done += 1


def body_of(recorder: Recorder, number: int, calls: Calls) -> Callable[[], None]:
    """What the thread of a client does."""

    def body() -> None:
        call = next(calls, None)
        while call is not None:
            answer = recorder.ask(number, call)
            try:
                call = calls.send(answer)
            except StopIteration:
                return

    return body


@frozen
class Load:
    """What real threads did: their calls with the answers, and what a thread raised."""

    asked: tuple[Asked, ...]
    errors: tuple[tuple[int, BaseException], ...]


def run_load(
    backend: ConcurrentBackend, *, clients: int = 4, calls: int = 30, seed: int = 0
) -> Load:
    """Random clients on real threads, on a backend made anew for `LOAD`; they begin together.

    Raises:
        ValueError: there are more clients than appends in `LOAD`, or none.
    """
    most = LOAD.sizes[Txn.__name__]
    if not 1 <= clients <= most:
        raise ValueError(f"found {clients} clients, expected 1 to {most}, one for each append")
    backend.reset(LOAD)
    recorder = Recorder(backend)
    bodies = [
        body_of(recorder, number, random_client(LOAD, number, clients, seed, calls))
        for number in range(clients)
    ]
    with one_compute_thread(), _switching(SWITCH_SECONDS):
        errors = run_threads(bodies)
    return Load(recorder.asked(), errors)


def run_threads(bodies: list[Callable[[], None]]) -> tuple[tuple[int, BaseException], ...]:
    """Run these on threads that begin together; gives what they raised, and returns when all ended."""
    gate = threading.Barrier(len(bodies))
    errors: list[tuple[int, BaseException]] = []

    def live(number: int, body: Callable[[], None]) -> None:
        gate.wait()
        try:
            body()
        except BaseException as error:  # noqa: BLE001  # carried to the caller
            errors.append((number, error))

    threads = [
        threading.Thread(target=live, args=(number, body)) for number, body in enumerate(bodies)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tuple(errors)


@contextmanager
def _switching(seconds: float) -> Iterator[None]:
    """Within, threads take turns after so many seconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
