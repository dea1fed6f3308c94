"""Sensitivity: what one changed control does to the ledgers of committed rows.

Modelled: a base of a geometry and of requests with rows and copies, and sweeps, each of which is the base
with one control changed. Controls are those of the geometry, the rows of one request (context) and one
request more (concurrency). Left out: everything that needs a measurement; several controls at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final, Literal

import attrs

from kvspec.spec.documents.byte_ledger import Rectangle, rectangle
from kvspec.spec.documents.contracts import Finding, differs, named, requires
from kvspec.spec.formulas import token_bytes

Control = Literal[
    "cache_layers",
    "kv_heads",
    "head_width",
    "scalar_bytes",
    "query_heads",
    "context",
    "concurrency",
]

FACTORS: Final[dict[str, Fraction | None]] = {
    "cache_layers": Fraction(2),
    "kv_heads": Fraction(2),
    "head_width": Fraction(2),
    "scalar_bytes": Fraction(1, 2),
    "query_heads": Fraction(2),
    "context": None,
    "concurrency": None,
}
"""Every control with the factor by which its sweep changes it; None where it is no matter of a factor."""

_CONTROL_OF: Final = {"key_bytes": "scalar_bytes", "value_bytes": "scalar_bytes"}


@attrs.frozen
class Geometry:
    """Sizes that decide the bytes of a row, and query heads, which do not.

    cache_layers: that produce K and V. key_bytes, value_bytes: of one scalar.
    """

    cache_layers: int
    query_heads: int
    kv_heads: int
    head_width: int
    key_bytes: int
    value_bytes: int


@attrs.frozen
class Share:
    """One request: its committed rows and the copies of them, the first included."""

    rows: int
    copies: int


@attrs.frozen
class Fixture:
    """What ledgers are computed from."""

    geometry: Geometry
    requests: tuple[Share, ...]


@attrs.frozen
class Sweep:
    """The base with one control changed. figures: in bytes, after the change."""

    control: Control
    fixture: Fixture
    figures: Rectangle


@attrs.frozen
class Sensitivity:
    """The base, its figures in bytes, and the sweeps from it."""

    base: Fixture
    base_figures: Rectangle
    sweeps: tuple[Sweep, ...]


def figures(fixture: Fixture) -> Rectangle:
    """The ledgers of a fixture, by the formulas."""
    g = fixture.geometry
    lengths = [share.rows for share in fixture.requests]
    copies = [share.copies for share in fixture.requests]
    coefficient = token_bytes(g.cache_layers, g.kv_heads, g.head_width, g.key_bytes, g.value_bytes)
    return rectangle(lengths, copies, coefficient)


def changed_controls(base: Fixture, fixture: Fixture) -> tuple[str, ...]:
    """The controls that differ, once for each change; `copies` and `requests` are none that is allowed."""
    names = [field.name for field in attrs.fields(Geometry)]
    geometry = [n for n in names if getattr(base.geometry, n) != getattr(fixture.geometry, n)]
    found = list(dict.fromkeys(_CONTROL_OF.get(name, name) for name in geometry))
    before, after = base.requests, fixture.requests
    if after[:-1] == before:
        return (*found, "concurrency")
    if len(after) != len(before):
        return (*found, "requests")
    for old, new in zip(before, after, strict=True):
        found.extend(["context"] if old.rows != new.rows else [])
        found.extend(["copies"] if old.copies != new.copies else [])
    return tuple(found)


def fixtures(s: Sensitivity) -> Iterator[tuple[str, Fixture]]:
    """The base and every sweep, with their places."""
    yield "/sensitivity/base", s.base
    for n, sweep in enumerate(s.sweeps):
        yield f"/sensitivity/sweeps/{n}/fixture", sweep.fixture


def sizes_are_positive(s: Sensitivity) -> Iterator[Finding]:
    """Sizes are positive, rows are not negative, and there are requests."""
    for place, fixture in fixtures(s):
        for name, found in attrs.asdict(fixture.geometry).items():
            yield from requires(found >= 1, f"{place}/geometry/{name}", "at least 1", found)
        yield from requires(fixture.requests, f"{place}/requests", "at least one request", "none")
        for n, share in enumerate(fixture.requests):
            rows = share.rows
            yield from requires(rows >= 0, f"{place}/requests/{n}/rows", "at least 0", rows)


def requests_have_copies(s: Sensitivity) -> Iterator[Finding]:
    """Every request has a copy."""
    for place, fixture in fixtures(s):
        for n, share in enumerate(fixture.requests):
            found = share.copies
            yield from requires(found >= 1, f"{place}/requests/{n}/copies", "at least 1", found)


def heads_form_groups(s: Sensitivity) -> Iterator[Finding]:
    """K/V heads divide query heads."""
    for place, fixture in fixtures(s):
        g = fixture.geometry
        yield from requires(
            g.query_heads % g.kv_heads == 0,
            f"{place}/geometry/query_heads",
            f"a multiple of {g.kv_heads}",
            g.query_heads,
        )


def base_figures_are_computed(s: Sensitivity) -> Iterator[Finding]:
    """The figures of the base follow from it."""
    yield from differs("/sensitivity/base_figures", figures(s.base), s.base_figures)


def sweeps_are_the_seven(s: Sensitivity) -> Iterator[Finding]:
    """There is one sweep of each control, in their order."""
    yield from named("/sensitivity/sweeps", FACTORS, (sweep.control for sweep in s.sweeps))


def each_sweep_changes_its_control_alone(s: Sensitivity) -> Iterator[Finding]:
    """A sweep changes its own control, in one place, and nothing else of the base."""
    for n, sweep in enumerate(s.sweeps):
        found = changed_controls(s.base, sweep.fixture)
        path, told = f"/sensitivity/sweeps/{n}/fixture", f"{sweep.control} changed, nothing else"
        shown = f"{', '.join(found) or 'nothing'} changed"
        yield from requires(found == (sweep.control,), path, told, shown)


def each_sweep_changes_by_its_factor(s: Sensitivity) -> Iterator[Finding]:
    """Sizes are doubled, and widths of scalars are halved, both."""
    for n, sweep in enumerate(s.sweeps):
        factor = FACTORS[sweep.control]
        for name in (field.name for field in attrs.fields(Geometry)):
            if factor is not None and _CONTROL_OF.get(name, name) == sweep.control:
                before, after = (
                    getattr(s.base.geometry, name),
                    getattr(sweep.fixture.geometry, name),
                )
                place = f"/sensitivity/sweeps/{n}/fixture/geometry/{name}"
                yield from requires(
                    after == factor * before, place, f"{factor} times {before}", after
                )


def query_heads_leave_bytes_alone(s: Sensitivity) -> Iterator[Finding]:
    """More query heads leave every ledger as it is."""
    for n, sweep in enumerate(s.sweeps):
        if sweep.control == "query_heads":
            yield from differs(f"/sensitivity/sweeps/{n}/figures", s.base_figures, sweep.figures)


def sweep_figures_are_computed(s: Sensitivity) -> Iterator[Finding]:
    """The figures of a sweep follow from its fixture."""
    for n, sweep in enumerate(s.sweeps):
        yield from differs(
            f"/sensitivity/sweeps/{n}/figures", figures(sweep.fixture), sweep.figures
        )
