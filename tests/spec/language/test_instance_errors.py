"""Instances and limits fit their system: each mistake is an error at its own line."""

import pytest
from language_toys import Colour, Edge, Node, Size, grown, refuses, toy

from kvspec.spec.language import (
    Counts,
    Natural,
    instance,
    limit,
)

SIZES = {Node: 2, Edge: 1, Size: 3}


def test_an_instance_gives_every_size():
    """A sort without a size or bound is named."""

    def define():
        instance("few", grown(toy()), {Node: 2})  # fault

    refuses(define, "instance few leaves Size, Edge without a size or bound: give each a number")


def test_an_instance_sizes_sorts_of_its_system():
    """A sort that the system lacks, and an enumeration, have no size."""

    class Other(Natural):
        """Another."""

    def unknown():
        instance("odd", grown(toy()), {**SIZES, Other: 2}, constants={"most": 1})  # fault

    def listed():
        instance("odd", grown(toy()), {**SIZES, Colour: 2}, constants={"most": 1})  # fault

    def no_sort():
        instance("odd", grown(toy()), {**SIZES, int: 2}, constants={"most": 1})  # fault

    refuses(unknown, "instance odd sizes Other, no sort of toy: it has Colour, Edge, Node, Size")
    refuses(listed, "instance odd sizes Colour, an enumeration: its members are listed already")
    refuses(no_sort, "found <class 'int'> where a sort is expected")


@pytest.mark.parametrize(
    ("number", "part"),
    [(-1, "is -1, below 0"), (1.5, "is 1.5: give a whole number"), (True, "is True: give")],
)
def test_sizes_and_constants_are_naturals(number, part):
    """Negative, broken and truth values are no sizes and no constants."""

    def size():
        instance("odd", grown(toy()), {**SIZES, Node: number}, constants={"most": 1})  # fault

    def constant():
        instance("odd", grown(toy()), SIZES, constants={"most": number})  # fault

    refuses(size, f"instance odd: the size of Node {part}")
    refuses(constant, f"instance odd: the constant most {part}")


def test_an_instance_fixes_every_constant():
    """A constant left out, and one that does not exist, are refused."""

    def missing():
        instance("odd", grown(toy()), SIZES)  # fault

    def extra():
        instance("odd", grown(toy()), SIZES, constants={"most": 1, "least": 0})  # fault

    refuses(missing, "instance odd fixes the constants none; toy has most")
    refuses(extra, "instance odd fixes the constants least, most; toy has most")


def test_an_instance_pins_variables_of_its_system():
    """A pinned variable of another system, or to a value of another sort, is refused."""

    def foreign():
        other = toy()
        instance(  # fault
            "odd", grown(toy()), SIZES, constants={"most": 1}, initial={other.size: 1}
        )

    def sort():
        t = toy()
        instance(  # fault
            "odd", grown(t), SIZES, constants={"most": 1}, initial={t.size: Colour.RED}
        )

    refuses(foreign, "instance odd pins size, no variable of toy")
    refuses(sort, "the initial value of size must be of Size, found `RED` of Colour")


def test_limits_are_on_actions_of_the_system():
    """A limit on another system's action, or that reads another system's state, is refused."""

    def action():
        other = grown(toy())
        restriction = limit(other.action("grow"))(lambda k: k <= 1)
        instance("odd", grown(toy()), SIZES, constants={"most": 1}, limits=(restriction,))  # fault

    def reads():
        t, other = toy(), toy()
        system = grown(t)
        restriction = limit(system.action("grow"))(lambda n: other.size[n] <= 1)
        instance("odd", system, SIZES, constants={"most": 1}, limits=(restriction,))  # fault

    def names():
        system, other = grown(toy()), grown(toy())
        k = other.action("grow").parameters[1]
        restriction = limit(system.action("grow"))(lambda: k <= 1)
        instance("odd", system, SIZES, constants={"most": 1}, limits=(restriction,))  # fault

    refuses(action, "instance odd limits grow, no action of toy: it has grow")
    refuses(reads, "instance odd: a limit reads size[n], no variable of toy before the step")
    refuses(names, "a limit on grow uses k, which is none of its parameters")


def test_a_limit_is_a_formula_of_parameters():
    """A limit names parameters of its action, and is true or false."""

    def parameter():
        limit(grown(toy()).action("grow"))(lambda x: x <= 1)  # fault

    def number():
        limit(grown(toy()).action("grow"))(lambda k: k)  # fault

    refuses(parameter, "grow has no parameter x: it has ['n', 'k']")
    refuses(number, "limit on grow takes Bool, found `k` of type Size")


def test_counts_need_states_alone():
    """What is not expected of a search is None."""
    assert Counts(3).transitions is None
