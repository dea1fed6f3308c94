"""The figures of the text, each with the command that makes it.

A figure is computed here from the inputs of its command by the formulas; a test runs every command and finds
the figure in what it prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import attrs

from kvspec.report.tables import markdown_table
from kvspec.spec import formulas as f

HEAD: Final = ("figure", "value", "made by")
SMALL: Final = (2, 2, 4, 2, 2)
"""Layers, K/V heads, head width and bytes of a key and a value scalar of the text's small cache."""
GQA: Final = (32, 8, 128, 2, 2)
MHA: Final = (32, 32, 128, 2, 2)
DOCUMENTS: Final = "counterexamples/documents"


@attrs.frozen
class Figure:
    """A figure of the text. value: as the command prints it. command: without `kvspec`."""

    what: str
    value: str
    command: str


def figures() -> list[Figure]:
    """Every figure, in the order of the text."""
    return [*_identity(), *_bytes(), *_work(), *_service(), *_sweeps()]


def figure_markdown() -> str:
    """The table of figures as Markdown."""
    rows = [(one.what, one.value, f"`kvspec {one.command}`") for one in figures()]
    return markdown_table(HEAD, rows)


def number(value: int | Fraction) -> str:
    """A number as commands print it."""
    if isinstance(value, Fraction) and value.denominator != 1:
        return f"{value.numerator:,}/{value.denominator:,}"
    return f"{int(value):,}"


def _shape(shape: tuple[int, ...]) -> str:
    names = ("layers", "kv-heads", "head-width", "key-bytes", "value-bytes")
    return " ".join(f"--{name} {size}" for name, size in zip(names, shape, strict=True))


def _one(what: str, name: str, *given: object) -> Figure:
    """A figure that one formula gives."""
    words = [",".join(map(str, g)) if isinstance(g, tuple) else str(g) for g in given]
    value = getattr(f, name)(*given)
    shown = "undefined" if value is None else number(value)
    return Figure(what, shown, f"formulas {name} {' '.join(words)}")


def _identity() -> Iterator[Figure]:
    token = f.token_bytes(*SMALL)
    yield _one("bytes of a token, small cache", "token_bytes", *SMALL)
    yield _one("bytes of its 4 committed rows", "committed_bytes", 4, token)
    yield _one("bytes of its 8 reserved rows", "reserved_bytes", 8, token)
    yield _one("bytes that a decode stages in a layer", "layer_append_bytes", 1, 1, *SMALL[1:])
    yield _one("bytes that it stages in both layers", "append_bytes", SMALL[0], 1, 1, *SMALL[1:])


def _bytes() -> Iterator[Figure]:
    ledger = f"ledger {_shape(SMALL)} --lengths 5,2"
    token = f.token_bytes(*SMALL)
    logical, rectangle = f.logical_bytes((5, 2), token), f.rectangular_bytes((5, 2), token)
    yield Figure("logical bytes of lengths 5 and 2", number(logical), ledger)
    yield Figure("bytes of their rectangle", number(rectangle), ledger)
    yield Figure("bytes that padding invents", number(f.phantom_bytes(rectangle, logical)), ledger)
    for name, shape, big in (
        ("GQA", GQA, ("128 KiB", "512 MiB")),
        ("MHA", MHA, ("512 KiB", "2 GiB")),
    ):
        command = f"manifest {_shape(shape)} --tokens 4096"
        token = f.token_bytes(*shape)
        yield Figure(
            f"bytes of a token, {name} of 32 layers", f"{number(token)} B ({big[0]})", command
        )
        yield Figure(
            f"bytes of 4,096 tokens, {name}", f"{number(4096 * token)} B ({big[1]})", command
        )
    yield from _trajectory()


