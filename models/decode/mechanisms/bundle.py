"""Companions of rows on the decode backend: they move with the rows or refuse, and faults to switch on.

Modelled: each request of the backend has outputs, a recurrent state over its rows, rows of a draft model and
perhaps a grammar, whose mask lies in an array beside the batch. They are kept in tables of their own, and
what the backend does to rows is done to them by checks of this cache.
Assumed: every prefix block has the same tokens, and all requests are of one text (`bundle_companions`). An
instance without layers has two, which are staged as an append is prepared.
Damage: all that the backend measures, and what a companion that was left behind does to logits, to the
shares of the next token, and to bytes that are held (`bundle_damage`).
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from kvspec.models.decode.backend_appends import LIVE
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_model import PREFIX_ROWS
from kvspec.models.decode.backend_tables import FREE, TERMINAL
from kvspec.models.decode.mechanisms.bundle_companions import (
    PREFIX,
    TEXT,
    DraftRows,
    Grammar,
    Recurrent,
)
from kvspec.models.decode.mechanisms.bundle_damage import Request
from kvspec.models.decode.mechanisms.bundle_rounds import Rounds
from kvspec.models.decode.mechanisms.bundle_tables import Round
from kvspec.models.decode.mechanisms.core_part import core_part
from kvspec.spec.language import Instance

FAULTS: Final = {
    "reorder.copies-without-clearing": "a mask is copied to the new row and stays in the old one",
    "leave.drop-assignment.row_mask": "a mask stays in the row that its request leaves",
    "reorder.drop-assignment.row_mask": "a request moves and its mask does not",
    "truncate.drop-guard.NO_ROLLBACK": "rows are cut where the recurrent state cannot go back",
    "truncate.drop-assignment.recurrent": "rows are cut and the recurrent state is not told",
    "fork.drop-guard.NO_ROLLBACK": "a fork of earlier rows has the recurrent state of later ones",
    "verify.trims-two-too-many": "after a rejection the draft model's rows are cut by two too many",
    "cancel_txn.drop-assignment.draft_rows": "rows of drafts stay when their round is broken off",
    "resume.replays-tokens-alone": "a continuation has all tokens and a grammar that consumed none",
    "resume.drop-guard.NO_REPLAY": "a continuation is taken whose grammar cannot be advanced here",
    "resume.replays-the-prompt-alone": "a continuation has the client's prompt, and no output",
    "resume.drop-assignment.lost": "a request that was continued is on record as lost",
    "give_up.waits-for-a-worker-that-can": "a request that nobody can take over is not given up",
}
"""Every fault that the cache can be given, by name, with what it does."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of its rules, or None."""
    return mutation if mutation in FAULTS else None


