"""Reconciliation: a log held against what the cache itself held at the end.

A log whose last event was told too early, and one whose last events are missing, are lawful histories: no
replay can find anything. Held against the cache they differ, and in opposite ways. A log that is
ahead names what no reader ever saw: success was told before the publication, and the process died in
between. A log that is behind is incomplete, and the cache is well: look for what was lost on its way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from kvspec.properties.audit.acceptor import Acceptor
from kvspec.properties.audit.rules import Rule
from kvspec.properties.audit.window import LARGEST
from kvspec.spec.documents.closing import Closing, SourceEnd
from kvspec.spec.documents.log import HandleEnd
from kvspec.spec.handles import Phase
from kvspec.spec.language import type_of

PREMATURE_SUCCESS: Final = "PREMATURE_SUCCESS"
EVENT_LOST: Final = "EVENT_LOST"
STATE_DIFFERS: Final = "STATE_DIFFERS"
SOURCE_AHEAD: Final = "SOURCE_AHEAD"
SOURCE_UNLISTED: Final = "SOURCE_UNLISTED"
CLOSING_FIELD: Final = "CLOSING_FIELD"

RECONCILED: Final = {
    rule.code: rule
    for rule in (
        Rule(
            PREMATURE_SUCCESS,
            "the log tells nothing that readers of the cache never saw",
            "tell success after the publication has returned its receipt, never before it",
        ),
        Rule(
            EVENT_LOST,
            "the log tells everything that readers of the cache saw, and all that its sources told",
            "the log is incomplete: look at the exporter, and believe the cache",
        ),
        Rule(
            STATE_DIFFERS,
            "log and cache agree on generation, phase and committed rows of a snapshot",
            "look at the cache itself: either it broke its contract, or an event tells it wrongly",
        ),
        Rule(
            SOURCE_AHEAD,
            "the log has no event that its source has not told",
            "look for what writes events under the name of this source",
        ),
        Rule(
            SOURCE_UNLISTED,
            "the closing tells of each source of the log how many events it told",
            "list every source: events at the end of this one may be missing",
        ),
        Rule(
            CLOSING_FIELD,
            "each field of the closing has a value that it can have",
            "correct what writes the closing: the log is compared with it",
        ),
    )
}
"""What a log must keep beside its closing, and what to do where it does not."""

UNPROVEN: Final = {
    SOURCE_UNLISTED: "the closing does not tell how many events there are",
    "BEYOND_BOUNDS": "a limit of the audit",
}
"""Codes of a difference that proves nothing, and why."""

RELEASED: Final = "RELEASED"
PHASES: Final = type_of(Phase).members
_RANK: Final = {"VACANT": -1, "DECODE_READY": 0, "FINISHED": 1, "CANCELLED": 1, RELEASED: 2}
_NUMBERS: Final = ("handle_generation", "end_generation", "snapshot", "committed_tokens")


@attrs.frozen
class Difference:
    """Something of which log and cache tell another end. cache, log: in words.

    target: the request or the source. field: where in the closing. lost: events that the log lacks.
    """

    code: str
    target: str
    field: str
    cache: str
    log: str
    lost: int = 0

    def __str__(self) -> str:
        return (
            f"{self.code}: {self.target}: the cache has {self.cache}, the log tells {self.log}: "
            f"{RECONCILED[self.code].advice}"
        )


def reconcile(acceptor: Acceptor, closing: Closing) -> tuple[Difference, ...]:
    """Every source and request on which the log and the closing differ.

    The acceptor has taken all events. Requests that it no longer follows, since an event of theirs could
    not be explained, are left out: the audit has told that. A closing with a field that cannot be is
    told as that, and compared no further.
    """
    broken = tuple(_broken(closing))
    return broken or (*_sources(acceptor, closing), *_handles(acceptor, closing))


def _broken(closing: Closing) -> Iterator[Difference]:
    """Fields of the closing that have no value of their kind."""
    names = [each.source_instance for each in closing.sources]
    for n, each in enumerate(closing.sources):
        path = f"sources/{n}"
        if not each.source_instance or each.source_instance in names[:n]:
            yield _field("the log", f"{path}/source_instance", "a name, once", names[n])
        yield from _number("the log", f"{path}/next_sequence", each.next_sequence)
    for n, end in enumerate(closing.handles):
        path, target = f"handles/{n}", _target(end)
        if not end.request_id:
            yield _field(target, f"{path}/request_id", "a name", "")
        if end.phase not in PHASES:
            yield _field(target, f"{path}/phase", " or ".join(PHASES), end.phase)
        for name in _NUMBERS:
            yield from _number(target, f"{path}/{name}", getattr(end, name))


def _field(target: str, field: str, expected: str, found: object) -> Difference:
    return Difference(CLOSING_FIELD, target, field, expected, repr(found))


def _number(target: str, field: str, found: int) -> Iterator[Difference]:
    if found < 0:
        yield _field(target, field, "0 or more", found)
    elif found > LARGEST:
        yield Difference("BEYOND_BOUNDS", target, field, f"at most {LARGEST}", str(found))


def _sources(acceptor: Acceptor, closing: Closing) -> Iterator[Difference]:
    """What the sources told after the last event of theirs in the log; of a sample nothing can be said."""
    if acceptor.is_sampled:
        return
    for end in closing.sources:
        source = acceptor.sources.get(end.source_instance)
        yield from _source(end, source.next if source is not None else 0)
    listed = {end.source_instance for end in closing.sources}
    for name in sorted(acceptor.sources.keys() - listed):
        seen = f"{acceptor.sources[name].next} events"
        yield Difference(SOURCE_UNLISTED, f"source {name}", "sources", "nothing", seen)


def _source(end: SourceEnd, seen: int) -> Iterator[Difference]:
    target, told = f"source {end.source_instance}", end.next_sequence
    if seen < told:
        last = f" to {told - 1}" if told - 1 > seen else ""
        words = f"told event {seen}{last} as well", f"{seen} events of it"
        yield Difference(EVENT_LOST, target, "sources", *words, lost=told - seen)
    elif seen > told:
        words = f"told {told} events", f"events up to {seen - 1}"
        yield Difference(SOURCE_AHEAD, target, "sources", *words)


def _handles(acceptor: Acceptor, closing: Closing) -> Iterator[Difference]:
    replay = acceptor.replay
    listed: dict[str, list[HandleEnd]] = {}
    for held in closing.handles:
        listed.setdefault(held.request_id, []).append(held)
    for name, ends in listed.items():
        latest = max(end.handle_generation for end in ends)
        for held in ends:
            if held.handle_generation != latest:
                yield from _left_behind(held)
            elif name in replay.live:
                live = replay.live[name]
                if live.followed:
                    yield from _compare(held, replay.end(name, live))
            else:
                gone = replay.released.get(name)
                told = gone.end(name) if gone is not None else None
                if told is not None:
                    yield from _compare(held, told)
                elif gone is None and not replay.released.forgot:
                    yield _differs(EVENT_LOST, held, None)
    if closing.is_all:
        yield from _unlisted(acceptor, listed)


def _unlisted(acceptor: Acceptor, listed: dict[str, list[HandleEnd]]) -> Iterator[Difference]:
    """Requests that the log tells of and the cache never had."""
    replay = acceptor.replay
    live = (replay.end(name, each) for name, each in replay.live.items() if each.followed)
    gone = (each.end(name) for name, each in replay.released.items())
    known = [told for told in (*live, *gone) if told is not None]
    for told in sorted(known, key=lambda end: end.request_id):
        if told.request_id not in listed:
            yield _differs(PREMATURE_SUCCESS, None, told)


def _left_behind(held: HandleEnd) -> Iterator[Difference]:
    """A generation whose handle has another one since: it was released, and nothing is left of it."""
    gone = attrs.evolve(
        held, phase=RELEASED, committed_tokens=0, end_generation=held.handle_generation + 1
    )
    if held != gone:
        yield _differs(STATE_DIFFERS, held, gone)


def _compare(held: HandleEnd, told: HandleEnd) -> Iterator[Difference]:
    if held == told:
        return
    there, here = _progress(held), _progress(told)
    code = STATE_DIFFERS
    if here != there:
        code = PREMATURE_SUCCESS if here > there else EVENT_LOST
    yield _differs(code, held, told)


def _progress(end: HandleEnd) -> tuple[int, int, int]:
    return end.end_generation, end.snapshot, _RANK[end.phase]


def _differs(code: str, held: HandleEnd | None, told: HandleEnd | None) -> Difference:
    return Difference(code, _target(held or told), "handles", _words(held), _words(told))


def _target(end: HandleEnd | None) -> str:
    return f"{end.request_id}, generation {end.handle_generation}" if end is not None else ""


def _words(end: HandleEnd | None) -> str:
    """Where a request is, in words; all that is compared is in them."""
    if end is None:
        return "nothing"
    return (
        f"{end.phase} at snapshot {end.snapshot} with {end.committed_tokens} tokens, "
        f"generation {end.handle_generation}, that of its handle now {end.end_generation}"
    )
