"""The orders that are told: each is a linearization, by the plain machine (C5)."""

from collections import Counter

import pytest
from all_orders import INSTANCE, RandomHistories, precedes, took

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
def test_a_dead_end_is_not_told_for_an_order(partition: bool) -> None:  # noqa: FBT001
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
