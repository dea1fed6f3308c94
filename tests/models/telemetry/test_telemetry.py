"""Telemetry: numbers are given in the order of telling, whoever tells, and before anything can be lost."""

import threading

import pytest

from kvspec.models.telemetry.records import Record
from kvspec.models.telemetry.telemetry import Telemetry
from kvspec.spec.documents.event import COMPONENTS

WHOSE = {"trace_id": "t", "request_id": "r", "handle_generation": 0, "caused_by_event_id": None}
OUTPUT = {"base_snapshot": 1, "output_index": 0, "token_id": 7}
SEEN = {"tier": "cpu", "resident_payload_bytes": 64}


class Kept:
    """An exporter that keeps events."""

    name = "kept"

    def __init__(self) -> None:
        self.events: list[Record] = []

    def export(self, item: object) -> None:
        """Keep an event; headers and closings are not of interest."""
        if isinstance(item, Record):
            self.events.append(item)

    def close(self) -> None:
        """Nothing to do."""


def test_sources_count_apart_and_by_their_components() -> None:
    """The cache and its observers each count from 0, under names that no run shares."""
    kept = Kept()
    telemetry = Telemetry([kept], engine="e")
    for _ in range(2):
        telemetry.begin("a" * 64, 64)
        first = telemetry.tell("output_emit", **WHOSE, **OUTPUT)
        telemetry.tell("residency_observe", **{**WHOSE, "caused_by_event_id": first}, **SEEN)
        telemetry.tell("output_emit", **WHOSE, **OUTPUT)
    telemetry.close()
    places = [(event.instance, event.sequence) for event in kept.events]
    assert places == [
        ("e.1.cache", 0), ("e.1.residency", 0), ("e.1.cache", 1),
        ("e.2.cache", 0), ("e.2.residency", 0), ("e.2.cache", 1),
    ]  # fmt: skip
    assert {event.component for event in kept.events} < set(COMPONENTS)


def test_threads_tell_in_the_order_of_their_numbers() -> None:
    """However many tell at once, events arrive as numbered, and the clock never goes back."""
    kept = Kept()
    telemetry = Telemetry([kept], capacity=100_000)
    telemetry.begin("a" * 64, 64)

    def tell() -> None:
        for _ in range(500):
            telemetry.tell("output_emit", **WHOSE, **OUTPUT)

    threads = [threading.Thread(target=tell) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    telemetry.close()
    assert [event.sequence for event in kept.events] == list(range(2000))
    clocks = [event.monotonic_ns for event in kept.events]
    assert clocks == sorted(clocks)


def test_a_dropped_event_has_its_number_all_the_same() -> None:
    """What is told after the end is dropped and counted, and leaves its number unused by others."""
    telemetry = Telemetry([Kept()], engine="e")
    telemetry.begin("a" * 64, 64)
    telemetry.close()
    ids = [telemetry.tell("output_emit", **WHOSE, **OUTPUT) for _ in range(2)]
    assert ids == ["e.1.cache:0", "e.1.cache:1"]
    assert telemetry.channel.dropped == {"output_emit": 2}


def test_a_trace_id_is_32_hexadecimal_digits_and_of_one_request() -> None:
    """As W3C trace context has it; equal names at another time have another."""
    times = iter(range(10))
    telemetry = Telemetry([], wall=lambda: next(times))
    first, second = telemetry.trace_id("r"), telemetry.trace_id("r")
    assert first != second
    assert len(first) == 32
    int(first, 16)
    telemetry.close()


def test_an_unknown_fault_is_refused() -> None:
    """Before any thread is started."""
    before = threading.active_count()
    with pytest.raises(ValueError, match="expected names out of"):
        Telemetry([], faults=("no-such-fault",))
    assert threading.active_count() == before
