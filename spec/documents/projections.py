"""Comparisons of runtimes as documents: structure, evidence, planes, and no ranking.

The order in which they are told: is everything there and bound to its sources; is anything claimed that no
source shows; does every fact and every step agree with the views; is anything claimed of the whole. The
canonical run is replayed in `kvspec.properties.documents.projections`, which completes the kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kvspec.spec.documents.contracts import DocumentKind, Finding, differs, named, requires
from kvspec.spec.documents.pins import pinned, record_digest
from kvspec.spec.documents.projections_record import (
    OPERATIONS,
    Fact,
    Family,
    Operation,
    Projections,
    architectures,
)
from kvspec.spec.projections import STATUSES, VALUED
from kvspec.spec.runtimes.dimensions import DIMENSIONS, FAMILIES, LAYOUTS, PHYSICAL

projections = DocumentKind(
    "projections",
    Projections,
    "What four runtimes say of the canonical lifecycle, and what they do not.",
)
projections.frees("/architectures/*/facts/*/note", "prose for a reader, on which no contract rests")

Found = Iterator[Finding]
_UNCLAIMED: Final = ("foreign_owner", "absent")


def _facts(p: Projections, *dimensions: str) -> Iterator[tuple[str, str, Fact]]:
    """Path, architecture and fact, for the dimensions named or for all."""
    for n, found in enumerate(p.architectures):
        for m, fact in enumerate(found.facts):
            if not dimensions or fact.dimension in dimensions:
                yield f"/architectures/{n}/facts/{m}", found.name, fact


def _operations(p: Projections) -> Iterator[tuple[str, Family, Operation]]:
    for n, found in enumerate(p.architectures):
        for m, family in enumerate(found.families):
            for k, operation in enumerate(family.operations):
                yield f"/architectures/{n}/families/{m}/operations/{k}", family, operation


def _may_have(
    p: Projections, dimensions: tuple[str, ...], statuses: Iterable[str]
) -> Iterator[Finding]:
    """A finding for each fact of these dimensions with another status."""
    for path, _, fact in _facts(p, *dimensions):
        allowed = " or ".join(statuses)
        yield from requires(fact.status in statuses, f"{path}/status", allowed, fact.status)


@projections.contract("ARCHITECTURES", "the four runtimes are there, each once, in order")
def architectures_listed(p: Projections) -> Found:
    """One entry for each layout of ownership."""
    yield from named("/architectures", LAYOUTS, (a.name for a in p.architectures))
    for n, found in enumerate(p.architectures):
        yield from differs(f"/architectures/{n}/layout", LAYOUTS.get(found.name), found.layout)


@projections.contract("DIMENSIONS", "the twelve dimensions are listed, in order")
def dimensions_listed(p: Projections) -> Found:
    """What is compared is said before it is compared."""
    yield from differs("/dimensions", list(DIMENSIONS), list(p.dimensions))


@projections.contract("FAMILIES", "the five families of operations are listed, in order")
def families_listed(p: Projections) -> Found:
    """Append, output, fork, truncation, end."""
    yield from differs("/families", list(FAMILIES), list(p.families))


@projections.contract(
    "FACT_PER_DIMENSION", "each runtime has one fact for each dimension, in order"
)
def every_dimension_has_its_fact(p: Projections) -> Found:
    """A dimension about which nothing is known is absent, and not left out."""
    for n, found in enumerate(p.architectures):
        names = [fact.dimension for fact in found.facts]
        yield from named(f"/architectures/{n}/facts", DIMENSIONS, names)


@projections.contract(
    "FAMILY_PER_RUNTIME", "each runtime has each family, in order; it may be empty"
)
def every_family_is_there(p: Projections) -> Found:
    """A family of which a runtime has nothing is empty, and not left out."""
    for n, found in enumerate(p.architectures):
        names = [family.family for family in found.families]
        yield from named(f"/architectures/{n}/families", FAMILIES, names)


@projections.contract("SOURCE_BINDING", "releases and commits are those of the pins on record")
def sources_are_bound(p: Projections) -> Found:
    """A statement about a release is one about its files."""
    yield from differs("/pins_sha256", record_digest(), p.pins_sha256)
    for n, found in enumerate(p.architectures):
        pin = pinned(found.name)
        if pin is not None:
            yield from differs(f"/architectures/{n}/release", pin.release, found.release)
            yield from differs(f"/architectures/{n}/commit", pin.commit, found.commit)


@projections.contract("UNKNOWN_STATUS", "a fact has one of the five statuses")
def statuses_are_known(p: Projections) -> Found:
    """Direct, derived, near, foreign, absent."""
    for path, _, fact in _facts(p):
        known = f"one of {', '.join(STATUSES)}"
        yield from requires(fact.status in STATUSES, f"{path}/status", known, fact.status)


@projections.contract(
    "GENERATION_OVERCLAIMED", "no runtime has a handle generation or a snapshot version"
)
def generations_are_absent(p: Projections) -> Found:
    """A recycled identity cannot be told from the first one."""
    yield from _may_have(p, ("handle_generation", "snapshot_version"), ("absent",))


@projections.contract("RECEIPT_OVERCLAIMED", "no runtime has a receipt of generation and snapshot")
def receipts_are_absent(p: Projections) -> Found:
    """A counter is no receipt, whatever it is called."""
    yield from _may_have(p, ("publication_receipt",), ("absent",))


@projections.contract("RELEASE_OVERCLAIMED", "no object of a runtime itself shows a release")
def releases_are_of_others(p: Projections) -> Found:
    """Schedulers, executors and allocators know of it."""
    yield from _may_have(p, ("logical_release", "physical_release"), _UNCLAIMED)


@projections.contract("NEAR_OVERCLAIMED", "committed rows have a near correspondence and no more")
def committed_rows_are_near(p: Projections) -> Found:
    """Each of the four counters moves before the rows are there."""
    yield from _may_have(p, ("committed_kv_progress",), ("near_correspondence",))


@projections.contract(
    "PROGRESS_COLLAPSED", "outputs and committed rows are read from different places"
)
def progress_is_apart(p: Projections) -> Found:
    """An emission moves one of them, a publication the other."""
    for n, found in enumerate(p.architectures):
        by_name = {fact.dimension: fact for fact in found.facts}
        one, two = by_name["output_progress"], by_name["committed_kv_progress"]
        place = f"/architectures/{n}/facts/{found.facts.index(two)}"
        for name in ("value", "source"):
            first, second = getattr(one, name), getattr(two, name)
            other = f"another {name} than that of the outputs"
            is_apart = first is None or first != second
            yield from requires(is_apart, f"{place}/{name}", other, second)


@projections.contract("ABSENT_DEFAULT", "an absent fact has no value, no source and no default")
def absent_facts_are_empty(p: Projections) -> Found:
    """A plausible value would hide that nobody knows."""
    for path, _, fact in _facts(p):
        if fact.status == "absent":
            for name in ("source", "file", "value", "known"):
                yield from differs(f"{path}/{name}", None, getattr(fact, name))


@projections.contract(
    "UNSUPPORTED", "a fact that is not absent has a source, and a value if it is no foreign one"
)
def facts_are_supported(p: Projections) -> Found:
    """A value needs a status that allows it, and a status needs a source."""
    for path, _, fact in _facts(p):
        if fact.status == "absent":
            continue
        for name in ("source", "file"):
            yield from requires(getattr(fact, name), f"{path}/{name}", f"a {name}", None)
        if fact.status in VALUED:
            yield from requires(fact.value, f"{path}/value", "a value", fact.value)
        else:
            yield from differs(f"{path}/value", None, fact.value)


@projections.contract(
    "SOURCE_NOT_PINNED", "the source of a fact is in a pinned file of its runtime"
)
def sources_are_pinned(p: Projections) -> Found:
    """What is not pinned can change unnoticed."""
    for path, name, fact in _facts(p):
        pin = pinned(name)
        files = [file.path for file in pin.files] if pin else []
        is_pinned = fact.file is None or fact.file in files
        yield from requires(is_pinned, f"{path}/file", f"one of {files}", fact.file)


@projections.contract(
    "FACT_OF_VIEW", "a fact is as the view of the runtime has it, which is checked by steps"
)
def facts_are_those_of_the_views(p: Projections) -> Found:
    """The document says nothing that the projection does not."""
    for found, (path, _, fact) in zip(
        (fact for a in architectures() for fact in a.facts), _facts(p), strict=True
    ):
        for name in ("status", "owner", "source", "file", "value", "known"):
            yield from differs(f"{path}/{name}", getattr(found, name), getattr(fact, name))


@projections.contract("PLANES_MIXED", "semantic effects are dimensions, physical effects are none")
def planes_share_no_name(p: Projections) -> Found:
    """Blocks that are freed are no request that is released."""
    for path, _, operation in _operations(p):
        for plane, known in (("semantic", [*DIMENSIONS]), ("physical", [*PHYSICAL.values()])):
            for n, name in enumerate(getattr(operation, plane)):
                is_own = name in known
                yield from requires(is_own, f"{path}/{plane}/{n}", f"a {plane} effect", name)


@projections.contract(
    "FINISH_IS_RELEASE", "finish and release are steps of their own in every runtime"
)
def ends_are_two_steps(p: Projections) -> Found:
    """The output ends while rows are still held."""
    for n, found in enumerate(p.architectures):
        family = found.families[-1]
        done = [set(operation.canonical) & {"finish", "release"} for operation in family.operations]
        path = f"/architectures/{n}/families/{len(found.families) - 1}"
        for k, both in enumerate(done):
            yield from requires(len(both) < 2, f"{path}/operations/{k}", "one of two", sorted(both))
        ends = sorted(set().union(*done))
        told, shown = "operations for finish and for release", f"for {', '.join(ends) or 'neither'}"
        yield from requires(ends == ["finish", "release"], path, told, shown)


@projections.contract(
    "OPERATION_OF_VIEW", "steps and what they stand for are those of the checked projection"
)
def operations_are_those_of_the_views(p: Projections) -> Found:
    """A step of the model is in one family, and stands for what commutes."""
    for n, (found, wanted) in enumerate(zip(p.architectures, architectures(), strict=True)):
        for m, (family, own) in enumerate(zip(found.families, wanted.families, strict=True)):
            path = f"/architectures/{n}/families/{m}/operations"
            yield from _same(path, own, family, ("call", "canonical"))


def _same(path: str, wanted: Family, found: Family, fields: tuple[str, ...]) -> Iterator[Finding]:
    """Findings where two lists of operations differ in these fields."""
    one, two = wanted.operations, found.operations
    if len(one) != len(two):
        yield from named(path, (o.call for o in one), (o.call for o in two))
        return
    for k, (first, second) in enumerate(zip(one, two, strict=True)):
        for name in fields:
            yield from differs(f"{path}/{k}/{name}", getattr(first, name), getattr(second, name))


@projections.contract("EFFECTS", "effects are what the canonical operation and the model assign")
def effects_are_what_is_assigned(p: Projections) -> Found:
    """Read from the actions themselves."""
    for n, (found, wanted) in enumerate(zip(p.architectures, architectures(), strict=True)):
        for m, (family, own) in enumerate(zip(found.families, wanted.families, strict=True)):
            path = f"/architectures/{n}/families/{m}/operations"
            yield from _same(path, own, family, ("semantic", "physical"))


@projections.contract("LIFECYCLE_ORDER", "the canonical run has its six operations, in order")
def run_is_in_order(p: Projections) -> Found:
    """Allocate, publish, emit, publish, finish, release."""
    yield from named("/lifecycle", OPERATIONS, (row.operation for row in p.lifecycle))


@projections.contract("NOTHING_RUN", "no runtime was executed for this comparison")
def no_runtime_was_run(p: Projections) -> Found:
    """It is of sources and of models of them."""
    yield from differs("/runtime_executed", False, p.runtime_executed)


@projections.contract("NO_RANKING", "no runtime is ranked: statuses are labels of evidence")
def nothing_is_ranked(p: Projections) -> Found:
    """More direct fields make no better runtime."""
    yield from differs("/ranking", None, p.ranking)
