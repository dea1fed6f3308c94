"""Reconciliation: which of log and cache is ahead, on small logs made by hand."""

from collections.abc import Callable

import attrs
import pytest

from kvspec.properties.audit import Acceptor
from kvspec.properties.audit.acceptor import Limits
from kvspec.properties.audit.reconcile import RECONCILED, reconcile
from kvspec.spec.documents.closing import Closing, SourceEnd
from kvspec.spec.documents.event import Event, make_event
from kvspec.spec.documents.log import Conversion, HandleEnd, LogHeader

HEADER = LogHeader(
    schema_version=1,
    producer_revision="test",
    cache_abi_sha256="0" * 64,
    source=None,
    completeness="complete",
    conversion=Conversion(token_bytes=64, used_slots="committed", resident_bytes="committed"),
    metric_families=(),
)


def log(*requests: str, published: bool = True, ended: bool = False) -> list[Event]:
    """Requests of two tokens, one after the other; some of them released."""
    found: list[Event] = []

    def tell(name: str, kind: str, **fields: object) -> None:
        number = len(found)
        found.append(
            make_event(
                event_id=f"e{number}", trace_id=name, source_instance="s", source_component="cache",
                local_sequence=number, monotonic_ns=number, request_id=name, handle_generation=0,
                observed_wall_time="2026-01-31T12:00:00Z", event_type=kind, **fields,
            )
        )  # fmt: skip

    for name in requests:
        done = {"outcome": "success"}
        tell(name, "request_allocate", result_snapshot=0, committed_tokens=0, **done)
        append = {"operation_id": f"{name}/1", "base_snapshot": 0}
        tell(name, "append_start", interval_start=0, interval_end=2, **append)
        if published:
            tell(name, "append_publish", result_snapshot=1, committed_tokens=2, **append, **done)
        if ended:
            same = {"base_snapshot": 1, "result_snapshot": 1, "committed_tokens": 2}
            tell(name, "finish", **same, **done)
            over = {"result_snapshot": 2, "committed_tokens": 0, "result_generation": 1}
            tell(name, "release", base_snapshot=1, **over, **done)
    return found


def accepted(events: list[Event], limits: Limits | None = None) -> Acceptor:
    """An acceptor that has taken the log, and found nothing in it."""
    acceptor = Acceptor(HEADER, limits or Limits())
    for line, event in enumerate(events, 2):
        acceptor.feed(line, event)
    assert acceptor.close().findings == ()
    return acceptor


READY = HandleEnd(
    request_id="a", handle_generation=0, end_generation=0,
    phase="DECODE_READY", snapshot=1, committed_tokens=2,
)  # fmt: skip
GONE = attrs.evolve(READY, phase="RELEASED", snapshot=2, committed_tokens=0, end_generation=1)
Change = Callable[[HandleEnd], HandleEnd]


def closing(acceptor: Acceptor, *ends: HandleEnd, is_all: bool = True) -> Closing:
    """A closing of which the sources have told what is in the log."""
    sources = tuple(
        SourceEnd(source_instance=name, next_sequence=source.next)
        for name, source in acceptor.sources.items()
    )
    return Closing(is_all=is_all, sources=sources, handles=ends)


def codes(acceptor: Acceptor, *ends: HandleEnd, is_all: bool = True) -> list[str]:
    """The codes of the differences."""
    return [each.code for each in reconcile(acceptor, closing(acceptor, *ends, is_all=is_all))]


