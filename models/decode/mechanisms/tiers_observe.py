"""The state of the two tiers in the specification's words, read off tables and bytes."""

from __future__ import annotations

from typing import Protocol

from kvspec.models.backend import Reply
from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import Value
from kvspec.models.decode.mechanisms.tiers_requests import Job, Lookup, Request, Slot
from kvspec.models.decode.mechanisms.tiers_rows import Buffer, Chain, wrong_rows


class Tiers(Protocol):
    """What of a cache is read."""

    layers: int
    requests: list[Request]
    owners: list[set[int]]
    filled: list[bool]
    pool: list[Buffer]
    page_of: dict[int, int]
    buffers: list[Buffer]
    slots: list[Slot]
    present: set[int]
    holders: list[set[int]]
    loads: dict[int, int]
    loading: set[int]
    paths: list[Chain]
    lookups: list[Lookup]
    sends: list[Job]

    def perform(self, event: Event) -> Reply:
        """Carry out an event, or refuse it."""
        ...

    def chain(self, n: int) -> Chain:
        """The path of a node, itself included."""
        ...

    def own_chain(self, h: int) -> Chain:
        """What a request's own rows are of."""
        ...

    def fill_what_is_free(self) -> None:
        """Give all that is free to somebody else."""
        ...

    def device_code(self, n: int) -> str | None:
        """Why a page cannot be given back."""
        ...

    def host_code(self, s: int) -> str | None:
        """Why a buffer cannot be given back."""
        ...


def whose(of: Tiers, buffer: Buffer) -> int | None:
    """The node whose rows a page or a buffer has, by its bytes; None for none."""
    nodes = range(len(of.paths))
    return next((n for n in nodes if not wrong_rows(buffer, of.chain(n))), None)


def seen(of: Tiers) -> dict[str, list[Value]]:
    """Every variable of the system by name, but for those of appends and batch rows."""
    return {**_requests(of), **_tiers(of), **_receipts(of)}


def _requests(of: Tiers) -> dict[str, list[Value]]:
    handles = range(len(of.requests))
    none: list[Value] = [0] * len(handles)
    names = ("phase", "generation", "version", "abi", "parent", "matched")
    return {
        **{name: [getattr(request, name) for request in of.requests] for name in names},
        "length": none,
        "k_rows": none * of.layers,
        "v_rows": none * of.layers,
        "filled": list(of.filled),
        "owner": [h in owners for owners in of.owners for h in handles],
        "reference": [h in holders for holders in of.holders for h in handles],
    }


def _tiers(of: Tiers) -> dict[str, list[Value]]:
    nodes = range(len(of.paths))
    return {
        "above": [m in of.paths[n] for m in nodes for n in nodes],
        "device_rows": [
            whose(of, of.pool[of.page_of[n]]) if n in of.present else None for n in nodes
        ],
        "load_from": [of.loads.get(n) for n in nodes],
        "copy_of": [slot.copy_of for slot in of.slots],
        "host_rows": [
            whose(of, buffer) if slot.is_whole else None
            for slot, buffer in zip(of.slots, of.buffers, strict=True)
        ],
        "kept_for": [slot.kept_for for slot in of.slots],
        "pins": [slot.pins for slot in of.slots],
    }


def _receipts(of: Tiers) -> dict[str, list[Value]]:
    return {
        "lookup_state": [lookup.state for lookup in of.lookups],
        "pin": [lookup.slot for lookup in of.lookups],
        "seat": [lookup.seat for lookup in of.lookups],
        "sought": [lookup.found[-1] if lookup.found else None for lookup in of.lookups],
        "read": [lookup.read for lookup in of.lookups],
        "got": [
            whose(of, lookup.received) if lookup.read == "DONE" else None for lookup in of.lookups
        ],
        "send_state": [job.state for job in of.sends],
        "send_of": [job.node for job in of.sends],
        "receiver": [job.receiver for job in of.sends],
        "received": [
            whose(of, job.received) if job.receiver == "HAS_ROWS" else None for job in of.sends
        ],
        "notice": [job.has_notice for job in of.sends],
    }
