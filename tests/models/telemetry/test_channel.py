"""The channel: it never waits, counts what it drops, and keeps the trouble of exporters to itself."""

import threading
import time
from collections.abc import Iterator

import pytest

from kvspec.models.telemetry.channel import Channel, ChannelError


class Kept:
    """An exporter that keeps what it hears, and waits at its gate before each record."""

    name = "kept"

    def __init__(self) -> None:
        self.items: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.is_closed = False

    def export(self, item: str) -> None:
        """Keep a record, once the gate is open."""
        self.gate.wait()
        self.items.append(item)

    def close(self) -> None:
        """Note that nothing more will come."""
        self.is_closed = True


class Broken(Kept):
    """An exporter that raises at each record that says so, and when it is closed."""

    name = "broken"

    def export(self, item: str) -> None:
        """Keep what is good."""
        if item.startswith("bad"):
            raise OSError(f"no space for {item}")
        super().export(item)

    def close(self) -> None:
        """Fail at that too."""
        raise OSError("cannot close")


@pytest.fixture
def kept() -> Iterator[Kept]:
    """An exporter whose gate is open at the end, so that no thread is left waiting."""
    exporter = Kept()
    yield exporter
    exporter.gate.set()


def test_records_arrive_in_order(kept: Kept) -> None:
    """What was put comes out once each, in the order in which it was put."""
    channel = Channel([kept])
    sent = [str(number) for number in range(1000)]
    assert all(channel.put("event", item) for item in sent)
    channel.flush()
    assert kept.items == sent
    assert (channel.depth, channel.handed_over, sum(channel.dropped.values())) == (0, 1000, 0)
    channel.close()


def test_what_does_not_fit_is_dropped_and_counted_by_kind(kept: Kept) -> None:
    """With the writer held up, only as many records are kept as the channel has room for."""
    kept.gate.clear()
    channel = Channel([kept], capacity=3)
    taken = [channel.put("publish" if number % 2 else "start", str(number)) for number in range(9)]
    assert taken == [True] * 3 + [False] * 6
    assert channel.dropped == {"publish": 3, "start": 3}
    assert channel.depth == 3
    kept.gate.set()
    channel.close()
    assert kept.items == ["0", "1", "2"]


def test_putting_never_waits_for_the_writer(kept: Kept) -> None:
    """A writer that stands still does not hold up whoever puts, room or none."""
    kept.gate.clear()
    channel = Channel([kept], capacity=10)
    started = time.perf_counter()
    for number in range(10_000):
        channel.put("event", str(number))
    assert time.perf_counter() - started < 5
    assert channel.dropped["event"] == 9_990
    kept.gate.set()
    channel.close()


def test_many_producers_share_the_capacity(kept: Kept) -> None:
    """However many put at once, never more wait than there is room, and none is counted twice."""
    kept.gate.clear()
    channel = Channel([kept], capacity=50)

    def produce() -> None:
        for number in range(100):
            channel.put("event", str(number))

    threads = [threading.Thread(target=produce) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (channel.accepted, channel.dropped["event"]) == (50, 350)
    kept.gate.set()
    channel.close()
    assert len(kept.items) == 50


def test_an_exporter_that_raises_is_counted_and_reaches_nobody(kept: Kept) -> None:
    """The other exporters hear of every record, and this one of the next; close is no exception."""
    broken = Broken()
    channel = Channel([broken, kept])
    for item in ("good", "bad 1", "bad 2", "fine"):
        assert channel.put("event", item)
    channel.close()
    assert kept.items == ["good", "bad 1", "bad 2", "fine"]
    assert broken.items == ["good", "fine"]
    assert channel.failures == {"broken": 3}
    assert channel.first_failure == "broken: OSError: no space for bad 1"
    assert kept.is_closed


def test_flush_returns_when_everything_is_written(kept: Kept) -> None:
    """Flush waits for what was put before it, and says so where an exporter hangs."""
    channel = Channel([kept])
    kept.gate.clear()
    channel.put("event", "late")
    with pytest.raises(ChannelError, match="1 records wait"):
        channel.flush(timeout=0.05)
    kept.gate.set()
    channel.flush()
    assert kept.items == ["late"]
    channel.close()


def test_close_ends_the_thread_and_drops_what_comes_after(kept: Kept) -> None:
    """A closed channel takes nothing more, and can be flushed and closed again."""
    channel = Channel([kept])
    channel.put("event", "last")
    channel.close()
    assert kept.items == ["last"]
    assert not channel.put("event", "too late")
    assert channel.dropped == {"event": 1}
    channel.flush()
    channel.close()
    assert "kvspec-telemetry" not in [thread.name for thread in threading.enumerate()]


def test_a_channel_has_room() -> None:
    """A channel without room is refused."""
    with pytest.raises(ValueError, match="at least 1"):
        Channel([], capacity=0)