@pytest.mark.parametrize("events", [log("a"), log("a", ended=True)], ids=["live", "released"])
def test_log_and_cache_agree(events: list[Event]) -> None:
    """The same end gives no difference."""
    assert codes(accepted(events), GONE if events[-1].event_type == "release" else READY) == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"snapshot": 0, "committed_tokens": 0}, "PREMATURE_SUCCESS"),
        ({"snapshot": 2, "committed_tokens": 3}, "EVENT_LOST"),
        ({"phase": "FINISHED"}, "EVENT_LOST"),
        ({"phase": "VACANT", "snapshot": 0, "committed_tokens": 0}, "PREMATURE_SUCCESS"),
        ({"phase": "RELEASED", "snapshot": 2, "end_generation": 1}, "EVENT_LOST"),
        ({"committed_tokens": 3}, "STATE_DIFFERS"),
    ],
)
def test_a_live_request_is_ahead_or_behind(changes: dict[str, object], code: str) -> None:
    """A log that is ahead told success too early; one that is behind lost an event."""
    assert codes(accepted(log("a")), attrs.evolve(READY, **changes)) == [code]


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (READY, "PREMATURE_SUCCESS"),
        (attrs.evolve(READY, phase="FINISHED"), "PREMATURE_SUCCESS"),
        (attrs.evolve(GONE, end_generation=2), "EVENT_LOST"),
    ],
)
def test_a_release_that_the_cache_does_not_know(end: HandleEnd, code: str) -> None:
    """A release that was told and not taken is success told too early."""
    assert codes(accepted(log("a", ended=True)), end) == [code]


def test_a_request_that_only_one_of_them_knows() -> None:
    """One that the log never tells was lost; one that the cache never had was told too early."""
    stranger = attrs.evolve(READY, request_id="b")
    assert codes(accepted(log("a")), READY, stranger) == ["EVENT_LOST"]
    assert codes(accepted(log("a", "b")), READY) == ["PREMATURE_SUCCESS"]


def test_a_closing_that_does_not_list_all_judges_what_it_lists() -> None:
    """A request that is not listed may have been of a run before."""
    assert codes(accepted(log("a", "b")), READY, is_all=False) == []
    behind = attrs.evolve(READY, snapshot=2)
    assert codes(accepted(log("a", "b")), behind, is_all=False) == ["EVENT_LOST"]


def test_a_released_request_that_is_forgotten_is_not_judged() -> None:
    """Memory is bounded: of a request released long ago nobody can say that its events were lost."""
    names = [f"r{number}" for number in range(9)]
    acceptor = accepted(log(*names, ended=True), Limits(tombstones=2))
    listed = [attrs.evolve(GONE, request_id=name) for name in names]
    assert codes(acceptor, *listed) == []


def test_a_difference_tells_both_sides_and_what_to_do() -> None:
    """What the cache has, what the log tells, and where to look."""
    acceptor = accepted(log("a"))
    held = attrs.evolve(READY, snapshot=0, committed_tokens=0)
    (difference,) = reconcile(acceptor, closing(acceptor, held))
    text = str(difference)
    assert "snapshot 0 with 0 tokens" in text
    assert "snapshot 1 with 2 tokens" in text
    assert RECONCILED["PREMATURE_SUCCESS"].advice in text


SOURCES = (SourceEnd(source_instance="s", next_sequence=3),)


@pytest.mark.parametrize(
    ("number", "code", "lost", "words"),
    [
        (4, "EVENT_LOST", 1, "event 3 "),
        (9, "EVENT_LOST", 6, "event 3 to 8"),
        (2, "SOURCE_AHEAD", 0, "2 events"),
    ],
)
def test_the_end_of_a_source_is_compared(number: int, code: str, lost: int, words: str) -> None:
    """Events that change nothing in sight are missed by their numbers; those never told are told as that."""
    ends = (attrs.evolve(SOURCES[0], next_sequence=number),)
    held = Closing(is_all=True, sources=ends, handles=(READY,))
    (found,) = reconcile(accepted(log("a")), held)
    assert (found.code, found.lost, found.target) == (code, lost, "source s")
    assert words in found.cache


