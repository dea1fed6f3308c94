"""Reconciliation: which of log and cache is ahead, on small logs made by hand."""

from collections.abc import Callable

import attrs
import pytest

from kvspec.properties.audit import Acceptor
from kvspec.properties.audit.acceptor import Limits
from kvspec.properties.audit.reconcile import RECONCILED, reconcile
from kvspec.spec.documents.closing import Closing
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


def codes(acceptor: Acceptor, *ends: HandleEnd, is_all: bool = True) -> list[str]:
    """The codes of the differences."""
    return [each.code for each in reconcile(acceptor, Closing(is_all=is_all, handles=ends))]


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
    closing = Closing(is_all=True, handles=(attrs.evolve(READY, snapshot=0, committed_tokens=0),))
    (difference,) = reconcile(accepted(log("a")), closing)
    text = str(difference)
    assert "snapshot 0 with 0 tokens" in text
    assert "snapshot 1 with 2 tokens" in text
    assert RECONCILED["PREMATURE_SUCCESS"].advice in text
