"""`kvspec ledger`: how many bytes a cache occupies, event by event, or at one instant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from kvspec.cli.bind import deliver_bound
from kvspec.cli.check import document_check
from kvspec.cli.documents import broken_data, broken_text, read_kind
from kvspec.cli.errors import MOST_DIGITS, UsageError, shortened, unknown
from kvspec.cli.output import CheckOutput, Flag, check_outputs, deliver
from kvspec.cli.verdicts import HOLDS, VIOLATED, Answer, Check

if TYPE_CHECKING:
    from kvspec.spec.documents.byte_ledger import Ledger
    from kvspec.spec.documents.byte_trajectory import ByteEvent, ByteTrajectory

Size = Annotated[int | None, Parameter(validator=Number(gt=0, lte=10**12))]
_SIZES = ("layers", "kv-heads", "head-width", "key-bytes", "value-bytes")
_USUAL = {"key-bytes": 2, "value-bytes": 2}
_DO = "kvspec ledger FILE, or kvspec ledger with sizes and --lengths"


def ledger(
    file: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    *,
    layers: Size = None,
    kv_heads: Size = None,
    head_width: Size = None,
    key_bytes: Size = None,
    value_bytes: Size = None,
    lengths: str | None = None,
    copies: str | None = None,
    capacities: str | None = None,
    bind: Flag = False,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Print every ledger of a byte trajectory, its peaks and the area under its logical bytes.

    The trajectory is checked first: one that breaks a contract is told and ends with 1. With sizes
    and lengths in place of a file, the ledgers of one instant are printed.

    Args:
        file: a byte-trajectory document; - reads standard input.
        layers: layers that produce K and V.
        kv_heads: K/V heads of a layer on this shard.
        head_width: scalars of a head.
        key_bytes: bytes of a key's scalar, by default 2.
        value_bytes: bytes of a value's scalar, by default 2.
        lengths: committed rows of each request, as in 5,2.
        copies: materialized copies of each request, by default one.
        capacities: reserved rows in each copy of each request, by default its committed rows.
        bind: print the document with rows, ledgers, peaks and digest made anew, and nothing else.
        output: how the answer is told.
    """
    from kvspec.properties.documents import find_kind

    check_outputs(output)
    sizes = dict(zip(_SIZES, (layers, kv_heads, head_width, key_bytes, value_bytes), strict=True))
    columns = {"lengths": lengths, "copies": copies, "capacities": capacities}
    given = [name for name, value in {**sizes, **columns}.items() if value is not None]
    if file is None:
        if bind:
            told, found = "there is no document to bind", "--bind and no FILE"
            raise UsageError(told, found, "a byte trajectory", "kvspec ledger", _DO)
        return deliver(instant(sizes, columns), output)
    if file.startswith("-") and file != "-":
        options = ("bind", "json", "junit", "sarif", "help")
        known = [f"--{name}" for name in (*sizes, *columns, *options)]
        raise unknown("option", file, known, "kvspec ledger", "see kvspec ledger --help")
    if given:
        found = f"FILE and --{given[0]}"
        raise UsageError("a file has its own sizes", found, "one of the two", "kvspec ledger", _DO)
    if bind:
        return deliver_bound(file, "ledger", output, find_kind("byte-trajectory"))
    return deliver(trajectory(file), output)


def trajectory(file: str) -> Answer:
    """The ledgers of a document, or the contract that it breaks."""
    from kvspec.properties.documents import find_kind

    given = read_kind(file, find_kind("byte-trajectory"))
    broken = given.checked.broken
    checks = (document_check(given),)
    if broken is None:
        return attrs.evolve(_told(given.where, given.checked.document), checks=checks)
    data = {"verdict": VIOLATED, "document": given.where, **broken_data(given, broken)}
    return Answer("ledger", VIOLATED, data, f"violated: {broken_text(given, broken)}", checks)


def _told(where: str, t: ByteTrajectory) -> Answer:
    """The document keeps its contracts, so what it says is what was computed."""
    from kvspec.report.tables import text_table
    from kvspec.spec.documents.canonical import plain

    names = [field.name for field in attrs.fields(type(t.events[0].ledger))]
    head = ["time", "event", "rows", *_head(names, t.tiers)]
    rows = [
        [str(event.time), _event(event), _committed(event), *_cells(event.ledger, names)]
        for event in t.events
    ]
    schema = t.cache_abi.cache_schema
    row = (
        f"{schema.layers} layers x {schema.kv_heads} K/V heads x {schema.head_width} scalars x "
        f"({schema.key_bytes} + {schema.value_bytes}) bytes"
    )
    text = [
        f"{where}: {t.token_bytes:,} bytes a row = {row}",
        f"rows of {', '.join(request.name for request in t.requests)}; bytes after each event",
        "",
        text_table(head, rows, right=(0, *range(3, len(head)))),
        "",
        f"peak physical       {t.peak_physical:,} bytes",
        f"peak with workspace {t.peak_instantaneous:,} bytes",
        f"area under logical  {t.logical_byte_time:,} bytes x ticks",
        "",
        HOLDS,
    ]
    data = {
        "verdict": HOLDS,
        "document": where,
        "token_bytes": t.token_bytes,
        "requests": [request.name for request in t.requests],
        "events": [plain(event) for event in t.events],
        "peak_physical": t.peak_physical,
        "peak_instantaneous": t.peak_instantaneous,
        "logical_byte_time": t.logical_byte_time,
    }
    return Answer("ledger", HOLDS, data, "\n".join(text))


