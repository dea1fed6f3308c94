"""A byte trajectory: what the cache of several requests occupies after each event of their lives.

Modelled: the cache ABI and its digest, tiers, the copies and reserved capacity of each request, and
events in order of time, each with the rows that it publishes, its temporary workspace and the ledgers
after it. Storage is reserved when a request publishes its first rows, and given back at its release.
Left out: pages, fragmentation, moves between tiers, weights, and state that is no cache.

Here are the fields, the contracts of their shape, and the way from rows to ledgers. Whether the events
are legal is asked of the specification, in `kvspec.properties.documents.byte_trajectory`, which completes
the kind; `find_kind("byte-trajectory")` always gives it whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import attrs

from kvspec.spec.documents.byte_ledger import Holding, Ledger, ledger
from kvspec.spec.documents.cache_abi import CacheAbi, add_abi_contracts, coefficient
from kvspec.spec.documents.canonical import digest
from kvspec.spec.documents.contracts import DocumentKind, Finding, differs, requires
from kvspec.spec.formulas import byte_time

Operation = Literal["arrive", "prefill_publish", "decode_publish", "finish", "release"]


@attrs.frozen
class Request:
    """A request and its storage. copies: of its rows, the first included. copy_tiers: where each lies.

    reserved_tokens: rows for which each copy has room.
    """

    name: str
    copies: int
    copy_tiers: tuple[str, ...]
    reserved_tokens: int


@attrs.frozen
class Rows:
    """The interval [start, start + count) that a publication makes visible."""

    start: int
    count: int


@attrs.frozen
class ByteEvent:
    """One event. time: in ticks. rows: those it publishes, null for what publishes none.

    workspace: temporary bytes while it runs. committed: rows of each request after it, in the order of
    `requests`; null for one that has not arrived or has released. ledger: all bytes after it.
    """

    time: int
    request: str
    operation: Operation
    rows: Rows | None
    workspace: int
    committed: tuple[int | None, ...]
    ledger: Ledger


@attrs.frozen
class ByteTrajectory:
    """The whole trace. token_bytes: of one committed row in all layers, K and V.

    metadata_per_copy: bytes that the allocator needs for each copy. peak_physical, peak_instantaneous:
    largest over the events. logical_byte_time: area under the logical bytes, in bytes times ticks.
    """

    cache_abi: CacheAbi
    cache_abi_sha256: str
    token_bytes: int
    metadata_per_copy: int
    tiers: tuple[str, ...]
    requests: tuple[Request, ...]
    events: tuple[ByteEvent, ...]
    peak_physical: int
    peak_instantaneous: int
    logical_byte_time: int


byte_trajectory = DocumentKind(
    "byte-trajectory",
    ByteTrajectory,
    "What the cache of several requests occupies, event by event.",
)


def computed_ledger(t: ByteTrajectory, event: ByteEvent) -> Ledger:
    """The ledgers that follow from the rows committed after an event."""
    holdings = [
        Holding(rows, request.reserved_tokens, request.copy_tiers)
        for request, rows in zip(t.requests, event.committed, strict=True)
        if rows
    ]
    return ledger(holdings, t.tiers, t.token_bytes, t.metadata_per_copy, event.workspace)


def computed_byte_time(t: ByteTrajectory) -> int:
    """The area under the logical bytes: each event's hold until the next one."""
    ends = (event.time for event in t.events[1:])
    steps = zip(t.events, ends, strict=False)
    return byte_time((event.ledger.logical, end - event.time) for event, end in steps)


add_abi_contracts(byte_trajectory)


@byte_trajectory.contract("SIZE", "charges and workspace are not negative")
def charges_are_not_negative(t: ByteTrajectory) -> Iterator[Finding]:
    """Charges and workspace are not negative."""
    yield from requires(
        t.metadata_per_copy >= 0, "/metadata_per_copy", "at least 0", t.metadata_per_copy
    )
    for n, event in enumerate(t.events):
        yield from requires(
            event.workspace >= 0, f"/events/{n}/workspace", "at least 0", event.workspace
        )


@byte_trajectory.contract("RESERVATION", "each copy has room for at least one row")
def copies_have_room(t: ByteTrajectory) -> Iterator[Finding]:
    """Each copy has room for at least one row."""
    for n, request in enumerate(t.requests):
        found = request.reserved_tokens
        yield from requires(found >= 1, f"/requests/{n}/reserved_tokens", "at least 1", found)


@byte_trajectory.contract(
    "REPLICA_COUNT", "a request has as many copies as it names tiers for them"
)
def copies_have_tiers(t: ByteTrajectory) -> Iterator[Finding]:
    """Each copy has room for at least one row."""
    for n, request in enumerate(t.requests):
        named = len(request.copy_tiers)
        yield from requires(named >= 1, f"/requests/{n}/copy_tiers", "at least one tier", named)
        yield from differs(f"/requests/{n}/copies", named, request.copies)


