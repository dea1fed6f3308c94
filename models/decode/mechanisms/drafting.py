"""Speculative rounds of a decoder whose rows are written in place, with its own counts and checks.

Modelled: the rows of a request lie one behind the other, and `written` tells how many of them there are; a
cut moves this count and leaves the rows where they are. A round is one call of the decoder, at positions that
the host counts. How many drafts the target accepts is the event's to say: a rejected one is followed by
another token, as a target that samples would choose it. The first `key` rows of an ended request are found
by the next prompt of its client.
Beside the rows there is a recurrent state, of which so many earlier values are kept as the instance says; it
goes back by taking up one of them.
Damage: the logits of the next token, at the position that is counted for it, against an uncached run over
the client's tokens; rows that are not of these tokens; the same of the rows that its next prompt finds;
and what the recurrent state adds to the logits, against one that has taken in the rows that stay.
"""

from __future__ import annotations

from typing import Final

from attrs import define, field

from kvspec.models.backend import Damage
from kvspec.models.concrete.state import State, Value
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_model import token_of
from kvspec.models.decode.backend_tables import RefusedError
from kvspec.models.decode.mechanisms.bundle_companions import Recurrent
from kvspec.models.decode.mechanisms.checks import Performing
from kvspec.models.decode.mechanisms.slot_rows import SlotRows, is_apart, small_model
from kvspec.spec.language import Instance

FAULTS: Final = {
    "close.one-token-a-round": "the position goes on by one a round",
    "truncate.drop-assignment.position": "the position stays where rows are cut",
    "draft.drop-assignment.delivered": "a round begins with the count of the one before",
    "close.drop-assignment.written": "a round is closed and nothing cut",
    "verify.drop-assignment.state": "the recurrent state keeps the rejected drafts",
    "draft.drop-guard.NO_ROLLBACK": "a round is opened that the recurrent state cannot undo",
    "cancel.key-of-the-round": "a cancelled request is found under all rows of its round",
}
"""Every fault that the cache can be given, by name, with what it does."""

ROOM = 3
"""How many times the context is allocated, so that a faulty count reads rows and not an error."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of its rules, or None."""
    return mutation if mutation in FAULTS else None


@define(eq=False)
class Request:
    """Counts of a request, the tokens that its client has, and those of the open round."""

    slots: list[int]
    outcome: str = "NEW"
    point: str = "BETWEEN"
    written: int = 0
    position: int = 0
    client: list[int] = field(factory=list)
    drafts: int = 0
    delivered: int = 0
    is_stopped: bool = False
    guesses: list[int] = field(factory=list)
    key: int = 0
    values: dict[int, Recurrent] = field(factory=dict)

    @property
    def cut(self) -> int:
        """Rows of the open round that are cut when it ends."""
        return 0 if self.point == "BETWEEN" else 1 + self.drafts - self.delivered

    @property
    def gained(self) -> int:
        """Rows of the open round that stay."""
        return 0 if self.point == "BETWEEN" else self.delivered


