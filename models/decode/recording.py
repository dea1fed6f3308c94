"""A run of the decode backend that is worth recording: several requests at once, and all that befalls them.

Modelled: clients whose requests share one backend, one event at a time, in an order drawn from a seed.
Each prefills a prompt, decodes greedily (the token that was put out is the one that is appended next),
and meets trouble where its script says so: an append whose rows are not all there, which is
aborted and tried again; two appends on one base, of which one is too late; a fork, whose child is cut back
and goes on by itself; a cancellation while an append is open. Handles and blocks are used again.
Left out: batching, and threads; the backend's lock would order them just so.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

from attrs import define, field, frozen

from kvspec.models.concrete.machine import Event
from kvspec.models.decode.backend import DecodeBackend
from kvspec.models.decode.backend_model import VOCAB
from kvspec.models.telemetry.faults import CrashError
from kvspec.spec.core import make_instance
from kvspec.spec.documents.closing import Closing
from kvspec.spec.language import Instance

LAYERS: Final = 2
AT_ONCE: Final = 4
"""Most requests that run at a time, each with room for a child."""
PROMPT: Final = (3, 5)
"""Fewest and most tokens of a prompt behind its prefix block."""
CUT: Final = 2
"""Rows that a child gives up before it goes on."""

TROUBLES: Final = ("failure", "conflict", "fork", "cancel")
"""What can befall a request."""
LIKELY: Final = 0.4
"""How often each of them does."""


class UnexpectedReplyError(Exception):
    """The backend did not answer an event of a script as a sound one does."""


@frozen
class Recording:
    """What came of a run.

    Attributes:
        closing: where each request stands, read off the backend's tables; empty without telemetry.
        events: events performed; outputs: tokens put out.
        crash: what the process died of, empty if it did not.
    """

    closing: Closing
    events: int
    outputs: int
    crash: str = ""


@define(eq=False)
class Run:
    """The clients of one backend, and what is free for them.

    Attributes:
        backend: the cache, with telemetry or without.
        draw: decides prompts, troubles and whose turn it is.
        steps: outputs of each request.
        handles, txns, blocks: those that are free.
        events, outputs: how many there were.
        lengths: committed tokens of each handle, as its client knows them.
        claims: requests that share a prefix block.
        live: clients that are not done.
    """

    backend: DecodeBackend
    draw: random.Random
    steps: int
    handles: list[int] = field(factory=lambda: list(range(2 * AT_ONCE)))
    txns: list[int] = field(factory=lambda: list(range(4 * AT_ONCE)))
    blocks: list[int] = field(factory=lambda: list(range(AT_ONCE)))
    events: int = 0
    outputs: int = 0
    lengths: dict[int, int] = field(factory=dict)
    claims: dict[int, int] = field(factory=dict)
    live: list[Iterator[None]] = field(factory=list)

    def all(self, scripts: Sequence[Sequence[str]]) -> None:
        """Run a request for each script, some at a time, until the last one has let go of its block."""
        waiting = list(scripts)
        while waiting or self.live:
            if waiting and self.blocks:
                where = self.handles.pop(0), self.blocks.pop(0)
                self.live.append(self.request(*where, waiting.pop(0)))
            client = self.draw.choice(self.live)
            if next(client, True):
                self.live.remove(client)

    def request(self, handle: int, block: int, troubles: Sequence[str]) -> Iterator[None]:
        """The whole life of a request."""
        self.do("allocate", h=handle, b=block, a=0)
        self.lengths[handle], self.claims[block] = 0, 1
        prompt = [self.draw.randrange(VOCAB) for _ in range(self.draw.randint(*PROMPT))]
        yield from self.append(handle, prompt)
        token = self.emit(handle)
        for turn in range(1, self.steps):
            if turn == 1 and "failure" in troubles:
                yield from self.failed_append(handle, token)
            if turn == 2 and "conflict" in troubles:
                yield from self.late_append(handle, token)
            else:
                yield from self.append(handle, [token])
            token = self.emit(handle)
            if turn == 1 and "fork" in troubles:
                self.live.append(self.child(self.fork(handle, block), block))
        if "cancel" in troubles:
            yield from self.cancelled(handle, token)
        else:
            self.do("finish", h=handle)
        yield
        self.release(handle, block)

    def child(self, handle: int, block: int) -> Iterator[None]:
        """A child that gives up some rows, decodes on by itself, and is cancelled."""
        self.do("truncate", h=handle, n=self.lengths[handle] - CUT)
        self.lengths[handle] -= CUT
        yield
        yield from self.append(handle, [self.emit(handle)])
        yield from self.cancelled(handle, self.emit(handle))
        self.release(handle, block)

    def append(self, handle: int, tokens: Sequence[int]) -> Iterator[None]:
        """Append these tokens in one transaction, with time for others in between."""
        x = self.begin(handle, tokens)
        yield
        self.stage(x, self.lengths[handle], len(tokens), LAYERS)
        self.do("prepare", x=x)
        yield
        self.publish(x, handle, len(tokens))
        self.forget(x)

    def failed_append(self, handle: int, token: int) -> Iterator[None]:
        """An append that lacks the rows of the last layer: it cannot be prepared, and is aborted."""
        x = self.begin(handle, [token])
        self.stage(x, self.lengths[handle], 1, LAYERS - 1)
        yield
        self.do("prepare", "K_INCOMPLETE", x=x)
        self.do("cancel_txn", x=x)
        self.forget(x)

    def late_append(self, handle: int, token: int) -> Iterator[None]:
        """Two appends of one token on the same base: the second is too late, and is refused."""
        first, second = (self.begin(handle, [token]) for _ in range(2))
        for x in (first, second):
            self.stage(x, self.lengths[handle], 1, LAYERS)
            self.do("prepare", x=x)
        yield
        self.publish(first, handle, 1)
        yield
        self.do("publish", "STALE_SNAPSHOT", x=second)
        self.forget(first)
        self.forget(second)

    def cancelled(self, handle: int, token: int) -> Iterator[None]:
        """A request is cancelled while an append is open, which ends with it."""
        x = self.begin(handle, [token])
        yield
        self.do("cancel_request", h=handle)
        self.forget(x)

    def begin(self, handle: int, tokens: Sequence[int]) -> int:
        """Begin an append of these tokens, and return its transaction."""
        x, start = self.txns.pop(0), self.lengths[handle]
        self.backend.feed(handle, tuple(tokens))
        self.do("begin", x=x, h=handle, k=0, a=0, p=start, n=len(tokens))
        return x

    def fork(self, parent: int, block: int) -> int:
        """Give all rows of a request to a child, and return its handle."""
        handle = self.handles.pop(0)
        children = tuple(each == handle for each in range(2 * AT_ONCE))
        self.do("fork", p=parent, children=children, n=self.lengths[parent])
        self.lengths[handle] = self.lengths[parent]
        self.claims[block] += 1
        return handle

    def stage(self, x: int, start: int, count: int, layers: int) -> None:
        """Stage K and V of the first layers, over the whole interval."""
        for layer in range(layers):
            for place in range(start, start + count):
                self.do("stage_k", x=x, l=layer, p=place)
                self.do("stage_v", x=x, l=layer, p=place)

    def publish(self, x: int, handle: int, count: int) -> None:
        """Publish a prepared append."""
        self.do("publish", x=x)
        self.lengths[handle] += count

    def forget(self, x: int) -> None:
        """Forget an ended append; its transaction is free again."""
        self.do("forget", x=x)
        self.txns.append(x)

    def release(self, handle: int, block: int) -> None:
        """Release an ended request; the last one that shares a block evicts it."""
        self.do("release", h=handle)
        self.handles.append(handle)
        self.claims[block] -= 1
        if not self.claims[block]:
            self.do("evict", b=block)
            self.blocks.append(block)

    def emit(self, handle: int) -> int:
        """Put out the next token of a handle."""
        self.outputs += 1
        return self.backend.emit(handle)

    def do(self, action: str, code: str | None = None, **names: Any) -> None:
        """Perform an event that must be accepted, or refused with the code.

        Raises:
            UnexpectedReplyError: the backend answers otherwise.
        """
        self.events += 1
        reply = self.backend.perform(Event(action, tuple(names.items())))
        if reply.code != code:
            raise UnexpectedReplyError(
                f"{action} {names}: found {reply}, expected "
                f"{'accepted' if code is None else f'refused with {code}'}: the backend is not sound"
            )


def instance_for(steps: int) -> Instance:
    """An instance with room for requests of so many outputs; it is driven, not searched."""
    return make_instance(
        "RECORD",
        "a few requests at a time, each with room for a child",
        handles=2 * AT_ONCE,
        txns=4 * AT_ONCE,
        layers=LAYERS,
        blocks=AT_ONCE,
        longest=PROMPT[1] + steps,
        versions=2 * (PROMPT[1] + steps),
    )


def scripts_for(requests: int, draw: random.Random) -> list[tuple[str, ...]]:
    """The troubles of each request: the first one has all but the last, and the second one that."""
    fixed = [TROUBLES[:-1], TROUBLES[-1:]]
    drawn = [
        tuple(trouble for trouble in TROUBLES if draw.random() < LIKELY) for _ in range(requests)
    ]
    return [*fixed, *drawn][:requests]


def record(
    backend: DecodeBackend, *, requests: int = 4, steps: int = 6, seed: int = 0
) -> Recording:
    """Run requests of so many outputs each on a backend, from a reset on, and close the log.

    Where the process dies on the way (`CrashError`), the log is closed by what readers see afterwards.

    Raises:
        UnexpectedReplyError: the backend is not sound.
    """
    draw = random.Random(seed)
    backend.reset(instance_for(steps))
    run, crash = Run(backend, draw, steps), ""
    try:
        run.all(scripts_for(requests, draw))
    except CrashError as died:
        crash = str(died)
    closing = backend.closing()
    if backend.telemetry is not None:
        backend.telemetry.end(closing)
    return Recording(closing, run.events, run.outputs, crash)
