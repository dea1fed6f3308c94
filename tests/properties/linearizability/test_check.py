"""Verdicts, their reasons and their limits (C5)."""

from pathlib import Path

import attrs
import pytest

from kvspec.counterexamples.history_files import FOLDER, read_history
from kvspec.models.concrete import Event, Machine
from kvspec.models.explicit.linear import NEVER
from kvspec.properties.linearizability import Cell, History, Operation, Read, Seen, Told
from kvspec.properties.linearizability.check import HOLDS, UNKNOWN, VIOLATED, Checker
from kvspec.properties.linearizability.errors import HistoryError
from kvspec.properties.linearizability.explain import cell_value
from kvspec.properties.linearizability.generate import Generator, Shape, falsify
from kvspec.properties.linearizability.result import Result, check
from kvspec.properties.linearizability.shrink import cut_after

FILES = sorted(FOLDER.glob("*.json"))


def violated(history: History, forgotten: frozenset[int] = frozenset()) -> bool:
    """Whether the history fails with these answers forgotten."""
    checker = Checker(history.instance)
    return checker.decide(checker.pack(history, forgotten)).verdict == VIOLATED


def is_explained(result: Result) -> bool:
    """The longest sequence gives its answers by the plain machine, and what is stuck would not."""
    history, machine = result.history, Machine(result.history.instance)
    state = history.start or machine.initial_states()[0]
    for place in result.order:
        operation = history.operations[place]
        if isinstance(operation.call, Event):
            outcome = machine.step(state, operation.call)
            told = Told(outcome.kind == "accepted", outcome.code)
            if operation.answer not in (told, Told(accepted=False), None):
                return False
            state = outcome.state
        elif isinstance(operation.answer, Seen):
            values = tuple(cell_value(machine, state, cell) for cell in operation.call.cells)
            if operation.answer.values != values:
                return False
    return all(each.told != each.instead for each in result.stuck)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_hand_made_histories_have_their_verdicts(path: Path) -> None:
    """Non-atomic publish, check-then-act, lost update, stale read, pending operations, real time (C5)."""
    file = read_history(path)
    result = check(file.history)
    assert file.expected in (HOLDS, VIOLATED)
    assert result.verdict == file.expected
    assert is_explained(result)
    if result.verdict == HOLDS:
        answered = {n for n, o in enumerate(file.history.operations) if o.returned is not None}
        assert answered <= set(result.order)
        return
    assert result.stuck
    assert result.window is not None
    assert result.window.minimal


def test_there_are_histories_of_each_verdict() -> None:
    """The hand-made histories are not all of one kind."""
    expected = [read_history(path).expected for path in FILES]
    assert min(expected.count(HOLDS), expected.count(VIOLATED)) >= 7


@pytest.mark.parametrize("shape", [Shape(3, 12), Shape(6, 12, 3)], ids=str)
def test_what_the_specification_did_is_linearizable(shape: Shape) -> None:
    """Histories that clients of the specification itself made hold, with every operation in order."""
    generator = Generator(shape, 5)
    checker = Checker(generator.instance)
    for _ in range(15):
        history = generator.history()
        result = check(history, checker=checker)
        assert result.verdict == HOLDS
        assert sorted(result.order) == list(range(len(history.operations)))
        assert is_explained(result)
        position = {place: number for number, place in enumerate(result.order)}
        for one, first in enumerate(history.operations):
            for two, second in enumerate(history.operations):
                if first.returned is not None and first.returned < second.invoked:
                    assert position[one] < position[two]


def test_a_window_is_minimal() -> None:
    """A window's answers fail with all others forgotten, and hold once any one more is."""
    generator = Generator(Shape(3, 10), 3)
    checked = 0
    for _ in range(12):
        history = generator.corrupted()
        if not violated(history):
            continue
        result = check(history)
        assert result.window is not None
        assert result.window.minimal
        short = cut_after(history, result.window.until)
        places = [n for n, o in enumerate(history.operations) if o.invoked <= result.window.until]
        kept = {places.index(place) for place in result.window.operations}
        forgotten = frozenset(range(len(short.operations))) - kept
        assert violated(short, forgotten)
        for place in kept:
            assert not violated(short, forgotten | {place})
        checked += 1
    assert checked >= 6


