"""DynamicCache and StaticCache of Transformers, as they are, held against the core system.

Modelled: a handle is a cache object of batch size one that its caller holds, made with the rows of a
prompt of 4 tokens; an append is one forward call of the library, which stops between layers. Which calls
exist, what they are told and what their caller believes is kept here; every row is the library's own.

Read: `length` is `get_seq_length()`, `k_rows` and `v_rows` are the rows of each layer, the prompt's left
out. A cache object has no phase, snapshot, block or receipt, so that those are not read.

Tried is what can be said to the library: a forward call at another position, under another model, past
the context limit or after the request's end, a crop past the last row, letting go of the object at any
time. Not tried is what would only be a mistake in this file's own lists, such as two calls of one name.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

import torch
from attrs import define, field
from torch import Tensor

from kvspec.models.adapter import Adapter, Observed, RefusedByCacheError
from kvspec.models.backend import Damage
from kvspec.models.runtimes.transformers_api import Library, library
from kvspec.models.runtimes.transformers_calls import ForwardCall
from kvspec.models.runtimes.transformers_model import (
    PROMPT_ROWS,
    VOCAB,
    logits_damage,
    prompt_of,
    tiny_llama,
    tokens_of,
)
from kvspec.spec.language import Instance

ROOM = 4
"""How many times the longest request a cache of fixed size has memory for, so that what goes wrong in it
shows as wrong rows and not as a full buffer."""

PROBE = VOCAB - 1
"""The token that is fed to a copy of a cache to see what the next call would make of its rows."""


@define(eq=False)
class _Slot:
    """What the caller has for a handle. held: the cache object; ids: the tokens that it believes are cached.

    length: what was read last, for the time after the object was let go. is_over: the caller's loop ended.
    """

    held: Any = None
    abi: int = 0
    ids: tuple[int, ...] = ()
    length: int = 0
    is_over: bool = False


@define(eq=False)
class _Append:
    """A forward call and what it is for. asked: K and V rows asked for of the layer that it stands before."""

    call: ForwardCall
    slot: _Slot
    ids: tuple[int, ...]
    start: int
    layer: int = 0
    asked: list[int] = field(factory=lambda: [0, 0])
    is_prepared: bool = False
    is_ended: bool = False


NOT_OFFERED: Mapping[str, str] = {
    "evict": "a cache object has no prefix blocks: memory is free when nobody refers to it",
    "enter": "a cache object is a whole batch: it has no rows that requests come into",
    "leave": "a cache object is a whole batch: it has no rows that requests leave",
    "reorder": "reorder_cache moves rows of one batch of equal lengths, which is no batch of requests",
    "retry": "a forward call leaves no receipt behind",
}
"""What no cache of the library has."""


class CacheAdapter(Adapter):
    """What the caches of the library have in common; each adapter says how its object is made and read."""

    not_offered: ClassVar[Mapping[str, str]] = NOT_OFFERED

    def __init__(self) -> None:
        self.library: Library = library()
        self._slots: list[_Slot] = []
        self._appends: list[_Append | None] = []
        self._blocks: set[int] = set()
        self._layers = 0
        self._room = 0
        self._begun = 0

    def reset(self, instance: Instance) -> None:
        """Begin anew: no cache object, no call."""
        for append in self._appends:
            if append is not None:
                append.call.cut()
        self._layers = instance.sizes["Layer"]
        self._room = ROOM * (PROMPT_ROWS + instance.bounds["Length"])
        self._slots = [_Slot() for _ in range(instance.sizes["Handle"])]
        self._appends = [None] * instance.sizes["Txn"]
        self._blocks = set()
        self._begun = 0

    def new_cache(self, model: Any) -> Any:
        """An empty cache object for a model."""
        raise NotImplementedError

    def rows_of(self, layer: Any) -> tuple[int, int]:
        """K rows and V rows of a layer that has been updated."""
        raise NotImplementedError

    # Actions: named and parametrised as in the specification.

    def allocate(self, h: int, b: int, a: int) -> None:
        """A new cache object, with the rows of a prompt."""
        model, prompt = tiny_llama(self._layers, a), prompt_of(b)
        held = self.new_cache(model)
        self.library.forward(model, prompt, held)
        self._blocks.add(b)
        self._slots[h] = _Slot(held, a, tuple(prompt))

    def begin(self, x: int, h: int, k: int, a: int, p: int, n: int) -> None:
        """Begin a forward call of n tokens at the position p, up to the first layer."""
        del k  # a forward call has no key
        slot, model = self._slots[h], tiny_llama(self._layers, a)
        self._begun += 1
        ids = tuple(tokens_of(self._begun, n))
        positions = torch.arange(n) + PROMPT_ROWS + p
        call = ForwardCall(
            lambda: self.library.forward(model, list(ids), slot.held, positions),
        )
        self._appends[x] = _Append(call, slot, ids, p)

    def stage_k(self, x: int, l: int, p: int) -> None:
        """Ask for the next K row of a layer."""
        self._stage(x, 0, l, p)

    def stage_v(self, x: int, l: int, p: int) -> None:
        """Ask for the next V row of a layer."""
        self._stage(x, 1, l, p)

    def prepare(self, x: int) -> None:
        """The call has passed its last layer: nothing is left to ask of the cache."""
        self._append(x).is_prepared = True

    def publish(self, x: int) -> None:
        """The forward call returns."""
        append = self._append(x)
        append.call.finish()
        append.is_ended = True
        append.slot.ids += append.ids

    def cancel_txn(self, x: int) -> None:
        """An exception ends the forward call where it stands."""
        append = self._append(x)
        append.call.cut()
        append.is_ended = True

    def forget(self, x: int) -> None:
        """The caller lets go of an ended call."""
        self._appends[x] = None

    def fork(self, p: int, children: tuple[bool, ...], n: int) -> None:
        """Copy the object for each child, and crop the copy to the prompt and n rows."""
        parent = self._slots[p]
        copies = []
        for h, is_child in enumerate(children):
            if is_child:
                held = copy.deepcopy(parent.held)
                if n != self._length(parent):
                    self._crop(held, n)
                copies.append((h, _Slot(held, parent.abi, parent.ids[: PROMPT_ROWS + n])))
        for h, slot in copies:
            self._slots[h] = slot

    def finish(self, h: int) -> None:
        """The caller's loop ends; a cache object is not told so."""
        self._slots[h].is_over = True

    def cancel_request(self, h: int) -> None:
        """An exception ends every call that runs on the object, and with them the caller's loop."""
        slot = self._slots[h]
        for append in self._appends:
            if append is not None and append.slot is slot and not append.is_ended:
                append.call.cut()
                append.is_ended = True
        slot.is_over = True

    def release(self, h: int) -> None:
        """The caller lets go of the object."""
        self._slots[h] = _Slot(length=self._length(self._slots[h]), is_over=True)

    # Observation.

    def can_try(self, action: str, values: Mapping[str, Any]) -> bool:
        """Whether this can be said to the library, as the calls of this file stand."""
        match action:
            case "allocate":
                return self._slots[values["h"]].held is None and values["b"] not in self._blocks
            case "begin":
                has_object = self._slots[values["h"]].held is not None
                return has_object and self._appends[values["x"]] is None
            case "fork":
                others = [self._slots[h] for h, is_in in enumerate(values["children"]) if is_in]
                free = all(slot.held is None for slot in others)
                return self._slots[values["p"]].held is not None and bool(others) and free
            case "truncate" | "release":
                return self._slots[values["h"]].held is not None
            case "finish" | "cancel_request":
                slot = self._slots[values["h"]]
                return slot.held is not None and not slot.is_over
        return self._can_go_on(action, values)

    def observe(self) -> Observed:
        """`length`, `k_rows` and `v_rows`; the prompt's rows are not counted."""
        rows = [pair for slot in self._slots for pair in self._rows(slot)]
        return {
            "length": tuple(self._length(slot) for slot in self._slots),
            "k_rows": tuple(max(0, k - PROMPT_ROWS) for k, _ in rows),
            "v_rows": tuple(max(0, v - PROMPT_ROWS) for _, v in rows),
        }

    def damage(self) -> list[Damage]:
        """Layers of unequal length, and logits that are not those of an uncached run of the same tokens."""
        found = []
        for h, slot in enumerate(self._slots):
            if slot.held is None:
                continue
            ends = [end for pair in self._rows(slot) for end in pair]
            if len(set(ends)) > 1:
                text = f"handle{h} has layers of {self._told(slot)} rows"
                found.append(Damage("layers", f"handle{h}", float(max(ends) - min(ends)), text))
            apart = self.logits_apart(h)
            found += logits_damage(h, apart)
        return found

    def describe(self) -> str:
        """The rows of each layer, the prompt's included, and what the caller believes."""
        return "; ".join(
            f"handle{h}: layers {self._told(slot)}, get_seq_length() {int(slot.held.get_seq_length())}, "
            f"the caller has {len(slot.ids)} tokens"
            for h, slot in enumerate(self._slots)
            if slot.held is not None
        )

    def logits_apart(self, h: int) -> float:
        """The largest difference between the next logits of a handle's cache and of an uncached run.

        One more token is fed to a copy of the cache, and after the caller's tokens to no cache: both in
        a batch of one, since runs of other batch shapes differ in their last digits. Where the
        library cannot run on the cache any more, infinity.
        """
        slot = self._slots[h]
        model = tiny_llama(self._layers, slot.abi)
        try:
            cached = self.library.forward(model, [PROBE], copy.deepcopy(slot.held))
        except (IndexError, RuntimeError):
            return float("inf")
        right = uncached_logits(self._layers, slot.abi, (*slot.ids, PROBE))
        return float((cached - right).abs().max())

    def layer_rows(self, h: int) -> list[int]:
        """Rows of each layer of a handle's cache, the prompt's included."""
        return [k for k, _ in self._rows(self._slots[h])]

    def seq_length(self, h: int) -> int:
        """What `get_seq_length()` says of a handle's cache, the prompt included."""
        return int(self._slots[h].held.get_seq_length())

    # Within.

    def _stage(self, x: int, part: int, l: int, p: int) -> None:
        """A call makes K and V of a layer at once, for all its tokens: when the last row is asked for."""
        append = self._append(x)
        append.asked[part] = p + 1 - append.start
        if append.asked == [len(append.ids)] * 2:
            append.asked = [0, 0]
            append.layer = l + 1
            append.call.go_on()

    def _can_go_on(self, action: str, values: Mapping[str, Any]) -> bool:
        """A call is driven through its layers in order, and ends once."""
        if "x" not in values:
            return True
        append = self._appends[values["x"]]
        if append is None:
            return False
        runs, is_through = not append.is_ended, append.layer == self._layers
        match action:
            case "stage_k" | "stage_v":
                asked = append.asked["kv".index(action[-1])]
                is_next = int(values["p"]) == append.start + asked and asked < len(append.ids)
                return runs and int(values["l"]) == append.layer and is_next
            case "prepare":
                return runs and is_through and not append.is_prepared
            case "publish":
                return runs and append.is_prepared
            case "cancel_txn":
                return runs
            case "forget":
                return not runs
        return True

    def _append(self, x: int) -> _Append:
        append = self._appends[x]
        if append is None:
            raise KeyError(f"found no call txn{x}, expected one that was begun")
        return append

    def _crop(self, held: Any, n: int) -> None:
        try:
            self.library.crop(held, PROMPT_ROWS + n)
        except (RuntimeError, ValueError) as refused:
            raise RefusedByCacheError(detail=str(refused)) from refused

    def _length(self, slot: _Slot) -> int:
        if slot.held is None:
            return slot.length
        return max(0, int(slot.held.get_seq_length()) - PROMPT_ROWS)

    def _rows(self, slot: _Slot) -> list[tuple[int, int]]:
        """K rows and V rows of each layer, the prompt's included; none where there is no object."""
        if slot.held is None:
            return [(0, 0)] * self._layers
        return [
            self.rows_of(layer) if layer.is_initialized else (0, 0) for layer in slot.held.layers
        ]

    def _told(self, slot: _Slot) -> list[int]:
        return [k for k, _ in self._rows(slot)]


