"""The orders that are told: each is a linearization, by the plain machine (C5)."""

from collections import Counter

import pytest
from all_orders import INSTANCE, RandomHistories, is_linearizable, precedes, took

from kvspec.models.concrete import Event, Machine
from kvspec.properties.linearizability import Cell, History, Operation, Read, Seen, Told
from kvspec.properties.linearizability.check import HOLDS, VIOLATED, Checker
from kvspec.spec import core
from kvspec.spec.language import Instance

INSTANCES = {name: each for name, each in vars(core).items() if isinstance(each, Instance)}
ACCEPTED = Told(accepted=True)


def is_linearization(machine: Machine, history: History, order: tuple[int, ...]) -> bool:
    """Whether the order has all that was answered, keeps time and clients, and gives every answer."""
    operations = history.operations
    answered = {place for place, each in enumerate(operations) if each.returned is not None}
    if len(set(order)) < len(order) or not answered <= set(order):
        return False
    for number, place in enumerate(order):
        if any(precedes(operations, later, place) for later in order[number + 1 :]):
            return False
    state = history.start or machine.initial_states()[0]
    for place in order:
        after = took(machine, state, operations[place])
        if after is None:
            return False
        state = after
    return True


def check_orders(instance: Instance, seed: int, count: int) -> Counter[str]:
    """Orders of random histories, whole and in parts, are linearizations; what there was of each."""
    source, told = RandomHistories(seed, instance), Counter[str]()
    checkers = [Checker(instance, partition=True), Checker(instance, partition=False)]
    for number in range(count):
        history = source.history(source.random.choice((2, 3, 4)), source.random.choice((3, 5, 7)))
        for checker in checkers:
            found = checker.decide(checker.pack(history))
            if found.verdict == HOLDS:
                assert is_linearization(source.machine, history, found.order), (number, history)
                told["parts" if found.parts > 1 else "whole"] += 1
                told["pending"] += any(each.returned is None for each in history.operations)
    return told


def test_an_order_that_is_told_is_a_linearization() -> None:
    """With operations that were never answered among them, and with parts and without (C5)."""
    told = check_orders(INSTANCE, 7, 60)
    assert min(told["parts"], told["whole"], told["pending"]) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("name", INSTANCES)
def test_orders_of_every_core_instance_are_linearizations(name: str) -> None:
    """As above, over each instance of the core."""
    assert sum(check_orders(INSTANCES[name], 8, 60).values()) >= 60


@pytest.mark.parametrize("partition", [True, False])
def test_a_dead_end_is_not_told_for_an_order(partition: bool) -> None:
    """A dead end with operations that were never answered may be as long as the linearization."""
    instance = core.TINY
    machine = Machine(instance)
    start = machine.step(
        machine.initial_states()[0], Event("allocate", (("h", 0), ("b", 0), ("a", 0)))
    ).state
    operations = (
        Operation(0, Event("finish", (("h", 0),)), ACCEPTED, 1, 5),
        Operation(1, Event("truncate", (("h", 0), ("n", 0))), ACCEPTED, 1, 6),
        Operation(2, Event("release", (("h", 0),)), None, 1, None),
    )
    history = History(instance, operations, start)
    checker = Checker(instance, partition=partition)
    found = checker.decide(checker.pack(history))
    assert found.verdict == HOLDS
    assert is_linearization(machine, history, found.order)


def on_two_handles(*given: tuple[int, int, bool, int, int]) -> History:
    """A history over two handles: each a client, a handle, whether it allocates, and its ticks.

    One that does not allocate reads the handle's phase, and sees that it is allocated.
    """
    machine = Machine(INSTANCE)
    (start,) = machine.initial_states()
    operations = []
    for client, h, allocates, invoked, returned in given:
        call: Event | Read = Read((Cell("phase", (h,)),))
        answer: Told | Seen = Seen(("DECODE_READY",))
        if allocates:
            call, answer = Event("allocate", (("h", h), ("b", h), ("a", 0))), ACCEPTED
        operations.append(Operation(client, call, answer, invoked, returned))
    return History(machine.instance, tuple(operations), start)


def test_parts_keep_the_order_of_a_client_at_one_tick() -> None:
    """A client that asks at the tick of its last answer does so after it, in another part too."""
    history = on_two_handles(
        (0, 0, True, 0, 1), (1, 1, False, 1, 5), (2, 1, True, 5, 9), (1, 0, False, 5, 7)
    )
    checker = Checker(INSTANCE)
    found = checker.decide(checker.pack(history))
    assert (found.verdict, found.parts) == (HOLDS, 2)
    assert is_linearization(checker.machine, history, found.order)


def test_parts_that_together_go_round_in_a_circle_are_one() -> None:
    """Each of two parts holds, the history does not: two clients ask again as they are answered (C5)."""
    history = on_two_handles(
        (0, 0, False, 1, 5), (1, 1, False, 1, 5), (0, 1, True, 5, 9), (1, 0, True, 5, 9)
    )
    assert not is_linearizable(Machine(INSTANCE), history)
    for partition in (True, False):
        checker = Checker(INSTANCE, partition=partition)
        assert checker.decide(checker.pack(history)).verdict == VIOLATED


def at_few_ticks(source: RandomHistories) -> History:
    """Reads and allocations of two handles whose ticks often touch."""
    random = source.random
    given = []
    for client in range(random.choice((2, 3))):
        now = random.randrange(3)
        for _ in range(random.choice((1, 2))):
            later = now + random.choice((1, 1, 2))
            given.append((client, random.randrange(2), random.random() < 0.5, now, later))
            now = later
    return on_two_handles(*sorted(given, key=lambda each: each[3]))


def test_verdicts_at_few_ticks_are_those_of_all_orders() -> None:
    """Where clients ask again at the tick of an answer, parts give the verdict of all orders (C5)."""
    source, told = RandomHistories(3), Counter[tuple[str, bool]]()
    checker = Checker(INSTANCE)
    for number in range(1200):
        history = at_few_ticks(source)
        found = checker.decide(checker.pack(history))
        expected = HOLDS if is_linearizable(source.machine, history) else VIOLATED
        assert found.verdict == expected, (number, history)
        if found.verdict == HOLDS:
            assert is_linearization(source.machine, history, found.order), (number, history)
        told[found.verdict, found.parts > 1] += 1
    assert min(told[v, parts] for v in (HOLDS, VIOLATED) for parts in (True, False)) > 20
