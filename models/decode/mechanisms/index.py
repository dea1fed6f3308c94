"""A prefix index over pages of real rows, with its own tables and checks, and with faults to switch on.

Modelled: requests that fill a page each, publish it to the index, match pages of others, and leave; loads
into pages from a tier of some weights, corrupt pages and their repair; sleep, which zeroes all pages, and
new weights, which are another decoder. A block has a set of claims, one of them that of the index. Damage
is measured at the pages that a request reads: logits behind the page against an uncached run, rows that are
not its own, and bytes that are held for nobody. Who read a page when it was found corrupt is stopped, and
what it reads counts no more; who comes to read it later does not know.
Left out: appends and batch rows, so that an instance must have none of them.
"""

from __future__ import annotations

from collections.abc import Callable

from kvspec.models.backend import Damage, Reply
from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State, Value
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_tables import RefusedError
from kvspec.models.decode.mechanisms.checks import Checked
from kvspec.models.decode.mechanisms.index_damage import of_leak, of_load, of_page
from kvspec.models.decode.mechanisms.index_pages import Kind, Pages
from kvspec.models.decode.mechanisms.index_tables import (
    FAULTS,
    INDEX,
    Entry,
    Request,
    fault_for,
)
from kvspec.spec.language import Instance

__all__ = ["FAULTS", "Cache", "fault_for"]


