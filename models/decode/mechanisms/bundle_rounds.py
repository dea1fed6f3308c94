"""Appends with companions: rounds of the draft model, verdicts, publications and outputs.

Modelled: rows of drafts are appended to the draft model's cache as a round begins, and cut with the verdict,
or as the round comes to nothing. Companions go forward at the moment at which rows become visible.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from kvspec.models.decode.backend_appends import Txn
from kvspec.models.decode.backend_model import PREFIX_ROWS
from kvspec.models.decode.backend_tables import RefusedError
from kvspec.models.decode.mechanisms.bundle_companions import TEXT
from kvspec.models.decode.mechanisms.bundle_damage import Request
from kvspec.models.decode.mechanisms.bundle_tables import Companions, Round


class Rounds(Companions):
    """What appends, verdicts and outputs do to companions; each method is an event."""

    _arriving: Callable[[], None] | None = None

    def _begin(self, x: int, h: int, k: int, a: int, p: int, n: int, d: int) -> None:
        """An append of the text's tokens; for drafts the draft model processes all but the last."""
        request, before = self.requests[h], self._appends.txns[x]
        self._held().fed[h] = TEXT[p : p + n]
        try:
            self._plain["begin"](x=x, h=h, k=k, a=a, p=p, n=n)
            known = len(request.tokens)
            end = p + n
            is_known = end <= known if d == 0 else end == known + d
            begun, self._appends.txns[x] = self._appends.txns[x], before
            self._need(d <= n and is_known, "UNKNOWN_TOKEN", end)
            self._need(not (end > known and self._in_round(h)), "DRAFT_BUSY", h)
        finally:
            self._held().fed.pop(h, None)
        self._appends.txns[x] = begun
        self.rounds[x] = Round(d, 0, known, end > known)
        if end > known and request.drafts is not None:
            request.drafts.catch_up(TEXT[: end - 1], p)

    def _prepare(self, x: int) -> None:
        txn = self._appends.txns[x]
        if txn.state == "OPEN" and self._without_layers:
            places = range(txn.start, txn.start + txn.count)
            for layer, place in product(range(self._held().shape.layers), places):
                self._plain["stage_k"](x, layer, place)
                self._plain["stage_v"](x, layer, place)
        self._plain["prepare"](x)

    def _verify(self, x: int, a: int) -> None:
        """Rows of rejected drafts are thrown away, those of the draft model as well."""
        txn, round_ = self._appends.txns[x], self.rounds[x]
        self._need(txn.state == "PREPARED", "NOT_PREPARED", txn.state)
        count = txn.count + a - round_.drafts
        self._need(count >= 1, "EMPTY_APPEND", count)
        self._need(round_.drafts >= 1, "NO_DRAFT", round_.drafts)
        self._need(a <= round_.drafts, "TOO_MANY_DRAFTS", a)
        h = txn.target or 0
        rows = self.requests[h].drafts
        if self._is_current(txn, h) and rows is not None:
            kept = txn.start + count
            if "verify.trims-two-too-many" in self.forgets:
                kept = rows.count
                if a < round_.drafts:
                    kept = max(0, rows.count - (round_.drafts - a + 1))
            rows.cut(kept)
        self._appends.keep_first(x, count)
        round_.drafts, round_.accepted = 0, a

    def _publish(self, x: int) -> None:
        """Companions go forward with the rows; a stale append takes the draft model's rows with it."""
        txn, round_ = self._appends.txns[x], self.rounds[x]
        h, is_prepared = txn.target or 0, txn.state == "PREPARED"
        is_current, request = self._is_current(txn, h), self.requests[h]
        try:
            slot = self._appends.publishable(x)
        except RefusedError:
            if is_prepared:
                self._end_round(x, h, is_current)
            raise
        self._need(round_.drafts == 0, "UNVERIFIED_DRAFT", round_.drafts)
        moved = round_.accepted and round_.base_tokens != len(request.tokens)
        code = "STALE_FRONTIER" if moved else "OUTPUT_STOPPED"
        if moved or (round_.accepted and request.is_stopped):
            txn.discard("REJECTED")
            self._end_round(x, h, is_current)
            raise RefusedError(code, f"found {len(request.tokens)} tokens")
        self._arriving = lambda: self._go_forward(h, request, round_, txn)
        self._appends.show(slot, x)
        self.rounds[x] = Round()

    def _show(self) -> None:
        """Rows have become visible: companions go forward before anybody else looks."""
        arriving, self._arriving = self._arriving, None
        if arriving is not None:
            arriving()
        self.watch()

    def _go_forward(self, h: int, request: Request, round_: Round, txn: Txn) -> None:
        """Take in the published rows, and emit the drafts that were accepted."""
        end = txn.start + txn.count
        for _ in range(round_.accepted):
            self._say(request)
        state, rows = request.recurrent, request.drafts
        keys, values = self.read(h).layers()[-1]
        if state is not None:
            for place in range(PREFIX_ROWS + state.position, PREFIX_ROWS + end):
                state.take_in(keys[0, :, place], values[0, :, place])
        if rows is not None and not round_.is_drafted:
            rows.cut(txn.start)
            rows.catch_up(request.tokens[:end], txn.start)

    def _end_round(self, x: int, h: int, is_current: bool) -> None:
        """The append is no round any more: what the draft model has beyond the rows goes."""
        rows = self.requests[h].drafts
        if self.rounds[x].is_drafted and is_current and rows is not None:
            rows.cut(self._length(h))
        self.rounds[x] = Round()

    def _cancel_txn(self, x: int) -> None:
        """The draft model's rows for the append go with it."""
        txn = self._appends.txns[x]
        h = txn.target or 0
        is_current = self._is_current(txn, h)
        self._plain["cancel_txn"](x=x)
        kept = "cancel_txn.drop-assignment.draft_rows" in self.forgets
        self._end_round(x, h, is_current and not kept)

    def _say(self, request: Request) -> None:
        """The next token of the text goes to the client, and the grammar consumes it."""
        token = TEXT[len(request.tokens)]
        request.tokens.append(token)
        request.client.append(token)
        if request.grammar is not None:
            request.grammar.consumed.append(token)

    def _emit(self, h: int) -> None:
        request = self.requests[h]
        self._need_ready(h)
        self._need(len(request.tokens) <= self._length(h), "NO_LOGITS", self._length(h))
        self._need(not request.is_stopped, "OUTPUT_STOPPED", "the last output")
        self._say(request)

    def _stop(self, h: int) -> None:
        self._need_ready(h)
        self._need(not self.requests[h].is_stopped, "OUTPUT_STOPPED", "the last output")
        self.requests[h].is_stopped = True