def test_a_falsified_answer_of_an_event_is_found() -> None:
    """Of histories with one answer of an event made another, most fail, and a window names why."""
    generator = Generator(Shape(3, 10), 11)
    failed = 0
    for _ in range(12):
        history = generator.history()
        told = [n for n, o in enumerate(history.operations) if isinstance(o.answer, Told)]
        result = check(falsify(history, told[len(told) // 2], generator.random))
        failed += result.verdict == VIOLATED
        assert is_explained(result)
    assert failed >= 6


def test_handles_are_checked_apart() -> None:
    """Histories over four handles fall into four parts, though an append's handle is told by a cell."""
    generator = Generator(Shape(8, 12, 4), 2)
    checker = Checker(generator.instance)
    found = [checker.decide(checker.pack(generator.history())) for _ in range(5)]
    assert {each.parts for each in found} <= {4, 5}
    assert all(each.verdict == HOLDS for each in found)


def overlapping(clients: int) -> History:
    """Appends that begin among truncations in any order, and a read that none explains."""
    generator = Generator(Shape(clients, 4), 1)
    operations = []
    for client in range(clients):
        begin = Event("begin", (("x", client), ("h", 0), ("k", 0), ("a", 0), ("p", 0), ("n", 1)))
        if client % 2:
            operations.append(Operation(client, begin, Told(True), 1, 10))
        else:
            cut = Event("truncate", (("h", 0), ("n", 0)))
            operations.append(Operation(client, cut, Told(True), 1, 10))
    bases = tuple(Cell("base_version", (client,)) for client in range(1, clients, 2))
    last = Read((*bases, Cell("length", (0,))))
    operations.append(Operation(clients, last, Seen((*([0] * len(bases)), 3)), 11, 12))
    return History(generator.instance, tuple(operations), generator.start)


def test_a_search_without_end_is_unknown() -> None:
    """Within a limit of configurations, of memory or of time the verdict is unknown, and says why."""
    history = overlapping(24)
    few = check(history, max_states=2_000)
    assert (few.verdict, few.kept) == (UNKNOWN, 2_000)
    assert "2,000 configurations" in few.reason
    small = check(history, max_bytes=4 << 20)
    assert small.verdict == UNKNOWN
    assert "4,194,304 bytes" in small.reason
    assert small.bytes <= 4 << 20
    short = check(history, seconds=0.05)
    assert short.verdict == UNKNOWN
    assert "0.05 s" in short.reason
    assert short.seconds < 5


def test_the_same_history_made_smaller_is_decided() -> None:
    """What was unknown for its size alone is violated with fewer clients."""
    assert check(overlapping(6)).verdict == VIOLATED


def test_a_step_beyond_the_bounds_is_unknown() -> None:
    """Where the instance has no number for the next snapshot, no verdict is given."""
    generator = Generator(Shape(1, 1), 1)
    assert generator.instance.bounds["Version"] == 1
    cut = Event("truncate", (("h", 0), ("n", 0)))
    asked = tuple(Operation(0, cut, Told(True), n, n + 1) for n in (1, 3, 5))
    history = History(generator.instance, asked, generator.start)
    result = check(history)
    assert result.verdict == UNKNOWN
    assert "bounds" in result.reason
    refused = attrs.evolve(history.operations[1], answer=Told(False, "BEYOND_COMMITTED"))
    other = attrs.evolve(history, operations=(history.operations[0], refused))
    assert check(other).verdict == VIOLATED


def test_a_client_waits_for_its_answer() -> None:
    """Operations of one client that overlap are no history."""
    generator = Generator(Shape(1, 1), 1)
    read = Read((Cell("version", (0,)),))
    asked = (Operation(0, read, Seen((0,)), 1, 5), Operation(0, read, Seen((0,)), 3, 6))
    with pytest.raises(HistoryError, match="before it was answered"):
        check(History(generator.instance, asked, generator.start))


def test_an_empty_history_holds() -> None:
    """Nothing was asked, and nothing contradicts the specification."""
    generator = Generator(Shape(1, 1), 1)
    assert check(History(generator.instance, (), generator.start)).verdict == HOLDS


@pytest.mark.parametrize(
    "changed",
    [
        {"returned": NEVER},
        {"returned": NEVER + 1},
        {"returned": 1 << 63},
        {"invoked": NEVER, "returned": None},
        {"invoked": -1},
        {"invoked": 1 << 70, "returned": None},
        {"returned": 6},
        {"returned": 5},
        {"client": 1 << 63},
    ],
    ids=str,
)
def test_ticks_that_the_search_cannot_hold_are_refused(changed: dict[str, int | None]) -> None:
    """A return that is the search's mark for none would be no answer, and hide a violation."""
    history = read_history(FOLDER / "lost-update.json").history
    last = history.operations[-1]
    assert last.invoked == 6
    latest = attrs.evolve(last, returned=NEVER - 1)
    assert violated(attrs.evolve(history, operations=(*history.operations[:-1], latest)))
    bad = attrs.evolve(
        history, operations=(*history.operations[:-1], attrs.evolve(last, **changed))
    )
    with pytest.raises(HistoryError, match="ticks from 0"):
        Checker(bad.instance).pack(bad)


@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("code", ["LAYOUT_FULL", "BLOCK_IN_USE"])
def test_a_refusal_that_no_step_gives_is_a_violation(code: str, partition: bool) -> None:
    """Whatever else was told, a code that the action does not have is explained by no order (C5)."""
    history = read_history(FOLDER / "one-of-two-publishes.json").history
    first = attrs.evolve(history.operations[0], answer=Told(accepted=False, code=code))
    bad = attrs.evolve(history, operations=(first, *history.operations[1:]))
    result = check(bad, checker=Checker(bad.instance, partition=partition))
    assert result.verdict == VIOLATED
    assert result.window is not None
    assert result.window.operations == (0,)
    assert code in {each.because.split()[0] for each in result.stuck if each.because}