@pytest.mark.parametrize(
    ("sources", "code"),
    [
        ((), "SOURCE_UNLISTED"),
        ((*SOURCES, SourceEnd(source_instance="t", next_sequence=2)), "EVENT_LOST"),
    ],
)
def test_a_source_that_only_one_of_them_knows(sources: tuple[SourceEnd, ...], code: str) -> None:
    """All events of a source may be lost; of one that is not listed nobody can say whether any are."""
    held = Closing(is_all=True, sources=sources, handles=(READY,))
    assert [each.code for each in reconcile(accepted(log("a")), held)] == [code]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"snapshot": 3}, "EVENT_LOST"),
        ({"snapshot": 1}, "PREMATURE_SUCCESS"),
        ({"committed_tokens": 2}, "STATE_DIFFERS"),
        ({"handle_generation": 1}, "STATE_DIFFERS"),
        ({"end_generation": 2}, "EVENT_LOST"),
        ({"end_generation": 0}, "PREMATURE_SUCCESS"),
        ({"phase": "FINISHED"}, "PREMATURE_SUCCESS"),
    ],
)
def test_every_field_of_a_released_request_is_compared(
    changes: dict[str, object], code: str
) -> None:
    """Its tombstone has a snapshot, a generation and no rows; a difference is in the words of both."""
    acceptor = accepted(log("a", ended=True))
    (found,) = reconcile(acceptor, closing(acceptor, attrs.evolve(GONE, **changes)))
    assert found.code == code
    assert found.cache != found.log


def test_a_live_request_of_another_generation_differs() -> None:
    """The generation that its events name is compared, and told."""
    acceptor = accepted(log("a"))
    (found,) = reconcile(acceptor, closing(acceptor, attrs.evolve(READY, handle_generation=1)))
    assert (found.code, found.cache != found.log) == ("STATE_DIFFERS", True)


def test_a_released_request_that_the_cache_never_had() -> None:
    """A closing that lists all lists released ones as well."""
    acceptor = accepted(log("a", "b", ended=True))
    assert codes(acceptor, GONE) == ["PREMATURE_SUCCESS"]
    assert codes(acceptor, GONE, is_all=False) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"phase": "FINISHED"}, ["STATE_DIFFERS"]),
        ({"committed_tokens": 2}, ["STATE_DIFFERS"]),
        ({"end_generation": 2}, ["STATE_DIFFERS"]),
    ],
)
def test_an_earlier_generation_of_a_name_was_released(
    changes: dict[str, object], expected: list[str]
) -> None:
    """A name that was used again is listed once for each generation; nothing is left of the first."""
    first = log("a", ended=True)
    again = [
        attrs.evolve(
            event, event_id=f"f{n}", local_sequence=n, monotonic_ns=n, handle_generation=1,
            result_generation=2 if event.result_generation else None,
        )
        for n, event in enumerate(first, len(first))
    ]  # fmt: skip
    second = attrs.evolve(GONE, handle_generation=1, end_generation=2)
    acceptor = accepted([*first, *again])
    assert codes(acceptor, attrs.evolve(GONE, **changes), second) == expected


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"phase": "foo"}, "CLOSING_FIELD"),
        ({"request_id": ""}, "CLOSING_FIELD"),
        ({"snapshot": -1}, "CLOSING_FIELD"),
        ({"committed_tokens": -1}, "CLOSING_FIELD"),
        ({"handle_generation": -1}, "CLOSING_FIELD"),
        ({"end_generation": 2**53 + 1}, "BEYOND_BOUNDS"),
    ],
)
def test_a_field_of_a_closing_that_cannot_be_is_told_as_that(
    changes: dict[str, object], code: str
) -> None:
    """Its place and its value are told, and nothing is compared with it."""
    acceptor = accepted(log("a"))
    (found,) = reconcile(acceptor, closing(acceptor, attrs.evolve(READY, **changes)))
    (name,) = changes
    assert (found.code, found.field) == (code, f"handles/0/{name}")
    assert str(changes[name]) in found.log


@pytest.mark.parametrize(
    "ends", [(SOURCES[0], SOURCES[0]), (attrs.evolve(SOURCES[0], next_sequence=-1),)]
)
def test_a_source_is_listed_once_with_a_number(ends: tuple[SourceEnd, ...]) -> None:
    """Twice, or with a number that cannot be, it tells nothing."""
    held = Closing(is_all=True, sources=ends, handles=(READY,))
    assert [each.code for each in reconcile(accepted(log("a")), held)] == ["CLOSING_FIELD"]
