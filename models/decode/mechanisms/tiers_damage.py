"""Harm on the two tiers in numbers: rows and logits of whoever reads, and bytes that are held for nobody.

An eviction alone harms nobody: the bytes are there until the page is used again. So what is read is measured
on a copy of the tiers in which all that is free has been given to another request, which has written its own
rows there. Where nobody reads what is free, that changes nothing.
"""

from __future__ import annotations

import copy

from kvspec.models.backend import Damage
from kvspec.models.concrete.machine import Event
from kvspec.models.decode.agreement import TOLERANCES, disagreement
from kvspec.models.decode.mechanisms.tiers_observe import Tiers, whose
from kvspec.models.decode.mechanisms.tiers_requests import Request
from kvspec.models.decode.mechanisms.tiers_rows import (
    ROWS,
    Buffer,
    Chain,
    cached_logits,
    size_of,
    uncached_logits,
    wrong_rows,
)


def damage_of(now: Tiers) -> list[Damage]:
    """Every harm that can be measured when what is free now has been used again."""
    of = copy.deepcopy(now)
    of.fill_what_is_free()
    found: list[Damage] = []
    for h, request in enumerate(of.requests):
        if request.path:
            found += _of_path(of, f"handle{h}", request.path, request.table)
            found += _not_held(of, h, request)
    for n in sorted(of.present):
        chain = of.chain(n)
        if not any(n in request.path for request in of.requests) and of.present.issuperset(chain):
            table = tuple(of.page_of[m] for m in chain)
            found += _of_path(of, f"whoever matches node{n}", chain, table)
        found += _of_page(of, n)
    for n in sorted(of.loading):
        found += _wrong(of, f"the load of node{n}", of.buffers[of.loads[n]], of.chain(n))
    for s in range(len(of.slots)):
        found += _of_slot(of, s)
    for q, lookup in enumerate(of.lookups):
        if lookup.read == "DONE":
            found += _wrong(of, f"the client of lookup{q}", lookup.received, lookup.found)
        elif lookup.slot is not None and (lookup.has_pin or lookup.read == "IN_FLIGHT"):
            found += _wrong(of, f"lookup{q}", of.buffers[lookup.slot], lookup.found)
    for x, job in enumerate(of.sends):
        if job.receiver == "HAS_ROWS":
            found += _wrong(of, f"the receiver of send{x}", job.received, job.path)
    return found


def _of_path(of: Tiers, where: str, chain: Chain, table: tuple[int, ...]) -> list[Damage]:
    """What a request finds that reads a path in these pages: rows one by one, and logits behind them."""
    found = []
    for place, page in enumerate(table):
        found += _wrong(of, where, of.pool[page], chain[: place + 1])
    if not found:
        return []
    cached = cached_logits(chain, (of.pool[page] for page in table))
    right = uncached_logits(chain)
    if disagreement(cached, right) > TOLERANCES[right.dtype]:
        largest = float((cached - right).abs().max())
        text = f"logits of {where} differ from an uncached run by up to {largest:.3g}"
        found.append(Damage("logits", where, largest, text))
    return found


def _not_held(of: Tiers, h: int, request: Request) -> list[Damage]:
    """Bytes that a request reads and has no reference to, so that eviction may take them."""
    read = zip(request.path, request.table, strict=True)
    loose = [(n, page) for n, page in read if h not in of.holders[n]]
    size = sum(size_of(of.pool[page]) for _, page in loose)
    names = ", ".join(f"node{n}" for n, _ in loose)
    text = f"handle{h} reads {size} bytes of {names} without a reference to them"
    return [Damage("owner", f"handle{h}", float(size), text)] if loose else []


def _wrong(of: Tiers, where: str, buffer: Buffer, chain: Chain) -> list[Damage]:
    """Rows that are not those of a path's last node, and whose they are."""
    count = wrong_rows(buffer, chain)
    if not count:
        return []
    owner = whose(of, buffer)
    told = "of no prefix" if owner is None else f"of node{owner}"
    text = f"{where} reads {count} of {ROWS} rows that are not those of node{chain[-1]}: {told}"
    return [Damage("rows", where, float(count), text)]


def _of_page(of: Tiers, n: int) -> list[Damage]:
    """Bytes of a page that cannot be given back, though nobody has still to read them."""
    is_read = any(n in request.path for request in of.requests)
    is_stored = any(slot.copy_of == n and slot.is_storing for slot in of.slots)
    is_queued = any(job.node == n and job.state == "QUEUED" for job in of.sends)
    code = of.device_code(n)
    if code is None or is_read or is_stored or is_queued:
        return []
    return [_leak(f"node{n}", of.pool[of.page_of[n]], f"and eviction is refused with {code}")]


def _of_slot(of: Tiers, s: int) -> list[Damage]:
    """Rows that a copy under way lacks, and bytes of a buffer that nobody has still to read."""
    slot, where = of.slots[s], f"hostslot{s}"
    if slot.kept_for is not None:
        request = of.requests[slot.kept_for]
        if not request.is_held:
            return [_leak(where, of.buffers[s], f"for handle{slot.kept_for}, which is released")]
        return _wrong(of, where, of.buffers[s], of.own_chain(slot.kept_for))
    if slot.copy_of is None:
        return []
    if slot.is_storing:
        assert slot.source is not None  # noqa: S101  # a store reads a page
        read = of.pool[slot.source]
        return _wrong(of, f"the store into {where}", read, of.chain(slot.copy_of))
    is_loaded = any(of.loads.get(n) == s for n in of.loading)
    is_pinned = any(
        lookup.has_pin and lookup.slot == s and _is_dropped(of, q)
        for q, lookup in enumerate(of.lookups)
    )
    code = of.host_code(s)
    if code is None or is_loaded or is_pinned:
        return []
    return [_leak(where, of.buffers[s], f"and eviction is refused with {code}")]


def _is_dropped(of: Tiers, q: int) -> bool:
    """Whether a pin is dropped when its read has ended and nobody hears of its client: it is tried."""
    tried = copy.deepcopy(of)
    for action in ("end_read", "time_out"):
        tried.perform(Event(action, (("q", q),)))
    return not tried.lookups[q].has_pin


def _leak(where: str, buffer: Buffer, why: str) -> Damage:
    size = size_of(buffer)
    return Damage("owner", where, float(size), f"{where} holds {size} bytes for nobody, {why}")
