"""Harm of transfers in numbers: logits and rows that are off, and bytes that nobody can be given again.

Which bytes are lost is found by trying, on a cache brought to the same state: every step is taken that
the ends of a transfer take by themselves, requests that have ended are released, and each block that nobody
owns is given to a new request. The bytes of a block that is refused to it are lost, whatever the records say
of who has them. A block that can be given away at once is tried without these steps: what senders still write
then lands in the rows of the new request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from kvspec.models.backend import Damage, Reply
from kvspec.models.concrete.machine import Event
from kvspec.models.decode.backend_tables import FREE, TERMINAL
from kvspec.models.decode.mechanisms.tiers_rows import size_of
from kvspec.models.decode.mechanisms.transfer_ends import Move, Place, logits_off, wrong_bytes

ENDING = ("cancel", "register", "give_up", "end_lease", "drain", "admit_rows", "list_entry")
"""What the ends of a transfer do in the end, whatever its sender does."""


class Ends(Protocol):
    """What of a cache is tried."""

    moves: list[Move]
    blocks: list[Place]

    @property
    def layers(self) -> int:
        """Layers of the instance."""
        ...

    @property
    def phases(self) -> list[str]:
        """The phase of each handle."""
        ...

    @property
    def unowned(self) -> list[int]:
        """Blocks with rows that no request owns."""
        ...

    def again(self) -> Ends:
        """Another cache in the same state."""
        ...

    def perform(self, event: Event) -> Reply:
        """Carry out an event, or refuse it."""
        ...


def logits_that_are_off(
    blocks: Sequence[Place], read: Sequence[bool], layers: int
) -> Iterator[Damage]:
    """Logits behind the rows of a block whose request may read it."""
    for number, (block, owned) in enumerate(zip(blocks, read, strict=True)):
        if owned and not block.arriving and wrong_bytes(block, layers):
            most, where = logits_off(block), f"block{number}"
            text = f"logits behind the rows of {where} are off by {most:g}"
            yield Damage("logits", where, most, text)


def entries_that_are_not_whole(entries: Sequence[Place], layers: int) -> Iterator[Damage]:
    """Bytes of an entry that is found, and that are not those of its key."""
    for number, entry in enumerate(entries):
        wrong = wrong_bytes(entry, layers)
        if entry.state == "VISIBLE" and wrong:
            text = f"{wrong} bytes of entry{number} are not those of its key, and it is found"
            yield Damage("rows", f"entry{number}", float(wrong), text)


def bytes_lost(now: Ends) -> Iterator[Damage]:
    """Bytes of blocks that no new request can be given, though all that could has come to its end."""
    tried = now.again()
    _let_all_end(tried)
    for b in tried.unowned:
        code = _give_away(tried, b)
        if code is not None:
            size = size_of(tried.blocks[b].buffer)
            text = (
                f"{size} bytes of block{b} are nobody's, and no request can be given them: {code}"
            )
            yield Damage("owner", f"block{b}", float(size), text)


def rows_written_over(now: Ends) -> Iterator[Damage]:
    """Bytes of a new request that are wrong, since a sender writes to a block that was given away."""
    for b in now.unowned:
        tried = now.again()
        if _give_away(tried, b) is None:
            for t in range(len(tried.moves)):
                for layer in range(tried.layers):
                    tried.perform(Event("land", (("t", t), ("l", layer))))
            wrong = wrong_bytes(tried.blocks[b], tried.layers)
            if wrong:
                text = f"a request that is given block{b} finds {wrong} bytes that are not its own"
                yield Damage("rows", f"block{b}", float(wrong), text)


def _let_all_end(tried: Ends) -> None:
    """Release what has ended, and take the steps of the ends until there are none."""
    for h, phase in enumerate(tried.phases):
        if phase in TERMINAL:
            tried.perform(Event("leave", (("h", h),)))
            tried.perform(Event("release", (("h", h),)))
    for t, move in enumerate(tried.moves):
        before = None
        while before != (now := (move.stage, move.waiter, move.lease)):
            before = now
            for action in ENDING:
                tried.perform(Event(action, (("t", t),)))


def _give_away(tried: Ends, b: int) -> str | None:
    """Free a block and give it to a new request; the code of what refuses that, or None."""
    freed = tried.perform(Event("evict", (("b", b),)))
    h = next((h for h, phase in enumerate(tried.phases) if phase in FREE), None)
    if not freed.accepted or h is None:
        return freed.code
    given = tried.perform(Event("allocate", (("h", h), ("b", b), ("a", 0))))
    for action in ("cancel_request", "release"):
        tried.perform(Event(action, (("h", h),)))
    return given.code