class CroppableAdapter(CacheAdapter):
    """A cache whose layers have a `crop`."""

    def truncate(self, h: int, n: int) -> None:
        """`crop` to the prompt and n rows."""
        slot = self._slots[h]
        self._crop(slot.held, n)
        slot.ids = slot.ids[: PROMPT_ROWS + n]


class DynamicCacheAdapter(CroppableAdapter):
    """`DynamicCache`, of either release."""

    name: ClassVar[str] = "Transformers DynamicCache"

    def new_cache(self, model: Any) -> Any:
        """An empty cache object for a model."""
        from transformers import DynamicCache

        return DynamicCache(config=model.config)

    def rows_of(self, layer: Any) -> tuple[int, int]:
        """The lengths of the layer's tensors."""
        return int(layer.keys.shape[-2]), int(layer.values.shape[-2])


class StaticCacheAdapter(CacheAdapter):
    """`StaticCache` of a release whose layers of fixed size have no `crop`."""

    name: ClassVar[str] = "Transformers StaticCache"
    not_offered: ClassVar[Mapping[str, str]] = {
        **NOT_OFFERED,
        "truncate": "layers of fixed size have no crop in this release",
    }

    def new_cache(self, model: Any) -> Any:
        """An empty cache object, with more room than the context limit asks for."""
        from transformers import StaticCache

        return StaticCache(config=model.config, max_cache_len=self._room)

    def rows_of(self, layer: Any) -> tuple[int, int]:
        """Rows that the layer counts; where it keeps no count, K rows and V rows that are not zero."""
        if hasattr(layer, "cumulative_length"):
            return int(layer.cumulative_length), int(layer.cumulative_length)
        return _written(layer.keys), _written(layer.values)

    def can_try(self, action: str, values: Mapping[str, Any]) -> bool:
        """As of any cache; a copy can be made shorter only where layers have a `crop`."""
        can = super().can_try(action, values)
        if action == "fork" and not self.library.has_static_crop:
            return can and values["n"] == self._length(self._slots[values["p"]])
        return can


class CroppableStaticCacheAdapter(StaticCacheAdapter, CroppableAdapter):
    """`StaticCache` of a release whose layers of fixed size have a `crop`."""

    not_offered: ClassVar[Mapping[str, str]] = NOT_OFFERED


def dynamic_cache() -> CacheAdapter:
    """An adapter of `DynamicCache`: the factory for `kvspec conform`."""
    return DynamicCacheAdapter()


def static_cache() -> CacheAdapter:
    """An adapter of `StaticCache`: the factory for `kvspec conform`."""
    return CroppableStaticCacheAdapter() if library().has_static_crop else StaticCacheAdapter()


@cache
def uncached_logits(layers: int, abi: int, ids: tuple[int, ...]) -> Tensor:
    """Logits [vocab] after the ids, without a cache."""
    return library().forward(tiny_llama(layers, abi), list(ids))


def _written(rows: Tensor) -> int:
    """Rows [1, H_kv, T, d_h] that hold anything but zeros."""
    return int(rows[0].any(dim=-1).any(dim=0).sum())
