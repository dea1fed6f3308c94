"""The checker against the search of every order (C5)."""

from collections import Counter

import all_orders
import attrs
import pytest
from all_orders import INSTANCE, RandomHistories, is_linearizable

from kvspec.models.concrete import Event
from kvspec.models.explicit.linearizer import Limits
from kvspec.properties.linearizability import Cell, History, Operation, Read, Seen, Told
from kvspec.properties.linearizability.check import HOLDS, UNKNOWN, VIOLATED, Checker
from kvspec.properties.linearizability.footprints import Footprint, Footprints
from kvspec.properties.linearizability.generate import Generator, Shape


@pytest.fixture(scope="module")
def checkers() -> list[Checker]:
    """With and without parts, with and without early ends of branches."""
    return [Checker(INSTANCE, partition=p, prune=e) for p in (True, False) for e in (True, False)]


def agree(seed: int, count: int, checkers: list[Checker]) -> Counter[tuple[str, bool]]:
    """Verdicts of random histories, each that of the search of every order; and if in parts."""
    source, told = RandomHistories(seed), Counter()
    for number in range(count):
        history = source.history(source.random.choice((2, 3, 4)), source.random.choice((3, 5, 6)))
        expected = HOLDS if is_linearizable(source.machine, history) else VIOLATED
        for checker in checkers:
            found = checker.decide(checker.pack(history))
            # A step beyond the bounds is all that the reference does not tell apart.
            if found.verdict != UNKNOWN:
                assert found.verdict == expected, (seed, number, history)
            told[found.verdict, found.parts > 1] += 1
    return told


def test_verdicts_are_those_of_all_orders(checkers: list[Checker]) -> None:
    """Whole or in parts, with or without early ends, a verdict is that of the search of all orders (C5)."""
    told = agree(1, 40, checkers)
    assert told[HOLDS, True] >= 3
    assert told[VIOLATED, True] >= 3
    assert sum(told[UNKNOWN, parts] for parts in (True, False)) <= 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_verdicts_are_those_of_all_orders(seed: int, checkers: list[Checker]) -> None:
    """As above, on thousands of histories: any events, pending ones, refusals with effects."""
    told = agree(seed, 500, checkers)
    assert (
        min(told[verdict, parts] for verdict in (HOLDS, VIOLATED) for parts in (True, False)) > 50
    )


@pytest.mark.parametrize("lost", ["reads", "writes"])
def test_a_footprint_with_a_hole_is_found(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If footprints miss cells, parts are too small, and the comparison with every order says so."""
    whole = Footprints.of_event

    def holed(self: Footprints, shape: object, told: object) -> Footprint:
        return attrs.evolve(whole(self, shape, told), **{lost: 0})

    monkeypatch.setattr(Footprints, "of_event", holed)
    with pytest.raises(AssertionError):
        agree(1, 120, [Checker(INSTANCE)])


def test_certain_writes_that_are_not_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """If an operation claims to overwrite what it may keep, the comparison with every order says so."""
    whole = Footprints.of_event

    def bold(self: Footprints, shape: object, told: object) -> Footprint:
        found = whole(self, shape, told)
        return attrs.evolve(found, certain=-1 & ((1 << self.reached.layout.size) - 1), reads=0)

    monkeypatch.setattr(Footprints, "of_event", bold)
    with pytest.raises(AssertionError):
        agree(1, 120, [Checker(INSTANCE)])


def test_a_clients_own_order_counts_where_ticks_are_equal() -> None:
    """A client that asks at the tick of its last answer asks after it."""
    length = Cell("length", (0,))
    (start,) = all_orders.Machine(INSTANCE).initial_states()
    asked = (
        Operation(0, Read((length,)), Seen((0,)), 1, 2),
        Operation(0, Read((length,)), Seen((1,)), 2, 3),
    )
    checker = Checker(INSTANCE)
    found = checker.decide(checker.pack(History(INSTANCE, asked, start)), Limits())
    assert found.verdict == VIOLATED
    assert found.order == (0,)


def test_what_changes_nothing_yet_is_not_taken_at_once() -> None:
    """A release that may have been told anything would be refused first, but comes after a finish."""
    source = Generator(Shape(1, 2), 1)
    release = Event("release", (("h", 0),))
    finish = Event("finish", (("h", 0),))
    generation = Cell("generation", (0,))
    asked = (
        Operation(0, release, None, 1, 10),
        Operation(1, finish, Told(True), 2, 9),
        Operation(2, Read((generation,)), Seen((1,)), 11, 12),
    )
    history = History(source.instance, asked, source.start)
    checker = Checker(source.instance)
    assert checker.decide(checker.pack(history)).verdict == HOLDS
    refused = attrs.evolve(asked[0], answer=Told(False, "NOT_TERMINAL"))
    history = attrs.evolve(history, operations=(refused, *asked[1:]))
    assert checker.decide(checker.pack(history)).verdict == VIOLATED