_SHORT = {"replication_overhead": "replicas", "reservation_slack": "slack"}


def _head(names: list[str], tiers: tuple[str, ...]) -> list[str]:
    before, after = names[: names.index("resident")], names[names.index("resident") + 1 :]
    return [_SHORT.get(name, name) for name in before] + [*tiers, *after]


def _cells(found: Ledger, names: list[str]) -> list[str]:
    """The ledgers as text, those of the tiers in the place of `resident`."""
    cells: list[str] = []
    for name in names:
        value = getattr(found, name)
        parts = [each.bytes_held for each in value] if name == "resident" else [value]
        cells.extend(f"{part:,}" for part in parts)
    return cells


def _event(event: ByteEvent) -> str:
    count = f" {event.rows.count}" if event.rows else ""
    return f"{event.request} {event.operation}{count}"


def _committed(event: ByteEvent) -> str:
    return ",".join("-" if rows is None else str(rows) for rows in event.committed)


def instant(sizes: dict[str, int | None], columns: dict[str, str | None]) -> Answer:
    """The ledgers of one instant, from sizes and from columns with an entry for each request."""
    from kvspec.report.tables import text_table
    from kvspec.spec.documents.byte_ledger import rectangle
    from kvspec.spec.formulas import (
        replication_overhead_bytes,
        reservation_slack_bytes,
        reserved_capacity_bytes,
        token_bytes,
    )

    lengths = _column("lengths", _need("lengths", columns["lengths"]), None, 0)
    copies = _column("copies", columns["copies"], [1] * len(lengths), 1)
    capacities = _column("capacities", columns["capacities"], lengths, 0)
    for n, (rows, room) in enumerate(zip(lengths, capacities, strict=True)):
        if rows > room:
            what, found = (
                f"request {n + 1} has no room for its rows",
                f"{rows} rows, room for {room}",
            )
            raise UsageError(what, found, "room for all rows", "--capacities of kvspec ledger", _DO)
    coefficient = token_bytes(*(_need(name, sizes[name] or _USUAL.get(name)) for name in _SIZES))
    padded = rectangle(lengths, copies, coefficient)
    reserved = reserved_capacity_bytes(capacities, copies, coefficient)
    figures = {
        "token_bytes": coefficient,
        "logical": padded.logical,
        "rectangular": padded.rectangular,
        "phantom": padded.phantom,
        "materialized": padded.materialized,
        "replication_overhead": replication_overhead_bytes(padded.materialized, padded.logical),
        "reserved": reserved,
        "reservation_slack": reservation_slack_bytes(reserved, padded.materialized),
    }
    rows_of = [(_TITLES[name], f"{value:,}", _MEANINGS[name]) for name, value in figures.items()]
    data = {"verdict": HOLDS, "lengths": lengths, "copies": copies, "capacities": capacities}
    text = text_table(("ledger", "bytes", ""), rows_of, right=(1,))
    checks = (Check("ledger", "one instant", HOLDS),)
    return Answer("ledger", HOLDS, {**data, **figures}, text, checks)


_MEANINGS = {
    "token_bytes": "K and V of one row, in all layers",
    "logical": "committed rows, each once",
    "rectangular": "all requests padded to the longest",
    "phantom": "what padding invents",
    "materialized": "committed rows in every copy",
    "replication_overhead": "materialized beyond logical",
    "reserved": "room set aside in every copy",
    "reservation_slack": "reserved beyond materialized",
}
_TITLES = {name: name.replace("_", " ") for name in _MEANINGS}


def _need(name: str, value: Any) -> Any:
    if value is None:
        expected = ", ".join(f"--{each}" for each in (*_SIZES, "lengths") if each not in _USUAL)
        told = f"neither a file nor --{name} is given"
        raise UsageError(told, f"no --{name}", f"a file, or {expected}", "kvspec ledger", _DO)
    return value


def _column(name: str, text: str | None, default: list[int] | None, least: int) -> list[int]:
    """The numbers of an option, one for each request."""
    if text is None:
        return list(default or ())
    where = f"--{name} of kvspec ledger"
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        is_number = part.isascii() and part.isdecimal() and len(part) <= MOST_DIGITS
        if not is_number or int(part) < least:
            told, expected = (
                f"--{name} cannot be {shortened(text)!r}",
                f"whole numbers from {least} on, of at most {MOST_DIGITS} digits, as in 5,2",
            )
            raise UsageError(told, shortened(part) or "nothing", expected, where, _DO)
    if default is not None and len(parts) != len(default):
        told = f"--{name} and --lengths speak of different requests"
        expected = f"{len(default)} numbers, one for each length"
        raise UsageError(told, f"{len(parts)} numbers", expected, where, _DO)
    return [int(part) for part in parts]
