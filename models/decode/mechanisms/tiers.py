"""A device tier and a host tier of real rows, with tables and checks of their own, and faults to switch on.

Modelled: requests that compute prefixes, match them and leave; stores and loads that copy a node's rows
between a device page and a host buffer; eviction from both; retracted requests, whose rows move between their
block and a host buffer; lookups and sends (`tiers_receipts`). All nodes share one pool of pages. A page or a
buffer that is given back keeps its bytes until somebody else gets it, and requests and copies go on with the
page that they were given when they began. Damage is measured at what is read (`tiers_damage`).
Left out: the network of a send; rows of appends, which begin, are aborted and stage nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kvspec.models.backend import Damage, Reply
from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_tables import RefusedError
from kvspec.models.decode.mechanisms import tiers_rows as rows
from kvspec.models.decode.mechanisms.tiers_damage import damage_of
from kvspec.models.decode.mechanisms.tiers_observe import seen
from kvspec.models.decode.mechanisms.tiers_receipts import Receipts
from kvspec.models.decode.mechanisms.tiers_requests import (
    Job,
    Lookup,
    Request,
    Slot,
)
from kvspec.models.decode.mechanisms.tiers_running import Append, Carried, Running
from kvspec.spec.language import Instance

FAULTS: Final = {
    "evict_from_host.under-a-load": "a host buffer is given back while a load reads it",
    "evict_from_host.drop-guard.PINNED": "a host buffer is given back in spite of its pins",
    "evict_from_device.drop-guard.COPY_IN_FLIGHT": "a page is given back while a store reads it",
    "evict_from_device.drop-guard.SEND_QUEUED": "a page is given back that a send has still to read",
    "evict_from_device.never-after-a-failed-send": "a failed send still counts as a reader",
    "match.before-the-load-ends": "a prefix is matched as soon as its load has begun",
    "match.only-above": "a match holds the nodes above the matched one alone",
    "match.only-the-last": "a match holds the matched node alone",
    "fork.drop-assignment.reference": "children hold nothing of what they read",
    "end_load.drop-assignment.load_from": "a load that has ended still holds its host buffer",
    "decline.drop-assignment.pins": "a declined lookup leaves its pin",
    "decline.a-second-time": "a lookup that has ended drops its pin again",
    "time_out.drop-guard.READ_IN_FLIGHT": "a timeout takes the pin of a read in flight",
    "time_out.only-after-a-read": "a timeout takes the pins of clients that have read alone",
    "begin_read.without-a-receipt": "a client reads a host buffer that it has no pin of",
    "release.drop-assignment.kept_for": "release gives up the device alone",
}
"""Every fault that the cache can be given, by name, with what it does."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of the two tiers, or None."""
    return mutation if mutation in FAULTS else None


