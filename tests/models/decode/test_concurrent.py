import threading

import attrs
import pytest

from kvspec.models.backend import Reply
from kvspec.models.concrete import Machine
from kvspec.models.decode import DecodeBackend
from kvspec.models.decode.backend_appends import Txn
from kvspec.models.decode.backend_tables import Pool, Slot, Switch
from kvspec.models.decode.concurrent import ConcurrentBackend, Look, looked_at
from kvspec.models.decode.concurrent_clients import LOAD, random_client, run_load
from kvspec.models.decode.concurrent_faults import CONCURRENCY_FAULTS, UNLOCKED
from kvspec.models.decode.concurrent_points import UnguardedError
from kvspec.models.decode.concurrent_record import Clock, Recorder, call_text
from kvspec.models.decode.concurrent_scenarios import (
    CLIENTS,
    SCENARIOS,
    appended,
    event,
    prepared,
    run_scenario,
    set_up,
)
from kvspec.models.interleaving import Keep, RandomWalk, Scheduler

ROOMY = attrs.evolve(CLIENTS, sizes={**CLIENTS.sizes, "Block": 2, "Row": 1})


def lone(backend: ConcurrentBackend, seed: int, calls: int = 60):
    """What one random client is told, and the state that it leaves."""
    backend.reset(LOAD)
    recorder, script = Recorder(backend), random_client(LOAD, 0, 1, seed, calls)
    call, told = next(script), []
    try:
        while True:
            answer = recorder.ask(0, call)
            told.append((call, answer))
            call = script.send(answer)
    except StopIteration:
        return told, backend.observe()


@pytest.mark.parametrize("seed", range(5))
def test_a_lone_client_sees_the_specification(seed: int) -> None:
    """Every answer, and every cell of every look, is the specification's, as are those observed (D5)."""
    told, state = lone(ConcurrentBackend(device="cpu"), seed)
    machine = Machine(LOAD)
    (now,) = machine.initial_states()
    for call, answer in told:
        if isinstance(call, Look):
            cells = looked_at(call.handle, LOAD.sizes["Layer"])
            assert answer == tuple(machine.value(now, name, *index) for name, index in cells)
            continue
        outcome = machine.step(now, call)
        assert (answer.accepted, answer.code) == (outcome.kind == "accepted", outcome.code)
        now = outcome.state
    assert state == now
    assert any(isinstance(answer, Reply) and answer.accepted for _, answer in told)


@pytest.mark.parametrize("fault", sorted(set(CONCURRENCY_FAULTS) - {"read.stale-after-release"}))
def test_a_lone_client_does_not_see_a_fault(fault: str) -> None:
    """Whoever waits for each answer is told the same by a cache with a fault that needs two (D5)."""
    for seed in range(3):
        sound, faulty = ConcurrentBackend(device="cpu"), ConcurrentBackend("dynamic", (fault,))
        assert lone(sound, seed) == lone(faulty, seed)


def test_points_change_no_answer() -> None:
    """A backend with points, and nobody to stop it, does what one without them does."""
    for seed in range(3):
        watched = ConcurrentBackend(device="cpu", scheduler=Scheduler(Keep()))
        plain = lone(ConcurrentBackend(device="cpu"), seed)
        assert lone(watched, seed) == plain


def test_a_backend_that_nobody_controls_has_no_points() -> None:
    """Without a scheduler every part is the decode backend's own: listening costs nothing there."""
    backend = ConcurrentBackend(device="cpu")
    set_up(backend, SCENARIOS["publish-and-look"])
    tables = backend._held()
    assert {type(slot) for slot in tables.slots} == {Slot}
    assert (type(tables.pool), tables.switch) == (Pool, Switch)
    assert type(tables.lock) is type(threading.RLock())
    assert backend._requests is not None
    assert type(backend._requests.appends.txns) is list
    assert {type(txn) for txn in backend._requests.appends.txns} == {Txn}


