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
from kvspec.spec.documents.closing import Closing
from kvspec.spec.documents.log import HandleEnd

PREMATURE_SUCCESS: Final = "PREMATURE_SUCCESS"
EVENT_LOST: Final = "EVENT_LOST"
STATE_DIFFERS: Final = "STATE_DIFFERS"

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
            "the log tells everything that readers of the cache saw",
            "the log is incomplete: look at the exporter, and believe the cache",
        ),
        Rule(
            STATE_DIFFERS,
            "log and cache agree on the phase and the committed rows of a snapshot",
            "look at the cache itself: either it broke its contract, or an event tells it wrongly",
        ),
    )
}
"""What a log must keep beside the cache, and what to do where it does not."""

_RANK: Final = {"VACANT": -1, "DECODE_READY": 0, "FINISHED": 1, "CANCELLED": 1, "RELEASED": 2}


@attrs.frozen
class Difference:
    """A request of which log and cache tell another end. cache, log: in words."""

    code: str
    request_id: str
    handle_generation: int
    cache: str
    log: str

    def __str__(self) -> str:
        return (
            f"{self.code}: {self.request_id}, generation {self.handle_generation}: the cache has "
            f"{self.cache}, the log tells {self.log}: {RECONCILED[self.code].advice}"
        )


def reconcile(acceptor: Acceptor, closing: Closing) -> tuple[Difference, ...]:
    """Every request on which the log and the closing differ.

    The acceptor has taken all events. Requests that it no longer follows, since an event of theirs could
    not be explained, are left out: the audit has told that. Of released requests the generation is compared.
    """
    return tuple(_differences(acceptor, closing))


def _differences(acceptor: Acceptor, closing: Closing) -> Iterator[Difference]:
    replay = acceptor.replay
    # A name that was used again is listed once for each generation; the last one is where it stands.
    listed = {end.request_id: end for end in closing.handles}
    for name, held in listed.items():
        live = replay.live.get(name)
        if live is not None:
            if live.followed:
                yield from _compare(held, replay.end(name, live))
            continue
        generation = replay.released.get(name)
        if generation is not None:
            told = attrs.evolve(held, phase="RELEASED", end_generation=generation)
            if told != held:
                ahead = (generation, _RANK["RELEASED"]) > (held.end_generation, _RANK[held.phase])
                code = PREMATURE_SUCCESS if ahead else EVENT_LOST
                yield Difference(
                    code, name, held.handle_generation, _words(held),
                    f"released, generation {generation} next",
                )  # fmt: skip
        elif not replay.released.forgot:
            yield Difference(EVENT_LOST, name, held.handle_generation, _words(held), "nothing")
    if closing.is_all:
        for name in sorted(replay.live.keys() - listed.keys()):
            live = replay.live[name]
            if live.followed:
                told = replay.end(name, live)
                yield Difference(
                    PREMATURE_SUCCESS, name, told.handle_generation, "nothing", _words(told)
                )


def _compare(held: HandleEnd, told: HandleEnd) -> Iterator[Difference]:
    if held == told:
        return
    there, here = _progress(held), _progress(told)
    code = STATE_DIFFERS
    if here != there:
        code = PREMATURE_SUCCESS if here > there else EVENT_LOST
    yield Difference(code, held.request_id, held.handle_generation, _words(held), _words(told))


def _progress(end: HandleEnd) -> tuple[int, int, int]:
    return end.end_generation, end.snapshot, _RANK.get(end.phase, 0)


def _words(end: HandleEnd) -> str:
    return (
        f"{end.phase} at snapshot {end.snapshot} with {end.committed_tokens} tokens, "
        f"generation {end.end_generation}"
    )
