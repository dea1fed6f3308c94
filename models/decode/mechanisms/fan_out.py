"""Samples of prompts on the decode backend, in seats of a batch with rows of its own; faults to switch on.

Modelled: a seat is a place of a running batch, with K and V of the prompt's rows in every layer: they are
copied there when a request is seated, and its decode steps read them there. Samples share the prompt's block.
Who is in which group, and who is waited for, are tables that no row depends on.
Assumed: an instance without layers has two, since rows must lie somewhere.
Damage: bytes held for a part of a group, and by samples whose prompt was cancelled; logits of a request
whose seat has other rows; what the backend measures.
"""

from __future__ import annotations

from typing import Final

import torch

from kvspec.models.backend import Damage
from kvspec.models.concrete.state import State
from kvspec.models.decode.agreement import disagreement
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_model import PREFIX_ROWS
from kvspec.models.decode.backend_tables import FREE, RefusedError
from kvspec.models.decode.mechanisms.core_part import core_part, core_tables
from kvspec.models.decode.mechanisms.further import FurtherChecks
from kvspec.models.decode.mechanisms.slot_rows import is_apart
from kvspec.spec.language import Instance

FAULTS: Final = {
    "fork.one-by-one": "one sample is admitted, as long as there is room for all",
    "fork.drop-assignment.group": "samples are registered in no group",
    "cancel_request.drop-guard.GROUP_RUNS": "a prompt is cancelled alone, whatever samples run",
    "allocate.drop-guard.SEAT_TAKEN": "a new request is put into a seat that another one has",
}
"""Every fault that the cache can be given, by name, with what it does."""

_LAST_CHECK: Final = {
    "allocate": "BLOCK_IN_USE",
    "fork": "CHILD_IN_USE",
    "cancel_request": "HANDLE_TERMINAL",
    "release": "ROW_HOLDS_HANDLE",
}
"""The last check of the backend in each action that has further ones here."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of its rules, or None."""
    return mutation if mutation in FAULTS else None


