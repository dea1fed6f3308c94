"""The log of events as a document: its header, its history as the audit replays it, and what comes out.

Each rule of the audit that one change of a log can break is a contract of its own; the codes with which
the specification refuses a step are told under their own names as well. The same rules hold for a log in
lines (`kvspec audit`), of which there is no expected result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

import attrs

from kvspec.properties.audit import RULES, Acceptor
from kvspec.properties.audit.findings import Finding as Told
from kvspec.properties.audit.rules import NEVER_VIOLATED, OWN
from kvspec.properties.documents.event_results import results
from kvspec.spec.documents.cache_abi import add_abi_contracts, coefficient, is_lawful
from kvspec.spec.documents.canonical import digest
from kvspec.spec.documents.contracts import (
    Binding,
    DocumentKind,
    Finding,
    differs,
    named,
    requires,
)
from kvspec.spec.documents.event import OPTIONAL, OUTCOMES
from kvspec.spec.documents.log import (
    BOUNDED_LABELS,
    COMPLETENESS,
    METRIC_KINDS,
    EventLog,
    HandleEnd,
)
from kvspec.spec.documents.log_header import HEADER_RULES, HeaderCheck

event_log = DocumentKind(
    "event-log", EventLog, "What happened to requests and their cache, event by event."
)


def _header(check: HeaderCheck) -> Callable[[EventLog], Iterator[Finding]]:
    return lambda log: check(log.header)


for _rule, (_meaning, _check) in HEADER_RULES.items():
    event_log.contract(_rule, _meaning)(_header(_check))


add_abi_contracts(event_log)


@event_log.contract("SOURCE_MISSING", "a log on file is mapped to a pinned release")
def source_missing(log: EventLog) -> Iterator[Finding]:
    """A log of lines may come from a producer that maps no foreign runtime."""
    source = log.header.source
    yield from requires(source is not None, "/header/source", "a pinned release", source)


@event_log.contract("CACHE_ABI", "the digest in the header is that of the cache ABI", derived=True)
def cache_abi(log: EventLog) -> Iterator[Finding]:
    """The digest is the manifest's own, of the same parts."""
    found = log.header.cache_abi_sha256
    yield from differs("/header/cache_abi_sha256", digest(log.cache_abi), found)


@event_log.contract("TOKEN_BYTES", "the bytes of a token follow from the cache ABI", derived=True)
def token_bytes(log: EventLog) -> Iterator[Finding]:
    """They convert committed tokens into payload."""
    found = log.header.conversion.token_bytes
    yield from differs("/header/conversion/token_bytes", coefficient(log.cache_abi), found)


@event_log.contract("NO_EVENT", "the log tells at least one step of a cache")
def no_event(log: EventLog) -> Iterator[Finding]:
    """A log without events, or of observations alone, shows nothing."""
    steps = [event for event in log.events if event.source_component == "cache"]
    yield from requires(steps, "/events", "an event of the cache", f"{len(log.events)} others")


@event_log.contract(
    "INCOMPLETE", "the log has every event: a sample proves nothing of what it lacks"
)
def incomplete(log: EventLog) -> Iterator[Finding]:
    """A sampled log never passes for a complete one."""
    yield from differs("/header/completeness", COMPLETENESS[0], log.header.completeness)


@event_log.contract(
    "METRIC_FAMILY", "families count outcomes or attempts, in order, with all labels"
)
def metric_family(log: EventLog) -> Iterator[Finding]:
    """Those of outcomes have the label outcome and all its values, those of attempts have neither."""
    families = log.header.metric_families
    names = [family.name for family in families]
    wanted = sorted(set(names)) or ("some subject",)
    yield from named("/header/metric_families", wanted, names)
    for n, family in enumerate(families):
        path = f"/header/metric_families/{n}"
        yield from differs(f"{path}/kind", METRIC_KINDS[0], family.kind)
        by_outcome = family.name.endswith("_outcomes_total")
        is_counter = by_outcome or family.name.endswith("_attempts_total")
        expected = "_outcomes_total or _attempts_total at its end"
        yield from requires(is_counter, f"{path}/name", expected, family.name)
        labels = BOUNDED_LABELS if by_outcome else BOUNDED_LABELS[:-1]
        yield from differs(f"{path}/labels", labels, family.labels)
        outcomes = OUTCOMES if by_outcome else ()
        yield from differs(f"{path}/outcomes", outcomes, family.outcomes)


