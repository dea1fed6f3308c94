"""What the backend tells: after the step, of every step, and nothing that could reach the cache."""

import io
import json

import pytest

from kvspec.models.concrete import Event
from kvspec.models.decode import LAYOUT_KINDS, DecodeBackend
from kvspec.models.decode.recording import instance_for
from kvspec.models.telemetry.audit_log import AuditLog
from kvspec.models.telemetry.faults import CrashError
from kvspec.models.telemetry.telemetry import Telemetry


class Teller:
    """A backend on the instance of recordings, with a log; and how it is asked."""

    def __init__(self, layout: str = "dynamic", faults: tuple[str, ...] = (), metrics=None) -> None:
        self.stream = io.StringIO()
        self.telemetry = Telemetry([AuditLog(self.stream)], metrics, faults=faults)
        self.backend = DecodeBackend(layout, device="cpu", telemetry=self.telemetry)
        self.backend.reset(instance_for(4))

    def do(self, action: str, **names: object) -> str | None:
        """Perform an event; the code if it was refused."""
        return self.backend.perform(Event(action, tuple(names.items()))).code

    def start(self, x: int = 0, start: int = 0, count: int = 1) -> None:
        """Begin an append to handle 0 and stage all of it."""
        assert self.do("begin", x=x, h=0, k=0, a=0, p=start, n=count) is None
        for layer in range(2):
            for place in range(start, start + count):
                self.do("stage_k", x=x, l=layer, p=place)
                self.do("stage_v", x=x, l=layer, p=place)
        assert self.do("prepare", x=x) is None

    def append(self, start: int = 0, count: int = 1) -> None:
        """A whole append."""
        self.start(0, start, count)
        assert self.do("publish", x=0) is None
        assert self.do("forget", x=0) is None

    def told(self, *types: str) -> list[dict]:
        """The events of these types so far, or of the cache itself."""
        self.telemetry.flush()
        assert not self.telemetry.errors, self.telemetry.first_error
        events = [json.loads(line) for line in self.stream.getvalue().splitlines()[1:]]
        return [
            event
            for event in events
            if (event["event_type"] in types if types else event["source_component"] == "cache")
        ]


@pytest.fixture
def teller():
    """A backend with a request on handle 0, closed at the end."""
    made = Teller()
    made.do("allocate", h=0, b=0, a=0)
    yield made
    made.telemetry.close()


@pytest.fixture(params=[(), ("emit-before-publish",)], ids=["sound", "faulty"])
def order(request, monkeypatch):
    """What readers saw when a publication was told, and what was told, with and without the fault."""
    made, seen = Teller(faults=request.param), []
    tell = made.telemetry.tell

    def watched(event_type, **fields):
        if event_type == "append_publish":
            length = len(made.backend._tables.slots[0].entry.tokens)
            seen.append((length, fields["committed_tokens"]))
        return tell(event_type, **fields)

    monkeypatch.setattr(made.telemetry, "tell", watched)
    made.do("allocate", h=0, b=0, a=0)
    made.append(count=3)
    yield bool(request.param), seen
    made.telemetry.close()


def test_a_publication_is_told_when_readers_see_it_and_not_before(order) -> None:
    """At the event the rows are visible; with the fault they are not, so this test can fail."""
    is_faulty, seen = order
    assert seen == [(0 if is_faulty else 3, 3)]


def test_the_events_of_a_life(teller: Teller) -> None:
    """Allocation, append, output, truncation, finish and release, each with its snapshots and cause."""
    teller.append(count=2)
    token = teller.backend.emit(0)
    teller.do("truncate", h=0, n=1)
    teller.do("finish", h=0)
    teller.do("release", h=0)
    told = teller.told()
    kinds = [event["event_type"] for event in told]
    assert kinds == [
        "request_allocate", "append_start", "append_publish", "output_emit", "truncate", "finish",
        "release",
    ]  # fmt: skip
    assert [event["local_sequence"] for event in told] == list(range(7))
    pairs = [(event.get("base_snapshot"), event.get("result_snapshot")) for event in told]
    assert pairs == [(None, 0), (0, None), (0, 1), (1, None), (1, 2), (2, 2), (2, 3)]
    assert [event.get("committed_tokens") for event in told] == [0, None, 2, None, 1, 1, 0]
    assert told[3]["token_id"] == token
    assert told[6]["result_generation"] == 1
    assert {event["handle_generation"] for event in told} == {0}
    assert len({(event["request_id"], event["trace_id"]) for event in told}) == 1
    places = {event["event_id"]: place for place, event in enumerate(told)}
    causes = [places.get(event.get("caused_by_event_id")) for event in told]
    assert causes == [None, None, 1, 2, 3, None, 5]