def test_every_shared_part_has_points() -> None:
    """Table, records, pool, staged writes, switch and lock are all stopped at (D5)."""
    scheduler = Scheduler(Keep())
    backend = ConcurrentBackend(device="cpu", scheduler=scheduler)
    backend.reset(CLIENTS)
    fork = event("fork", p=0, children=(False, True, True), n=1)
    whole = (
        event("allocate", h=0, b=0, a=0),
        *prepared(0, 0, 2),
        event("publish", x=0),
        fork,
        event("forget", x=0),
    )
    ended = [event(action, h=h) for h in range(3) for action in ("finish", "release")]
    events = (*whole, *ended, event("evict", b=0))
    recorder = Recorder(backend)

    def client() -> None:
        for each in events:
            assert recorder.ask(0, each).accepted
        recorder.ask(0, Look(1))

    run = scheduler.run([client])
    assert not run.errors
    found = {step.at for step in run.steps}
    assert found >= {
        "ask publish(x=0)",
        "ask look(h=1)",
        "block0 empty",
        "block0 fill",
        "block0 read",
        "handle0.entry read",
        "handle0.entry write",
        "handle0.generation read",
        "handle0.generation write",
        "handle0.layout read",
        "handle0.layout write",
        "handle1.arriving read",
        "handle1.arriving write",
        "lock acquire",
        "lock release",
        "pool.held read",
        "staged write",
        "switch.is_on write",
        "txn0 read",
        "txn0 write",
    }


def test_a_cache_that_leaves_its_lock_out_has_points_at_guarded_fields() -> None:
    """There records, owners, free list and batch are stopped at as well, whoever holds the lock (D5)."""
    scheduler = Scheduler(Keep())
    backend = ConcurrentBackend("dynamic", ("prepare.unlocked",), scheduler=scheduler, device="cpu")
    backend.reset(ROOMY)
    fork = event("fork", p=0, children=(False, True, False), n=1)
    batch = (event("enter", r=0, h=0), event("reorder", source=(0,)), event("leave", h=0))
    ended = [event(action, h=h) for h in range(2) for action in ("finish", "release")]
    publish = event("publish", x=0)
    retry = event("retry", x=0, h=0, k=0, v=0, n=1)
    events = [event("allocate", h=0, b=0, a=0), *prepared(0, 0, 2), publish, retry, fork, *batch]

    def client() -> None:
        for each in (*events, *ended, event("evict", b=0)):
            assert backend.perform(each).accepted, each

    run = scheduler.run([client])
    assert not run.errors
    found = {step.at for step in run.steps}
    fields = {each.name for each in attrs.fields(Txn)}
    assert found >= {f"txn0.{name} read" for name in fields - {"ack", "receipt"}}
    assert found >= {
        "batch.caches read",
        "batch.caches write",
        "batch.caches[0] read",
        "batch.caches[0] write",
        "batch.positions[0] write",
        "block0.owners read",
        "block0.owners write",
        "handle0.births read",
        "handle0.births write",
        "handle0.output read",
        "handle0.output write",
        "handle0.output.tokens write",
        "pool.free read",
        "pool.free write",
        "txn0.ack write",
        "txn0.receipt write",
        "txn0.staged.ends read",
        "txn0.staged.writes read",
        "txn0.state write",
    }


@pytest.mark.parametrize(
    ("call", "at"),
    [
        (event("prepare", x=0), "txn0.state read"),
        (event("cancel_txn", x=0), "txn0.state read"),
        (event("enter", r=0, h=0), "batch.caches read"),
        (event("evict", b=0), "block0.owners read"),
        (event("allocate", h=1, b=1, a=0), "handle1.births read"),
    ],
    ids=lambda each: getattr(each, "action", None),
)
def test_an_access_without_the_lock_is_an_error_where_none_is_planted(call, at: str) -> None:
    """What has no point because the lock guards it is never touched without the lock, or it is told."""
    scheduler = Scheduler(Keep())
    backend = ConcurrentBackend(device="cpu", scheduler=scheduler)
    backend.reset(ROOMY)
    for each in (event("allocate", h=0, b=0, a=0), *appended(0, 0, 2)):
        assert backend.perform(each).accepted
    run = scheduler.run([lambda: backend._act(call.action, dict(call.values))])
    ((thread, error),) = run.errors
    assert (thread, type(error)) == (0, UnguardedError)
    assert str(error).startswith(f"{at}: found an access without the backend's lock")


