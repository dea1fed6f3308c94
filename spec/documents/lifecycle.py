"""A lifecycle trace: operations on handles in order, each with its outcome and what it leaves behind.

Modelled: appends with their staged layers, retries, forks, reorders of batch rows, truncations, both scopes
of cancel, finish and release, reads, and the reuse of a slot by another request. Snapshots of a request
are numbered in the first way: append, truncate, finish, cancel and release each count one. An operation that
is refused is an operation too: its outcome is then the code with which the specification refuses it.
Left out: values of rows, token ids, clocks, bytes.

Here are the fields, and the contracts that need no run. Whether outcomes and snapshots are those of the
specification is asked in `kvspec.properties.documents.lifecycle`, which completes the kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final, Literal

import attrs

from kvspec.spec.documents.cache_abi import DIGEST_FORM, have_digest_form
from kvspec.spec.documents.canonical import digest, plain
from kvspec.spec.documents.contracts import DocumentKind, Finding, requires

Argument = int | str | tuple[int | str, ...] | None
"""A value of an operation's argument: a number, a name, a list of either, or null for rows not staged."""

MOST_ROWS: Final = 4096
MOST_LAYERS: Final = 64
ACCEPTED: Final = "accepted"

ARGUMENTS: Final[dict[str, dict[str, str]]] = {
    "allocate": {"request": "name", "slot": "number"},
    "begin": {
        "txn": "name",
        "key": "name",
        "request": "name",
        "generation": "number",
        "start": "number",
        "count": "number",
    },
    "stage": {"txn": "name", "layer": "number", "keys": "interval", "values": "interval"},
    "prepare": {"txn": "name"},
    "publish": {"txn": "name"},
    "retry": {
        "txn": "name",
        "key": "name",
        "request": "name",
        "generation": "number",
        "start": "number",
        "count": "number",
    },
    "fork": {
        "request": "name",
        "generation": "number",
        "rows": "number",
        "children": "names",
        "slots": "numbers",
    },
    "enter": {"request": "name", "row": "number"},
    "reorder": {"source": "numbers"},
    "truncate": {"request": "name", "generation": "number", "rows": "number"},
    "read": {"request": "name", "generation": "number"},
    "cancel_txn": {"txn": "name"},
    "cancel_request": {"request": "name", "generation": "number"},
    "finish": {"request": "name", "generation": "number"},
    "release": {"request": "name", "generation": "number"},
    "observe": {"slot": "number", "owner": "name"},
}
"""What each operation takes. An interval [first, end) is null where no such row is staged."""

OperationName = Literal[
    "allocate",
    "begin",
    "stage",
    "prepare",
    "publish",
    "retry",
    "fork",
    "enter",
    "reorder",
    "truncate",
    "read",
    "cancel_txn",
    "cancel_request",
    "finish",
    "release",
    "observe",
]


@attrs.frozen
class Snapshot:
    """A stored snapshot of a request.

    slot: the entry of the handle table that the request has. releases: of that slot so far. generation:
    in the first numbering. parent: the request that it was forked from. committed_length: rows committed,
    which a tombstone keeps on record. keys, values: rows that a reader finds in each layer. sha256: of
    all other fields.
    """

    request: str
    slot: int
    releases: int
    generation: int
    phase: str
    parent: str | None
    committed_length: int
    keys: tuple[int, ...]
    values: tuple[int, ...]
    sha256: str


@attrs.frozen
class BatchRow:
    """A row of the batch: whose cache, tokens and sampler state it has, its ancestry, its position."""

    cache: str | None
    tokens: str | None
    sampler: str | None
    ancestry: str | None
    position: int


@attrs.frozen
class Seen:
    """K and V rows that a reader finds in each layer."""

    keys: tuple[int, ...]
    values: tuple[int, ...]


@attrs.frozen
class Operation:
    """One operation. number: its place in the trace, from 1. arguments: those of `ARGUMENTS`.

    outcome: `accepted`, or the code of the refusal. stored: snapshots that it makes. seen: by a read.
    receipt: the generation that a publication or a repeat of it is told. batch: all rows after an
    operation that moves them. fingerprint: of the call that begins an append or repeats it.
    """

    number: int
    operation: OperationName
    arguments: dict[str, Argument]
    outcome: str
    stored: tuple[Snapshot, ...]
    seen: Seen | None
    receipt: int | None
    batch: tuple[BatchRow, ...] | None
    fingerprint: str | None


