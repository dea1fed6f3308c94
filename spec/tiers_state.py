"""The state of `tiers`: where cached prefixes lie, who owns a copy, and what that means.

A node is a cached prefix, named by what it holds. `device_rows` and `host_rows` say whose rows a copy really
has, so that a copy which was overwritten is told from one that is right. A host slot is a buffer of the host
tier: it is the copy of a node, or it has the rows of a retracted request, or it is empty. `seat` numbers the
pins of a slot from 1 without gaps, which is what it means that a number counts receipts.
"""

from __future__ import annotations

from kvspec.spec.append import append
from kvspec.spec.batch import batch
from kvspec.spec.failures import FailureClass, error_code
from kvspec.spec.handles import Handle, handles
from kvspec.spec.language import (
    Bool,
    Enum,
    Expr,
    Module,
    Natural,
    Open,
    Option,
    exists,
    forall,
    implies,
    is_some,
    member,
    none,
)
from kvspec.spec.lifecycle import lifecycle
from kvspec.spec.prefix import prefix


class Node(Open):
    """A cached prefix: the rows of some tokens behind those of a shorter prefix, or of none."""


class HostSlot(Open):
    """A buffer of the host tier that holds the rows of one node, or of one retracted request."""


class Lookup(Open):
    """The id of a lookup in the host tier, and of the receipt for its pin."""


class Send(Open):
    """The id of a send of a node's rows to a receiver on another machine."""


class Pins(Natural):
    """Pins of a host slot."""


class LookupState(Enum):
    """Where a lookup is: it pins while it is open, and ends once."""

    UNUSED = member()
    OPEN = member()
    ENDED = member()


class Read(Enum):
    """What became of the read for which a lookup was made: the bytes of one that is in flight still move."""

    NONE = member()
    IN_FLIGHT = member()
    DONE = member()


class SendState(Enum):
    """What the sender has done."""

    UNUSED = member()
    QUEUED = member()
    SENT = member()
    FAILED = member()


class Receiver(Enum):
    """What the receiver of a send has."""

    NONE = member()
    WAITING = member()
    HAS_ROWS = member()
    HAS_FAILURE = member()
    CRASHED = member()


OWNERSHIP = FailureClass.OWNERSHIP

RETRACTED = error_code("RETRACTED", "the request is retracted: its rows are on the host")
NOT_RETRACTED = error_code("NOT_RETRACTED", "the host slot has no rows of the request")
NODE_CACHED = error_code("NODE_CACHED", "a tier has or is getting a copy of the node")
LONGER_CACHED = error_code("LONGER_CACHED", "a longer prefix than the node's is cached")
HAS_MATCHED = error_code("HAS_MATCHED", "the request has matched a prefix already")
NOT_ON_DEVICE = error_code("NOT_ON_DEVICE", "some node of the path has no rows on the device")
ON_DEVICE = error_code("ON_DEVICE", "the device has rows of the node, or a load brings them")
NOT_ON_HOST = error_code("NOT_ON_HOST", "the host slot has no whole copy of the node")
ON_HOST = error_code("ON_HOST", "a host slot has, or is getting, a copy of the node")
NO_LOAD = error_code("NO_LOAD", "no load of the node is in flight")
NO_STORE = error_code("NO_STORE", "no store into the host slot is in flight")
LOOKUP_IN_USE = error_code("LOOKUP_IN_USE", "the lookup's id is in use")
LOOKUP_NOT_OPEN = error_code(
    "LOOKUP_NOT_OPEN", "the lookup has ended, and its receipt is for nothing"
)
READ_BEGUN = error_code("READ_BEGUN", "the client of the lookup has begun to read")
NO_READ = error_code("NO_READ", "no read for the lookup is in flight")
NOTHING_READ = error_code("NOTHING_READ", "the client of the lookup has not read the copy")
SEND_IN_USE = error_code("SEND_IN_USE", "the send's id is in use")
SEND_NOT_QUEUED = error_code("SEND_NOT_QUEUED", "the send is not in the queue")
SEND_NOT_FAILED = error_code("SEND_NOT_FAILED", "the send has not failed")
NO_RECEIVER_WAITS = error_code("NO_RECEIVER_WAITS", "no receiver waits for the send")
NO_NOTICE = error_code("NO_NOTICE", "no notice of the send is in flight")
SLOT_TAKEN = error_code("SLOT_TAKEN", "the host slot is in use", OWNERSHIP)
APPEND_IN_FLIGHT = error_code(
    "APPEND_IN_FLIGHT", "an append to the request is in flight", OWNERSHIP
)
NOT_REFERENCED = error_code("NOT_REFERENCED", "the request has no reference to the node", OWNERSHIP)
REFERENCED = error_code("REFERENCED", "a request has a reference to the node", OWNERSHIP)
COPY_IN_FLIGHT = error_code(
    "COPY_IN_FLIGHT", "a copy between the tiers reads these rows", OWNERSHIP
)
SEND_QUEUED = error_code("SEND_QUEUED", "a queued send has still to read these rows", OWNERSHIP)
READ_IN_FLIGHT = error_code("READ_IN_FLIGHT", "a read for the lookup is in flight", OWNERSHIP)
PINNED = error_code("PINNED", "a lookup pins the host slot", OWNERSHIP)

tiers = Module(
    "tiers",
    "Cached prefixes on a device tier and a host tier.",
    uses=(handles, prefix, batch, append, lifecycle),
)