class Cache(FurtherChecks):
    """The decode backend with seats and groups of samples; it speaks of the system `fan_out`.

    Attributes:
        seats: the seat of each handle.
        groups: the prompt of whose group a handle is a member.
        wishes: the prompt that waits for a sample on the handle.

    Raises:
        ValueError: there is no such fault.
    """

    LAST_CHECK = _LAST_CHECK

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        chosen = known_faults(faults, FAULTS)
        super().__init__(device="cpu")
        self.forgets = chosen
        self.seats: list[int | None] = []
        self.groups: list[int | None] = []
        self.wishes: list[int | None] = []
        self._without_layers = False

    def reset(self, instance: Instance) -> None:
        """Begin anew, with the sizes of an instance of `fan_out`."""
        self._without_layers = not instance.sizes["Layer"]
        part = core_part(instance)
        super().reset(part)
        handles, pool = part.sizes["Handle"], self._held().pool
        self.seats = [None] * handles
        self.groups = [None] * handles
        self.wishes = [None] * handles
        shape = list(pool.keys.shape)
        shape[1] = instance.sizes["Seat"]
        self._keys, self._values = torch.zeros(shape), torch.zeros(shape)
        self._plain = dict(self._actions)
        self._actions |= {
            "allocate": self._allocate,
            "ask": self._ask,
            "turn_away": self._turn_away,
            "fork": self._fork,
            "cancel_request": self._cancel_request,
            "cancel_group": self._cancel_group,
            "release": self._release,
        }

    def observe(self) -> State:
        """The state of the core, and seats, groups and wishes."""
        tables = core_tables(super().observe(), has_layers=not self._without_layers)
        return State((*tables, tuple(self.seats), tuple(self.groups), tuple(self.wishes)))

    # Actions.

    def _allocate(self, h: int, b: int, a: int, s: int) -> None:
        def is_free() -> None:
            if "allocate.drop-guard.SEAT_TAKEN" not in self.forgets:
                _need(s not in self.seats, "SEAT_TAKEN", f"seats {self.seats}")

        self._carry_out("allocate", is_free, h=h, b=b, a=a)
        self._sit(h, s)

    def _ask(self, p: int, samples: tuple[bool, ...]) -> None:
        chosen = [c for c, is_sample in enumerate(samples) if is_sample]
        _need(self._runs(p), "HANDLE_TERMINAL", f"handle{p} is {self._phase(p)}")
        _need(self.groups[p] is None, "IN_A_GROUP", f"handle{p} is a sample")
        _need(p not in self.groups + self.wishes, "GROUP_BEGUN", f"wishes {self.wishes}")
        _need(bool(chosen), "NO_SAMPLE", "no sample")
        asked = [c for c in chosen if self.wishes[c] is not None]
        _need(not asked, "ASKED_FOR", f"handles {asked} are asked for")
        busy = [c for c in chosen if self._phase(c) not in FREE]
        _need(not busy, "CHILD_IN_USE", f"handles {busy} are in use")
        for c in chosen:
            self.wishes[c] = p

    def _turn_away(self, p: int) -> None:
        waits = self._runs(p) and p in self.wishes and p not in self.groups
        _need(waits, "WAITS_FOR_NONE", f"wishes {self.wishes}, groups {self.groups}")
        self._forget_wishes(p)

    def _fork(self, p: int, children: tuple[bool, ...], n: int, seats: tuple[int, ...]) -> None:
        chosen = [c for c, is_child in enumerate(children) if is_child]
        wished = self._wished(p)

        def are_seated() -> None:
            if "fork.one-by-one" in self.forgets and len(chosen) == 1 and chosen[0] in wished:
                taken = self._taken([seats[c] for c in wished])
                _need(not taken, "NOT_ALL_SAMPLES", f"there is no room for all: {taken}")
            else:
                _need(chosen == wished, "NOT_ALL_SAMPLES", f"asked for {wished}, found {chosen}")
            asked = [seats[c] for c in chosen]
            taken = [s for s in asked if s in self.seats]
            _need(not taken, "SEAT_TAKEN", f"seats {taken} are taken")
            _need(len(set(asked)) == len(asked), "ONE_SEAT_FOR_TWO", f"seats {asked}")

        self._carry_out("fork", are_seated, p=p, children=children, n=n)
        for c in chosen:
            self._sit(c, seats[c])
            self.wishes[c] = None
            if "fork.drop-assignment.group" not in self.forgets:
                self.groups[c] = p

    def _cancel_request(self, h: int) -> None:
        def ends_alone() -> None:
            if "cancel_request.drop-guard.GROUP_RUNS" not in self.forgets:
                running = self._running_members(h)
                _need(not running, "GROUP_RUNS", f"handles {running} run")

        self._carry_out("cancel_request", ends_alone, h=h)

    def _cancel_group(self, p: int) -> None:
        running = self._running_members(p)
        _need(bool(running), "NO_RUNNING_MEMBER", f"groups {self.groups}")
        for h in [*running, *([p] if self._runs(p) else [])]:
            self._plain["cancel_request"](h=h)

    def _release(self, h: int) -> None:
        def goes_last() -> None:
            _need(h not in self.groups, "GROUP_HELD", f"groups {self.groups}")

        self._carry_out("release", goes_last, h=h)
        self.seats[h] = self.groups[h] = None
        self._forget_wishes(h)

    # Tables and rows.

    def _phase(self, h: int) -> str:
        return self._held().slots[h].entry.phase

    def _runs(self, h: int) -> bool:
        return self._phase(h) == "DECODE_READY"

    def _wished(self, p: int) -> list[int]:
        return [c for c, prompt in enumerate(self.wishes) if prompt == p]

    def _running_members(self, p: int) -> list[int]:
        return [c for c, prompt in enumerate(self.groups) if prompt == p and self._runs(c)]

    def _forget_wishes(self, p: int) -> None:
        self.wishes = [None if prompt == p else prompt for prompt in self.wishes]

    def _taken(self, asked: list[int]) -> list[int]:
        """Of the seats that are asked for, those that somebody has or that are asked for twice."""
        return [s for s in asked if s in self.seats or asked.count(s) > 1]

    @torch.inference_mode()
    def _sit(self, h: int, s: int) -> None:
        """Put a request into a seat, with the rows of its prompt."""
        self.seats[h] = s
        block = self._held().slots[h].entry.block
        if block is not None:
            self._keys[:, s] = self._held().pool.keys[:, block]
            self._values[:, s] = self._held().pool.values[:, block]

    # Damage.

    def damage(self) -> list[Damage]:
        """What the backend measures, rows of others in a seat, parts of groups, and samples for nobody."""
        found = super().damage()
        for h, seat in enumerate(self.seats):
            if seat is not None and self._runs(h):
                found += self._of_seat(h, seat)
                found += self._of_sample(h)
            if self._runs(h) and h in self.wishes:
                found += self._of_part(h)
        return found

    def _of_seat(self, h: int, seat: int) -> list[Damage]:
        """How far the logits of a decode step are off that reads the prompt's rows in the seat."""
        view = self.read(h)
        layers = [
            tuple(
                torch.cat((own[layer, seat : seat + 1], rows[:, :, PREFIX_ROWS:]), dim=2)
                for own, rows in zip((self._keys, self._values), pair, strict=True)
            )
            for layer, pair in enumerate(view.layers())
        ]
        model = self._held().models[view.entry.abi or 0]
        found = model.logits(
            view.ids[-1], len(view.ids) - 1, [(k, v) for k, v in layers], view.positions()
        )
        right = self.uncached_logits(h)
        if not is_apart(found, right):
            return []
        text = f"logits of handle{h}, which reads the rows of another prompt in seat{seat}"
        return [Damage("logits", f"handle{h}", disagreement(found, right), text)]

    def _of_sample(self, h: int) -> list[Damage]:
        """Bytes that a sample holds though its prompt was cancelled."""
        entry = self._held().slots[h].entry
        if entry.parent is None or self._phase(entry.parent) != "CANCELLED":
            return []
        held = self._bytes_of(h)
        text = f"{held} bytes are held by handle{h}, whose prompt was cancelled"
        return [Damage("owner", f"handle{h}", float(held), text)]

    def _of_part(self, p: int) -> list[Damage]:
        """Bytes that samples of a prompt hold while others are not there."""
        part = [c for c, prompt in enumerate(self.groups) if prompt == p]
        if not part:
            return []
        held, missing = sum(self._bytes_of(c) for c in part), self._wished(p)
        text = f"{held} bytes are held by a part of the samples of handle{p}, without {missing}"
        return [Damage("owner", f"handle{p}", float(held), text)]

    def _bytes_of(self, h: int) -> int:
        """Bytes of the seat of a request."""
        seat = self.seats[h]
        return 0 if seat is None else self._keys[:, seat].nbytes + self._values[:, seat].nbytes


def _need(holds: bool, code: str, detail: str) -> None:
    if not holds:
        raise RefusedError(code, detail)
