"""Harm measured in numbers: what the cache holds, against an uncached run of the committed tokens.

Modelled: for each readable handle its next logits, its rows one by one and whose they are, and the
lengths of its layers; for each batch row whether its companions are of one request; for each block
whether it is given out once; for each receipt whether the client that was told it had published it.
Left out: harm that was done and undone between two measurements; `watch` of the backend sees that.
"""

from __future__ import annotations

import torch
from attrs import define, field
from torch import Tensor

from kvspec.models.backend import Damage
from kvspec.models.decode.agreement import TOLERANCES, disagreement
from kvspec.models.decode.backend_appends import Appends, Txn
from kvspec.models.decode.backend_model import PREFIX_ROWS, Model
from kvspec.models.decode.backend_reading import NotReadableError, View, content, view_of
from kvspec.models.decode.backend_tables import FREE, Tables
from kvspec.models.decode.hooks import Part
from kvspec.models.decode.pages import POISON

ROW_SLACK = 4
"""Single rows may part by so many tolerances of logits: they are smaller, and sums end sooner."""

CUDA_SLACK = 10
"""The tolerances were measured on a CPU; kernels of another device add in another order."""

_KEPT = 4096


@define(eq=False)
class Meter:
    """Measures the harm of one backend; what was measured for equal content is kept."""

    tables: Tables
    appends: Appends
    _kept: dict[object, list[Damage]] = field(factory=dict)

    def damage(self) -> list[Damage]:
        """Every harm that can be measured now."""
        found: list[Damage] = []
        for slot in self.tables.slots:
            if slot.entry.rows is not None:
                found += self._of_handle(view_of(self.tables, slot.handle))
        for row in range(len(self.tables.batch.caches)):
            found += self._of_row(row)
        found += self._of_pool()
        for place, txn in enumerate(self.appends.txns):
            found += _of_receipt(place, txn)
        return found

    def logits(self, handle: int) -> Tensor:
        """Next-token logits [vocab] of a handle, from its cached rows."""
        view = view_of(self.tables, handle)
        return self._logits(self._model(view), view.ids[-1], view, view.layers())

    def uncached(self, handle: int) -> Tensor:
        """Next-token logits [vocab] of a handle, from its tokens alone."""
        view = view_of(self.tables, handle)
        return self._model(view).run(view.ids).logits

    def _logits(
        self, model: Model, token: int, view: View, layers: list[tuple[Tensor, Tensor]]
    ) -> Tensor:
        """Logits [vocab] of a token at the last position of a view."""
        return model.logits(token, len(view.ids) - 1, layers, view.positions())

    def _model(self, view: View) -> Model:
        return self.tables.models[view.entry.abi or 0]

    def _of_handle(self, view: View) -> list[Damage]:
        where, lengths = f"handle{view.handle}", view.lengths()
        if view.entry.phase in FREE:
            count = max(max(pair) for pair in lengths)
            text = f"{where} is {view.entry.phase} and still shows {count} rows"
            return [Damage("layers", where, float(count), text)] if count else []
        if view.entry.block is None:
            return [Damage("owner", where, 1.0, f"{where} has no prefix block to read")]
        layers = view.layers()
        key = (view.handle, view.entry.abi, view.ids, tuple(lengths), content(layers))
        if key not in self._kept:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[key] = self._measured(where, view, layers)
        return self._kept[key]

    def _measured(
        self, where: str, view: View, layers: list[tuple[Tensor, Tensor]]
    ) -> list[Damage]:
        found = []
        length, lengths = len(view.entry.tokens), view.lengths()
        if not view.is_even():
            ends = [end for pair in lengths for end in pair] + [length]
            text = f"{where} committed {length} rows and shows (K, V) lengths {lengths}"
            found.append(Damage("layers", where, float(max(ends) - min(ends)), text))
        found += self._wrong_rows(where, view, layers)
        model = self._model(view)
        cached = self._logits(model, view.ids[-1], view, layers)
        found += _unequal_logits(where, cached, model.run(view.ids).logits)
        return found

    def _wrong_rows(
        self, where: str, view: View, layers: list[tuple[Tensor, Tensor]]
    ) -> list[Damage]:
        """Rows that an uncached run does not give: those of the block, and the request's own."""
        run = self._model(view).run(view.ids)
        wrong: dict[str, list[str]] = {}
        for layer, (pair, positions) in enumerate(zip(layers, view.positions(), strict=True)):
            for part, rows, expected in zip(Part, pair, (run.keys, run.values), strict=True):
                shown, right = rows[0], expected[layer]
                for index, place in enumerate(_places(positions, shown.shape[1])):
                    row = shown[:, index]
                    if place < right.shape[1] and _is_same(row, right[:, place]):
                        continue
                    kind = "owner" if index < PREFIX_ROWS else "rows"
                    wrong.setdefault(kind, []).append(self._whose(layer, part, row))
        return [
            Damage(kind, where, float(len(whose)), _told(where, kind, whose))
            for kind, whose in wrong.items()
        ]

    def _whose(self, layer: int, part: Part, row: Tensor) -> str:
        """The request or append that a row [H_kv, d_h] belongs to, as text."""
        if bool((row == 0).all()):
            return "nobody (never written)"
        if bool((row == POISON).all()):
            return "nobody (a freed block)"
        for whose, (abi, tokens) in reversed(self.tables.sequences.items()):
            run = self.tables.models[abi].run(tokens)
            rows = (run.keys if part is Part.KEY else run.values)[layer]
            for place in range(rows.shape[1]):
                if _is_same(row, rows[:, place]):
                    return f"{whose}, position {place}"
        return "nobody known"

    def _of_row(self, row: int) -> list[Damage]:
        """Companions of a batch row that are not of the request whose cache it has."""
        batch, where = self.tables.batch, f"row{row}"
        handle, output, sampler = batch.caches[row], batch.outputs[row], batch.samplers[row]
        if handle is None:
            left = (output, sampler, batch.ancestry[row], batch.positions[row] or None)
            if all(companion is None for companion in left):
                return []
            return [Damage("order", where, 1.0, f"{where} has companions and no cache handle")]
        found = []
        slot = self.tables.slots[handle]
        twice = batch.caches.count(handle)
        if twice > 1:
            found.append(Damage("order", where, float(twice), f"handle{handle} is in {twice} rows"))
        if slot.entry.rows is None:
            text = f"{where} carries handle{handle}, which holds no rows"
            found.append(Damage("order", where, 1.0, text))
        if output is not slot.output:
            whose = "nobody" if output is None else f"a request of handle{output.handle}"
            text = f"{where} has the cache of handle{handle} and the tokens of {whose}"
            found.append(Damage("order", where, self._mixed(row, handle), text))
        if sampler is None or sampler.initial_seed() != slot.sampler_seed:
            text = f"{where} has the cache of handle{handle} and another's random state"
            found.append(Damage("order", where, _drawn_apart(sampler, slot.sampler_seed), text))
        if batch.ancestry[row] != slot.entry.parent:
            text = f"{where} names parent {batch.ancestry[row]}, handle{handle} {slot.entry.parent}"
            found.append(Damage("order", where, 1.0, text))
        apart = abs(batch.positions[row] - len(slot.entry.tokens))
        if apart:
            text = f"{where} is at {batch.positions[row]}, handle{handle} at {apart} from it"
            found.append(Damage("order", where, float(apart), text))
        return found

    def _mixed(self, row: int, handle: int) -> float:
        """How far logits from a row's cache are from those of its tokens, as a share of the largest.

        A kernel reads all rows of the cache behind the last of the tokens that the row carries.
        """
        output = self.tables.batch.outputs[row]
        try:
            view = view_of(self.tables, handle)
        except NotReadableError:
            return 1.0
        if output is None or not output.prompt:
            return 1.0
        model, ids = self._model(view), output.prompt + output.tokens
        cached = self._logits(model, ids[-1], view, view.layers())
        return disagreement(cached, model.run(ids).logits)

    def _of_pool(self) -> list[Damage]:
        free = self.tables.pool.free
        return [
            Damage("owner", f"block{block}", float(free.count(block)), _told_free(block, free))
            for block in sorted(set(free))
            if free.count(block) > 1
        ]


