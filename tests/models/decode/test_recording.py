"""Recordings: a run in which everything happens, whatever its size, and the same for the same seed."""

import io
import json
from collections import Counter

import pytest

from kvspec.models.decode import LAYOUT_KINDS, DecodeBackend
from kvspec.models.decode.recording import Recording, UnexpectedReplyError, record
from kvspec.models.telemetry.audit_log import AuditLog
from kvspec.models.telemetry.telemetry import Telemetry
from kvspec.spec.documents.event import OUTCOMES, TYPES


def recorded(layout: str = "dynamic", **options: int) -> tuple[list[dict], Recording]:
    """The events of a recording, and what came of it."""
    stream = io.StringIO()
    telemetry = Telemetry([AuditLog(stream)])
    done = record(DecodeBackend(layout, device="cpu", telemetry=telemetry), **options)
    telemetry.close()
    assert not telemetry.errors, telemetry.first_error
    assert not telemetry.channel.failures
    return [json.loads(line) for line in stream.getvalue().splitlines()[1:-1]], done


@pytest.mark.parametrize("layout", LAYOUT_KINDS)
def test_every_type_of_event_and_every_outcome_occurs(layout: str) -> None:
    """A run of the default size leaves out nothing of the table."""
    events, _ = recorded(layout)
    assert {event["event_type"] for event in events} == TYPES.keys()
    assert {event["outcome"] for event in events if "outcome" in event} == set(OUTCOMES)


def test_requests_overlap_and_handles_are_used_again() -> None:
    """A request begins while another runs, and a later one finds a handle of a later generation."""
    events, _ = recorded(requests=14, steps=3)
    kinds = [event["event_type"] for event in events]
    assert (
        kinds.index("release")
        > [n for n, kind in enumerate(kinds) if kind == "request_allocate"][1]
    )
    assert max(event["handle_generation"] for event in events) >= 1


@pytest.mark.parametrize(("requests", "steps"), [(1, 1), (1, 2), (2, 3), (9, 2)])
def test_every_request_comes_to_its_end(requests: int, steps: int) -> None:
    """All requests and children are released, and each output is told."""
    events, done = recorded(requests=requests, steps=steps)
    kinds = Counter(event["event_type"] for event in events)
    assert kinds["request_allocate"] == requests
    assert {end.phase for end in done.closing.handles} == {"RELEASED"}
    assert len(done.closing.handles) == kinds["release"] == requests + kinds["fork"]
    assert kinds["output_emit"] == done.outputs >= requests * steps
    assert done.closing.is_all
    assert not done.crash


def test_the_same_seed_gives_the_same_run() -> None:
    """But for clocks and trace ids, the events are the same; another seed gives others."""

    def told(seed: int) -> list[dict]:
        timed = {"monotonic_ns", "observed_wall_time", "trace_id"}
        events, _ = recorded(requests=3, steps=3, seed=seed)
        return [{name: event[name] for name in event.keys() - timed} for event in events]

    assert told(1) == told(1)
    assert told(1) != told(2)


def test_an_unsound_backend_ends_the_recording() -> None:
    """A late append that is let through is no script of this run."""
    backend = DecodeBackend(device="cpu", faults=("publish.drop-guard.STALE_SNAPSHOT",))
    with pytest.raises(UnexpectedReplyError, match="STALE_SNAPSHOT"):
        record(backend)


def test_a_run_without_telemetry_is_the_same_run() -> None:
    """Telemetry changes neither the number of calls nor of outputs."""
    _, done = recorded()
    bare = record(DecodeBackend(device="cpu"))
    assert (bare.events, bare.outputs) == (done.events, done.outputs)
    assert bare.closing.handles == ()
