"""Blocks that requests share, release and reuse, over a real decoder, with faults to switch on.

Modelled: passes that are queued and computed when they settle, so that a late one writes its row wherever
its block is by then; loads, whose rows a peer writes when they land; copies on write, made by the next
pass. What may be reused is decided by counts of the cache's own: blocks by request, fences, holds.
Damage: rows in a request's block that an uncached run does not give, logits behind them, and bytes of
blocks that are held though nothing is left to lift the hold. Two of these are tried on a copy of the cache:
whether a hold can be lifted, and what requests find that have one block and parted, once each has taken
its next step.
Left out: appends and batch rows of the core, so that an instance must have none of them.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Final

from attrs import define, field

from kvspec.models.backend import Damage
from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State, Value
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_model import VOCAB, Model
from kvspec.models.decode.backend_tables import RefusedError
from kvspec.models.decode.mechanisms.checks import Checked
from kvspec.models.decode.mechanisms.ownership_rows import BlockRows
from kvspec.models.decode.mechanisms.slot_rows import small_model
from kvspec.spec.language import Instance

FAULTS: Final = {
    "evict.drop-guard.HELD_FOR_WRITER": "a block is freed that a peer may still write",
    "release.hold-what-was-completed": "a block is held for its load though the completion was seen",
    "expire.no-lease": "no lease ends, so that a hold waits for the peer",
    "evict.drop-guard.BEHIND_FENCE": "a block is freed that a pass in flight may still write",
    "release.fence-at-the-running-step": "a block waits for the pass that runs, and for no later one",
    "dispatch.drop-guard.TAIL_SHARED": "a request appends into a block that others have",
    "release.drop-assignment.source": "the source of a copy outlives its request",
}
"""Every fault that the cache can be given, by name, with what it does."""

PROMPT: Final = 2
"""Tokens of the first prompt."""

LATER: Final = 4
"""Tokens of every later prompt: a late pass of an earlier request writes where it has rows."""

BLOCK: Final = 16
"""Slots of a block. In a full one, the next pass writes the last row anew."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of its rules, or None."""
    return mutation if mutation in FAULTS else None


@cache
def shared_model() -> Model:
    """The decoder of every cache of this kind."""
    return small_model()


def _token(salt: int) -> int:
    return (3 + 7 * salt) % VOCAB


@define(eq=False)
class Request:
    """A handle, and the request that has it: its tokens with rows, and those that are queued."""

    phase: str = "VACANT"
    generation: int = 0
    version: int = 0
    abi: int | None = None
    parent: int | None = None
    block: int | None = None
    tokens: list[int] = field(factory=list)
    queued: int = 0
    source: int | None = None
    source_generation: int = 0


@define(eq=False)
class Queued:
    """A pass in flight: for whom, which block, and the row that it will write."""

    number: int
    handle: int
    generation: int
    block: int
    token: int
    position: int
    source: int | None
    source_generation: int


@define(eq=False)
class Loading:
    """A load: for whom, into which block, which tokens, and how far it has come."""

    handle: int
    generation: int
    block: int
    tokens: list[int]
    state: str = "LOADING"

    @property
    def is_outstanding(self) -> bool:
        """Bytes or their completion are still to come."""
        return self.state in ("LOADING", "LANDED")


