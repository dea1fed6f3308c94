"""Tickets of clients on the decode backend: calls that name a request, and faults to switch on.

Modelled: a client keeps the handle and the generation of its request, and every call that names a handle
is held against both, between the backend's own checks. Beside that a ticket remembers which request it was
taken of, and its tokens; no check reads that.
Damage: for each call that reached another request than its ticket was taken of, the rows of that request
that it read, cut, closed or gave up, and how far the logits behind what it read are from those of its own
request; a snapshot that was replaced without a row less; and all that the backend measures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs
from attrs import define, frozen

from kvspec.models.backend import Damage
from kvspec.models.concrete.state import State
from kvspec.models.decode.agreement import disagreement
from kvspec.models.decode.backend import DecodeBackend
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_tables import FREE, RefusedError, Tables
from kvspec.models.decode.mechanisms.slot_rows import is_apart
from kvspec.spec.core import system as core
from kvspec.spec.language import Instance

_ORDER: Final = {
    "begin": (("STALE_TICKET",), "CONTEXT_FULL", ("OTHER_HANDLE",)),
    "fork": (("STALE_TICKET",), "CHILD_IN_USE", ("OTHER_HANDLE",)),
    "release": (("STALE_TICKET",), "ROW_HOLDS_HANDLE", ("OTHER_HANDLE",)),
    "truncate": ((), "CANNOT_REWIND", ("OTHER_HANDLE", "STALE_TICKET")),
    "finish": ((), "HANDLE_TERMINAL", ("OTHER_HANDLE", "STALE_TICKET")),
    "cancel_request": ((), "HANDLE_TERMINAL", ("OTHER_HANDLE", "STALE_TICKET")),
}
"""For each call the last check of the backend, and the checks of its ticket before and behind that."""

_DOES: Final = {
    "begin": "read",
    "fork": "read",
    "truncate": "cut",
    "release": "given up",
    "finish": "closed",
    "cancel_request": "closed",
}
_SAYS: Final = {
    "STALE_TICKET": "whatever the generation of its ticket",
    "OTHER_HANDLE": "whatever the handle of its ticket",
}
FAULTS: Final = {
    f"{action}.drop-guard.{code}": f"{action} is accepted {says}"
    for action in _ORDER
    for code, says in _SAYS.items()
}
"""Every fault that the cache can be given, by name, with what it does."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of its rules, or None."""
    return mutation if mutation in FAULTS else None


@frozen
class Ticket:
    """What a client holds: a handle and a generation, and of which request of the handle it was taken.

    birth: counts the requests of the handle. abi, tokens: of the request when the ticket was taken.
    """

    handle: int | None = None
    generation: int = 0
    birth: int = 0
    abi: int = 0
    tokens: tuple[int, ...] = ()


@define(eq=False)
class GuardedTables(Tables):
    """Tables of the backend whose checks have those of a ticket between them, while a call is carried out."""

    ticket_checks: Callable[[str, str, bool], None] | None = None

    def need(self, action: str, holds: bool, code: str, detail: str = "") -> None:
        """Refuse by the ticket before this check, by this check, or by the ticket behind it."""
        check = self.ticket_checks
        if check is not None:
            check(action, code, False)
        super().need(action, holds, code, detail)
        if check is not None:
            check(action, code, True)


