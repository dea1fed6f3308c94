"""Tests of streams: order, events, holding, failures; those of CUDA run where there is a device."""

import threading

import pytest
import torch

from kvspec.models.decode.completion import CURRENT_QUEUE, Deferral, record, run_now, settle
from kvspec.models.decode.errors import DecodeError
from kvspec.models.decode.streams import CudaStream, open_stream, submit_on
from kvspec.models.decode.workers import WorkerStream


@pytest.fixture
def stream():
    """A worker."""
    with WorkerStream("writer") as opened:
        yield opened


@pytest.fixture
def other():
    """Another worker."""
    with WorkerStream("reader") as opened:
        yield opened


def workers():
    """Threads of streams that are alive."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("kvspec ")]


def test_work_is_done_in_order_on_another_thread(stream):
    """A thousand pieces are done in the order in which they were handed in, none of them here."""
    done = []
    for number in range(1000):
        stream.launch(lambda number=number: done.append((number, threading.get_ident())))
    stream.synchronize()
    assert [number for number, _ in done] == list(range(1000))
    assert len({thread for _, thread in done} | {threading.get_ident()}) == 2


def test_an_event_fires_when_the_queue_reaches_it(stream, cpu):
    """Held, nothing is done; let go one by one, each event fires with its own piece and no sooner."""
    done = []
    stream.hold()
    submit = submit_on(stream)
    events = [submit(lambda number=number: done.append(number), cpu) for number in range(3)]
    whole = stream.record()
    assert [event.is_complete() for event in events] == [False] * 3
    for number in range(3):
        stream.release(1)
        events[number].wait()
        assert done == list(range(number + 1))
        assert [event.is_complete() for event in events] == [n <= number for n in range(3)]
    assert whole.is_complete()
    assert not any(event.in_order for event in events)


def test_a_stream_held_until_waited_for_does_what_is_waited_for_and_no_more(stream):
    """Waiting for the second of three pieces lets two of them go."""
    done = []
    stream.hold(until_waited=True)
    events = [stream.launch(lambda number=number: done.append(number)) for number in range(3)]
    events[1].wait()
    assert done == [0, 1]
    assert not events[2].is_complete()
    stream.synchronize()
    assert done == [0, 1, 2]


def test_one_stream_waits_for_another_without_blocking_the_host(stream, other):
    """Work behind an event starts when the event fires; handing it in returns at once."""
    done = []
    stream.hold()
    event = stream.launch(lambda: done.append("written"))
    other.wait_event(event)
    behind = other.launch(lambda: done.append("read"))
    assert (done, behind.is_complete()) == ([], False)
    stream.release()
    behind.wait()
    assert done == ["written", "read"]


def test_a_stream_waits_for_any_completion(stream, cpu):
    """A write that a test holds back can be waited for as well."""
    done = []
    late = Deferral()
    stream.wait_event(late(lambda: done.append("landed"), cpu))
    behind = stream.launch(lambda: done.append("read"))
    assert not behind.is_complete()
    late.fire_all()
    behind.wait()
    assert done == ["landed", "read"]


def test_a_current_stream_takes_writes_and_tells_of_them(stream, cpu):
    """Within the context a write is handed to the stream; outside it is done at once."""
    done = []
    stream.hold()
    with stream.current():
        event = run_now(lambda: done.append("staged"), cpu)
        landed = record(cpu)
    assert (done, event.is_complete(), landed.is_complete()) == ([], False, False)
    assert record(cpu).is_complete()
    run_now(lambda: done.append("at once"), cpu)
    stream.release()
    with stream.current():
        settle(cpu)
    assert done == ["at once", "staged"]
    assert CURRENT_QUEUE.get() is None


def test_following_puts_the_current_stream_behind(stream, other):
    """An event that is followed under another stream holds that one back, and no one else."""
    done = []
    stream.hold()
    event = stream.launch(lambda: done.append("written"))
    event.follow()
    with other.current():
        event.follow()
    with stream.current():
        event.follow()
    behind = other.launch(lambda: done.append("read"))
    assert not behind.is_complete()
    stream.release()
    behind.wait()
    assert done == ["written", "read"]


def test_work_launched_under_a_stream_comes_behind_its_work(stream, other):
    """What a thread hands to another stream waits for what its current stream was given before."""
    done = []
    stream.hold()
    with stream.current():
        stream.launch(lambda: done.append("first"))
        behind = other.launch(lambda: done.append("second"))
    assert not behind.is_complete()
    stream.release()
    behind.wait()
    assert done == ["first", "second"]


def test_work_of_the_stream_itself_is_done_at_once(stream, cpu):
    """A whole append may run on a stream: what it writes, records and waits for is in order there."""
    done = []

    def call():
        event = run_now(lambda: done.append("row"), cpu)
        done.append(event.is_complete())
        settle(cpu)
        done.append("published")

    stream.launch(call).wait()
    assert done == ["row", True, "published"]


def test_a_wait_for_later_work_of_the_same_stream_is_refused(stream):
    """It would never end; the refusal is told to whoever waits for the work."""
    stream.hold()
    marks = []
    first = stream.launch(lambda: [mark.wait() for mark in marks])
    marks.append(stream.launch(lambda: None))
    stream.release()
    with pytest.raises(DecodeError, match="SelfWaitError: SELF_WAIT in work on writer") as refusal:
        first.wait()
    assert refusal.value.code == "STREAM_FAILED"
    stream.close()


def test_work_that_raises_is_told_and_nothing_behind_it_is_done(stream):
    """Its event never fires; waiting, synchronizing and handing in say what was raised."""
    done = []
    stream.hold()
    before = stream.launch(lambda: done.append("before"))
    lost = stream.launch(lambda: 1 / 0)
    behind = stream.launch(lambda: done.append("behind"))
    stream.release()
    for use in (lost.wait, behind.wait, stream.synchronize, lambda: stream.launch(print)):
        with pytest.raises(DecodeError, match=r"writer: found work that raised ZeroDiv") as refusal:
            use()
        assert refusal.value.code == "STREAM_FAILED"
        assert isinstance(refusal.value.__cause__, ZeroDivisionError)
    assert done == ["before"]
    assert [event.is_complete() for event in (before, lost, behind)] == [True, False, False]
    before.wait()
    stream.close()


def test_closing_drops_work_that_has_not_started():
    """A closed stream refuses work, its thread has ended, and what was dropped is told to who waits."""
    done = []
    stream = WorkerStream("closed")
    stream.hold()
    dropped = stream.launch(lambda: done.append("dropped"))
    stream.close()
    stream.close()
    for use in (dropped.wait, lambda: stream.launch(print)):
        with pytest.raises(DecodeError, match="a stream that was closed") as refusal:
            use()
        assert refusal.value.code == "STREAM_CLOSED"
    assert done == []
    assert not dropped.is_complete()
    assert "kvspec closed" not in [thread.name for thread in workers()]


def test_closing_waits_for_work_in_progress():
    """What was begun ends, and whoever waits for it is told so; what comes behind it is dropped."""
    stream, begun, go, told = WorkerStream("busy"), threading.Event(), threading.Event(), []

    def work():
        begun.set()
        go.wait()

    first, second = stream.launch(work), stream.launch(lambda: told.append("second"))
    begun.wait()
    closing = threading.Thread(target=stream.close)
    waiting = threading.Thread(target=lambda: told.append(first.wait()))
    closing.start()
    while not stream.is_closed:
        pass
    waiting.start()
    go.set()
    closing.join()
    waiting.join()
    assert told == [None]
    assert (first.is_complete(), second.is_complete()) == (True, False)


@pytest.mark.parametrize("of", ["worker", "deferral"])
def test_closing_ends_a_wait_that_nothing_would_end(stream, cpu, of):
    """A stream that waits for one that is held, or for a write that never lands, can be closed."""
    waiting = WorkerStream("waiting")
    stream.hold()
    event = stream.launch(lambda: None) if of == "worker" else Deferral()(lambda: None, cpu)
    waiting.wait_event(event)
    behind = waiting.record()
    waiting.close()
    assert not behind.is_complete()
    assert "kvspec waiting" not in [thread.name for thread in workers()]


def test_a_context_lets_all_work_end_unless_its_block_raises():
    """A held stream is let go at the end; after an error its work is dropped."""
    done = []
    with WorkerStream() as stream:
        stream.hold()
        stream.launch(lambda: done.append("kept"))

    def lost():
        with WorkerStream() as stream:
            stream.hold()
            stream.launch(lambda: done.append("lost"))
            raise KeyError

    with pytest.raises(KeyError):
        lost()
    assert done == ["kept"]


def test_what_work_held_is_let_go_before_its_event_fires(stream):
    """After an event nothing on the stream keeps a snapshot alive."""
    import weakref

    class Held:
        pass

    held = Held()
    known = weakref.ref(held)
    stream.hold()
    event = stream.launch(lambda held=held: None)
    del held
    assert known() is not None
    stream.release()
    event.wait()
    assert known() is None


def test_writes_are_dealt_out_in_turn(stream, other, cpu):
    """Two streams get every second write each, so that one may be late without the other."""
    stream.hold()
    submit = submit_on(stream, other)
    events = [submit(lambda: None, cpu) for _ in range(4)]
    other.synchronize()
    assert [event.is_complete() for event in events] == [False, True, False, True]
    stream.release()
    stream.synchronize()
    assert all(event.is_complete() for event in events)


def test_streams_are_opened_where_rows_are(stream):
    """The CPU gets a worker; other devices than CUDA have none, nor do writes elsewhere."""
    with open_stream(torch.device("cpu")) as opened:
        assert isinstance(opened, WorkerStream)
    uses = [
        (lambda: open_stream(torch.device("meta")), "found the device meta"),
        (lambda: submit_on(stream)(print, torch.device("meta")), "found a stream on cpu"),
        (submit_on, "found no stream"),
    ]
    for use, said in uses:
        with pytest.raises(DecodeError, match=said) as refusal:
            use()
        assert refusal.value.code == "BAD_CONFIG"


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_stream_does_work_in_order_and_tells_of_it():
    """A held stream's event has not fired, a follower comes behind it, and a closed one refuses."""
    with open_stream(torch.device("cuda")) as stream, open_stream(torch.device("cuda")) as other:
        assert isinstance(stream, CudaStream)
        assert isinstance(other, CudaStream)
        rows = torch.zeros(4, device=stream.device)
        seen = torch.zeros(4, device=stream.device)
        torch.cuda.synchronize()
        stream.hold()
        event = stream.launch(lambda: rows.fill_(1))
        assert not event.is_complete()
        other.wait_event(event)
        behind = other.launch(lambda: seen.copy_(rows))
        assert not behind.is_complete()
        behind.wait()
        assert event.is_complete()
        assert seen.tolist() == [1.0] * 4
    with pytest.raises(DecodeError) as refusal:
        stream.launch(print)
    assert refusal.value.code == "STREAM_CLOSED"