class Cache(Rounds):
    """The decode backend with companions; it speaks of the system `bundle`.

    Raises:
        ValueError: there is no such fault, or an instance is longer than the text.
    """

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        known_faults(faults, FAULTS)
        super().__init__(faults)

    def reset(self, instance: Instance) -> None:
        """Begin anew, with the sizes of an instance of `bundle`."""
        longest = instance.bounds["Length"]
        if 2 * longest + 1 > len(TEXT):
            raise ValueError(
                f"{instance.name} has lengths up to {longest}, and the text has {len(TEXT)} tokens: "
                f"give an instance of lengths up to {(len(TEXT) - 1) // 2}"
            )
        self._without_layers = not instance.sizes["Layer"]
        part = core_part(instance)
        super().reset(part)
        self._held().watch = self._show
        self._rollback = int(instance.constants["rollback"] or 0)
        self._replay = int(instance.constants["replay"] or 0)
        self.requests = [Request() for _ in range(part.sizes["Handle"])]
        self.rounds = [Round() for _ in range(part.sizes["Txn"])]
        self.masks = [None] * part.sizes["Row"]
        self._plain = dict(self._actions)
        own = ("allocate", "fork", "truncate", "begin", "prepare", "verify", "publish")
        ends = ("cancel_txn", "cancel_request", "release", "emit", "stop")
        batch = ("attach", "enter", "leave", "reorder", "resume", "give_up")
        self._actions |= {name: getattr(self, f"_{name}") for name in (*own, *ends, *batch)}

    # A request begins, is forked and cut.

    def _allocate(self, h: int, b: int, a: int, p: int) -> None:
        """A request of the text, with a prompt of p tokens."""
        tables, slot = self._held(), self._slot(h)
        if slot.entry.phase in FREE:
            self._need(p >= 1, "EMPTY_PROMPT", p)
            self._need(p <= tables.context, "PROMPT_TOO_LONG", p)
        self._plain["allocate"](h=h, b=b, a=a)
        tables.pool.fill(b, PREFIX, tables.models[a])
        slot.entry = attrs.evolve(slot.entry, prompt=PREFIX)
        if slot.output is not None:
            slot.output.prompt = PREFIX
        run = tables.models[a].run(PREFIX)
        self.requests[h] = Request(
            prompt=p,
            tokens=list(TEXT[:p]),
            client=list(TEXT[:p]),
            recurrent=Recurrent.behind(run.keys[-1], run.values[-1]),
            drafts=DraftRows(),
        )

    def _fork(self, p: int, children: tuple[bool, ...], n: int) -> None:
        """Children have every companion at their length."""
        if self._is_ready(p) and any(children) and n <= self._length(p):
            self._need(self._can_go_back(p, n), "NO_ROLLBACK", self._length(p), "fork")
        last = self.read(p).layers()[-1] if self._is_ready(p) else None
        self._plain["fork"](p=p, children=children, n=n)
        parent = self.requests[p]
        for c in (c for c, is_child in enumerate(children) if is_child):
            tokens = parent.outputs_within(n)
            child = Request(parent.prompt, tokens, parent.client[: len(tokens)])
            child.asked, child.carried = parent.asked, parent.carried
            if parent.recurrent is not None and last is not None:
                child.recurrent = parent.recurrent.copy()
                self._go_back(child.recurrent, n, last)
            if parent.drafts is not None:
                child.drafts = parent.drafts.copy()
                child.drafts.cut(n)
            if parent.grammar is not None:
                kept = parent.grammar.consumed[: parent.carried + len(tokens) - parent.prompt]
                child.grammar = Grammar(c, parent.grammar.start, kept)
            self.requests[c] = child

    def _truncate(self, h: int, n: int) -> None:
        """Every companion goes back with the rows."""
        request, length, rewind = self.requests[h], self._length(h), self._held().rewind
        if self._is_ready(h) and n <= length <= n + rewind:
            self._need(self._can_go_back(h, n), "NO_ROLLBACK", length, "truncate")
        last = self.read(h).layers()[-1] if self._is_ready(h) else None
        self._plain["truncate"](h=h, n=n)
        kept = request.outputs_within(n)
        if len(kept) < len(request.tokens):
            request.is_stopped = False
        request.tokens, request.client = kept, request.client[: len(kept)]
        told = "truncate.drop-assignment.recurrent" not in self.forgets
        if request.recurrent is not None and last is not None and told:
            self._go_back(request.recurrent, n, last)
        if request.drafts is not None:
            request.drafts.cut(n)
        if request.grammar is not None:
            del request.grammar.consumed[request.carried + len(kept) - request.prompt :]

    def _go_back(self, state: Recurrent, n: int, rows: tuple[Any, Any]) -> None:
        """Take out the rows behind the first n, as far as that is possible."""
        if state.position > n + self._rollback:
            return
        keys, values = rows
        while state.position > n:
            place = PREFIX_ROWS + state.position - 1
            state.take_out(keys[0, :, place], values[0, :, place])

    # A request ends, and another one continues it.

    def _cancel_request(self, h: int, dead: bool) -> None:
        """A request that has more to say is lost if its worker died."""
        txns = self._appends.txns
        ended = [x for x, txn in enumerate(txns) if txn.state in LIVE and self._is_of(txn, h)]
        self._plain["cancel_request"](h=h)
        request = self.requests[h]
        request.died, request.lost = dead, dead and not request.is_stopped
        if request.drafts is not None:
            request.drafts.cut(self._length(h))
        for x in ended:
            self.rounds[x] = Round()

    def _release(self, h: int) -> None:
        """Companions go with the rows, once a lost request is settled."""
        in_batch = self._held().batch.find(h) >= 0
        if self._slot(h).entry.phase in TERMINAL and not in_batch:
            self._need(not self.requests[h].lost, "STILL_LOST", "nobody settled it")
        self._plain["release"](h=h)
        self.requests[h] = Request()

    def _resume(self, h: int, s: int) -> None:
        """A fresh request goes on where a lost one ended, with all tokens and its grammar behind them."""
        request, lost, action = self.requests[h], self.requests[s], "resume"
        alone = "resume.replays-the-prompt-alone" in self.forgets
        self._need_ready(h)
        self._need(lost.lost, "NOT_LOST", self._slot(s).entry.phase)
        self._need_fresh(request)
        self._need(self._held().batch.find(h) < 0, "IN_BATCH", h)
        asked = lost.asked or lost.prompt
        due = asked if alone else len(lost.tokens)
        self._need(request.prompt == due, "NOT_A_REPLAY", request.prompt)
        self._need(self._can_replay(lost), "NO_REPLAY", "too many outputs", action)
        request.asked, request.client = asked, list(lost.client)
        request.carried = lost.carried + len(lost.tokens) - lost.prompt
        request.grammar = None
        if lost.grammar is not None:
            begins = "resume.replays-tokens-alone" in self.forgets or not self._can_replay(lost)
            consumed = [] if begins else list(lost.grammar.consumed)
            request.grammar = Grammar(h, lost.grammar.start, consumed)
        lost.taken_up = True
        lost.lost = "resume.drop-assignment.lost" in self.forgets

    def _need_fresh(self, request: Request) -> None:
        fresh = len(request.tokens) == request.prompt and not request.asked
        self._need(fresh, "HAS_A_PAST", f"{len(request.tokens)} tokens")

    def _give_up(self, h: int) -> None:
        self._need(self._may_give_up(self.requests[h]), "NOT_LOST", h)
        self.requests[h].lost = False

    # Grammars and the batch.

    def _attach(self, h: int) -> None:
        """The grammar begins behind the prompt."""
        request = self.requests[h]
        self._need_ready(h)
        self._need_fresh(request)
        self._need(request.grammar is None, "HAS_GRAMMAR", h)
        self._need(self._held().batch.find(h) < 0, "IN_BATCH", h)
        request.grammar = Grammar(h, request.prompt)

    def _enter(self, r: int, h: int) -> None:
        """A request without a grammar sets no mask: it relies on a neutral row."""
        self._plain["enter"](r=r, h=h)
        grammar = self.requests[h].grammar
        if grammar is not None:
            self.masks[r] = grammar

    def _leave(self, h: int) -> None:
        row = self._held().batch.find(h)
        self._plain["leave"](h=h)
        if "leave.drop-assignment.row_mask" not in self.forgets:
            self.masks[row] = None

    def _reorder(self, source: tuple[int, ...]) -> None:
        """Masks move with their requests."""
        self._plain["reorder"](source=source)
        if "reorder.drop-assignment.row_mask" in self.forgets:
            return
        moved = [self.masks[row] for row in source]
        if "reorder.copies-without-clearing" in self.forgets:
            moved = [new or old for new, old in zip(moved, self.masks, strict=True)]
        self.masks = moved