class Cache(Checked):
    """The blocks and who has to do with them (`kvspec.models.backend.Backend` of ownership).

    Raises:
        ValueError: a fault is not one of ``FAULTS``, or an instance has appends or batch rows.
    """

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        self._faults = known_faults(faults, FAULTS)

    def reset(self, instance: Instance) -> None:
        """Begin anew with empty blocks, and a handle for each of the instance."""
        for sort in ("Txn", "Row"):
            if instance.sizes[sort]:
                raise ValueError(
                    f"{instance.name} has {instance.sizes[sort]} members of {sort}, and this cache has "
                    "neither appends nor batch rows: give an instance without"
                )
        self._variables = list(instance.system.variables)
        self._layers, blocks = instance.sizes["Layer"], instance.sizes["Block"]
        self._rows = BlockRows(shared_model(), blocks, BLOCK)
        self._requests = [Request() for _ in range(instance.sizes["Handle"])]
        self._free = set(range(blocks))
        self._fence = [0] * blocks
        self._held = [False] * blocks
        self._passes: list[Queued | None] = [None] * instance.sizes["Pass"]
        self._loads: list[Loading | None] = [None] * instance.sizes["Load"]
        self._dispatched = self._settled = self._salt = 0
        self._is_peer_gone = False

    def _ready(self, h: int) -> Request:
        request = self._requests[h]
        self._need(request.phase == "DECODE_READY", "HANDLE_TERMINAL")
        return request

    def _is_alone(self, h: int, b: int) -> bool:
        others = [r for g, r in enumerate(self._requests) if g != h]
        return all(b not in (other.block, other.source) for other in others)

    def _is_copied(self, b: int) -> bool:
        return any(q is not None and q.source == b for q in self._passes)

    def _is_queued(self, b: int | None) -> bool:
        return any(q is not None and q.block == b for q in self._passes)

    def _is_loaded(self, b: int | None) -> bool:
        return any(x is not None and x.is_outstanding and x.block == b for x in self._loads)

    def _next_token(self) -> int:
        self._salt += 1
        return _token(self._salt)

    # The life of a request.

    def _allocate(self, h: int, b: int, a: int) -> None:
        request = self._requests[h]
        self._need(request.phase in ("VACANT", "RELEASED"), "HANDLE_LIVE")
        self._need(b in self._free, "BLOCK_IN_USE")
        request.phase, request.version, request.abi, request.parent = "DECODE_READY", 0, a, None
        count = LATER if self._salt else PROMPT
        request.tokens, request.queued = [self._next_token() for _ in range(count)], 0
        request.block = b
        self._free.remove(b)
        self._rows.clear(b)
        self._rows.put(b, request.tokens)

    def _fork(self, p: int, children: tuple[bool, ...], n: int) -> None:
        parent = self._ready(p)
        chosen = [self._requests[c] for c, is_child in enumerate(children) if is_child]
        self._need(bool(chosen), "NO_CHILD")
        self._need(n == 0, "BEYOND_COMMITTED")
        self._need(all(c.phase in ("VACANT", "RELEASED") for c in chosen), "CHILD_IN_USE")
        self._need(parent.source is None, "COPY_PENDING")
        busy = self._is_queued(parent.block) or self._is_loaded(parent.block)
        self._need(not busy, "WRITE_OUTSTANDING")
        for child in chosen:
            child.phase, child.version, child.abi, child.parent = "DECODE_READY", 0, parent.abi, p
            child.tokens, child.queued, child.block = list(parent.tokens), 0, parent.block

    def _truncate(self, h: int, n: int) -> None:
        request = self._ready(h)
        self._need(n == 0, "BEYOND_COMMITTED")
        request.version += 1

    def _cancel_request(self, h: int) -> None:
        self._ready(h).phase = "CANCELLED"

    def _finish(self, h: int) -> None:
        self._ready(h).phase = "FINISHED"

    def _release(self, h: int) -> None:
        request = self._requests[h]
        self._need(request.phase in ("FINISHED", "CANCELLED"), "NOT_TERMINAL")
        b = request.block
        if b is not None:
            self._fence[b] = self._fence_of_release()
            self._held[b] = self._held[b] or self._is_to_hold(b)
        for number, x in enumerate(self._loads):
            if x is not None and x.handle == h and x.state == "SEEN":
                self._loads[number] = None
        request.phase, request.block = "RELEASED", None
        request.generation += 1
        request.source_generation = 0
        if "release.drop-assignment.source" not in self._faults:
            request.source = None

    def _fence_of_release(self) -> int:
        if "release.fence-at-the-running-step" in self._faults:
            return min(self._settled + 1, self._dispatched)
        return self._dispatched

    def _is_to_hold(self, b: int) -> bool:
        if "release.hold-what-was-completed" in self._faults:
            return any(x is not None and x.block == b for x in self._loads)
        return self._is_loaded(b)

    def _evict(self, b: int) -> None:
        self._need(b not in self._free, "BLOCK_EMPTY")
        self._need(all(r.block != b for r in self._requests), "STILL_OWNED")
        self._need(self._fence[b] <= self._settled, "BEHIND_FENCE")
        self._need(not self._held[b], "HELD_FOR_WRITER")
        self._need(all(r.source != b for r in self._requests), "COPIED_FROM")
        self._free.add(b)

    def _leave(self, h: int) -> None:  # noqa: ARG002  # no handle is in a batch row
        self._need(False, "NOT_IN_BATCH")

    def _reorder(self, source: tuple[int, ...]) -> None:
        """Nothing is in a batch row, so that nothing moves."""

    # Passes and copies.

    def _dispatch(self, p: int, h: int, b: int) -> None:
        self._need(self._passes[p] is None, "PASS_IN_USE")
        request = self._ready(h)
        self._need(request.block == b, "NOT_OWNED")
        self._need(self._is_alone(h, b), "TAIL_SHARED")
        self._need(not self._is_loaded(b), "WRITE_OUTSTANDING")
        self._dispatched += 1
        position = min(len(request.tokens) + request.queued, BLOCK - 1)
        request.queued += 1
        copy = (request.source, request.source_generation)
        self._passes[p] = Queued(
            self._dispatched, h, request.generation, b, self._next_token(), position, *copy
        )
        if request.source is not None:
            self._fence[request.source] = self._dispatched
        request.source, request.source_generation = None, 0

    def _settle(self, p: int) -> None:
        run = self._passes[p]
        if run is None or run.number != self._settled + 1:
            raise RefusedError("PASS_NOT_NEXT", "")
        request = self._requests[run.handle]
        is_live = request.block == run.block and request.generation == run.generation
        if run.source is not None:
            self._rows.copy(run.source, run.block)
        self._rows.append(run.block, run.token, run.position)
        if is_live:
            request.tokens[run.position :] = [run.token]
            request.queued -= 1
        self._settled, self._passes[p] = run.number, None

    def _copy(self, h: int, b: int, c: int) -> None:
        request = self._ready(h)
        self._need(request.block == b, "NOT_OWNED")
        self._need(not self._is_alone(h, b), "TAIL_NOT_SHARED")
        self._need(c in self._free, "BLOCK_IN_USE")
        self._free.remove(c)
        self._rows.clear(c)
        request.source, request.source_generation = b, request.generation
        request.block = c

    # Loads.

    def _load(self, x: int, h: int, b: int) -> None:
        self._need(self._loads[x] is None, "LOAD_IN_USE")
        request = self._ready(h)
        self._need(request.block == b, "NOT_OWNED")
        self._need(self._is_alone(h, b), "TAIL_SHARED")
        self._need(not self._is_queued(b) and not self._is_loaded(b), "WRITE_OUTSTANDING")
        self._need(not self._is_copied(b), "COPIED_FROM")
        self._loads[x] = Loading(h, request.generation, b, list(request.tokens))

    def _outstanding(self, x: int, states: tuple[str, ...], code: str) -> Loading:
        found = self._loads[x]
        if found is None or found.state not in states:
            raise RefusedError(code, "")
        return found

    def _land(self, x: int) -> None:
        self._need(not self._is_peer_gone, "PEER_GONE")
        found = self._outstanding(x, ("LOADING",), "NOT_LOADING")
        self._rows.put(found.block, found.tokens)
        found.state = "LANDED"

    def _complete(self, x: int) -> None:
        self._need(not self._is_peer_gone, "PEER_GONE")
        found = self._outstanding(x, ("LANDED",), "NOT_LANDED")
        found.state = "SEEN"
        if self._held[found.block]:
            self._lift(x, found)

    def _acknowledge(self, x: int) -> None:
        self._need(not self._is_peer_gone, "PEER_GONE")
        found = self._outstanding(x, ("LOADING", "LANDED"), "NOT_HELD")
        self._need(self._held[found.block], "NOT_HELD")
        self._lift(x, found)

    def _expire(self, x: int) -> None:
        states = () if "expire.no-lease" in self._faults else ("LOADING", "LANDED")
        self._lift(x, self._outstanding(x, states, "NOT_OUTSTANDING"))

    def _lift(self, x: int, found: Loading) -> None:
        self._held[found.block] = False
        self._loads[x] = None

    def _lose_peer(self) -> None:
        self._need(not self._is_peer_gone, "PEER_GONE")
        self._is_peer_gone = True

    # What is there.

    def observe(self) -> State:
        """Every variable of the system, read off the tables."""
        seen = {**self._seen_of_requests(), **self._seen_of_accesses()}
        return State(tuple(tuple(seen.get(name, ())) for name in self._variables))

    def _seen_of_requests(self) -> dict[str, list[Value]]:
        of, blocks = self._requests, range(len(self._fence))
        none: list[Value] = [0] * len(of)
        names = ("phase", "generation", "version", "abi", "parent", "source", "source_generation")
        return {
            **{name: [getattr(request, name) for request in of] for name in names},
            "length": none,
            "k_rows": none * self._layers,
            "v_rows": none * self._layers,
            "filled": [b not in self._free for b in blocks],
            "owner": [request.block == b for b in blocks for request in of],
            "fence": [max(0, fence - self._settled) for fence in self._fence],
            "hold": list(self._held),
        }

    def _seen_of_accesses(self) -> dict[str, list[Value]]:
        passes, loads = self._passes, self._loads
        return {
            "unsettled": [self._dispatched - self._settled],
            "in_flight": [q is not None for q in passes],
            "pass_number": [0 if q is None else q.number - self._settled for q in passes],
            "pass_handle": [None if q is None else q.handle for q in passes],
            "pass_generation": [0 if q is None else q.generation for q in passes],
            "pass_block": [None if q is None else q.block for q in passes],
            "pass_source": [None if q is None else q.source for q in passes],
            "pass_source_generation": [0 if q is None else q.source_generation for q in passes],
            "load_state": ["IDLE" if x is None else x.state for x in loads],
            "load_handle": [None if x is None else x.handle for x in loads],
            "load_generation": [0 if x is None else x.generation for x in loads],
            "load_block": [None if x is None else x.block for x in loads],
            "peer_gone": [self._is_peer_gone],
        }

    def damage(self) -> list[Damage]:
        """What requests find in their blocks that is not theirs, and blocks that nothing frees."""
        found = self._after_a_step_each()._damage_of_rows()  # noqa: SLF001  # a copy
        for b, is_held in enumerate(self._held):
            if is_held and not self._can_be_lifted(b):
                text = "bytes that are held, with nothing to come that lifts the hold"
                found.append(Damage("owner", f"block{b}", self._rows.block_bytes, text))
        return found

    def _damage_of_rows(self) -> list[Damage]:
        found: list[Damage] = []
        for h, request in enumerate(self._requests):
            block = self._place_of_rows(h, request)
            if block is not None:
                found += self._rows.damage_of(f"handle{h}", block, request.tokens)
        return found

    def _place_of_rows(self, h: int, request: Request) -> int | None:
        """Until a copy is made, its rows are read where they are."""
        if request.source is not None and request.source_generation == request.generation:
            return request.source
        for q in self._passes:
            mine = q is not None and (q.handle, q.generation) == (h, request.generation)
            if mine and q is not None and q.source_generation == request.generation:
                return request.block if q.source is None else q.source
        return request.block

    def _after_a_step_each(self) -> Cache:
        """The cache itself, or a copy where requests of one block that parted took a step each."""
        parted = [
            (h, r.block)
            for h, r in enumerate(self._requests)
            if r.block is not None
            and any(r.block == o.block and r.tokens != o.tokens for o in self._requests)
        ]
        if not parted:
            return self
        tried = self._copied()
        for h, b in parted:
            for action, names in (
                ("dispatch", (("p", 0), ("h", h), ("b", b))),
                ("settle", (("p", 0),)),
            ):
                tried.perform(Event(action, names))
        return tried

    def _can_be_lifted(self, b: int) -> bool:
        """Whether something that the peer or the clock may still do lifts the hold of a block."""
        for x in range(len(self._loads)):
            for actions in (("expire",), ("acknowledge",), ("complete",), ("land", "complete")):
                tried = self._copied()
                for action in actions:
                    tried.perform(Event(action, (("x", x),)))
                if not tried._held[b]:  # noqa: SLF001  # a copy
                    return True
        return False

    def _copied(self) -> Cache:
        model = shared_model()
        return deepcopy(self, {id(model): model})
