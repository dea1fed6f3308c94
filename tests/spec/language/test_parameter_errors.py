"""Parameters have sorts that an instance can list, and an upper bound: mistakes are errors at their line."""

import pytest
from language_toys import OTHER, Colour, Node, Size, refuses, toy

from kvspec.spec.language import (
    Map,
    Option,
    Step,
)


def test_a_parameter_needs_a_sort():
    """A parameter without an annotation is refused."""

    def define():
        t = toy()

        @t.module.action  # fault
        def act(step: Step, n) -> None:
            """Set the flag."""
            step.assign(t.flag.value, True)

    refuses(define, "act: parameter n has no sort")


def test_a_parameter_of_python_type_is_refused():
    """A parameter annotated with a type that is no sort is refused, and told what sorts are."""

    def define():
        t = toy()

        def act(step: Step, n: int) -> None:
            """Set the flag."""

        t.module.action(act)  # fault

    refuses(define, "found <class 'int'> where a sort is expected", "Open, Natural or Enum")


@pytest.mark.parametrize(
    ("annotation", "parts"),
    [
        (Map[Node, Size], ("Map[Node, Size]", "so that an instance can list all maps")),
        (Map[Colour, Node], ("Map[Colour, Node]", "the domain must be an open sort")),
        (Map[Node, Option[Node]], ("Map[Node, Option[Node]]",)),
        (Option[Colour], ("Option takes an open sort, found Colour",)),
        (Option[Size], ("Option takes an open sort, found Size",)),
        (Option, ("where a sort is expected",)),
        (Map, ("where a sort is expected",)),
    ],
    ids=str,
)
def test_parameters_that_no_instance_could_list_are_refused(annotation, parts):
    """A map to naturals or from an enumeration, and an option of no open sort, are refused."""

    def define():
        t = toy()

        def act(step: Step, n: annotation) -> None:
            """Set the flag."""

        act.__annotations__["n"] = annotation
        t.module.action(act)  # fault

    refuses(define, *parts)


@pytest.mark.parametrize(
    "guard",
    [
        lambda t, n, k: k >= 1,
        lambda t, n, k: k != 3,
        lambda t, n, k: t.size[n] < k,
        lambda t, n, k: t.size[n] - k <= 3,
        lambda t, n, k: t.size[n] + 1 > t.size[n] - k,
    ],
    ids=["at least", "other than", "more than", "lower by subtraction", "greater"],
)
def test_a_natural_parameter_needs_an_upper_bound(guard):
    """Guards that leave a natural parameter without a largest value do not pass for a bound."""

    def define():
        t = toy()

        @t.module.action  # fault
        def act(step: Step, n: Node, k: Size) -> None:
            """Grow."""
            step.require(guard(t, n, k), OTHER)
            step.assign(t.size[n], k)

    refuses(define, "act: parameter k of Size has no upper bound", "`k <= ...` or `k == ...`")


@pytest.mark.parametrize(
    "guard",
    [
        lambda t, n, k: k <= 3,
        lambda t, n, k: k == t.size[n],
        lambda t, n, k: t.size[n] == k,
        lambda t, n, k: (t.size[n] + k < t.most) & (k >= 1),
        lambda t, n, k: t.size[n] - k >= 1,
        lambda t, n, k: k - 1 <= t.size[n],
        lambda t, n, k: t.size[n] - k == 1,
    ],
)
def test_guards_that_bound_a_natural_parameter(guard):
    """A comparison from above, an equation, and either within a conjunction are bounds."""
    t = toy()

    @t.module.action
    def act(step: Step, n: Node, k: Size) -> None:
        """Grow."""
        step.require(guard(t, n, k), OTHER)
        step.assign(t.size[n], k)

    assert t.module.actions["act"] is act


def test_a_parameter_of_another_action_is_refused():
    """A symbol that leaks from one action into another is refused."""

    def define():
        t = toy()
        kept = []

        @t.module.action
        def first(step: Step, n: Node) -> None:
            """Grow."""
            kept.append(n)
            step.assign(t.size[n], 1)

        @t.module.action  # fault
        def second(step: Step, m: Node) -> None:
            """Grow."""
            step.assign(t.size[kept[0]], 1)

    refuses(define, "second uses n in `n`, which is neither a parameter (m)")


def test_a_name_that_every_needs_is_refused():
    """A parameter cannot have the name that every() gives to its members."""

    def define():
        t = toy()

        @t.module.action  # fault
        def act(step: Step, node_0: Node) -> None:
            """Grow."""
            for n in step.every(Node):
                step.assign(t.link[n], node_0)

    refuses(define, "act has a parameter node_0, which every() needs")