class Cache(DecodeBackend):
    """The decode backend with clients that call by tickets; it speaks of the system `tickets`.

    Raises:
        ValueError: there is no such fault.
    """

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        chosen = known_faults(faults, FAULTS)
        super().__init__(device="cpu")
        self.forgets = chosen
        self.tickets: list[Ticket] = []
        self.last: int | None = None
        self.reached: list[Damage] = []

    def reset(self, instance: Instance) -> None:
        """Begin anew, with the sizes of an instance of `tickets`."""
        sizes = {name: n for name, n in instance.sizes.items() if name != "Ticket"}
        super().reset(
            attrs.evolve(instance, system=core, sizes=sizes, limits=(), initial={}, expected=None)
        )
        self.tickets = [Ticket() for _ in range(instance.sizes["Ticket"])]
        self.last, self.reached = None, []
        plain = dict(self._actions)
        self._actions |= {action: self._by_ticket(action, plain[action]) for action in _ORDER}
        self._actions |= {"take_ticket": self._take, "give_ticket_back": self._give_back}

    def observe(self) -> State:
        """The state of the core, and the tickets; one has expired when its request is gone."""
        return State(
            (
                *super().observe().tables,
                tuple(ticket.handle for ticket in self.tickets),
                tuple(ticket.generation for ticket in self.tickets),
                tuple(self._has_expired(ticket) for ticket in self.tickets),
                (self.last,),
            )
        )

    def damage(self) -> list[Damage]:
        """What the backend measures, and what calls did to requests of others."""
        return [*super().damage(), *self.reached]

    def _make_tables(self, instance: Instance) -> Tables:
        made = super()._make_tables(instance)
        held = {each.name: getattr(made, each.name) for each in attrs.fields(Tables)}
        return GuardedTables(**held)

    def _has_expired(self, ticket: Ticket) -> bool:
        if ticket.handle is None:
            return False
        slot = self._held().slots[ticket.handle]
        return slot.births != ticket.birth or slot.entry.phase in FREE

    def _take(self, t: int, h: int) -> None:
        slot = self._held().slots[h]
        _need(self.tickets[t].handle is None, "TICKET_IN_USE", f"ticket{t} is taken")
        _need(slot.entry.phase not in FREE, "NO_REQUEST", f"handle{h} is {slot.entry.phase}")
        entry = slot.entry
        self.tickets[t] = Ticket(
            h, slot.generation, slot.births, entry.abi or 0, entry.prompt + entry.tokens
        )

    def _give_back(self, t: int) -> None:
        _need(self.tickets[t].handle is not None, "NO_TICKET", f"ticket{t} is blank")
        self.tickets[t] = Ticket()

    def _by_ticket(self, action: str, act: Callable[..., Any]) -> Callable[..., None]:
        """The call, with the checks of its ticket between those of the backend."""

        def call(t: int, **names: Any) -> None:
            tables, ticket = self._held(), self.tickets[t]
            h: int = names["p" if action == "fork" else "h"]
            kept: int = names["n"] if action == "truncate" else 0
            harm = self._harm(action, f"ticket{t}", ticket, h, kept)
            before = self.observe()
            if isinstance(tables, GuardedTables):
                tables.ticket_checks = lambda a, code, behind: self._check(
                    a, code, behind, ticket, h
                )
                try:
                    act(**names)
                finally:
                    tables.ticket_checks = None
            if self.observe() != before:  # a call that does nothing harms nobody
                self.reached += harm
            self.last = t

        return call

    def _check(self, action: str, code: str, behind: bool, ticket: Ticket, h: int) -> None:
        """The checks of a ticket that stand before a check of the backend, or behind it."""
        before, last, after = _ORDER[action]
        holds = {
            "STALE_TICKET": ticket.generation == self._held().slots[h].generation,
            "OTHER_HANDLE": ticket.handle == h,
        }
        for mine in (after if behind else before) if code == last else ():
            if f"{action}.drop-guard.{mine}" not in self.forgets:
                _need(holds[mine], mine, f"{ticket}, called for handle{h}")

    def _harm(self, action: str, where: str, ticket: Ticket, h: int, kept: int) -> list[Damage]:
        """What a call does if it is accepted and reaches a request that its ticket was not taken of.

        kept: how many rows a truncate leaves.
        """
        slot = self._held().slots[h]
        if (ticket.handle, ticket.birth) == (h, slot.births) or slot.entry.phase in FREE:
            return []
        tokens, does = slot.entry.tokens, _DOES[action]
        rows = len(tokens) - kept if does == "cut" else len(slot.entry.prompt + tokens)
        text = f"of another request, which has handle{h} now, are {does} by {action}"
        found = [Damage("rows", where, rows, text)]
        if not rows:
            text = f"the snapshot that the client of handle{h} was told of is replaced by {action}"
            found = [Damage("receipt", where, 1.0, text)]
        if does == "read" and ticket.handle is not None:
            own = self._held().models[ticket.abi].run(ticket.tokens).logits
            read = self.logits(h)
            if is_apart(read, own):
                off = disagreement(read, own)
                found.append(Damage("logits", where, off, "from those of the client's own request"))
        return found


def _need(holds: bool, code: str, detail: str) -> None:
    if not holds:
        raise RefusedError(code, detail)