def _trajectory() -> Iterator[Figure]:
    """The instant of two requests with 5 and 3 rows, one and two copies, and the peaks of the trace."""
    trace = f"ledger {DOCUMENTS}/byte-trajectory.json"
    token, lengths, copies, room = f.token_bytes(*SMALL), (5, 3), (1, 2), (8, 4)
    logical = f.logical_bytes(lengths, token)
    kept = f.materialized_bytes(lengths, copies, token)
    reserved = f.reserved_capacity_bytes(room, copies, token)
    physical = f.physical_bytes(reserved, f.allocator_bytes(copies, 16))
    yield Figure("two requests at 5: logical", number(logical), trace)
    yield Figure("in every copy", number(kept), trace)
    yield Figure("in second copies", number(f.replication_overhead_bytes(kept, logical)), trace)
    yield Figure("reserved", number(reserved), trace)
    yield Figure(
        "reserved and not filled", number(f.reservation_slack_bytes(reserved, kept)), trace
    )
    yield Figure("physical, and its peak", number(physical), trace)
    yield Figure("peak with workspace", number(f.instantaneous_bytes(physical, 96)), trace)


def _work() -> Iterator[Figure]:
    prompt, outputs = 2048, 128
    for what, name in (
        ("rows without a cache, P = 2048, G = 128", "rows_uncached"),
        ("rows with a cache", "rows_cached"),
        ("rows saved", "rows_saved"),
        ("pairs without a cache", "pairs_uncached"),
        ("pairs with a cache", "pairs_cached"),
        ("pairs saved", "pairs_saved"),
    ):
        yield _one(what, name, prompt, outputs)
    for what in ("rows", "pairs"):
        full, few = (getattr(f, f"{what}_{how}")(prompt, outputs) for how in ("uncached", "cached"))
        shown = f"{float(f.reduction(full, few)):.2f}"
        yield Figure(f"reduction of {what}", shown, f"formulas reduction {full} {few}")
    yield _one("committed length at the stop, S = 4, G_in = 2", "stop_committed", 4, 2)
    yield _one("committed length after the repair", "repaired_committed", 4, 2)


def _service() -> Iterator[Figure]:
    a, b = (14, 21, 30, 42), (18,)
    yield _one("request A: TTFT (ms)", "ttft", 0, a)
    tbt = f"[{', '.join(map(number, f.tbt(a)))}]"
    yield Figure("request A: TBT (ms)", tbt, "formulas tbt 14,21,30,42")
    yield _one("request A: TPOT (ms)", "tpot", a)
    yield _one("request A: E2E (ms)", "e2e", 0, 42)
    yield _one("request A: release lag (ms)", "release_lag", 42, 50)
    yield _one("request B: TTFT (ms)", "ttft", 5, b)
    yield _one("request B: TPOT", "tpot", b)
    yield _one("requests a second in 100 ms", "request_throughput", 2, 100)
    yield _one("requests a second within limits", "request_goodput", 1, 100)
    yield _one("tokens a second within limits", "token_goodput", 1, 100)
    token = f.token_bytes(*SMALL)
    stretches = ((4, 8), (5, 9), (6, 12), (7, 9))
    area = f.byte_time([(rows * token, time) for rows, time in stretches])
    rest = f.byte_time([(2 * token, 4)])
    service = f"service {DOCUMENTS}/service.json"
    yield Figure("byte-time of A (byte-ms)", number(area), service)
    yield Figure("byte-time of both (byte-ms)", number(area + rest), service)


def _sweeps() -> Iterator[Figure]:
    names = ("layers", "K/V heads", "head width")
    for place, name in enumerate(names):
        doubled = tuple(2 * s if at == place else s for at, s in enumerate(SMALL))
        yield _one(f"bytes of a token, twice the {name}", "token_bytes", *doubled)
    yield _one("bytes of a token, half the scalar widths", "token_bytes", *SMALL[:3], 1, 1)
    base = f"ledger {_shape(SMALL)} --lengths 5,3 --copies 1,2"
    token, lengths = f.token_bytes(*SMALL), (5, 3)
    logical = f.logical_bytes(lengths, token)
    rectangle = f.rectangular_bytes(lengths, token)
    yield Figure("base of the sweeps: logical", number(logical), base)
    yield Figure("in every copy", number(f.materialized_bytes(lengths, (1, 2), token)), base)
    yield Figure("rectangular", number(rectangle), base)
    yield Figure("phantom", number(f.phantom_bytes(rectangle, logical)), base)