class Cache(Performing):
    """Requests in speculative rounds (`kvspec.models.backend.Backend` of drafting)."""

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        self.faults = known_faults(faults, FAULTS)
        self.model = small_model()

    def reset(self, instance: Instance) -> None:
        """Begin anew, with the sizes of an instance of the system."""
        handles = instance.sizes["Handle"]
        self.context = int(instance.constants["context"])
        self.kept = int(instance.constants["kept"])
        room = ROOM * self.context + ROOM
        self.rows = SlotRows(self.model, max(1, handles * room))
        self.requests = [Request(list(range(h * room, (h + 1) * room))) for h in range(handles)]

    def observe(self) -> State:
        """The variables of the system, read off the requests."""
        of = self.requests
        tables: list[list[Value]] = [
            [r.outcome for r in of],
            [r.point for r in of],
            [r.written for r in of],
            [r.position for r in of],
            [len(r.client) for r in of],
            [r.drafts for r in of],
            [r.delivered for r in of],
            [r.is_stopped for r in of],
            [r.key for r in of],
            [max(r.values, default=0) for r in of],
            [min(r.values, default=0) for r in of],
        ]
        return State(tuple(tuple(table) for table in tables))

    def damage(self) -> list[Damage]:
        """Every harm that can be measured now; of an open round none, since its rows are not judged yet."""
        found: list[Damage] = []
        for handle, request in enumerate(self.requests):
            where = f"handle{handle}"
            if request.outcome != "NEW" and request.point != "DRAFTED":
                found += self._of_state(where, request)
            if request.outcome != "NEW" and request.point == "BETWEEN":
                found += self._of_rows(where, request)
            found += self._of_key(where, request)
        return found

    def _admit(self, h: int, p: int) -> None:
        request = self.requests[h]
        self._check(request.outcome == "NEW", "HANDLE_LIVE", request.outcome)
        self._check(p >= 1, "EMPTY_PROMPT", p)
        self._check(p + 2 <= self.context, "PROMPT_TOO_LONG", p)
        prompt = [token_of("prompt", h, place) for place in range(p)]
        self.rows.compute(prompt, 0, request.slots[:p])
        request.outcome, request.written, request.position = "PENDING", p, p
        request.client = [*prompt, token_of("own", h, *prompt)]
        config = self.model.decoder.config
        request.values = {0: Recurrent.empty(config.kv_heads, config.head_dim)}
        self._go_forward(request)

    def _draft(self, h: int, d: int) -> None:
        request = self._pending(h)
        self._check(request.point == "BETWEEN", "ROUND_OPEN", request.point)
        if "draft.drop-guard.NO_ROLLBACK" not in self.faults:
            self._check(1 + d <= self.kept, "NO_ROLLBACK", 1 + d)
        self._check(
            request.written + 1 + d <= self.context, "CONTEXT_FULL", request.written + 1 + d
        )
        self._check(not request.is_stopped, "OUTPUT_STOPPED", request.is_stopped)
        request.guesses = [token_of("draft", h, *request.client, place) for place in range(d)]
        tokens = [request.client[-1], *request.guesses]
        behind = request.written + len(tokens)
        self.rows.compute(tokens, request.position, request.slots[:behind])
        request.point, request.written, request.drafts = "DRAFTED", behind, d
        self._go_forward(request)
        if "draft.drop-assignment.delivered" not in self.faults:
            request.delivered = 0

    def _verify(self, h: int, a: int) -> None:
        request = self.requests[h]
        self._check(request.point == "DRAFTED", "NO_VERDICT_DUE", request.point)
        self._check(a <= request.drafts, "TOO_MANY_DRAFTS", a)
        own = token_of("own", h, *request.client, *request.guesses[:a])
        request.guesses = [*request.guesses[:a], own]
        request.written -= request.drafts - a
        request.point, request.drafts = "VERIFIED", a
        if "verify.drop-assignment.state" not in self.faults:
            self._go_back(request)

    def _deliver(self, h: int, t: str) -> None:
        request = self.requests[h]
        self._check(request.point == "VERIFIED", "NOT_VERIFIED", request.point)
        self._check(request.delivered <= request.drafts, "ALL_DELIVERED", request.delivered)
        self._check(not request.is_stopped, "OUTPUT_STOPPED", request.is_stopped)
        request.client.append(request.guesses[request.delivered])
        request.delivered += 1
        request.is_stopped = t == "STOP" or len(request.client) >= self.context

    def _close(self, h: int) -> None:
        request = self.requests[h]
        self._check(request.point == "VERIFIED", "NOT_VERIFIED", request.point)
        done = request.is_stopped or request.delivered == request.drafts + 1
        self._check(done, "UNDELIVERED", request.delivered)
        gained = 1 if "close.one-token-a-round" in self.faults else request.gained
        cut = 0 if "close.drop-assignment.written" in self.faults else request.cut
        self._end_round(request, cut, gained)

    def _lose(self, h: int) -> None:
        request = self.requests[h]
        self._check(request.point == "DRAFTED", "NO_VERDICT_DUE", request.point)
        self._end_round(request, request.cut, 0)

    def _truncate(self, h: int, n: int) -> None:
        request = self._pending(h)
        self._check(request.point == "BETWEEN", "ROUND_OPEN", request.point)
        self._check(1 <= n < request.written, "BEYOND_COMMITTED", n)
        self._check(min(request.values) <= n, "NO_ROLLBACK", n)
        request.written, request.client = n, request.client[: n + 1]
        self._go_back(request)
        request.drafts, request.delivered, request.is_stopped = 0, 0, False
        if "truncate.drop-assignment.position" not in self.faults:
            request.position = n

    def _finish(self, h: int) -> None:
        request = self._pending(h)
        self._check(request.point == "BETWEEN", "ROUND_OPEN", request.point)
        self._check(request.is_stopped, "NOT_STOPPED", request.is_stopped)
        request.outcome = "FINISHED"
        request.key = request.written

    def _cancel(self, h: int) -> None:
        request = self._pending(h)
        rows = request.written
        self._end_round(request, request.cut, request.gained)
        request.outcome = "CANCELLED"
        if "cancel.key-of-the-round" not in self.faults:
            rows = request.written
        request.key = rows

    def _end_round(self, request: Request, cut: int, gained: int) -> None:
        request.point = "BETWEEN"
        request.written -= cut
        request.position += gained
        self._go_back(request)

    def _go_forward(self, request: Request) -> None:
        """The recurrent state takes in the rows behind it; of its values the last ones are kept."""
        keys, values = self.rows.layers(request.slots[: request.written])[-1]
        for place in range(max(request.values), request.written):
            later = request.values[place].copy()
            later.take_in(keys[0, :, place], values[0, :, place])
            request.values[place + 1] = later
        last = list(request.values)[-self.kept - 1 :]
        request.values = {place: request.values[place] for place in last}

    def _go_back(self, request: Request) -> None:
        """The recurrent state takes up its value behind the rows that stay, if there is one."""
        if request.written in request.values:
            earlier = {p: value for p, value in request.values.items() if p <= request.written}
            request.values = earlier

    def _pending(self, h: int) -> Request:
        request = self.requests[h]
        self._check(request.outcome == "PENDING", "NOT_PENDING", request.outcome)
        return request

    def _check(self, holds: bool, code: str, found: object) -> None:
        if not holds:
            raise RefusedError(code, f"found {found}")

    def _of_rows(self, where: str, request: Request) -> list[Damage]:
        """Rows that are not of the client's tokens, and the next logits at the counted position."""
        table = request.slots[: request.written]
        return self._of_slots(where, request, table, request.client, request.position)

    def _of_state(self, where: str, request: Request) -> list[Damage]:
        """What the recurrent state adds to the next logits, where it is not that of the rows that stay."""
        tokens = [*request.client, *request.guesses[request.delivered :]][: request.written]
        run = self.model.run(tuple(tokens))
        config = self.model.decoder.config
        right = Recurrent.empty(config.kv_heads, config.head_dim)
        for place in range(len(tokens)):
            right.take_in(run.keys[-1, :, place], run.values[-1, :, place])
        found, wanted = (
            each.reading().to(run.logits.dtype)
            for each in (request.values[max(request.values)], right)
        )
        if not is_apart(found, wanted):
            return []
        amount = float((found - wanted).abs().max())
        text = (
            f"the recurrent state of {where} adds to the next logits {amount:.3g} more or less than one "
            f"behind its {request.written} rows"
        )
        return [Damage("logits", where, amount, text)]

    def _of_key(self, where: str, request: Request) -> list[Damage]:
        """The rows that the next prompt finds, which goes on behind the client's tokens in its own way."""
        if not request.key:
            return []
        table = request.slots[: request.key]
        beyond = max(0, len(table) + 1 - len(request.client))
        own = [token_of("next prompt", *request.client, place) for place in range(beyond)]
        prompt = [*request.client, *own][: len(table) + 1]
        return self._of_slots(f"{where}.key", request, table, prompt, len(table))

    def _of_slots(
        self, where: str, request: Request, table: list[int], tokens: list[int], position: int
    ) -> list[Damage]:
        """Rows in the slots of a table that are not of tokens, and the logits of the last one behind them."""
        found = []
        wrong = self.rows.wrong_rows(tokens[:-1], self.rows.layers(table))
        if wrong:
            text = f"{wrong} of the {len(table)} rows of {where} are of no token before its last"
            found.append(Damage("rows", where, float(wrong), text))
        # The last slot is nobody's row, so that a measurement leaves every other row as it is.
        logits = self.rows.compute([tokens[-1]], position, [*table, request.slots[-1]])[-1]
        right = self.model.run(tuple(tokens)).logits
        if is_apart(logits, right):
            amount = float((logits - right).abs().max())
            text = (
                f"the next logits of {where}, at position {position}, are {amount:.3g} off an "
                f"uncached run over its {len(tokens)} tokens"
            )
            found.append(Damage("logits", where, amount, text))
        return found
