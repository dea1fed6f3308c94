"""Cached prefixes on two tiers: copies between them, eviction from both, and everybody who holds a copy.

A prefix that a request computed is cached as a node of a tree. Its rows lie on the device, on the host, or
on both. A request that reads a prefix holds a reference to every node on its path. A copy between the tiers
(store to the host, load back) holds both of its ends until it ends. A queued send holds the rows that it has
still to read. A lookup pins the host slot that it found, from which its client reads (`tiers_receipts`). A
retracted request has its own rows in a host slot. Eviction strikes either tier at any moment, also in the
middle of another one that needs room, and takes what nobody holds. The variables are in `tiers_state`.

Modelled: the environment as actions of its own: a send fails, the notice of that is lost, a receiver crashes,
a timeout strikes. The client of a lookup that is dead or slow does nothing. The core meets this where a
request begins an append, enters the batch, forks and is released. Left out: how many bytes a node has (a slot
holds one node), parts of nodes, which victim an eviction chooses, the rows that a request has on the device
beside cached prefixes (the core's blocks).
Assumed: the id of a lookup or of a send is not given twice. A read in flight ends by itself. A sender whose
send failed repeats its notice until it has arrived or the receiver is gone.
"""

from __future__ import annotations

from kvspec.spec import core
from kvspec.spec.append import Txn, begin, is_live
from kvspec.spec.batch import Row, enter, row_cache
from kvspec.spec.failures import HANDLE_TERMINAL, ROW_HOLDS_HANDLE
from kvspec.spec.handles import Handle, Phase, phase
from kvspec.spec.language import (
    Bool,
    Counts,
    Expr,
    Instance,
    Map,
    Step,
    System,
    exists,
    forall,
    implies,
    is_some,
    limit,
    none,
    the,
    where,
)
from kvspec.spec.lifecycle import fork, is_append_to, release, truncate
from kvspec.spec.tiers_receipts import look_up, receipts
from kvspec.spec.tiers_state import (
    APPEND_IN_FLIGHT,
    COPY_IN_FLIGHT,
    HAS_MATCHED,
    LONGER_CACHED,
    NO_LOAD,
    NO_STORE,
    NODE_CACHED,
    NOT_ON_DEVICE,
    NOT_ON_HOST,
    NOT_RETRACTED,
    ON_DEVICE,
    ON_HOST,
    PINNED,
    REFERENCED,
    RETRACTED,
    SEND_QUEUED,
    SLOT_TAKEN,
    HostSlot,
    Lookup,
    Node,
    Pins,
    Send,
    above,
    copy_of,
    device_rows,
    has_host_copy,
    host_rows,
    is_cached,
    is_empty,
    is_loading,
    is_queued,
    is_read_by_a_load,
    is_referenced,
    is_retracted,
    is_stored_from,
    is_storing,
    kept_for,
    load_from,
    matched,
    on_device,
    on_path,
    path_on_device,
    pins,
    reference,
    tiers,
)


@tiers.action
def insert(step: Step, h: Handle, n: Node) -> None:
    """Cache the rows that a request computed behind the prefix that it reads, and read them from there."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(~is_retracted(h), RETRACTED)
    step.require(~is_cached(n), NODE_CACHED)
    step.require(forall(Node, lambda m: implies(above[n, m], ~is_cached(m))), LONGER_CACHED)
    step.assign(device_rows[n], n)
    step.assign(matched[h], n)
    step.assign(reference[n, h], True)
    for m in step.every(Node):
        step.assign(above[m, n], is_some(matched[h]) & on_path(m, the(matched[h])))


@tiers.action
def match(step: Step, h: Handle, n: Node) -> None:
    """Read a cached prefix, and hold every node on its path, the matched node among them."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(~is_retracted(h), RETRACTED)
    step.require(~is_some(matched[h]), HAS_MATCHED)
    step.require(path_on_device(n), NOT_ON_DEVICE)
    step.assign(matched[h], n)
    for m in step.every(Node):
        step.assign(reference[m, h], on_path(m, n))


@tiers.action
def store(step: Step, n: Node, s: HostSlot) -> None:
    """Begin to copy a node's rows to the host."""
    step.require(on_device(n), NOT_ON_DEVICE)
    step.require(~has_host_copy(n), ON_HOST)
    step.require(is_empty(s), SLOT_TAKEN)
    step.assign(copy_of[s], n)


@tiers.action
def end_store(step: Step, s: HostSlot) -> None:
    """The host slot has what was read from the device."""
    step.require(is_storing(s), NO_STORE)
    step.assign(host_rows[s], device_rows[the(copy_of[s])])


@tiers.action
def load(step: Step, n: Node, s: HostSlot) -> None:
    """Begin to copy a node's rows from the host back to the device."""
    step.require((copy_of[s] == n) & ~is_storing(s), NOT_ON_HOST)
    step.require(~on_device(n) & ~is_loading(n), ON_DEVICE)
    step.assign(load_from[n], s)


@tiers.action
def end_load(step: Step, n: Node) -> None:
    """The device copy has what was read from the host slot, and can be matched."""
    step.require(is_loading(n), NO_LOAD)
    step.assign(device_rows[n], host_rows[the(load_from[n])])
    step.assign(load_from[n], none(HostSlot))


@tiers.action
def evict_from_device(step: Step, n: Node) -> None:
    """Free a node's device rows; nobody asks whether the host has a copy."""
    step.require(on_device(n), NOT_ON_DEVICE)
    step.require(~is_referenced(n), REFERENCED)
    step.require(~is_stored_from(n), COPY_IN_FLIGHT)
    step.require(~is_queued(n), SEND_QUEUED)
    step.assign(device_rows[n], none(Node))