def _told_free(block: int, free: list[int]) -> str:
    return f"block{block} stands {free.count(block)} times in the free list"


def _told(where: str, kind: str, whose: list[str]) -> str:
    place = "of its prefix block" if kind == "owner" else "of its own"
    return f"{where} reads {len(whose)} wrong rows {place}; they are of {'; '.join(sorted(set(whose)))}"


def _places(positions: Tensor, count: int) -> list[int]:
    """The positions of ``count`` rows; those of a part that is longer than the other go on from there."""
    places: list[int] = positions.tolist()
    after = places[-1] + 1 if places else 0
    return places[:count] + list(range(after, after + count - len(places)))


def _tolerance(right: Tensor) -> float:
    return TOLERANCES[right.dtype] * (CUDA_SLACK if right.is_cuda else 1)


def _is_same(row: Tensor, other: Tensor) -> bool:
    tolerance = ROW_SLACK * _tolerance(other)
    return float((row - other).abs().max()) <= tolerance * max(1.0, float(other.abs().max()))


def _unequal_logits(where: str, cached: Tensor, right: Tensor) -> list[Damage]:
    apart = disagreement(cached, right)
    if apart <= _tolerance(right):
        return []
    largest = float((cached - right).abs().max())
    text = f"logits of {where} differ from an uncached run by up to {largest:.3g}, {apart:.2g} of the largest"
    return [Damage("logits", where, largest, text)]


def _drawn_apart(sampler: torch.Generator | None, seed: int) -> float:
    """How far the next draw is from the one of the request's own random state; 1 without one."""
    if sampler is None:
        return 1.0
    copy = torch.Generator()
    copy.set_state(sampler.get_state())
    own = torch.Generator().manual_seed(seed)
    return abs(float(torch.rand((), generator=copy)) - float(torch.rand((), generator=own)))


def _of_receipt(place: int, txn: Txn) -> list[Damage]:
    """A client holds a receipt that is not that of its own published append."""
    ack, where = txn.ack, f"txn{place}"
    if ack is None:
        return []
    if txn.state != "PUBLISHED" or txn.receipt is None:
        text = f"a client was told of a publication of {where}, which is {txn.state}"
        return [Damage("receipt", where, 1.0, text)]
    pairs = {
        "handle": (ack.handle, txn.target),
        "key": (ack.key, txn.key),
        "base": (ack.base, txn.base_version),
        "count": (ack.count, txn.count),
        "receipt": (ack.receipt, txn.receipt.version),
    }
    apart = [f"{name} {told} != {own}" for name, (told, own) in pairs.items() if told != own]
    if not apart:
        return []
    text = f"a client holds the receipt of {where}, which is another call's: {', '.join(apart)}"
    return [Damage("receipt", where, float(len(apart)), text)]
