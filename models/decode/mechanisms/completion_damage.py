"""Harm of releases in numbers: rows that a peer finds to be another's, and bytes that nobody can be given.

Both are found by trying, on a cache brought to the same state that from there on goes by the sound rules.
A block that nobody owns is given to a new request, and a peer that is still at work goes on reading. A handle
gets its next request, which is cancelled under its peers: a release that is left over falls on it. And all
that can end ends by itself, without a lease unless a peer is lost: the bytes of a block that a new request is
then refused, or does not give back, are lost. What the records say of pins and releases counts for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from attrs import define
from torch import Tensor

from kvspec.models.backend import Damage, Reply
from kvspec.models.concrete.machine import Event
from kvspec.models.decode.backend_tables import FREE, Pool

BY_ITSELF = ("resume", "land", "register", "arrive")
"""What comes to the peer of a part and to its report in the end."""


@define(eq=False)
class Duty:
    """A part of a request: its pin, its peer, and the block that the peer reads.

    letter: the generation, counted from 1, that the report on its way names; 0 without one. early: a report
    came before the worker listened. wanted: the rows for which the peer came.
    """

    pin: str = "NONE"
    peer: str = "IDLE"
    letter: int = 0
    early: bool = False
    block: int | None = None
    wanted: Tensor | None = None

    @property
    def is_owed(self) -> bool:
        """The rows are held for the part."""
        return self.pin in {"HELD", "AWAITED"}

    @property
    def waits(self) -> bool:
        """The rows are held, and no report has come."""
        return self.is_owed and not self.early

    @property
    def is_used(self) -> bool:
        """The peer is at work on the rows, or will be when it goes on."""
        return self.peer in {"BUSY", "STALLED"}


class Owing(Protocol):
    """What of a cache is tried."""

    duties: list[list[Duty]]

    @property
    def pool(self) -> Pool:
        """Blocks, and who owns them."""
        ...

    @property
    def phases(self) -> list[str]:
        """The phase of each handle."""
        ...

    def again(self) -> Owing:
        """Another cache in the same state, which goes on by the sound rules."""
        ...

    def perform(self, event: Event) -> Reply:
        """Carry out an event, or refuse it."""
        ...


def rows_in(pool: Pool, b: int) -> Tensor:
    """A copy of the K and V rows of a block, in all layers."""
    return torch.stack((pool.keys[:, b], pool.values[:, b]))


def rows_of_others(now: Owing) -> Iterator[Damage]:
    """Bytes that a peer reads and did not come for, at once or after the block is given away."""
    found = dict(_wrong(now))
    for b in _unowned(now):
        tried = now.again()
        _do(tried, "evict", b=b)
        h = next((h for h, phase in enumerate(tried.phases) if phase in FREE), None)
        if h is not None:
            _do(tried, "allocate", h=h, b=b, a=0)
        found |= dict(_wrong(tried))
    for (h, p), wrong in sorted(found.items()):
        where = f"handle{h}, part{p}"
        text = f"the peer of {where} reads {wrong} bytes that are not of the rows it came for"
        yield Damage("rows", where, float(wrong), text)


def rows_of_the_next(now: Owing) -> Iterator[Damage]:
    """Bytes that peers of the next request of a handle lose, since a release is left over."""
    for h, duties in enumerate(now.duties):
        tried = now.again()
        _release(tried, h)
        for b in _unowned(tried):
            _do(tried, "evict", b=b)
            _do(tried, "allocate", h=h, b=b, a=0)
        begun = {p for p in range(len(duties)) if _do(tried, "hold", h=h, p=p).accepted}
        _do(tried, "cancel_request", h=h)
        _release(tried, h)
        for b in _unowned(tried):
            _do(tried, "evict", b=b)
        wrong = sum(bytes_ for (g, p), bytes_ in _wrong(tried) if g == h and p in begun)
        if wrong:
            text = (
                f"the next request of handle{h} is released under its peers: they read {wrong} "
                "bytes that are not of its rows"
            )
            yield Damage("rows", f"handle{h}", float(wrong), text)


def bytes_lost(now: Owing) -> Iterator[Damage]:
    """Bytes of blocks that no new request can be given and give back, though all has come to its end."""
    tried = now.again()
    _let_all_end(tried)
    for b, held in enumerate(tried.pool.held):
        code = None if held is None else _do(tried, "evict", b=b).code
        for h, phase in enumerate(tried.phases):
            if code is None and phase in FREE:
                code = _do(tried, "allocate", h=h, b=b, a=0).code
                _do(tried, "cancel_request", h=h)
                _release(tried, h)
                code = code or _do(tried, "evict", b=b).code
        if code is not None:
            size = rows_in(tried.pool, b).nbytes
            text = f"{size} bytes of block{b} do not come back, whoever has ended: {code}"
            yield Damage("owner", f"block{b}", float(size), text)


def _let_all_end(tried: Owing) -> None:
    """Cancel what runs, let each part come to its end, and release."""
    for h, duties in enumerate(tried.duties):
        _do(tried, "cancel_request", h=h)
        for p, duty in enumerate(duties):
            for action in BY_ITSELF:
                _do(tried, action, h=h, p=p)
            if duty.peer == "LOST":
                _do(tried, "expire", h=h, p=p)
    for h in range(len(tried.duties)):
        _release(tried, h)


def _release(tried: Owing, h: int) -> None:
    _do(tried, "leave", h=h)
    _do(tried, "release", h=h)


def _wrong(cache: Owing) -> Iterator[tuple[tuple[int, int], int]]:
    """For each peer at work the bytes that it reads and did not come for, where there are some."""
    for h, duties in enumerate(cache.duties):
        for p, duty in enumerate(duties):
            if duty.is_used and duty.block is not None and duty.wanted is not None:
                read = rows_in(cache.pool, duty.block)
                wrong = int((read != duty.wanted).sum()) * read.element_size()
                if wrong:
                    yield (h, p), wrong


def _unowned(cache: Owing) -> list[int]:
    pool = cache.pool
    return [b for b, held in enumerate(pool.held) if held is not None and not pool.owners[b]]


def _do(tried: Owing, action: str, **values: int) -> Reply:
    return tried.perform(Event(action, tuple(values.items())))
