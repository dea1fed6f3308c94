"""What a comparison of runtimes records: four runtimes, twelve dimensions, five families, one canonical run.

Every fact has a status, an owner and a source in a pinned file. An absent fact has no value and no source,
and a foreign one no value. What a step of a runtime does is told in two planes that share no name: the
coordinates that its canonical operation moves, and the physical things that the model moves. Facts and
effects are those of the views that `kvspec.properties.projections` checks. There is no score of anything.
`architectures()` is what the views, the models and the pins on record say now.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import attrs

from kvspec.spec import canonical_lifecycle as sigma
from kvspec.spec.documents.pins import pinned
from kvspec.spec.handles import Handle
from kvspec.spec.language import TRUE, Symbol, type_of
from kvspec.spec.language.refinement import AbstractCall
from kvspec.spec.projections import NAMES, Projection
from kvspec.spec.runtimes.dimensions import (
    BEYOND,
    CANONICAL_FAMILY,
    DIMENSIONS,
    FAMILIES,
    FILES,
    LAYOUTS,
    NOTES,
    PHYSICAL,
    SILENT_FAMILY,
    Evidence,
)
from kvspec.spec.runtimes.views import VIEWS

OPERATIONS: Final = (
    "allocate",
    "prefill_publish",
    "output_emit",
    "decode_publish",
    "finish",
    "release",
)
"""The operations of the canonical run."""


@attrs.frozen
class Fact:
    """What a runtime says of a dimension; null is bottom. note: prose."""

    dimension: str
    status: str
    owner: str
    source: str | None
    file: str | None
    value: str | None
    known: str | None
    note: str


@attrs.frozen
class Operation:
    """A step of a runtime. canonical: the operations that it stands for, one at a time; none: a stutter.

    semantic: the dimensions that those move. physical: what the step itself moves.
    """

    call: str
    canonical: tuple[str, ...]
    semantic: tuple[str, ...]
    physical: tuple[str, ...]


@attrs.frozen
class Family:
    """The steps of a runtime that belong to a family of operations."""

    family: str
    operations: tuple[Operation, ...]


@attrs.frozen
class Architecture:
    """A runtime at a release, with a fact for each dimension and its steps by family."""

    name: str
    layout: str
    release: str
    commit: str
    facts: tuple[Fact, ...]
    families: tuple[Family, ...]


@attrs.frozen
class Row:
    """The canonical vector after an operation of the run."""

    operation: str
    snapshot: int
    outputs: int
    committed: int
    phase: str
    terminal: bool
    closed: bool


@attrs.frozen
class Projections:
    """The comparison. pins_sha256: of the pins on record. prompt_tokens: of the run's request.

    runtime_executed: whether a runtime was run for it. ranking: none, ever.
    """

    pins_sha256: str
    dimensions: tuple[str, ...]
    families: tuple[str, ...]
    architectures: tuple[Architecture, ...]
    prompt_tokens: int
    lifecycle: tuple[Row, ...]
    runtime_executed: bool
    ranking: tuple[str, ...] | None


@lru_cache(maxsize=1)
def architectures() -> tuple[Architecture, ...]:
    """The four runtimes as their views, their models and the record of pins have them."""
    return tuple(_architecture(view) for view in VIEWS)


def evidence(view: Projection, dimension: str) -> Evidence:
    """What is known of a dimension: from the view if it is a coordinate, else from the sources alone."""
    if dimension not in NAMES:
        return BEYOND[view.name][dimension]
    seen = view.seen[NAMES[dimension].name]
    fact, note = seen.fact, NOTES.get((view.name, dimension), "")
    source = fact.source or None
    h = Symbol(type_of(Handle), "h", "parameter")
    value = None if fact.value is None else repr(fact.value(h))
    known = None if fact.known is None or seen.known is TRUE else repr(fact.known(h))
    return Evidence(fact.status, fact.owner, source, FILES.get(fact.source), value, known, note)


def _architecture(view: Projection) -> Architecture:
    pin = pinned(view.name)
    if pin is None:
        raise LookupError(f"there are no pins of {view.name}: add them to spec/runtimes/pins.json")
    facts = tuple(Fact(dimension=name, **attrs.asdict(evidence(view, name))) for name in DIMENSIONS)
    steps = list(_operations(view))
    families = tuple(
        Family(name, tuple(step for family, step in steps if family == name)) for name in FAMILIES
    )
    return Architecture(view.name, LAYOUTS[view.name], pin.release, pin.commit, facts, families)


def _operations(view: Projection) -> Iterator[tuple[str, Operation]]:
    """Every step of a runtime that is of a family, with its effects in both planes."""
    names = {variable: name for name, variable in NAMES.items()}
    for call, matches in view.steps.items():
        canonical = tuple(m.action.name for m in matches if isinstance(m, AbstractCall))
        moved = {
            done.variable
            for operation in canonical
            for done in sigma.system.actions[operation].assignments
        }
        family = CANONICAL_FAMILY.get(canonical[0]) if canonical else SILENT_FAMILY[call]
        if family is None:
            continue
        own = [done.variable for done in view.runtime.actions[call].assignments]
        semantic = tuple(name for variable, name in names.items() if variable in moved)
        physical = tuple(name for variable, name in PHYSICAL.items() if variable in own)
        yield family, Operation(call, canonical, semantic, physical)