@byte_trajectory.contract("DISTINCT", "tiers and requests have names, no two the same")
def names_are_distinct(t: ByteTrajectory) -> Iterator[Finding]:
    """Tiers and requests have names, no two the same."""
    names = [request.name for request in t.requests]
    for n, tier in enumerate(t.tiers):
        yield from requires(
            tier and tier not in t.tiers[:n], f"/tiers/{n}", "a name, given once", tier
        )
    for n, name in enumerate(names):
        yield from requires(
            name and name not in names[:n], f"/requests/{n}/name", "a name, given once", name
        )


@byte_trajectory.contract("UNDECLARED_TIER", "every copy lies in a declared tier")
def tiers_are_declared(t: ByteTrajectory) -> Iterator[Finding]:
    """Every copy lies in a declared tier."""
    for n, request in enumerate(t.requests):
        for k, tier in enumerate(request.copy_tiers):
            yield from requires(
                tier in t.tiers,
                f"/requests/{n}/copy_tiers/{k}",
                f"one of {', '.join(t.tiers)}",
                tier,
            )


@byte_trajectory.contract(
    "TIER_ORDER", "copies are listed in the order in which tiers are declared"
)
def copies_follow_the_order_of_tiers(t: ByteTrajectory) -> Iterator[Finding]:
    """Every copy lies in a declared tier."""
    for n, request in enumerate(t.requests):
        ordered = tuple(sorted(request.copy_tiers, key=t.tiers.index))
        yield from differs(f"/requests/{n}/copy_tiers", ordered, request.copy_tiers)


@byte_trajectory.contract("UNKNOWN_REQUEST", "an event is one of a declared request")
def requests_are_declared(t: ByteTrajectory) -> Iterator[Finding]:
    """An event is one of a declared request."""
    names = [request.name for request in t.requests]
    for n, event in enumerate(t.events):
        yield from requires(
            event.request in names,
            f"/events/{n}/request",
            f"one of {', '.join(names)}",
            event.request,
        )


@byte_trajectory.contract(
    "EVENT_ORDER", "there are events, from time 0 on, each later than the last"
)
def events_are_in_order_of_time(t: ByteTrajectory) -> Iterator[Finding]:
    """An event is one of a declared request."""
    yield from requires(t.events, "/events", "at least one event", "none")
    before = -1
    for n, event in enumerate(t.events):
        yield from requires(
            event.time > before, f"/events/{n}/time", f"later than {before}", event.time
        )
        before = event.time


@byte_trajectory.contract(
    "ROWS_OF_PUBLICATION", "publications have rows, and other events have none"
)
def publications_have_rows(t: ByteTrajectory) -> Iterator[Finding]:
    """An event is one of a declared request."""
    for n, event in enumerate(t.events):
        publishes = event.operation in ("prefill_publish", "decode_publish")
        yield from requires(
            publishes == (event.rows is not None),
            f"/events/{n}/rows",
            "an interval" if publishes else "null",
            event.rows,
        )


@byte_trajectory.contract("PREFILL_START", "a prefill begins with the first row of its request")
def prefill_begins_with_the_first_row(t: ByteTrajectory) -> Iterator[Finding]:
    """A prefill begins with the first row of its request."""
    for n, event in enumerate(t.events):
        if event.operation == "prefill_publish" and event.rows is not None:
            yield from differs(f"/events/{n}/rows/start", 0, event.rows.start)


@byte_trajectory.contract(
    "DECODE_ROWS", "an ordinary decode publishes one row, and never the first"
)
def decode_publishes_one_row(t: ByteTrajectory) -> Iterator[Finding]:
    """A prefill begins with the first row of its request."""
    for n, event in enumerate(t.events):
        if event.operation == "decode_publish" and event.rows is not None:
            start = event.rows.start
            yield from differs(f"/events/{n}/rows/count", 1, event.rows.count)
            yield from requires(start >= 1, f"/events/{n}/rows/start", "at least 1", start)


@byte_trajectory.contract("CACHE_ABI_DIGEST", "the digest is that of the cache ABI", derived=True)
def digest_is_that_of_the_abi(t: ByteTrajectory) -> Iterator[Finding]:
    """The digest is that of the cache ABI."""
    yield from differs("/cache_abi_sha256", digest(t.cache_abi), t.cache_abi_sha256)


@byte_trajectory.contract(
    "TOKEN_BYTES", "the bytes of a row follow from the cache ABI", derived=True
)
def token_bytes_follow_from_the_abi(t: ByteTrajectory) -> Iterator[Finding]:
    """The bytes of a row follow from the cache ABI."""
    yield from differs("/token_bytes", coefficient(t.cache_abi), t.token_bytes)