@lru_cache(maxsize=8)
def _replayed(log: EventLog) -> tuple[tuple[Told, ...], tuple[HandleEnd, ...]]:
    """What the audit finds, and where every generation of a handle ends."""
    closed: list[HandleEnd] = []
    acceptor = Acceptor(log.header, closed=closed, unit="/events/")
    for place, event in enumerate(log.events):
        acceptor.feed(place, event)
    found = acceptor.close().findings
    live = acceptor.replay.live.items()
    ends = [*closed, *(acceptor.replay.end(name, each) for name, each in live)]
    return found, tuple(ends)


DELIVERY: Final = ("EVENT_ID_REUSED", "SEQUENCE_REUSED", "SEQUENCE_GAP")


def _first(log: EventLog) -> tuple[Told, ...]:
    """The findings of the code that is told first; what comes later may follow from it.

    What was lost or told twice comes before all else, then what stands first in the log.
    """
    found = sorted(_replayed(log)[0], key=lambda told: told.code not in DELIVERY)
    return tuple(told for told in found if told.code == found[0].code)


def _history(code: str) -> Callable[[EventLog], Iterator[Finding]]:
    def check(log: EventLog) -> Iterator[Finding]:
        for told in _first(log):
            if told.code == code:
                yield Finding(f"/events/{told.line}/{told.field}", told.expected, told.found)

    return check


REFUSED: Final = (
    "CHILD_IN_USE",
    "TXN_IN_USE",
    "TXN_CLOSED",
    "POSITION_MISMATCH",
    "EMPTY_APPEND",
    "BEYOND_COMMITTED",
    "STALE_GENERATION",
)
"""The codes of the specification that one change of a valid log can bring about by itself."""

LATER: Final = ("REORDERED", "CHILD_GENERATION", *sorted(NEVER_VIOLATED))
"""Rules that take more than one change, or a longer log; `HISTORY` tells them."""

for _code in (*OWN, *REFUSED):
    if _code not in LATER:
        event_log.contract(_code, RULES[_code].meaning)(_history(_code))


@event_log.contract("HISTORY", "the audit finds nothing else")
def history(log: EventLog) -> Iterator[Finding]:
    """Whatever has no contract of its own: rarer refusals of the specification, and reordering."""
    for told in _first(log):
        if told.code not in event_log.contracts:
            path, expected = f"/events/{told.line}/{told.field}", f"{told.code}: {told.expected}"
            yield Finding(path, expected, told.found)


def completed(log: EventLog) -> EventLog:
    """The log with the results that replaying it gives."""
    return attrs.evolve(log, expected=results(log, _replayed(log)[1]))


def prepared(log: EventLog) -> EventLog:
    """The log with the digest and the bytes of a token that follow from its cache ABI, if it is one."""
    each = coefficient(log.cache_abi) if is_lawful(log.cache_abi) else 1
    conversion = attrs.evolve(log.header.conversion, token_bytes=each)
    header = attrs.evolve(log.header, cache_abi_sha256=digest(log.cache_abi), conversion=conversion)
    return attrs.evolve(log, header=header)


event_log.binding = Binding(
    ("/header/cache_abi_sha256", "/header/conversion/token_bytes", "/expected"),
    completed,
    prepared,
    nullable=tuple(f"/events/*/{name}" for name in OPTIONAL),
)


def _result(name: str) -> Callable[[EventLog], Iterator[Finding]]:
    def check(log: EventLog) -> Iterator[Finding]:
        found = getattr(log.expected, name)
        yield from differs(
            f"/expected/{name}", getattr(results(log, _replayed(log)[1]), name), found
        )

    return check


for _name, _meaning in {
    "events": "the events are those expected, with their causes, in their order of arrival",
    "forks": "each child has the parent and the prefix expected",
    "handles": "each generation of a handle ends as expected",
    "operations": "each append ends as expected",
    "outputs": "each generation of a handle puts out the tokens expected",
    "allocator": "the allocator is seen as expected",
    "residency": "payload is seen resident as expected",
}.items():
    event_log.contract(f"EXPECTED_{_name.upper()}", _meaning, derived=True)(_result(_name))

event_log.frees("/header/producer_revision", "any revision may have told these events")
event_log.frees(
    "/events/*/monotonic_ns", "any clock that does not go back within its source will do"
)
event_log.frees("/events/*/observed_wall_time", "wall time is for people: it orders nothing")
