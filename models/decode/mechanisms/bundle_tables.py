"""What the decode backend keeps of companions, how they are observed, and what is measured of them.

Modelled: a record of each request's companions, one of each append's round, and the mask of each batch row,
in tables beside those of the backend. Whether an append is to a request, or can still be published to it, is
told by the generation and the version that the backend has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import define
from torch import Tensor

from kvspec.models.backend import Damage
from kvspec.models.concrete.state import State, Value
from kvspec.models.decode.backend import DecodeBackend
from kvspec.models.decode.backend_appends import LIVE, Appends, Txn
from kvspec.models.decode.backend_reading import content
from kvspec.models.decode.backend_tables import FREE, RefusedError, Slot
from kvspec.models.decode.hooks import Part
from kvspec.models.decode.mechanisms import bundle_damage as measure
from kvspec.models.decode.mechanisms.bundle_companions import PREFIX, Grammar
from kvspec.models.decode.mechanisms.bundle_damage import Request
from kvspec.models.decode.mechanisms.core_part import core_tables

_KEPT: Final = 4096


@define(eq=False)
class Round:
    """What an append has beside its rows: drafts, the verdict, and the tokens that were known at begin."""

    drafts: int = 0
    accepted: int = 0
    base_tokens: int = 0
    is_drafted: bool = False


class Companions(DecodeBackend):
    """The decode backend with tables of companions, and the faults that it was given."""

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        super().__init__(device="cpu")
        self.forgets = frozenset(faults)
        self.requests: list[Request] = []
        self.rounds: list[Round] = []
        self.masks: list[Grammar | None] = []
        self._rollback = self._replay = 0
        self._without_layers = False
        self._plain: dict[str, Callable[..., None]] = {}
        self._measured: dict[object, list[Damage]] = {}

    def observe(self) -> State:
        """The state of the core, outputs and drafts, and every companion."""
        tables = core_tables(super().observe(), has_layers=not self._without_layers)
        of, rounds = self.requests, self.rounds
        more: list[list[Value]] = [
            [r.prompt for r in of],
            [len(r.tokens) - r.prompt for r in of],
            [r.is_stopped for r in of],
            [self._own(h) for h in range(len(of))],
            [r.drafts for r in rounds],
            [r.accepted for r in rounds],
            [r.base_tokens for r in rounds],
            [r.recurrent.position if r.recurrent else 0 for r in of],
            [r.drafts.count if r.drafts else 0 for r in of],
            [r.grammar is not None for r in of],
            [len(r.grammar.consumed) if r.grammar else 0 for r in of],
            [r.asked for r in of],
            [r.carried for r in of],
            [r.died for r in of],
            [r.lost for r in of],
            [None if mask is None else mask.handle for mask in self.masks],
            [r.is_drafted for r in rounds],
        ]
        return State((*tables, *(tuple(table) for table in more)))

    def damage(self) -> list[Damage]:
        """What the backend measures, and what companions do that stand where the rows do not."""
        found = super().damage()
        for h, request in enumerate(self.requests):
            if self._slot(h).entry.phase not in FREE:
                found += self._of_request(h, request)
        for r, held in enumerate(self.masks):
            carried, where = self._held().batch.caches[r], f"row{r}"
            if carried is None:
                found += measure.left_mask(where, held)
                continue
            request = self.requests[carried]
            found += measure.wrong_mask(where, held, request, self._next(carried, request))
        return found

    def _of_request(self, h: int, request: Request) -> list[Damage]:
        where, view = f"handle{h}", self.read(h)
        model = self._held().models[view.entry.abi or 0]
        state, drafts = request.recurrent, request.drafts
        committed, found = len(view.entry.tokens), []
        if state is not None:
            key = ("state", h, state.position, view.ids, state.state.numpy().tobytes())
            found += self._once(key, lambda: measure.wrong_state(where, state, model, view.ids))
        if drafts is not None and not self._in_round(h):
            layers = range(len(drafts.rows) // 2)
            rows = [tuple(drafts.rows[layer, part] for part in Part) for layer in layers]
            seen = content([(keys, values) for keys, values in rows])
            known = tuple(request.tokens)
            found += self._once(
                ("drafts", h, known, committed, seen),
                lambda: measure.wrong_drafts(where, drafts, known, committed),
            )
        found += measure.wrong_place(where, request, model)
        found += measure.wrong_grammar(where, request, self._next(h, request))
        why = ""
        if request.lost and request.taken_up:
            why = "another request continues it, and it is on record as lost"
        elif request.lost and not self._may_give_up(request) and not self._can_replay(request):
            why = "no worker can continue it, and nobody may give it up"
        return found + (measure.held_for_nothing(where, view.layers(), why) if why else [])

    def _once(self, key: object, measured: Callable[[], list[Damage]]) -> list[Damage]:
        """What was measured for equal content is kept."""
        if key not in self._measured:
            if len(self._measured) >= _KEPT:
                self._measured.clear()
            self._measured[key] = measured()
        return self._measured[key]

    def _next(self, h: int, request: Request) -> Tensor:
        """Logits behind the request's tokens, by an uncached run."""
        model = self._held().models[self._slot(h).entry.abi or 0]
        return model.run((*PREFIX, *request.tokens)).logits

    def _own(self, h: int) -> int:
        """Leading rows that are of the tokens which stand there."""
        pairs = zip(self._slot(h).entry.tokens, self.requests[h].tokens, strict=False)
        same = [row == token for row, token in pairs]
        return same.index(False) if False in same else len(same)

    # What is looked at.

    @property
    def _appends(self) -> Appends:
        return self._observer.appends

    def _slot(self, h: int) -> Slot:
        return self._held().slots[h]

    def _length(self, h: int) -> int:
        return len(self._slot(h).entry.tokens)

    def _is_ready(self, h: int) -> bool:
        return self._slot(h).entry.phase == "DECODE_READY"

    def _need(self, holds: bool, code: str, found: object, action: str = "") -> None:
        if not holds and f"{action}.drop-guard.{code}" not in self.forgets:
            raise RefusedError(code, f"found {found}")

    def _need_ready(self, h: int) -> None:
        self._need(self._is_ready(h), "HANDLE_TERMINAL", self._slot(h).entry.phase)

    def _is_of(self, txn: Txn, h: int) -> bool:
        """The append is to the request that the handle has now."""
        return txn.target == h and txn.base_generation == self._slot(h).generation

    def _is_current(self, txn: Txn, h: int) -> bool:
        return self._is_of(txn, h) and txn.base_version == self._slot(h).entry.version

    def _in_round(self, h: int) -> bool:
        """An append that can still be published has rows of the draft model."""
        pairs = zip(self._appends.txns, self.rounds, strict=True)
        return any(
            txn.state in LIVE and round_.is_drafted and self._is_current(txn, h)
            for txn, round_ in pairs
        )

    def _can_go_back(self, h: int, n: int) -> bool:
        state = self.requests[h].recurrent
        return state is None or state.position <= n + self._rollback

    def _can_replay(self, request: Request) -> bool:
        return request.grammar is None or len(request.grammar.consumed) <= self._replay

    def _may_give_up(self, request: Request) -> bool:
        waits = "give_up.waits-for-a-worker-that-can" in self.forgets
        return request.lost and (not waits or self._can_replay(request))