@tiers.action
def evict_from_host(step: Step, s: HostSlot) -> None:
    """Empty a host slot, for instance since an eviction from the device needs room for another copy."""
    step.require(is_some(copy_of[s]), NOT_ON_HOST)
    step.require(~is_storing(s) & ~is_read_by_a_load(s), COPY_IN_FLIGHT)
    step.require(pins[s] == 0, PINNED)
    step.assign(copy_of[s], none(Node))
    step.assign(host_rows[s], none(Node))


def drop_references(step: Step, h: Expr) -> None:
    """The request reads no cached prefix any more and holds none."""
    step.assign(matched[h], none(Node))
    for n in step.every(Node):
        step.assign(reference[n, h], False)


@tiers.action
def retract(step: Step, h: Handle, s: HostSlot) -> None:
    """Move the rows of a request to the host, to go on later; it reads nothing on the device till then.

    Its block in the core stays its own, as the place to which its rows come back.
    """
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(~is_retracted(h), RETRACTED)
    step.require(is_empty(s), SLOT_TAKEN)
    step.require(forall(Row, lambda r: row_cache[r] != h), ROW_HOLDS_HANDLE)
    step.require(~exists(Txn, lambda x: is_live(x) & is_append_to(x, h)), APPEND_IN_FLIGHT)
    step.assign(kept_for[s], h)
    drop_references(step, h)


@tiers.action
def resume(step: Step, h: Handle, s: HostSlot) -> None:
    """Move the rows of a retracted request back to the device."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(kept_for[s] == h, NOT_RETRACTED)
    step.assign(kept_for[s], none(Handle))


@tiers.extend(begin)
def begin_on_the_device(step: Step, h: Handle) -> None:
    """Rows are computed for a request whose rows are on the device."""
    step.require(~is_retracted(h), RETRACTED)


@tiers.extend(enter)
def enter_from_the_device(step: Step, h: Handle) -> None:
    """A batch row reads rows on the device."""
    step.require(~is_retracted(h), RETRACTED)


@tiers.extend(truncate)
def truncate_on_the_device(step: Step, h: Handle) -> None:
    """Rows are cut off where they are whole: a host slot keeps the rows that were moved to it."""
    step.require(~is_retracted(h), RETRACTED)


@tiers.extend(fork)
def fork_references(step: Step, p: Handle, children: Map[Handle, Bool]) -> None:
    """Children share rows on the device, read the prefix that the parent reads, and hold it themselves."""
    step.require(~is_retracted(p), RETRACTED)
    for c in step.every(Handle):
        step.assign(matched[c], where(children[c], matched[p], matched[c]))
        for n in step.every(Node):
            step.assign(reference[n, c], where(children[c], reference[n, p], reference[n, c]))


@tiers.observe(release)
def release_both_tiers(step: Step, h: Handle) -> None:
    """A released request holds nothing, on the device or on the host."""
    drop_references(step, h)
    for s in step.every(HostSlot):
        step.assign(kept_for[s], where(kept_for[s] == h, none(Handle), kept_for[s]))


system = System.of(
    "tiers",
    "The core with cached prefixes on a device tier and a host tier.",
    *core.system.modules,
    tiers,
    receipts,
)


@limit(look_up)
def pins_below_the_last(s: HostSlot) -> Expr:
    """A pin needs one more."""
    return pins[s] < Pins.top


def make_instance(
    name: str,
    doc: str,
    *,
    handles: int = 1,
    nodes: int = 1,
    slots: int = 1,
    lookups: int = 0,
    sends: int = 0,
    txns: int = 0,
    rows: int = 0,
    versions: int = 0,
    expected: Counts | None = None,
) -> Instance:
    """An instance of one layer, one block and rows of length 1, and one request a handle."""
    return core.make_instance(
        name,
        doc,
        of=system,
        handles=handles,
        txns=txns,
        layers=1,
        rows=rows,
        versions=versions,
        more={Node: nodes, HostSlot: slots, Lookup: lookups, Send: sends, Pins: lookups},
        limits=(pins_below_the_last,),
        expected=expected,
    )


RECEIPTS = make_instance(
    "RECEIPTS",
    "one prefix, two host slots and two lookups",
    nodes=1,
    slots=2,
    lookups=2,
    expected=Counts(5_118, 26_534, 20, 25),
)
RETRACTION = make_instance(
    "RETRACTION",
    "one request with an append and a batch row, and room on the host for it or a prefix",
    nodes=1,
    slots=1,
    lookups=1,
    txns=1,
    rows=1,
    versions=1,
    expected=Counts(4_681, 28_307, 20, 9),
)
FAMILY = make_instance(
    "FAMILY",
    "two requests that share a prefix, and a send of it",
    handles=2,
    nodes=1,
    slots=1,
    lookups=1,
    sends=1,
    expected=Counts(23_353, 139_316, 21, 45),
)
PRESSURE = make_instance(
    "PRESSURE",
    "three prefixes, and room for one of them on the host",
    nodes=3,
    slots=1,
    expected=Counts(9_221, 43_351, 17, 25),
)
REUSE = make_instance(
    "REUSE",
    "two prefixes that one host slot has in turn, and a lookup of it",
    nodes=2,
    slots=1,
    lookups=1,
    expected=Counts(3_187, 14_524, 20, 15),
)

INSTANCES = (RECEIPTS, RETRACTION, FAMILY, PRESSURE, REUSE)