@attrs.frozen(cache_hash=True)
class Call:
    """What an operation asks, without what came of it. Arguments are as `ARGUMENTS` has them."""

    operation: str
    arguments: tuple[tuple[str, Argument], ...]

    def has(self, name: str) -> bool:
        """Whether the operation takes this argument."""
        return name in ARGUMENTS[self.operation]

    def name(self, argument: str) -> str:
        """An argument that is a name."""
        return str(dict(self.arguments)[argument])

    def number(self, argument: str) -> int:
        """An argument that is a number."""
        return _whole(dict(self.arguments)[argument])

    def numbers(self, argument: str) -> tuple[int, ...]:
        """An argument that is a list of numbers; none for null."""
        return tuple(_whole(item) for item in self._list(argument))

    def names(self, argument: str) -> tuple[str, ...]:
        """An argument that is a list of names."""
        return tuple(str(item) for item in self._list(argument))

    def _list(self, argument: str) -> tuple[int | str, ...]:
        value = dict(self.arguments)[argument]
        return value if isinstance(value, tuple) else ()


def _whole(value: Argument) -> int:
    if not isinstance(value, int):
        raise TypeError(f"found {value!r} where a number must be: ask the contract ARGUMENTS first")
    return value


@attrs.frozen
class LifecycleTrace:
    """The whole trace. layers: that produce K and V. total: operations that it has.

    cache_abi_sha256: the ABI under which all rows are computed, as in a manifest.
    """

    cache_abi_sha256: str
    layers: int
    total: int
    operations: tuple[Operation, ...]

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """What the operations ask, in order."""
        return tuple(
            Call(each.operation, tuple(each.arguments.items())) for each in self.operations
        )


lifecycle = DocumentKind(
    "lifecycle",
    LifecycleTrace,
    "What requests go through, operation by operation, and every snapshot that is stored.",
)


def snapshot_digest(snapshot: Snapshot) -> str:
    """SHA-256 of all that a snapshot says of itself."""
    fields = plain(snapshot)
    del fields["sha256"]
    return digest(fields)


def fingerprint(call: Call, base: Snapshot, abi: str) -> str:
    """SHA-256 of what makes a call that begins an append the same call again."""
    start, count = call.number("start"), call.number("count")
    return digest(
        {
            "txn": call.name("txn"),
            "key": call.name("key"),
            "request": call.name("request"),
            "base_generation": base.generation,
            "base_snapshot_sha256": base.sha256,
            "cache_abi_sha256": abi,
            "interval": [start, start + count],
        }
    )


def _is(kind: str, value: Argument) -> bool:
    if kind == "interval" and value is None:
        return True
    if kind in ("name", "number"):
        return isinstance(value, str if kind == "name" else int)
    if not isinstance(value, tuple) or (kind == "interval" and len(value) != 2):
        return False
    return all(isinstance(item, str if kind == "names" else int) for item in value)


@lifecycle.contract("DIGEST_FORM", DIGEST_FORM)
def digest_has_its_form(t: LifecycleTrace) -> Iterator[Finding]:
    """The digest of the ABI is given; those that are computed here have a contract each."""
    yield from have_digest_form({"/cache_abi_sha256": t.cache_abi_sha256})


@lifecycle.contract("ARGUMENTS", "an operation has the arguments that it takes, and no others")
def operations_have_their_arguments(t: LifecycleTrace) -> Iterator[Finding]:
    """An operation has the arguments that it takes, and no others."""
    for n, each in enumerate(t.operations):
        wanted, path = ARGUMENTS[each.operation], f"/operations/{n}/arguments"
        for name, kind in wanted.items():
            found = each.arguments.get(name, "nothing")
            known = name in each.arguments and _is(kind, each.arguments[name])
            yield from requires(known, f"{path}/{name}", f"a {kind}", found)
        for name in each.arguments:
            yield from requires(
                name in wanted, f"{path}/{name}", f"one of {', '.join(wanted)}", name
            )


@lifecycle.contract("SIZE", "there are layers and operations, and all numbers are in their range")
def numbers_are_in_their_range(t: LifecycleTrace) -> Iterator[Finding]:
    """There are layers and operations, and all numbers are in their range."""
    told = f"1 to {MOST_LAYERS}"
    yield from requires(1 <= t.layers <= MOST_LAYERS, "/layers", told, t.layers)
    yield from requires(t.operations, "/operations", "at least one operation", "none")
    calls = t.calls
    rows = sum(call.operation == "enter" for call in calls)
    limits = {"layer": t.layers - 1, "row": rows - 1, "source": rows - 1}
    for n, call in enumerate(calls):
        for name, value in call.arguments:
            most = limits.get(name, MOST_ROWS)
            for found in value if isinstance(value, tuple) else (value,):
                good = not isinstance(found, int) or 0 <= found <= most
                path = f"/operations/{n}/arguments/{name}"
                yield from requires(good, path, f"0 to {most}", found)


