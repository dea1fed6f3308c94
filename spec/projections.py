"""Projections: what a runtime's state says about the canonical vector, and what it leaves open.

A projection has a fact for each coordinate of Sigma. A fact has a status, an owner and a source; one that is
a direct field, a derived projection or a near correspondence has a value as well, an expression of the
runtime's state, and may say in which states it is known. Elsewhere, and for a foreign or an absent fact, the
coordinate is bottom: no value stands in for it. Direct and derived facts are claims: at every step of the
runtime they must move as the canonical operation moves them. A near correspondence claims no such thing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import attrs

from kvspec.spec.canonical_lifecycle import (
    SIGMA,
    closed,
    committed,
    generation,
    identity,
    longest,
    outputs,
    snapshot,
    stage,
    system,
    terminal,
)
from kvspec.spec.language import TRUE, DefinitionError, Expr, System, Variable
from kvspec.spec.language.expr import boolean
from kvspec.spec.language.refinement import (
    Image,
    Match,
    Refinement,
    image_of,
    matched_steps,
    refinement,
)

Status = Literal[
    "direct_field", "derived_projection", "near_correspondence", "foreign_owner", "absent"
]
STATUSES: Final[dict[str, str]] = {
    "direct_field": "the named field carries the fact",
    "derived_projection": "several fields, or one act of an owner, imply the fact",
    "near_correspondence": "a field is like the fact, and is updated elsewhere or has another scope",
    "foreign_owner": "a scheduler, allocator, prefix cache or executor outside the object has the fact",
    "absent": "no source that was compared shows the fact",
}
CLAIMED: Final = ("direct_field", "derived_projection")
VALUED: Final = (*CLAIMED, "near_correspondence")
NAMES: Final[dict[str, Variable]] = {
    "request_identity": identity,
    "handle_generation": generation,
    "snapshot_version": snapshot,
    "output_progress": outputs,
    "committed_kv_progress": committed,
    "lifecycle_phase": stage,
    "terminal_output": terminal,
    "logical_release": closed,
}
"""The coordinates of Sigma by the names that the dimensions of a comparison have."""

Reading = Callable[[Expr], Any]


@attrs.frozen(eq=False)
class Fact:
    """What a runtime says about one coordinate. source: empty if and only if it is absent.

    value, known: functions of the handle; a fact without a value is bottom everywhere.
    """

    status: Status
    owner: str
    source: str
    value: Reading | None = None
    known: Reading | None = None


def direct(value: Reading, owner: str, source: str, known: Reading | None = None) -> Fact:
    """The source is a field that carries the fact, where it is known."""
    return Fact("direct_field", owner, source, value, known)


def derived(value: Reading, owner: str, source: str, known: Reading | None = None) -> Fact:
    """The source implies the fact, where it is known."""
    return Fact("derived_projection", owner, source, value, known)


def near(value: Reading, owner: str, source: str, known: Reading | None = None) -> Fact:
    """The source is like the fact, and no more."""
    return Fact("near_correspondence", owner, source, value, known)


def foreign(owner: str, source: str) -> Fact:
    """The fact is the owner's, and the object says nothing of it."""
    return Fact("foreign_owner", owner, source)


def absent(owner: str) -> Fact:
    """No source shows the fact; who wants it must be its owner."""
    return Fact("absent", owner, "")


@attrs.frozen(eq=False)
class Seen:
    """A fact with its expressions: the value for one handle, and where it is known."""

    fact: Fact
    image: Image | None
    known: Expr

    @property
    def is_claimed(self) -> bool:
        """The fact must move as the canonical operations move it."""
        return self.fact.status in CLAIMED


@attrs.frozen(eq=False, repr=False)
class Projection:
    """A runtime's facts by the name of the coordinate, and the canonical operation of each of its steps."""

    name: str
    runtime: System
    seen: dict[str, Seen]
    steps: dict[str, tuple[Match, ...]]
    doc: str

    @property
    def is_total(self) -> bool:
        """Every coordinate is claimed, in every state."""
        return all(s.is_claimed and s.known is TRUE for s in self.seen.values())

    def __repr__(self) -> str:
        return f"Projection({self.name} of {self.runtime.name})"


def projection(
    name: str,
    runtime: System,
    facts: Mapping[Variable, Fact],
    steps: Mapping[Any, object],
    doc: str,
) -> Projection:
    """A checked projection: a fact for each coordinate, an operation or a stutter for each transition."""
    if set(facts) != set(SIGMA):
        missing = [v.name for v in SIGMA if v not in facts]
        raise DefinitionError(
            f"projection {name}: there must be one fact for each coordinate of Sigma; missing: {missing}"
        )
    seen = {variable.name: _seen(name, runtime, variable, facts[variable]) for variable in SIGMA}
    return Projection(name, runtime, seen, matched_steps(name, runtime, system, steps), doc)


def _seen(name: str, runtime: System, variable: Variable, fact: Fact) -> Seen:
    where = f"projection {name}, {variable.name}"
    if (fact.value is not None) != (fact.status in VALUED):
        has = "a value" if fact.value is not None else "no value"
        raise DefinitionError(f"{where}: a fact of status {fact.status} has {has}")
    if bool(fact.source) == (fact.status == "absent"):
        raise DefinitionError(f"{where}: a fact has a source if and only if it is not absent")
    if fact.value is None:
        return Seen(fact, None, TRUE)
    known: Expr = TRUE
    if fact.known is not None:
        known = boolean(fact.known(*variable.binders), f"where {where} is known")
    return Seen(fact, image_of(where, runtime, variable, fact.value), known)


def as_refinement(
    found: Projection, beside: Mapping[Variable, Reading], steps: Mapping[Any, object]
) -> Refinement:
    """A total projection as a refinement of the canonical lifecycle, to be proved for all sizes.

    beside: what the canonical variables that are no coordinates are mapped to.
    """
    if not found.is_total:
        raise DefinitionError(
            f"{found} is partial: a refinement needs every coordinate in every state"
        )
    mapping: dict[Variable, object] = dict(beside)
    for variable in SIGMA:
        mapping[variable] = found.seen[variable.name].fact.value
    return refinement(
        f"{found.name}_follows_the_canonical_lifecycle",
        concrete=found.runtime,
        abstract=system,
        mapping=mapping,
        steps=steps,
        constants={longest: longest},
        doc=found.doc,
    )