above = tiers.variable(
    "above",
    Node,
    Node,
    to=Bool,
    init=False,
    meaning="the first node is a shorter prefix of the second",
)
device_rows = tiers.variable(
    "device_rows",
    Node,
    to=Option[Node],
    init=none(Node),
    meaning="node whose rows are in the device copy",
)
load_from = tiers.variable(
    "load_from",
    Node,
    to=Option[HostSlot],
    init=none(HostSlot),
    meaning="host slot from which a load to the device reads",
)
copy_of = tiers.variable(
    "copy_of",
    HostSlot,
    to=Option[Node],
    init=none(Node),
    meaning="node of which the host slot is to have the rows",
)
host_rows = tiers.variable(
    "host_rows",
    HostSlot,
    to=Option[Node],
    init=none(Node),
    meaning="node whose rows are in the host slot",
)
kept_for = tiers.variable(
    "kept_for",
    HostSlot,
    to=Option[Handle],
    init=none(Handle),
    meaning="retracted request whose rows are in the host slot",
)
matched = tiers.variable(
    "matched",
    Handle,
    to=Option[Node],
    init=none(Node),
    meaning="longest cached prefix that the request reads",
)
reference = tiers.variable(
    "reference",
    Node,
    Handle,
    to=Bool,
    init=False,
    meaning="the request holds the node's device rows",
)
lookup_state = tiers.variable(
    "lookup_state", Lookup, to=LookupState, init=LookupState.UNUSED, meaning="state of the lookup"
)
pin = tiers.variable(
    "pin",
    Lookup,
    to=Option[HostSlot],
    init=none(HostSlot),
    meaning="host slot that the lookup's receipt is for",
)
pins = tiers.variable("pins", HostSlot, to=Pins, init=0, meaning="pins of the host slot")
seat = tiers.variable(
    "seat", Lookup, to=Pins, init=0, meaning="which of the slot's pins is the lookup's, from 1"
)
sought = tiers.variable(
    "sought", Lookup, to=Option[Node], init=none(Node), meaning="node that the lookup has found"
)
read = tiers.variable(
    "read", Lookup, to=Read, init=Read.NONE, meaning="what became of the read of the copy"
)
got = tiers.variable(
    "got", Lookup, to=Option[Node], init=none(Node), meaning="node whose rows the client has read"
)
send_state = tiers.variable(
    "send_state", Send, to=SendState, init=SendState.UNUSED, meaning="state of the send"
)
send_of = tiers.variable(
    "send_of", Send, to=Option[Node], init=none(Node), meaning="node whose rows are sent"
)
receiver = tiers.variable(
    "receiver", Send, to=Receiver, init=Receiver.NONE, meaning="what the send's receiver has"
)
received = tiers.variable(
    "received",
    Send,
    to=Option[Node],
    init=none(Node),
    meaning="node whose rows the send's receiver got",
)
notice = tiers.variable(
    "notice",
    Send,
    to=Bool,
    init=False,
    meaning="notice of the failure is on its way to the receiver",
)


def on_path(m: Expr, n: Expr) -> Expr:
    """The node m is n, or a shorter prefix of it."""
    return (m == n) | above[m, n]


def on_device(n: Expr) -> Expr:
    """The device copy of the node has rows."""
    return is_some(device_rows[n])


def is_loading(n: Expr) -> Expr:
    """A load of the node from the host to the device is in flight."""
    return is_some(load_from[n])


def is_storing(s: Expr) -> Expr:
    """A store from the device into the host slot is in flight."""
    return is_some(copy_of[s]) & ~is_some(host_rows[s])


def has_host_copy(n: Expr) -> Expr:
    """Some host slot has, or is getting, the rows of the node."""
    return exists(HostSlot, lambda s: copy_of[s] == n)


def is_cached(n: Expr) -> Expr:
    """Some tier has, or is getting, the rows of the node."""
    return on_device(n) | is_loading(n) | has_host_copy(n)


def is_empty(s: Expr) -> Expr:
    """The host slot has nobody's rows."""
    return ~is_some(copy_of[s]) & ~is_some(kept_for[s])


def is_retracted(h: Expr) -> Expr:
    """The request's rows are on the host."""
    return exists(HostSlot, lambda s: kept_for[s] == h)


def is_referenced(n: Expr) -> Expr:
    """Some request holds the node's device rows."""
    return exists(Handle, lambda h: reference[n, h])


def is_stored_from(n: Expr) -> Expr:
    """A store reads the node's device rows."""
    return exists(HostSlot, lambda s: (copy_of[s] == n) & is_storing(s))


def is_queued(n: Expr) -> Expr:
    """A queued send has still to read the node's device rows."""
    return exists(Send, lambda x: (send_state[x] == SendState.QUEUED) & (send_of[x] == n))


def is_read_by_a_load(s: Expr) -> Expr:
    """A load reads the host slot."""
    return exists(Node, lambda n: load_from[n] == s)


def has_pin(q: Expr) -> Expr:
    """The lookup has begun and not ended: its receipt is for one pin."""
    return lookup_state[q] == LookupState.OPEN


def pins_slot(q: Expr, s: Expr) -> Expr:
    """One of the slot's pins is the lookup's."""
    return has_pin(q) & (pin[q] == s)


def is_pinned(s: Expr) -> Expr:
    """Some lookup that has not ended has a receipt for the slot."""
    return exists(Lookup, lambda q: pins_slot(q, s))


def path_on_device(n: Expr) -> Expr:
    """The device has rows of the node and of all shorter prefixes of it."""
    return forall(Node, lambda m: implies(on_path(m, n), on_device(m)))
