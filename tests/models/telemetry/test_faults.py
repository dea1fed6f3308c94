"""Faults on the way to the log: what arrives in place of what was told."""

import pytest

from kvspec.models.telemetry.faults import TELEMETRY_FAULTS, Delivery, known_telemetry_faults
from kvspec.models.telemetry.records import Record, Source


def told(count: int = 4) -> list[Record]:
    """Publications of one source."""
    source = Source("s", "cache")
    fields = {"request_id": "r", "committed_tokens": 3}
    return [source.record("append_publish", 10**13 + n, n, fields) for n in range(count)]


def arrived(fault: str | None) -> list[Record]:
    """What arrives of them."""
    delivery = Delivery(frozenset() if fault is None else frozenset({fault}))
    return [arriving for record in told() for arriving in delivery.of(record)]


@pytest.mark.parametrize(
    ("fault", "numbers"),
    [
        (None, [0, 1, 2, 3]),
        ("lose-event", [0, 2, 3]),
        ("lose-tail", [0]),
        ("duplicate-event", [0, 1, 1, 2, 3]),
        ("forge-event", [0, 1, 1, 2, 3]),
        ("reorder-events", [0, 2, 1, 3]),
        ("clock-back", [0, 1, 2, 3]),
    ],
)
def test_the_second_publication_is_hit(fault: str | None, numbers: list[int]) -> None:
    """The fault hits one publication, and those before and after it arrive as they are."""
    assert [record.sequence for record in arrived(fault)] == numbers


def test_a_duplicate_is_the_same_and_a_forgery_is_not() -> None:
    """Both come under the id of the first; only the forgery says otherwise."""
    same, forged = arrived("duplicate-event"), arrived("forge-event")
    assert same[1] == same[2]
    assert forged[1].event_id == forged[2].event_id
    assert forged[2].fields["committed_tokens"] == forged[1].fields["committed_tokens"] + 1


def test_a_clock_goes_back_for_one_event() -> None:
    """The event after it has a time as before."""
    clocks = [record.monotonic_ns for record in arrived("clock-back")]
    assert clocks[1] < clocks[0] < clocks[2] < clocks[3]


def test_an_unknown_fault_is_refused_with_those_there_are() -> None:
    """The error lists the names."""
    assert known_telemetry_faults(tuple(TELEMETRY_FAULTS)) == TELEMETRY_FAULTS.keys()
    with pytest.raises(ValueError, match="lose-event"):
        known_telemetry_faults(("lose-everything",))