@lifecycle.contract("SHAPE", "lists that belong together are equally long")
def lists_are_equally_long(t: LifecycleTrace) -> Iterator[Finding]:
    """Each child has a slot, and a reorder names a source for each row of the batch."""
    calls = t.calls
    rows = sum(call.operation == "enter" for call in calls)
    for n, call in enumerate(calls):
        path = f"/operations/{n}/arguments"
        if call.operation == "fork":
            named, slots = len(call.names("children")), len(call.numbers("slots"))
            yield from requires(named == slots, f"{path}/slots", f"{named} slots", slots)
        if call.operation == "reorder":
            found = len(call.numbers("source"))
            yield from requires(found == rows, f"{path}/source", f"{rows} rows", found)


def makes(call: Call) -> tuple[str, ...]:
    """The requests that an operation makes."""
    if call.operation == "fork":
        return call.names("children")
    return (call.name("request"),) if call.operation == "allocate" else ()


@lifecycle.contract("DISTINCT", "no request is made twice, and no slot is given twice by one fork")
def requests_are_made_once(t: LifecycleTrace) -> Iterator[Finding]:
    """No request is made twice, and no slot is given twice by one fork."""
    known: list[str] = []
    for n, call in enumerate(t.calls):
        path = f"/operations/{n}/arguments"
        for name in makes(call):
            yield from requires(name not in known, path, "a request of a name of its own", name)
            known.append(name)
        slots = call.numbers("slots") if call.operation == "fork" else ()
        yield from requires(
            len(set(slots)) == len(slots), f"{path}/slots", "slots that differ", slots
        )


@lifecycle.contract(
    "UNKNOWN_NAME", "requests are made, and transactions begun, before they are named"
)
def names_are_known(t: LifecycleTrace) -> Iterator[Finding]:
    """Requests are made, and transactions begun, before they are named."""
    requests: set[str] = set()
    txns: set[str] = set()
    for n, call in enumerate(t.calls):
        requests.update(makes(call))
        if call.operation == "begin":
            txns.add(call.name("txn"))
        for name, known in (("request", requests), ("owner", requests), ("txn", txns)):
            if call.has(name):
                expected = f"one of {', '.join(sorted(known)) or 'none so far'}"
                path = f"/operations/{n}/arguments/{name}"
                yield from requires(call.name(name) in known, path, expected, call.name(name))


@lifecycle.contract("DUPLICATE_LAYER", "an append gets the K rows of a layer once, and its V rows")
def layers_are_staged_once(t: LifecycleTrace) -> Iterator[Finding]:
    """An append gets the K rows of a layer once, and its V rows."""
    seen: set[tuple[str, int, str]] = set()
    for n, call in enumerate(t.calls):
        if call.operation == "stage":
            for part in ("keys", "values"):
                place = (call.name("txn"), call.number("layer"), part)
                path, found = f"/operations/{n}/arguments/layer", call.number("layer")
                expected = f"a layer whose {part} {place[0]} does not have yet"
                if call.numbers(part):
                    yield from requires(place not in seen, path, expected, found)
                    seen.add(place)


@lifecycle.contract(
    "EQUAL_LENGTHS", "in a stored snapshot every layer has equally many K and V rows", derived=True
)
def layers_have_equal_lengths(t: LifecycleTrace) -> Iterator[Finding]:
    """In a stored snapshot every layer has equally many K and V rows, those committed unless released."""
    for n, each in enumerate(t.operations):
        for k, snapshot in enumerate(each.stored):
            rows = 0 if snapshot.phase == "RELEASED" else snapshot.committed_length
            for part in ("keys", "values"):
                path = f"/operations/{n}/stored/{k}/{part}"
                found = getattr(snapshot, part)
                wanted = (rows,) * t.layers
                yield from requires(found == wanted, path, wanted, found)


@lifecycle.contract(
    "SPLIT_ROW",
    "a batch row carries the cache, tokens and sampler state of one request",
    derived=True,
)
def rows_are_not_split(t: LifecycleTrace) -> Iterator[Finding]:
    """A batch row carries the cache, tokens and sampler state of one request."""
    for n, each in enumerate(t.operations):
        for k, row in enumerate(each.batch or ()):
            for part in ("tokens", "sampler"):
                path, found = f"/operations/{n}/batch/{k}/{part}", getattr(row, part)
                yield from requires(found == row.cache, path, f"that of {row.cache}", found)