def test_an_append_that_cannot_be_prepared_fails_and_is_tried_again(teller: Teller) -> None:
    """The failure has the code, names no new snapshot, and the next append has the same base."""
    teller.do("begin", x=0, h=0, k=0, a=0, p=0, n=1)
    assert teller.do("prepare", x=0) == "K_INCOMPLETE"
    teller.do("cancel_txn", x=0)
    teller.start(x=1)
    teller.do("publish", x=1)
    start, failure, retry, publish = teller.told()[1:]
    assert (failure["event_type"], failure["outcome"]) == ("failure", "failure")
    assert failure["reason"] == "K_INCOMPLETE"
    assert failure["caused_by_event_id"] == start["event_id"]
    assert not failure.keys() & {"result_snapshot", "committed_tokens"}
    assert retry["base_snapshot"] == start["base_snapshot"] == failure["base_snapshot"] == 0
    assert retry["operation_id"] == publish["operation_id"] != start["operation_id"]


def test_an_append_that_was_given_up_is_cancelled(teller: Teller) -> None:
    """Without a refusal before it, an abort is no failure."""
    teller.start()
    teller.do("cancel_txn", x=0)
    (failure,) = teller.told("failure")
    assert failure["outcome"] == "cancelled"


def test_an_append_that_is_too_late_is_a_conflict(teller: Teller) -> None:
    """Its base is that of its begin, and the code is that of the refusal."""
    teller.start(x=0)
    teller.start(x=1)
    teller.do("publish", x=0)
    assert teller.do("publish", x=1) == "STALE_SNAPSHOT"
    (failure,) = teller.told("failure")
    assert (failure["outcome"], failure["reason"]) == ("conflict", "STALE_SNAPSHOT")
    assert failure["base_snapshot"] == 0
    assert teller.do("publish", x=1) == "NOT_PREPARED"
    assert len(teller.told("failure")) == 1


def test_an_append_after_a_conflict_does_not_follow_it(teller: Teller) -> None:
    """The next append has another base than the late one, so that it is not its retry."""
    test_an_append_that_is_too_late_is_a_conflict(teller)
    teller.do("forget", x=0)
    teller.start(x=0, start=1)
    failure, start = teller.told()[-2:]
    assert (failure["base_snapshot"], start["base_snapshot"]) == (0, 1)
    assert "caused_by_event_id" not in start


def test_cancelling_a_request_ends_its_appends_first(teller: Teller) -> None:
    """Each open append is told as cancelled, and then the request."""
    teller.start(x=0)
    teller.start(x=1)
    teller.do("cancel_request", h=0)
    told = teller.told()[3:]
    assert [event["event_type"] for event in told] == ["failure", "failure", "finish"]
    assert {event["outcome"] for event in told} == {"cancelled"}


def test_a_late_publication_to_a_released_handle_is_told_of_its_old_generation(
    teller: Teller,
) -> None:
    """The generation is the one that the append began on, though the handle has another by then."""
    teller.start()
    teller.do("finish", h=0)
    teller.do("release", h=0)
    assert teller.do("publish", x=0) == "STALE_GENERATION"
    (failure,) = teller.told("failure")
    assert (failure["handle_generation"], failure["reason"]) == (0, "STALE_GENERATION")


def test_a_fork_is_told_for_each_child(teller: Teller) -> None:
    """One event of the parent for each child, in one trace; the child's own events name the child."""
    teller.append(count=2)
    teller.do("fork", p=0, children=(False, True, True, *[False] * 5), n=2)
    teller.do("truncate", h=1, n=1)
    first, second, cut = teller.told()[-3:]
    assert first["request_id"] == second["request_id"]
    assert (first["child_tokens"], first["child_snapshot"], first["child_generation"]) == (2, 0, 0)
    assert cut["request_id"] == first["child_request_id"] != second["child_request_id"]
    assert cut["trace_id"] == first["trace_id"]


