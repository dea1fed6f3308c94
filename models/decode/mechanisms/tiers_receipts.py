"""Lookups and sends of the two tiers: who pins a host buffer and reads it, and what is sent from a page.

A client's read copies a host buffer into its own, a send a page into the receiver's, with the bytes that lie
there when the copy is made.
"""

from __future__ import annotations

from kvspec.models.decode.backend_tables import RefusedError
from kvspec.models.decode.mechanisms import tiers_rows as rows
from kvspec.models.decode.mechanisms.tiers_requests import Job, Lookup, Slot


class Receipts:
    """The part of a cache that lookups and sends are told to.

    Attributes:
        lookups, sends: by their ids.
        slots, buffers: the host tier.
        pool, page_of, present: the device tier.
        paths: for each node the nodes above it, from the shortest prefix on.
        holders: for each node the requests that have a reference to it.
    """

    _faults: frozenset[str]
    lookups: list[Lookup]
    sends: list[Job]
    slots: list[Slot]
    buffers: list[rows.Buffer]
    pool: list[rows.Buffer]
    page_of: dict[int, int]
    present: set[int]
    paths: list[rows.Chain]
    holders: list[set[int]]

    def chain(self, n: int) -> rows.Chain:
        """The path of a node, itself included."""
        return (*self.paths[n], n)

    def _lacks(self, fault: str) -> bool:
        return fault in self._faults

    def _need(self, holds: bool, code: str) -> None:
        if not holds:
            raise RefusedError(code, "")

    # Lookups.

    def _look_up(self, q: int, s: int) -> None:
        slot = self.slots[s]
        self._need(self.lookups[q].state == "UNUSED", "LOOKUP_IN_USE")
        self._need(slot.copy_of is not None and slot.is_whole, "NOT_ON_HOST")
        assert slot.copy_of is not None  # noqa: S101  # a whole copy is of a node
        slot.pins += 1
        self.lookups[q] = Lookup("OPEN", s, slot.pins, self.chain(slot.copy_of))

    def _begin_read(self, q: int) -> None:
        self._need_open(q, "begin_read.without-a-receipt")
        self._need(self.lookups[q].read == "NONE", "READ_BEGUN")
        self.lookups[q].read = "IN_FLIGHT"

    def _end_read(self, q: int) -> None:
        lookup = self.lookups[q]
        self._need(lookup.read == "IN_FLIGHT", "NO_READ")
        assert lookup.slot is not None  # noqa: S101  # a lookup that has begun has a slot
        lookup.read = "DONE"
        rows.copy(lookup.received, self.buffers[lookup.slot])

    def _retrieve(self, q: int) -> None:
        self._need_open(q)
        self._need(self.lookups[q].read == "DONE", "NOTHING_READ")
        self._end_lookup(q)

    def _decline(self, q: int) -> None:
        self._need_open(q, "decline.a-second-time")
        self._need(self.lookups[q].read == "NONE", "READ_BEGUN")
        self._end_lookup(q, unpins=not self._lacks("decline.drop-assignment.pins"))

    def _time_out(self, q: int) -> None:
        self._need_open(q)
        if self._lacks("time_out.only-after-a-read"):
            self._need(self.lookups[q].read == "DONE", "LOOKUP_NOT_OPEN")
        if not self._lacks("time_out.drop-guard.READ_IN_FLIGHT"):
            self._need(self.lookups[q].read != "IN_FLIGHT", "READ_IN_FLIGHT")
        self._end_lookup(q)

    def _need_open(self, q: int, unless: str | None = None) -> None:
        """The lookup has its pin, or with a fault has had one."""
        states = {"OPEN", "ENDED"} if unless in self._faults else {"OPEN"}
        self._need(self.lookups[q].state in states, "LOOKUP_NOT_OPEN")

    def _end_lookup(self, q: int, *, unpins: bool = True) -> None:
        ended = self.lookups[q]
        assert ended.slot is not None  # noqa: S101  # a lookup that has begun has a slot
        slot = self.slots[ended.slot]
        for other in self.lookups:
            if other.has_pin and other.slot == ended.slot and other.seat == slot.pins:
                other.seat = ended.seat
        ended.state, ended.seat = "ENDED", 0
        if unpins:
            slot.pins -= 1

    # Sends.

    def _queue_send(self, x: int, h: int, n: int) -> None:
        self._need(self.sends[x].state == "UNUSED", "SEND_IN_USE")
        self._need(h in self.holders[n], "NOT_REFERENCED")
        self.sends[x] = Job("QUEUED", n, "WAITING", path=self.chain(n))

    def _send(self, x: int) -> None:
        job = self.sends[x]
        self._need(job.state == "QUEUED", "SEND_NOT_QUEUED")
        job.state = "SENT"
        if job.receiver != "WAITING":
            return
        job.receiver = "HAS_ROWS"
        assert job.node is not None  # noqa: S101  # a send that was queued is of a node
        if job.node in self.present:
            rows.copy(job.received, self.pool[self.page_of[job.node]])

    def _fail_send(self, x: int) -> None:
        self._need(self.sends[x].state == "QUEUED", "SEND_NOT_QUEUED")
        self.sends[x].state = "FAILED"

    def _give_notice(self, x: int) -> None:
        self._need(self.sends[x].state == "FAILED", "SEND_NOT_FAILED")
        self._need(self.sends[x].receiver == "WAITING", "NO_RECEIVER_WAITS")
        self.sends[x].has_notice = True

    def _lose_notice(self, x: int) -> None:
        self._need(self.sends[x].has_notice, "NO_NOTICE")
        self.sends[x].has_notice = False

    def _take_notice(self, x: int) -> None:
        self._need(self.sends[x].has_notice, "NO_NOTICE")
        self.sends[x].receiver, self.sends[x].has_notice = "HAS_FAILURE", False

    def _receiver_crashes(self, x: int) -> None:
        self._need(self.sends[x].receiver == "WAITING", "NO_RECEIVER_WAITS")
        self.sends[x].receiver, self.sends[x].has_notice = "CRASHED", False
