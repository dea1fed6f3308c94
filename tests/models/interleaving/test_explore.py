from collections import Counter
from itertools import permutations
from math import comb

import pytest
from controlled_programs import counting, crossing, steps, there_and_back

from kvspec.models.interleaving import NotApplicableError, Scheduler, explore


def switches(order: tuple[int, ...], lengths: tuple[int, ...]) -> int:
    """Preemptions of an order: changes away from a client that has steps left."""
    left, spent = list(lengths), 0
    for now, after in zip(order, (*order[1:], None), strict=True):
        left[now] -= 1
        spent += after not in {now, None} and left[now] > 0
    return spent


@pytest.mark.parametrize("lengths", [(1, 1), (2, 2), (3, 4), (2, 1, 2)])
def test_every_order_within_the_bound_is_run_once(lengths: tuple[int, ...]) -> None:
    """Clients that share nothing are run in each order once, with the preemptions that it has (D5)."""
    places = tuple(n for n, length in enumerate(lengths) for _ in range(length))
    orders = set(permutations(places))
    for bound in range(4):
        found = [*explore(lambda strategy: steps(strategy, lengths), bound)]
        assert {each.found for each in found} == {
            order for order in orders if switches(order, lengths) <= bound
        }
        assert len({each.found for each in found}) == len(found)
        assert all(each.preemptions == each.run.preemptions for each in found)


def test_two_clients_of_three_steps_have_twenty_orders() -> None:
    """With enough preemptions nothing is left out: C(6, 3) orders, two of them without any."""
    found = [*explore(lambda strategy: steps(strategy, (3, 3)), 4)]
    assert len(found) == comb(6, 3)
    assert Counter(each.preemptions for each in found) == {0: 2, 1: 4, 2: 8, 3: 4, 4: 2}


def test_runs_with_fewer_preemptions_come_first() -> None:
    """The first run that loses an update has one preemption, and none without loses any."""
    found = [*explore(counting, 2)]
    spent = [each.preemptions for each in found]
    assert spent == sorted(spent)
    assert {each.found for each in found if each.preemptions == 0} == {2}
    assert next(each for each in found if each.found == 1).preemptions == 1


def test_what_needs_two_preemptions_is_not_found_with_one() -> None:
    """A reader has to be stopped twice to see a value come and go."""
    by_bound = {
        bound: any(each.found for each in explore(there_and_back, bound)) for bound in range(3)
    }
    assert by_bound == {0: False, 1: False, 2: True}


def test_a_deadlock_is_found_with_one_preemption() -> None:
    """Locks taken crosswise stop each other once a client is stopped between them."""
    endings = [(each.preemptions, each.run.ending) for each in explore(crossing, 1)]
    assert {spent for spent, ending in endings if ending == "deadlock"} == {1}
    assert {ending for spent, ending in endings if spent == 0} == {"whole"}


def test_switching_from_a_thread_that_waits_costs_nothing() -> None:
    """A thread at a lock that another one holds is not preempted when that one goes on."""
    whole = [each for each in explore(crossing, 2) if each.run.ending == "whole"]
    waits = [
        (choice, step.thread)
        for each in whole
        for choice, step in zip(each.run.choices, each.run.steps, strict=True)
        if choice.current is not None and choice.current not in choice.enabled
    ]
    assert waits
    assert not any(choice.is_preemption(thread) for choice, thread in waits)


def test_a_program_that_is_not_the_same_again_is_refused() -> None:
    """A run that cannot begin as an earlier one did shows that more than the schedule decides."""
    lengths = iter((3, 3, 1, 1, 1, 1))

    def fickle(strategy):
        scheduler, length = Scheduler(strategy), next(lengths)

        def client() -> None:
            for _ in range(length):
                scheduler.point("step")

        return scheduler.run([client] * 2), None

    with pytest.raises(NotApplicableError, match="where it cannot go on"):
        list(explore(fickle, 1))


def test_a_negative_bound_is_refused() -> None:
    """There are no fewer preemptions than none."""
    with pytest.raises(ValueError, match="expected at least 0"):
        list(explore(counting, -1))