class Cache(Checked):
    """The pages, the index over them, and the requests that fill and read them.

    Raises:
        ValueError: a fault is not one of ``FAULTS``, or an instance has appends or batch rows.
    """

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        self._faults = known_faults(faults, FAULTS)

    def reset(self, instance: Instance) -> None:
        """Begin anew with empty pages, a handle for each of the instance, and no entry."""
        for sort in ("Txn", "Row"):
            if instance.sizes[sort]:
                raise ValueError(
                    f"{instance.name} has {instance.sizes[sort]} members of {sort}, and this cache has "
                    "neither appends nor batch rows: give an instance without"
                )
        self._variables = list(instance.system.variables)
        self._layers, self._contents = instance.sizes["Layer"], instance.sizes["Content"]
        self._requests = [Request() for _ in range(instance.sizes["Handle"])]
        blocks = instance.sizes["Block"]
        self._pages = Pages(blocks)
        self._free = set(range(blocks))
        self._claims: list[set[int]] = [set() for _ in range(blocks)]
        self._entries: dict[int, Entry] = {}
        self._memory = self._weights = self._tier = 0
        self._is_asleep = False

    def perform(self, event: Event) -> Reply:
        """Carry out an event, or refuse it and change nothing."""
        self._action = event.action
        do: Callable[..., None] = getattr(self, f"_{event.action}")
        try:
            do(**event.names)
        except RefusedError as refused:
            return Reply(accepted=False, code=refused.code)
        return Reply(accepted=True)

    def _has(self, fault: str) -> bool:
        return f"{self._action}.{fault}" in self._faults

    # Requests.

    def _allocate(self, h: int, b: int, a: int, c: int) -> None:
        request = self._requests[h]
        self._need(not request.is_held, "HANDLE_LIVE")
        self._need(b in self._free, "BLOCK_IN_USE")
        self._need(not self._is_asleep, "ASLEEP")
        self._requests[h] = Request(
            "DECODE_READY", request.generation, abi=a, prompt=c, reads=request.reads
        )
        self._free.remove(b)
        self._claims[b].add(h)
        self._pages.write(b, Kind(c, a, self._weights))

    def _fork(self, p: int, children: tuple[bool, ...], n: int) -> None:
        parent = self._requests[p]
        born = [h for h, is_child in enumerate(children) if is_child]
        self._need(parent.phase == "DECODE_READY", "HANDLE_TERMINAL")
        self._need(bool(born), "NO_CHILD")
        self._need(n == 0, "BEYOND_COMMITTED")
        self._need(not any(self._requests[h].is_held for h in born), "CHILD_IN_USE")
        self._need(not any(self._is_corrupt(b) for b in parent.reads), "READS_CORRUPT")
        for h in born:
            generation = self._requests[h].generation
            self._requests[h] = Request(
                "DECODE_READY", generation, 0, parent.abi, p, parent.prompt, set(parent.reads)
            )
            for claims in self._claims:
                if p in claims:
                    claims.add(h)

    def _truncate(self, h: int, n: int) -> None:
        self._need(self._requests[h].phase == "DECODE_READY", "HANDLE_TERMINAL")
        self._need(n == 0, "BEYOND_COMMITTED")
        self._requests[h].version += 1

    def _finish(self, h: int) -> None:
        self._end(h, "FINISHED")

    def _cancel_request(self, h: int) -> None:
        self._end(h, "CANCELLED")

    def _end(self, h: int, phase: str) -> None:
        self._need(self._requests[h].phase == "DECODE_READY", "HANDLE_TERMINAL")
        self._requests[h].phase = phase

    def _release(self, h: int) -> None:
        request = self._requests[h]
        self._need(request.phase in ("FINISHED", "CANCELLED"), "NOT_TERMINAL")
        request.phase, request.prompt = "RELEASED", None
        request.generation += 1
        for entry in self._entries.values():
            entry.stopped.discard(h)
        if not self._has("drop-assignment.reader"):
            request.reads.clear()
        for claims in self._claims:
            claims.discard(h)

    def _evict(self, b: int) -> None:
        self._need(b not in self._free, "BLOCK_EMPTY")
        self._need(not self._claims[b] - {INDEX}, "STILL_OWNED")
        self._need(INDEX not in self._claims[b], "STILL_INDEXED")
        self._free.add(b)

    def _leave(self, h: int) -> None:  # noqa: ARG002  # no handle is in a batch row
        self._need(False, "NOT_IN_BATCH")

    def _reorder(self, source: tuple[int, ...]) -> None:
        """Nothing is in a batch row, so that nothing moves."""

    # The index.

    def _state(self, b: int) -> str:
        return self._entries[b].state if b in self._entries else "ABSENT"

    def _is_corrupt(self, b: int) -> bool:
        return b in self._entries and self._entries[b].is_corrupt

    def _is_read(self, b: int) -> bool:
        return any(b in request.reads for request in self._requests)

    def _index_rows(self, h: int, b: int) -> None:
        request = self._requests[h]
        self._need(request.phase == "DECODE_READY", "HANDLE_TERMINAL")
        self._need(b not in self._entries, "BLOCK_INDEXED")
        self._need(h in self._claims[b], "NOT_OWNER")
        own = request.needs(self._weights)
        self._entries[b] = Entry("COMPLETE", own.content, own.abi, self._memory, self._weights)
        for owner in self._claims[b] - {INDEX}:
            self._requests[owner].reads.add(b)
        if not self._has("drop-assignment.kept"):
            self._claims[b].add(INDEX)

    def _match(self, h: int, b: int) -> None:
        request, entry = self._requests[h], self._entries.get(b)
        self._need(request.phase == "DECODE_READY", "HANDLE_TERMINAL")
        self._need(self._state(b) == "COMPLETE", "NOT_COMPLETE")
        self._need(entry is not None and entry.key == request.prompt, "OTHER_CONTENT")
        self._need(entry is not None and entry.abi == request.abi, "ABI_MISMATCH")
        self._need(entry is not None and entry.memory == self._memory, "STALE_MEMORY")
        self._need(entry is not None and entry.weights == self._weights, "STALE_WEIGHTS")
        request.reads.add(b)

    def _reserve(self, b: int, c: int, a: int) -> None:
        self._need(not self._is_asleep, "ASLEEP")
        self._need(self._tier == self._weights, "STALE_TIER")
        self._need(b in self._free, "BLOCK_IN_USE")
        self._free.remove(b)
        self._claims[b].add(INDEX)
        self._entries[b] = Entry("RESERVED", c, a, self._memory, self._weights)
        self._pages.begin_load(b, Kind(c, a, self._tier))

    def _complete(self, b: int) -> None:
        self._need(self._state(b) == "RESERVED", "NOT_RESERVED")
        self._entries[b].state = "COMPLETE"
        self._pages.end_load(b)

    def _fail(self, b: int) -> None:
        self._need(self._state(b) == "RESERVED", "NOT_RESERVED")
        self._entries[b].state = "WITHDRAWN"
        self._pages.fail_load(b)

    def _withdraw(self, b: int) -> None:
        self._need(self._state(b) == "COMPLETE", "NOT_COMPLETE")
        self._entries[b].state = "WITHDRAWN"

    def _find_corrupt(self, b: int) -> None:
        self._need(self._state(b) == "COMPLETE", "NOT_COMPLETE")
        entry = self._entries[b]
        entry.state, entry.is_corrupt = "WITHDRAWN", True
        entry.stopped = {h for h, request in enumerate(self._requests) if b in request.reads}
        self._pages.spoil(b)

    def _reload(self, b: int) -> None:
        self._need(not self._is_asleep, "ASLEEP")
        self._need(self._state(b) == "WITHDRAWN", "NOT_WITHDRAWN")
        self._need(self._tier == self._weights, "STALE_TIER")
        self._need(not self._is_read(b), "STILL_READ")
        entry = self._entries[b]
        self._entries[b] = Entry("RESERVED", entry.key, entry.abi, self._memory, self._weights)
        self._pages.begin_load(b, Kind(entry.key, entry.abi, self._tier))

    def _give_up(self, b: int) -> None:
        self._need(self._state(b) == "WITHDRAWN", "NOT_WITHDRAWN")
        self._need(not self._is_read(b), "STILL_READ")
        del self._entries[b]
        self._claims[b].discard(INDEX)

    def _sleep(self) -> None:
        self._need(not self._is_asleep, "ASLEEP")
        self._need(not any(request.is_held for request in self._requests), "REQUESTS_HELD")
        loads = any(entry.state == "RESERVED" for entry in self._entries.values())
        self._need(not loads, "LOADS_UNDER_WAY")
        self._is_asleep = True
        if not self._has("drop-assignment.memory"):
            self._memory += 1
        self._pages.drop()

    def _wake(self) -> None:
        self._need(self._is_asleep, "NOT_ASLEEP")
        self._is_asleep = False

    def _update_weights(self) -> None:
        self._need(not any(request.is_held for request in self._requests), "REQUESTS_HELD")
        self._weights += 1

    def _refill(self) -> None:
        self._need(self._tier != self._weights, "TIER_CURRENT")
        self._tier = self._weights

    # What is there.

    def observe(self) -> State:
        """Every variable of the system; which content the rows of a page are of is told by their bytes."""
        seen = {**self._seen_of_requests(), **self._seen_of_pages()}
        return State(tuple(tuple(seen.get(name, ())) for name in self._variables))

    def _seen_of_requests(self) -> dict[str, list[Value]]:
        requests = self._requests
        none: list[Value] = [0] * len(requests)
        names = ("phase", "generation", "version", "abi", "parent", "prompt")
        return {
            **{name: [getattr(request, name) for request in requests] for name in names},
            "length": none,
            "k_rows": none * self._layers,
            "v_rows": none * self._layers,
            "memory": [self._memory],
            "weights": [self._weights],
            "tier_weights": [self._tier],
            "asleep": [self._is_asleep],
        }

    def _seen_of_pages(self) -> dict[str, list[Value]]:
        blocks, handles = range(self._pages.blocks), range(len(self._requests))
        entries = [self._entries.get(b) for b in blocks]
        return {
            "filled": [b not in self._free for b in blocks],
            "owner": [h in self._claims[b] for b in blocks for h in handles],
            "entry": [self._state(b) for b in blocks],
            "entry_key": [None if e is None else e.key for e in entries],
            "entry_abi": [None if e is None else e.abi for e in entries],
            "entry_memory": [0 if e is None else e.memory for e in entries],
            "entry_weights": [0 if e is None else e.weights for e in entries],
            "kept": [INDEX in self._claims[b] for b in blocks],
            "reader": [b in self._requests[h].reads for b in blocks for h in handles],
            "corrupt": [e is not None and e.is_corrupt for e in entries],
            "coming": [None if kind is None else kind.content for kind in self._pages.coming],
            "content": [self._pages.content(b, self._contents) for b in blocks],
            "content_abi": list(self._pages.written),
            "content_weights": list(self._pages.written_weights),
        }

    def damage(self) -> list[Damage]:
        """What requests read that is not theirs, loads whose rows are gone, and pages held for nobody."""
        found: list[Damage] = []
        for h, request in enumerate(self._requests):
            own = {b for b, claims in enumerate(self._claims) if h in claims}
            for b in sorted(own | request.reads) if request.is_held else ():
                entry = self._entries.get(b)
                # Who read a page when it was found corrupt goes no further.
                if entry is None or h not in entry.stopped:
                    kind = request.needs(self._weights)
                    found += of_page(self._pages, f"handle{h}", b, kind, self._contents)
        for b, entry in sorted(self._entries.items()):
            readers = [request for request in self._requests if b in request.reads]
            found += of_load(self._pages, b, entry) + of_leak(self._pages, b, entry, readers)
        return found