def test_ticks_enclose_what_was_done() -> None:
    """Calls are told in the order of their first ticks; ticks are taken once each (D5)."""
    recorded = run_scenario(SCENARIOS["busy"], RandomWalk(2))
    ticks = [tick for each in recorded.asked for tick in (each.invoked, each.returned)]
    assert sorted(ticks) == list(range(1, len(ticks) + 1))
    assert all(each.invoked < each.returned for each in recorded.asked)
    assert [each.invoked for each in recorded.asked] == sorted(
        each.invoked for each in recorded.asked
    )
    for number, calls in enumerate(SCENARIOS["busy"].clients):
        assert tuple(each.call for each in recorded.asked if each.client == number) == calls


def test_a_clock_gives_each_tick_once() -> None:
    """Threads that ask one clock together are told different ticks."""
    clock, found = Clock(), []
    threads = [
        threading.Thread(target=lambda: found.extend(clock.tick() for _ in range(2000)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1, 8001))


def test_a_call_that_raises_has_no_answer() -> None:
    """It is recorded without one, and the error goes to whoever asked."""
    recorder = Recorder(ConcurrentBackend(device="cpu"))
    with pytest.raises(ValueError, match="call reset"):
        recorder.ask(3, Look(0))
    ((asked),) = recorder.asked()
    assert (asked.client, asked.answer, asked.returned) == (3, None, None)


def test_a_cache_that_kept_its_answer_tells_it_after_the_release() -> None:
    """A reader with `read.stale-after-release` still shows rows that were given up."""
    backend = ConcurrentBackend("dynamic", ("read.stale-after-release",), device="cpu")
    set_up(backend, SCENARIOS["release-and-look"])
    before = backend.look(0, client=1)
    assert backend.perform(event("release", h=0)).accepted
    assert backend.look(0, client=1) == before == ("FINISHED", 1, 1, 1, 1, 1, 1)
    assert backend.look(0, client=2) == ("RELEASED", 1, 1, 0, 0, 0, 0)


def test_a_fork_to_several_children_is_seen_at_one_moment() -> None:
    """While entries are swapped one by one, a reader without the lock sees all children or none."""
    backend = ConcurrentBackend(device="cpu")
    backend.reset(CLIENTS)
    backend.perform(event("allocate", h=0, b=0, a=0))
    tables, seen = backend._held(), []

    class Telling(Slot):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if len(tables.slots) == 3 and name in {"entry", "arriving"}:
                seen.append((backend.look(1)[0], backend.look(2)[0]))

    tables.slots[1:] = [Telling(1), Telling(2)]
    backend.perform(event("fork", p=0, children=(False, True, True), n=0))
    assert set(seen) == {("VACANT", "VACANT"), ("DECODE_READY", "DECODE_READY")}
    assert [slot.arriving for slot in tables.slots] == [None] * 3


def test_unknown_faults_and_too_many_clients_are_refused() -> None:
    """A name that nothing has lists those that exist; each client needs an append of its own."""
    with pytest.raises(ValueError, match=r"found the faults torn, expected .*publish\.torn"):
        ConcurrentBackend("dynamic", ("torn",))
    with pytest.raises(ValueError, match="found 5 clients, expected 1 to 4"):
        run_load(ConcurrentBackend(device="cpu"), clients=5)
    assert set(UNLOCKED) < set(CONCURRENCY_FAULTS)
    assert set(UNLOCKED.values()) <= set(LOAD.system.actions)


def test_a_concurrent_backend_is_a_decode_backend() -> None:
    """Its answers to events, and the states they leave, are those of the backend it is made of."""
    told, state = lone(ConcurrentBackend(device="cpu"), 7)
    plain = DecodeBackend(device="cpu")
    plain.reset(LOAD)
    for call, answer in told:
        if not isinstance(call, Look):
            assert plain.perform(call) == answer, call_text(call)
    assert plain.observe() == state
