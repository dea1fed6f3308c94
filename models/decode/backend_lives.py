"""What the backend's requests and appends are called in telemetry, and the figures that are told of them.

Modelled: names of requests and operations that are unique in a log, when they began and ended, and
figures read off the tables: slots and blocks that a request has, bytes that its tensors take, where it
stands. Left out: rows of prefix blocks, which are the pool's and not of one request; staged rows.
"""

from __future__ import annotations

import hashlib
from typing import Final

from attrs import define

from kvspec.models.decode.backend_tables import Entry, Slot, Tables
from kvspec.models.decode.hooks import Part
from kvspec.spec.documents.log import HandleEnd

RELEASED: Final = "RELEASED"


@define(eq=False)
class Life:
    """A request, as telemetry names it.

    Attributes:
        request_id: unique among the requests of a log; ``trace_id`` is that of its caller.
        generation: of its handle.
        begun_ns: when it was allocated; ``output_ns`` at its last output, ``ended_ns`` when it finished
            or was cancelled.
        outputs: tokens put out so far.
        appends: appends begun so far.
        last: id and type of the last event about it, and the snapshot that this left in sight.
        end: where it stood when it was released; its handle may be another's by now.
    """

    request_id: str
    trace_id: str
    generation: int
    begun_ns: int
    output_ns: int = 0
    ended_ns: int = 0
    outputs: int = 0
    appends: int = 0
    last: tuple[str, str, int | None] = ("", "", None)
    end: HandleEnd | None = None


@define(eq=False)
class Operation:
    """An append that has begun and not ended.

    Attributes:
        life: the request that it extends, at ``handle``.
        operation_id: unique in the log.
        base: snapshot that it captured.
        begun_ns: when it began, as told by the event ``start``.
        refused: the code of its last prepare, if that was refused.
    """

    life: Life
    operation_id: str
    handle: int
    base: int
    begun_ns: int
    start: str
    refused: str = ""


def allocated(tables: Tables, handle: int) -> dict[str, int]:
    """Blocks of memory for the handle's own rows, the slots for tokens in them, and the slots in use.

    A block is what holds K, or V, of one layer; each has a slot for each token.
    """
    layout = tables.slots[handle].layout
    slots = 0 if layout is None else layout.reserved_rows
    return {
        "allocated_blocks": len(Part) * tables.shape.layers if slots else 0,
        "allocated_slots": slots,
        "used_slots": 0 if layout is None else layout.snapshot().kept()[0][0],
    }


def resident_bytes(tables: Tables, entry: Entry) -> int:
    """Bytes of the K and V rows that are held for a reader of the request, in all layers."""
    shape = tables.shape
    rows = 0 if entry.rows is None else sum(k + v for k, v in entry.rows.kept())
    return rows * shape.batch * shape.kv_heads * shape.head_dim * shape.dtype.itemsize


def stands(life: Life, slot: Slot) -> HandleEnd:
    """Where a request stands, read off its slot; a released one where it stood at release."""
    if life.end is not None:
        return life.end
    entry = slot.entry
    return HandleEnd(
        request_id=life.request_id,
        handle_generation=life.generation,
        end_generation=slot.generation,
        phase=entry.phase,
        snapshot=entry.version,
        committed_tokens=len(entry.tokens),
    )


def released(life: Life, slot: Slot) -> HandleEnd:
    """Where a request stands that its slot has just released: one snapshot further, without rows."""
    return HandleEnd(
        request_id=life.request_id,
        handle_generation=life.generation,
        end_generation=slot.generation,
        phase=RELEASED,
        snapshot=slot.entry.version + 1,
        committed_tokens=0 if slot.layout is None else slot.layout.length,
    )


def abi_digest(tables: Tables) -> str:
    """The digest of the cache ABI, or of all of them where there are several, in their order."""
    digests = [model.digest for model in tables.models]
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("|".join(digests).encode()).hexdigest()