@pytest.mark.parametrize("layout", LAYOUT_KINDS)
def test_observations_are_of_the_tensors(layout: str) -> None:
    """Slots and bytes are those that the layout has, from sources of their own, after the event."""
    made = Teller(layout)
    made.do("allocate", h=0, b=0, a=0)
    made.append(count=3)
    slot, shape = made.backend._tables.slots[0], made.backend._tables.shape
    allocator, residency = (
        made.told("allocator_observe")[-1],
        made.told("residency_observe")[-1],
    )
    assert allocator["allocated_slots"] == slot.layout.reserved_rows
    assert allocator["used_slots"] == 3
    keys = [part for layer in range(2) for part in slot.entry.rows.read(layer)]
    assert residency["resident_payload_bytes"] == sum(
        part.numel() * part.element_size() for part in keys
    )
    assert residency["resident_payload_bytes"] == 3 * shape.bytes_per_token
    assert residency["tier"] == "cpu"
    (publish,) = made.told("append_publish")
    assert {allocator["caused_by_event_id"], residency["caused_by_event_id"]} == {
        publish["event_id"]
    }
    sources = {event["source_instance"] for event in (publish, allocator, residency)}
    assert len(sources) == 3
    made.do("finish", h=0)
    made.do("release", h=0)
    gone = made.told("allocator_observe")[-1]
    assert [gone[name] for name in ("allocated_blocks", "allocated_slots", "used_slots")] == [0] * 3
    assert made.told("residency_observe")[-1]["resident_payload_bytes"] == 0
    made.telemetry.close()


def test_a_refused_call_that_began_nothing_is_not_in_the_log(teller: Teller) -> None:
    """It is counted, as an attempt with its outcome, and no event tells it."""
    assert teller.do("begin", x=0, h=0, k=0, a=0, p=1, n=1) == "POSITION_MISMATCH"
    assert teller.do("release", h=0) == "NOT_TERMINAL"
    assert len(teller.told()) == 1


def test_whatever_goes_wrong_in_telling_does_not_reach_the_cache(
    teller: Teller, monkeypatch
) -> None:
    """The step is taken and answered; the error is counted and kept."""

    def broken(event_type, **fields):
        raise RuntimeError("no")

    monkeypatch.setattr(teller.telemetry, "tell", broken)
    assert teller.do("begin", x=0, h=0, k=0, a=0, p=0, n=1) is None
    assert teller.backend.emit(0) >= 0
    assert teller.telemetry.errors == 2
    assert teller.telemetry.first_error == "RuntimeError: no"


def test_a_process_that_dies_between_event_and_publication_leaves_the_old_snapshot() -> None:
    """The log names a snapshot that no reader sees: the fault does what it says."""
    made = Teller(faults=("emit-before-publish",))
    made.do("allocate", h=0, b=0, a=0)
    made.append()
    made.start(start=1)
    with pytest.raises(CrashError):
        made.do("publish", x=0)
    assert [event["result_snapshot"] for event in made.told("append_publish")] == [1, 2]
    (end,) = made.backend.closing().handles
    assert (end.snapshot, end.committed_tokens) == (1, 1)
    made.telemetry.close()


def test_without_telemetry_there_is_no_instrument() -> None:
    """Nothing is told, nothing is kept, and the closing lists nothing."""
    backend = DecodeBackend(device="cpu")
    backend.reset(instance_for(4))
    assert backend.perform(Event("allocate", (("h", 0), ("b", 0), ("a", 0)))).accepted
    assert backend._instrument is None
    assert backend.closing().handles == ()


def test_a_client_names_the_tokens_of_its_append(teller: Teller) -> None:
    """They are used once, if there are as many as the append has rows."""
    teller.backend.feed(0, (5, 6))
    teller.append(count=2)
    entry = teller.backend._tables.slots[0].entry
    assert entry.tokens == (5, 6)
    teller.backend.feed(0, (7, 8, 9))
    teller.append(start=2)
    assert teller.backend._tables.slots[0].entry.tokens[:2] == (5, 6)
    assert not teller.backend._tables.fed


def test_what_is_put_out_is_what_an_uncached_run_puts_out(teller: Teller) -> None:
    """Greedy decoding over cached rows gives the tokens of recomputation."""
    teller.backend.feed(0, (3, 1, 4))
    teller.append(count=3)
    for place in range(3, 6):
        token = teller.backend.emit(0)
        assert token == int(teller.backend.uncached_logits(0).argmax())
        teller.backend.feed(0, (token,))
        teller.append(start=place)
