"""Hand-offs on the decode backend: rows of a prompt go to another worker's block, layer by layer.

Modelled: both workers have blocks of real rows. The giver lays out the layers of its prompt in an order and
a format; the bytes of each place land in a buffer of the taker, which puts the layers into its own block
when it takes over the request, and goes on with its prompt. A client has the list of tokens that it was
sent, beside what was chosen for it; no check reads either. Left out: rows behind the prompt.
Assumed: an instance without layers has two, in one order.
Damage: rows and logits of who took over, as the backend measures them; tokens that a client was sent twice,
behind the last one or beyond its limit; bytes that are kept for a client that is known to have gone.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any, Final

import attrs
import torch
from attrs import define, field
from torch import Tensor

from kvspec.models.backend import Damage
from kvspec.models.concrete.state import State, Value
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_tables import FREE, Output, RefusedError, seal
from kvspec.models.decode.mechanisms.core_part import core_part, core_tables
from kvspec.models.decode.mechanisms.further import FurtherChecks
from kvspec.spec.core import system as core
from kvspec.spec.language import Instance

FAULTS: Final = {
    "withdraw.ignores-a-finished-request": "a cancel of a finished request does nothing",
    "finish.does-not-ask-for-the-client": "rows are kept though their client has gone",
    "accept.drop-guard.LAYERS_MISMATCH": "layers are paired by place",
    "accept.compares-sets": "layers are compared without their order",
    "accept.drop-guard.FORMAT_MISMATCH": "bytes are taken in any format",
    "take_over.does-not-ask-for-a-stop-token": "a token that ends the output is not looked at",
    "take_over.does-not-ask-for-the-end": "the taker goes by what it knew before",
    "take_over.counts-from-zero": "the taker counts its tokens from zero",
    "take_over.sends-it-again": "the taker sends the token that came with the rows",
}
"""Every fault that the cache can be given, by name, with what it does."""

_LAST_CHECK: Final = {
    "begin": "CONTEXT_FULL",
    "fork": "CHILD_IN_USE",
    "finish": "HANDLE_TERMINAL",
    "release": "ROW_HOLDS_HANDLE",
}
_MINE: Final = (
    *("allocate", "begin", "fork", "finish", "cancel_request", "release", "emit", "hang_up"),
    *("withdraw", "expire", "offer", "accept", "complete", "fail", "take_over"),
)
_MOVES: Final = {"MOVING", "WRITTEN"}
_FORMATS: Final = tuple(permutations(range(3)))
"""Orders of the axes heads, rows and features in the bytes of a layer."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of its rules, or None."""
    return mutation if mutation in FAULTS else None


@define(eq=False)
class Stream:
    """The output of a request: what the engine counts, and what its client has.

    sent: tokens that the client was sent. chosen: those that were chosen. unwanted: its client is known to
    have gone. came_as, reads_as, reads: of rows that came from another worker.
    """

    emitted: int = 0
    last: str = "ORDINARY"
    stopped: bool = False
    imported: bool = False
    gone: bool = False
    unwanted: bool = False
    sent: list[str] = field(factory=list)
    chosen: list[str] = field(factory=list)
    came_as: int | None = None
    reads_as: int | None = None
    reads: list[int | None] = field(factory=list)


@define(eq=False)
class Offer:
    """A ticket: whose rows, laid out how, and the places and bytes of what came."""

    stage: str = "IDLE"
    giver: int | None = None
    taker: int | None = None
    placed: list[int | None] = field(factory=list)
    written_as: int | None = None
    pairs: list[int] = field(factory=list)
    buffer: dict[int, Tensor] = field(factory=dict)