class Cache(Receipts):
    """Both tiers, the index of prefixes, and everybody who holds rows.

    Attributes:
        pool: the device pages that all nodes share, and `free`, those that nobody has been given,
            the one that is given next at the front.
        page_of: the page that a node has, and `present`, the nodes whose rows are in their page.
        blocks: the rows that requests have beside cached prefixes.
        buffers: the host buffer of each slot, and `slots`, what each is for.
        paths: for each node the nodes above it, from the shortest prefix on.
        holders: for each node the requests that have a reference to it.
        loads: the host slot that is held for the load of a node.
        loading: the nodes of which a load is under way.

    Raises:
        ValueError: a fault is not one of ``FAULTS``, or an event is of the rows of an append.
    """

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        self._faults = known_faults(faults, FAULTS)

    def reset(self, instance: Instance) -> None:
        """Begin anew with a pool of pages and a host buffer for each slot, all of them empty.

        The pool has a page more than there are nodes, so that a page is not at once given out again.
        """
        sizes = instance.sizes
        self._variables = list(instance.system.variables)
        self.layers = sizes["Layer"]
        self.running = Running(sizes["Txn"], sizes["Row"], sizes["Layer"])
        self._context = int(instance.constants["context"] or 0)
        self.requests = [Request() for _ in range(sizes["Handle"])]
        self.owners: list[set[int]] = [set() for _ in range(sizes["Block"])]
        self.filled = [False] * sizes["Block"]
        self.blocks = [rows.empty() for _ in self.filled]
        self.pool = [rows.empty() for _ in range(sizes["Node"] + 1)]
        self.free = list(range(len(self.pool)))
        self.page_of: dict[int, int] = {}
        self.present: set[int] = set()
        self.paths: list[rows.Chain] = [() for _ in range(sizes["Node"])]
        self.holders: list[set[int]] = [set() for _ in self.paths]
        self.loads: dict[int, int] = {}
        self.loading: set[int] = set()
        self.buffers = [rows.empty() for _ in range(sizes["HostSlot"])]
        self.slots = [Slot() for _ in self.buffers]
        self.lookups = [Lookup() for _ in range(sizes["Lookup"])]
        self.sends = [Job() for _ in range(sizes["Send"])]

    def perform(self, event: Event) -> Reply:
        """Carry out an event, or refuse it and change nothing."""
        do: Callable[..., None] | None = getattr(self, f"_{event.action}", None)
        if do is None:
            raise ValueError(
                f"found the event {event.action}, expected one that stages, publishes and retries no "
                "rows: this cache has appends that begin and are aborted"
            )
        try:
            do(**event.names)
        except RefusedError as refused:
            return Reply(accepted=False, code=refused.code)
        return Reply(accepted=True)

    def observe(self) -> State:
        """Every variable of the system; whose rows a page or a buffer has is told by their bytes."""
        found = {**seen(self), **self.running.seen()}
        return State(tuple(tuple(found[name]) for name in self._variables))

    def damage(self) -> list[Damage]:
        """What is read wrongly once all that is free has been given to others, and bytes held for nobody."""
        return damage_of(self)

    def own_chain(self, h: int) -> rows.Chain:
        """What a request's own rows are of: a prompt that no node has."""
        return (len(self.paths) + self.requests[h].family,)

    def fill_what_is_free(self) -> None:
        """Give every free page, block and buffer to a request that nobody here has to do with."""
        stranger = rows.rows_of((len(self.paths) + len(self.requests),))
        for page in list(self.free):
            rows.copy(self.pool[page], stranger)
        for b, is_filled in enumerate(self.filled):
            if not is_filled:
                rows.copy(self.blocks[b], stranger)
        for s, slot in enumerate(self.slots):
            if slot.is_empty:
                rows.copy(self.buffers[s], stranger)

    def is_retracted(self, h: int) -> bool:
        """Some host buffer has the rows of the request."""
        return any(slot.kept_for == h for slot in self.slots)

    def stored_to(self, n: int) -> bool:
        """A store reads the node's page."""
        return any(slot.copy_of == n and slot.is_storing for slot in self.slots)

    def device_code(self, n: int) -> str | None:
        """Why the node's page cannot be given back; None if it can."""
        waits = ["QUEUED"]
        if "evict_from_device.never-after-a-failed-send" in self._faults:
            waits.append("FAILED")
        if self.holders[n]:
            return "REFERENCED"
        if self.stored_to(n) and not self._lacks("evict_from_device.drop-guard.COPY_IN_FLIGHT"):
            return "COPY_IN_FLIGHT"
        if any(job.node == n and job.state in waits for job in self.sends) and not self._lacks(
            "evict_from_device.drop-guard.SEND_QUEUED"
        ):
            return "SEND_QUEUED"
        return None

    def host_code(self, s: int) -> str | None:
        """Why the slot's buffer cannot be given back; None if it can."""
        slot = self.slots[s]
        is_read = s in self.loads.values() and not self._lacks("evict_from_host.under-a-load")
        if slot.is_storing or is_read:
            return "COPY_IN_FLIGHT"
        if slot.pins and not self._lacks("evict_from_host.drop-guard.PINNED"):
            return "PINNED"
        return None

    def _need_ready(self, h: int) -> None:
        self._need(self.requests[h].phase == "DECODE_READY", "HANDLE_TERMINAL")

    # Requests.

    def _allocate(self, h: int, b: int, a: int) -> None:
        request = self.requests[h]
        self._need(not request.is_held, "HANDLE_LIVE")
        self._need(not self.filled[b], "BLOCK_IN_USE")
        self.requests[h] = Request("DECODE_READY", request.generation, abi=a, family=h)
        self.filled[b] = True
        self.owners[b].add(h)
        rows.copy(self.blocks[b], rows.rows_of(self.own_chain(h)))

    def _fork(self, p: int, children: tuple[bool, ...], n: int) -> None:
        parent = self.requests[p]
        born = [h for h, is_child in enumerate(children) if is_child]
        self._need_ready(p)
        self._need(bool(born), "NO_CHILD")
        self._need(n == 0, "BEYOND_COMMITTED")
        self._need(not any(self.requests[h].is_held for h in born), "CHILD_IN_USE")
        self._need(not self.is_retracted(p), "RETRACTED")
        for h in born:
            generation = self.requests[h].generation
            self.requests[h] = Request(
                "DECODE_READY",
                generation,
                0,
                parent.abi,
                p,
                parent.family,
                parent.path,
                parent.table,
            )
            for owners in self.owners:
                if p in owners:
                    owners.add(h)
            for holders in self.holders:
                if p in holders and not self._lacks("fork.drop-assignment.reference"):
                    holders.add(h)

    def _truncate(self, h: int, n: int) -> None:
        self._need_ready(h)
        self._need(n == 0, "BEYOND_COMMITTED")
        self._need(not self.is_retracted(h), "RETRACTED")
        self.requests[h].version += 1

    def _finish(self, h: int) -> None:
        self._need_ready(h)
        self.requests[h].phase = "FINISHED"

    def _cancel_request(self, h: int) -> None:
        self._need_ready(h)
        self.requests[h].phase = "CANCELLED"
        for append in self.running.appends_to(h, self.requests[h].generation):
            append.abort()

    def _release(self, h: int) -> None:
        request = self.requests[h]
        self._need(request.phase in ("FINISHED", "CANCELLED"), "NOT_TERMINAL")
        self._need(not self.running.carries(h), "ROW_HOLDS_HANDLE")
        request.phase = "RELEASED"
        request.generation += 1
        for owners in self.owners:
            owners.discard(h)
        self._drop_references(h)
        for s, slot in enumerate(self.slots):
            if slot.kept_for == h and not self._lacks("release.drop-assignment.kept_for"):
                self._give_back(s)

    def _evict(self, b: int) -> None:
        self._need(self.filled[b], "BLOCK_EMPTY")
        self._need(not self.owners[b], "STILL_OWNED")
        self.filled[b] = False

    def _begin(self, x: int, h: int, k: int, a: int, p: int, n: int) -> None:
        request = self.requests[h]
        self._need(self.running.appends[x].state == "IDLE", "TXN_IN_USE")
        self._need_ready(h)
        self._need(request.abi == a, "ABI_MISMATCH")
        self._need(p == 0, "POSITION_MISMATCH")
        self._need(n >= 1, "EMPTY_APPEND")
        self._need(n <= self._context, "CONTEXT_FULL")
        self._need(not self.is_retracted(h), "RETRACTED")
        self.running.appends[x] = Append("OPEN", h, request.generation, request.version, a, k, n)

    def _cancel_txn(self, x: int) -> None:
        self._need(self.running.appends[x].state == "OPEN", "TXN_CLOSED")
        self.running.appends[x].abort()

    def _enter(self, r: int, h: int) -> None:
        self._need_ready(h)
        self._need(self.running.batch[r].row_cache is None, "ROW_TAKEN")
        self._need(not self.running.carries(h), "IN_BATCH")
        self._need(not self.is_retracted(h), "RETRACTED")
        self.running.batch[r] = Carried(h, self.requests[h].parent)

    def _leave(self, h: int) -> None:
        self._need(self.running.carries(h), "NOT_IN_BATCH")
        self.running.batch = [Carried() if r.row_cache == h else r for r in self.running.batch]

    def _reorder(self, source: tuple[int, ...]) -> None:
        self._need(len(set(source)) == len(source), "NOT_A_PERMUTATION")
        self.running.batch = [self.running.batch[r] for r in source]

    def _drop_references(self, h: int) -> None:
        self.requests[h].path = self.requests[h].table = ()
        for holders in self.holders:
            holders.discard(h)

    def _retract(self, h: int, s: int) -> None:
        self._need_ready(h)
        self._need(not self.is_retracted(h), "RETRACTED")
        self._need(self.slots[s].is_empty, "SLOT_TAKEN")
        self._need(not self.running.carries(h), "ROW_HOLDS_HANDLE")
        appends = self.running.appends_to(h, self.requests[h].generation)
        self._need(not appends, "APPEND_IN_FLIGHT")
        self.slots[s].kept_for = h
        rows.copy(self.buffers[s], self._block_of(h))
        self._drop_references(h)

    def _resume(self, h: int, s: int) -> None:
        self._need_ready(h)
        self._need(self.slots[s].kept_for == h, "NOT_RETRACTED")
        rows.copy(self._block_of(h), self.buffers[s])
        self._give_back(s)

    def _block_of(self, h: int) -> rows.Buffer:
        """The rows that a request has beside cached prefixes."""
        return next(self.blocks[b] for b, owners in enumerate(self.owners) if h in owners)

    # Prefixes.

    def _is_cached(self, n: int) -> bool:
        is_copied = any(slot.copy_of == n for slot in self.slots)
        return n in self.present or n in self.loads or is_copied

    def _insert(self, h: int, n: int) -> None:
        self._need_ready(h)
        self._need(not self.is_retracted(h), "RETRACTED")
        self._need(not self._is_cached(n), "NODE_CACHED")
        longer = [m for m, path in enumerate(self.paths) if n in path and self._is_cached(m)]
        self._need(not longer, "LONGER_CACHED")
        self.paths[n] = self.requests[h].path
        page = self._take_page(n)
        self.requests[h].path = self.chain(n)
        self.requests[h].table += (page,)
        rows.copy(self.pool[page], rows.rows_of(self.chain(n)))
        self.present.add(n)
        self.holders[n].add(h)

    def _match(self, h: int, n: int) -> None:
        self._need_ready(h)
        self._need(not self.is_retracted(h), "RETRACTED")
        self._need(not self.requests[h].path, "HAS_MATCHED")
        there = set(self.present)
        if self._lacks("match.before-the-load-ends"):
            there |= self.loads.keys()
        chain = self.chain(n)
        self._need(there.issuperset(chain), "NOT_ON_DEVICE")
        self.requests[h].path = chain
        self.requests[h].table = tuple(self.page_of[m] for m in chain)
        held = chain
        if self._lacks("match.only-above"):
            held = chain[:-1]
        if self._lacks("match.only-the-last"):
            held = chain[-1:]
        for m in held:
            self.holders[m].add(h)

    # Copies and eviction.

    def _take_page(self, n: int) -> int:
        """Give a node the page that has been free for longest; what is in it stays till it is written."""
        self.page_of[n] = self.free.pop(0)
        return self.page_of[n]

    def _store(self, n: int, s: int) -> None:
        self._need(n in self.present, "NOT_ON_DEVICE")
        self._need(not any(slot.copy_of == n for slot in self.slots), "ON_HOST")
        self._need(self.slots[s].is_empty, "SLOT_TAKEN")
        self.slots[s].copy_of, self.slots[s].source = n, self.page_of[n]

    def _end_store(self, s: int) -> None:
        source = self.slots[s].source
        self._need(self.slots[s].is_storing, "NO_STORE")
        assert source is not None  # noqa: S101  # a store reads a page
        rows.copy(self.buffers[s], self.pool[source])
        self.slots[s].is_whole = True

    def _load(self, n: int, s: int) -> None:
        slot = self.slots[s]
        self._need(slot.copy_of == n and slot.is_whole, "NOT_ON_HOST")
        self._need(n not in self.present and n not in self.loads, "ON_DEVICE")
        self._take_page(n)
        self.loads[n] = s
        self.loading.add(n)

    def _end_load(self, n: int) -> None:
        self._need(n in self.loads, "NO_LOAD")
        page = self.page_of[n] if n in self.page_of else self._take_page(n)
        rows.copy(self.pool[page], self.buffers[self.loads[n]])
        self.present.add(n)
        self.loading.discard(n)
        if not self._lacks("end_load.drop-assignment.load_from"):
            del self.loads[n]

    def _evict_from_device(self, n: int) -> None:
        self._need(n in self.present, "NOT_ON_DEVICE")
        if (code := self.device_code(n)) is not None:
            raise RefusedError(code, "")
        self.present.remove(n)
        self.free.append(self.page_of.pop(n))

    def _evict_from_host(self, s: int) -> None:
        self._need(self.slots[s].copy_of is not None, "NOT_ON_HOST")
        if (code := self.host_code(s)) is not None:
            raise RefusedError(code, "")
        self._give_back(s)

    def _give_back(self, s: int) -> None:
        self.slots[s] = Slot(pins=self.slots[s].pins)
