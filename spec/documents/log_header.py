"""What the header of a log must keep, whether the log is a document or lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from kvspec.spec.documents.contracts import Finding, differs, requires
from kvspec.spec.documents.event import OUTCOMES
from kvspec.spec.documents.log import (
    BOUNDED_LABELS,
    COMPLETENESS,
    METRIC_KINDS,
    PINNED,
    RELATIONS,
    SCHEMA_VERSION,
    LogHeader,
    Source,
)

HeaderCheck = Callable[[LogHeader], Iterator[Finding]]
_DIGEST: Final = re.compile("[0-9a-f]{64}")


def schema_version(header: LogHeader) -> Iterator[Finding]:
    """Another version may have other types of event."""
    yield from differs("/header/schema_version", SCHEMA_VERSION, header.schema_version)


def producer_revision(header: LogHeader) -> Iterator[Finding]:
    """Without it, nobody can tell which code told the events."""
    found = header.producer_revision
    yield from requires(found.strip(), "/header/producer_revision", "a revision", found)


def source_pin(header: LogHeader) -> Iterator[Finding]:
    """A mapping speaks of the source that was read, not of any release."""
    if header.source is not None:
        yield from _pinned(header.source)


def _pinned(source: Source) -> Iterator[Finding]:
    if source.runtime not in PINNED:
        yield Finding("/header/source/runtime", " or ".join(PINNED), source.runtime)
        return
    release, commit = PINNED[source.runtime]
    yield from differs("/header/source/release", release, source.release)
    yield from differs("/header/source/commit", commit, source.commit)


def conversion(header: LogHeader) -> Iterator[Finding]:
    """Without a model, planes are not compared."""
    for name in ("used_slots", "resident_bytes"):
        found, path = getattr(header.conversion, name), f"/header/conversion/{name}"
        yield from requires(found in RELATIONS, path, " or ".join(RELATIONS), found)
    size = header.conversion.token_bytes
    yield from requires(size >= 1, "/header/conversion/token_bytes", "1 or more", size)


def header_field(header: LogHeader) -> Iterator[Finding]:
    """A value that no reader knows would be taken for another one."""
    found = header.completeness
    yield from requires(
        found in COMPLETENESS, "/header/completeness", " or ".join(COMPLETENESS), found
    )
    found = header.cache_abi_sha256
    is_digest = _DIGEST.fullmatch(found) is not None
    yield from requires(
        is_digest, "/header/cache_abi_sha256", "64 lower-case hexadecimal digits", found
    )
    for n, family in enumerate(header.metric_families):
        path = f"/header/metric_families/{n}"
        yield from requires(family.name, f"{path}/name", "a name", family.name)
        known = " or ".join(METRIC_KINDS)
        yield from requires(family.kind in METRIC_KINDS, f"{path}/kind", known, family.kind)
        for m, outcome in enumerate(family.outcomes):
            known = " or ".join(OUTCOMES)
            yield from requires(outcome in OUTCOMES, f"{path}/outcomes/{m}", known, outcome)


def metric_cardinality(header: LogHeader) -> Iterator[Finding]:
    """Every value of a label is a time series; ids belong into events and traces."""
    for n, family in enumerate(header.metric_families):
        for m, label in enumerate(family.labels):
            path, expected = f"/header/metric_families/{n}/labels/{m}", " or ".join(BOUNDED_LABELS)
            yield from requires(label in BOUNDED_LABELS, path, expected, label)


def metric_denominator(header: LogHeader) -> Iterator[Finding]:
    """Failures without attempts give no ratio."""
    names = [family.name for family in header.metric_families]
    for n, name in enumerate(names):
        subject, _, rest = name.rpartition("_outcomes")
        other = f"{subject}_attempts{rest}"
        if not subject:
            subject, _, rest = name.rpartition("_attempts")
            other = f"{subject}_outcomes{rest}"
        if subject:
            expected = f"the family {other} beside it"
            yield from requires(other in names, f"/header/metric_families/{n}/name", expected, name)


HEADER_RULES: Final[dict[str, tuple[str, HeaderCheck]]] = {
    "SCHEMA_VERSION": ("the events are of the version of the table that is known", schema_version),
    "PRODUCER_REVISION": ("the revision of the producer is known", producer_revision),
    "SOURCE_PIN": ("the runtime to whose source events are mapped is a pinned release", source_pin),
    "CONVERSION": ("how planes compare is one of the relations that are known", conversion),
    "HEADER_FIELD": ("each field of the header has a value of its kind", header_field),
    "METRIC_CARDINALITY": (
        "labels of a metric have few values: no id is among them",
        metric_cardinality,
    ),
    "METRIC_DENOMINATOR": (
        "counters of outcomes and of attempts come in pairs",
        metric_denominator,
    ),
}
"""The rules of a header by code, each with its meaning."""