class Cache(FurtherChecks):
    """The decode backend with retained rows and tickets; it speaks of the system `handoff`.

    Raises:
        ValueError: there is no such fault.
    """

    LAST_CHECK = _LAST_CHECK

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        chosen = known_faults(faults, FAULTS)
        super().__init__(device="cpu")
        self.forgets = chosen
        self.streams: list[Stream] = []
        self.offers: list[Offer] = []
        self.reasons: list[str] = []
        self.retained: list[bool] = []
        self._layers = self._most = 0

    def reset(self, instance: Instance) -> None:
        """Begin anew, with the sizes of an instance of `handoff`."""
        self._layers = instance.sizes["Layer"]
        self._most = int(instance.constants["most"] or 0)
        part = core_part(instance)
        super().reset(part)
        handles = part.sizes["Handle"]
        self.streams = [self._blank() for _ in range(handles)]
        self.reasons, self.retained = ["NONE"] * handles, [False] * handles
        self.offers = [self._nothing() for _ in range(instance.sizes["Ticket"])]
        self._plain = dict(self._actions)
        self._actions |= {name: getattr(self, f"_do_{name}") for name in _MINE}

    def observe(self) -> State:
        """The state of the core, the outputs and the tickets."""
        tables = core_tables(super().observe(), has_layers=bool(self._layers))
        each, offers, layers = self.streams, self.offers, range(self._layers)
        more: tuple[list[Value], ...] = (
            [s.emitted for s in each],
            [len(s.sent) for s in each],
            [s.last for s in each],
            [s.stopped for s in each],
            list(self.reasons),
            [s.imported for s in each],
            list(self.retained),
            [s.gone for s in each],
            [s.reads[layer] for s in each for layer in layers],
            [s.came_as for s in each],
            [s.reads_as for s in each],
            [k.stage for k in offers],
            [k.giver for k in offers],
            [k.taker for k in offers],
            [k.placed[place] for k in offers for place in layers],
            [k.written_as for k in offers],
        )
        return State((*tables, *(tuple(values) for values in more)))

    def damage(self) -> list[Damage]:
        """What the backend measures, tokens too many, and bytes kept for nobody."""
        found = super().damage()
        for h, stream in enumerate(self.streams):
            right = stream.chosen[: self._most]
            if "END" in right:
                right = right[: right.index("END") + 1]
            surplus = len(stream.sent) - len(right)
            if surplus:
                text = f"{surplus} tokens were sent to the client of handle{h} that are not its own"
                found.append(Damage("receipt", f"handle{h}", float(surplus), text))
            block = self._held().slots[h].entry.block
            if self.retained[h] and stream.unwanted and block is not None:
                pool = self._held().pool
                held = pool.keys[:, block].nbytes + pool.values[:, block].nbytes
                text = f"{held} bytes of block{block} are kept for a client that has gone"
                found.append(Damage("owner", f"handle{h}", float(held), text))
        return found

    # Requests.

    def _do_allocate(self, h: int, b: int, a: int) -> None:
        self._plain["allocate"](h=h, b=b, a=a)
        self._begin_output(h)

    def _do_begin(self, h: int, **names: Any) -> None:
        self._carry_out("begin", lambda: self._need_no_rows_to(h), h=h, **names)

    def _do_fork(self, p: int, children: tuple[bool, ...], n: int) -> None:
        self._carry_out("fork", lambda: self._need_no_rows_to(p), p=p, children=children, n=n)
        for c, is_child in enumerate(children):
            if is_child:
                self._begin_output(c)

    def _do_finish(self, h: int) -> None:
        self._carry_out("finish", lambda: self._need_no_rows_to(h), h=h)
        stream = self.streams[h]
        self.reasons[h], stream.unwanted = "FINISHED", stream.gone
        stays = not stream.gone or "finish.does-not-ask-for-the-client" in self.forgets
        self.retained[h] = stays and not stream.imported

    def _do_cancel_request(self, h: int) -> None:
        self._plain["cancel_request"](h=h)
        self.reasons[h] = "CANCELLED"

    def _do_release(self, h: int) -> None:
        def is_lent_no_more() -> None:
            self._need_no_rows_to(h)
            _need(not self.retained[h], "RETAINED", f"handle{h} is kept")

        self._carry_out("release", is_lent_no_more, h=h)
        self.streams[h] = self._blank()

    def _do_emit(self, h: int, s: str) -> None:
        stream = self.streams[h]
        _need(self._phase(h) == "DECODE_READY", "HANDLE_TERMINAL", self._phase(h))
        _need(not stream.stopped, "OUTPUT_STOPPED", f"{stream.emitted} tokens")
        self._need_no_rows_to(h)
        stream.emitted, stream.last = stream.emitted + 1, s
        stream.sent.append(s)
        stream.chosen.append(s)
        stream.stopped = s == "END" or stream.emitted >= self._most

    def _do_hang_up(self, h: int) -> None:
        _need(self._phase(h) not in FREE, "HANDLE_WITHOUT_REQUEST", self._phase(h))
        _need(not self.streams[h].gone, "CLIENT_HUNG_UP", "the client is gone")
        self.streams[h].gone = True

    def _do_withdraw(self, h: int) -> None:
        _need(self.retained[h], "NOT_RETAINED", f"handle{h} is not kept")
        _need(self.streams[h].gone, "CLIENT_PRESENT", "the client is there")
        self._need_no_rows_from(h)
        self.streams[h].unwanted = True
        self._retain_no_more(h, kept="withdraw.ignores-a-finished-request" in self.forgets)

    def _do_expire(self, h: int) -> None:
        _need(self.retained[h], "NOT_RETAINED", f"handle{h} is not kept")
        self._need_no_rows_from(h)
        self._retain_no_more(h)

    # Tickets.

    def _do_offer(
        self, k: int, h: int, o: tuple[int, ...], filled: tuple[bool, ...], f: int
    ) -> None:
        given = [k.giver for k in self.offers]
        _need(self.offers[k].stage == "IDLE", "TICKET_OFFERED", self.offers[k].stage)
        _need(self.retained[h], "NOT_RETAINED", f"handle{h} is not kept")
        _need(h not in given, "ALREADY_OFFERED", f"offered are {given}")
        _need(any(filled) or not filled, "NO_LAYER", "no place is filled")
        placed = [layer if full else None for layer, full in zip(o, filled, strict=True)]
        self.offers[k] = Offer("OFFERED", h, None, placed, f)

    def _do_accept(self, k: int, g: int, m: tuple[int, ...], f: int) -> None:
        offer, stream = self.offers[k], self.streams[g]
        _need(offer.stage == "OFFERED", "NOT_OFFERED", offer.stage)
        _need(self._phase(g) == "DECODE_READY", "HANDLE_TERMINAL", self._phase(g))
        entry = self._held().slots[g].entry
        fresh = not stream.emitted and not stream.imported and entry.parent is None
        _need(fresh and not self._waits(g), "OUTPUT_BEGUN", f"{stream.emitted} tokens")
        found = [offer.placed[place] for place in m]
        _need(self._is_right(found), "LAYERS_MISMATCH", f"found the layers {found}")
        if "accept.drop-guard.FORMAT_MISMATCH" not in self.forgets:
            _need(offer.written_as == f, "FORMAT_MISMATCH", f"written as {offer.written_as}")
        _need(not entry.tokens and not self._appends_to(g), "CONSUMER_HAS_ROWS", "rows are there")
        shared = [b for b, owners in enumerate(self._held().pool.owners) if {g} < owners]
        _need(not shared, "CONSUMER_SHARES", f"blocks {shared} are shared")
        offer.stage, offer.taker, offer.pairs = "MOVING", g, list(m)
        stream.came_as, stream.reads_as, stream.reads = offer.written_as, f, found

    def _is_right(self, found: list[int | None]) -> bool:
        """The handshake on layers: each is where the taker looks for it."""
        if "accept.drop-guard.LAYERS_MISMATCH" in self.forgets:
            return True
        if "accept.compares-sets" in self.forgets:
            return set(found) == set(range(self._layers))
        return found == list(range(self._layers))

    def _do_complete(self, k: int) -> None:
        offer = self.offers[k]
        _need(offer.stage == "MOVING", "NOT_MOVING", offer.stage)
        offer.stage = "WRITTEN"
        for place, layer in enumerate(offer.placed if self._layers else [0, 1]):
            if layer is not None:
                offer.buffer[place] = self._bytes_of(offer.giver or 0, layer, offer.written_as or 0)

    def _do_fail(self, k: int) -> None:
        _need(self.offers[k].stage == "MOVING", "NOT_MOVING", self.offers[k].stage)
        self.offers[k] = self._nothing()

    def _do_take_over(self, k: int) -> None:
        offer = self.offers[k]
        _need(offer.stage == "WRITTEN", "ROWS_STILL_COMING", offer.stage)
        h, g = offer.giver or 0, offer.taker or 0
        self.offers[k] = self._nothing()
        _need(self._phase(g) == "DECODE_READY", "CONSUMER_GONE", self._phase(g))
        self._put_rows(offer, h, g)
        self._go_on(self.streams[h], self.streams[g])
        self.retained[h] = False

    def _go_on(self, before: Stream, after: Stream) -> None:
        """The output goes on where it was, and whether it is at an end is asked."""
        after.sent, after.chosen = list(before.sent), list(before.chosen)
        after.emitted, after.last = before.emitted, before.last
        after.imported, after.gone = True, after.gone or before.gone
        at_limit = before.emitted >= self._most
        if "take_over.does-not-ask-for-a-stop-token" in self.forgets:
            after.stopped = at_limit
        elif "take_over.does-not-ask-for-the-end" not in self.forgets:
            after.stopped = at_limit or before.last == "END"
        if "take_over.counts-from-zero" in self.forgets:
            after.emitted = 0
        if "take_over.sends-it-again" in self.forgets:
            after.sent += before.sent[-1:]

    # Rows.

    @torch.inference_mode()
    def _bytes_of(self, h: int, layer: int, f: int) -> Tensor:
        """The bytes of a layer of a prompt, [2, .], laid out in a format."""
        block = self._held().slots[h].entry.block or 0
        pool, axes = self._held().pool, _FORMATS[f % len(_FORMATS)]
        parts = (own[layer, block].permute(axes).reshape(-1) for own in (pool.keys, pool.values))
        return torch.stack(list(parts))

    @torch.inference_mode()
    def _put_rows(self, offer: Offer, h: int, g: int) -> None:
        """The taker has the prompt of the giver, and in each layer what came at the place it looks at."""
        tables, axes = self._held(), _FORMATS[(self.streams[g].reads_as or 0) % len(_FORMATS)]
        slot, prompt = tables.slots[g], tables.slots[h].entry.prompt
        block, pool = slot.entry.block or 0, tables.pool
        for layer, place in enumerate(offer.pairs if self._layers else [0, 1]):
            for own, came in zip(
                (pool.keys, pool.values), offer.buffer.get(place, ()), strict=False
            ):
                size = [own[layer, block].shape[axis] for axis in axes]
                back = [axes.index(axis) for axis in range(3)]
                own[layer, block] = came.reshape(size).permute(back)
        pool.held[block] = prompt
        slot.output = Output(g, prompt, ())
        slot.entry = seal(tables, slot, attrs.evolve(slot.entry, prompt=prompt))

    def _blank(self) -> Stream:
        return Stream(reads=[None] * self._layers)

    def _nothing(self) -> Offer:
        return Offer(placed=[None] * self._layers)

    def _begin_output(self, h: int) -> None:
        self.reasons[h], self.streams[h].stopped = "NONE", self._most <= 0

    def _phase(self, h: int) -> str:
        return self._held().slots[h].entry.phase

    def _waits(self, h: int) -> bool:
        return any(k.taker == h and k.stage in _MOVES for k in self.offers)

    def _appends_to(self, h: int) -> bool:
        """An append to the request is open; which, the backend's own table tells."""
        variables = dict(zip(core.variables, super().observe().tables, strict=True))
        slot = self._held().slots[h]
        live = zip(
            variables["state"], variables["target"], variables["base_generation"], strict=True
        )
        return any(
            state in {"OPEN", "PREPARED"} and target == h and base == slot.generation
            for state, target, base in live
        )

    def _need_no_rows_to(self, h: int) -> None:
        _need(not self._waits(h), "ROWS_MOVE", f"rows move to handle{h}")

    def _need_no_rows_from(self, h: int) -> None:
        lent = any(k.giver == h and k.stage in _MOVES for k in self.offers)
        _need(not lent, "ROWS_MOVE", f"rows of handle{h} move")

    def _retain_no_more(self, h: int, *, kept: bool = False) -> None:
        self.retained[h] = kept
        for k, offer in enumerate(self.offers):
            if offer.giver == h and offer.stage == "OFFERED":
                self.offers[k] = self._nothing()


def _need(holds: bool, code: str, detail: str) -> None:
    if not holds:
        raise RefusedError(code, detail)
