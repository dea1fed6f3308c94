"""Members, numbers and truth values are not mixed: each mistake is an error at its own line."""

from language_toys import OTHER, Colour, Edge, Node, Size, Taste, refuses, toy

from kvspec.spec.language import (
    Map,
    Step,
    bijective,
    exists,
    forall,
    where,
)


def test_an_index_has_the_sort_of_the_domain():
    """An index of another sort is refused with both sorts."""

    def define():
        t = toy()

        @t.module.action
        def act(step: Step, e: Edge) -> None:
            """Grow."""
            step.assign(t.size[e], 1)  # fault

    refuses(define, "index 1 of size must be of Node, found `e` of Edge")


def test_a_variable_takes_as_many_indices_as_it_has():
    """Too few indices are refused with the variable's signature."""

    def define():
        t = toy()

        @t.module.action
        def act(step: Step, n: Node) -> None:
            """Mark."""
            step.assign(t.mark[n], True)  # fault

    refuses(define, "mark takes 2 indices (mark: Node x Edge -> Bool), found 1")


def test_both_sides_of_an_equation_have_one_sort():
    """Members of two sorts cannot be compared, nor a member with a number."""

    def enums():
        t = toy()

        @t.module.action
        def act(step: Step, n: Node) -> None:
            """Paint."""
            step.require(t.colour[n] == Taste.SWEET, OTHER)  # fault

    def numbers():
        t = toy()

        @t.module.action
        def act(step: Step, n: Node) -> None:
            """Paint."""
            step.require(t.colour[n] == 1, OTHER)  # fault

    def strings():
        t = toy()
        forall(Node, lambda n: t.colour[n] == "RED")  # fault

    def nothing():
        t = toy()
        forall(Node, lambda n: t.colour[n] == None)  # noqa: E711 # fault

    refuses(enums, "both sides of == (here of Colour and Taste)", "`SWEET` of Taste")
    refuses(numbers, "both sides of ==", "`1` of Nat")
    refuses(strings, "found 'RED' of Python type str where an expression, bool or int")
    refuses(nothing, "found None of Python type NoneType")


def test_order_is_of_naturals():
    """An enumeration has no order."""

    def define():
        t = toy()
        forall(Node, lambda n: t.colour[n] < Colour.BLUE)  # fault

    refuses(define, "each side of an order comparison must be of Nat, found `colour[n]` of Colour")


def test_sums_are_of_naturals():
    """Truth values cannot be added."""

    def define():
        t = toy()
        t.flag.value + 1  # fault

    refuses(define, "each operand of + - * and // must be of Nat, found `flag` of Bool")


def test_connectives_join_truth_values():
    """A number under & or ~ is refused."""

    def joined():
        t = toy()
        t.flag.value & t.most  # fault

    def negated():
        t = toy()
        ~t.most  # noqa: B018 # fault

    refuses(joined, "each side of and takes Bool, found `most` of type Size")
    refuses(negated, "~ takes Bool, found `most` of type Size")


def test_an_assigned_value_has_the_sort_of_the_variable():
    """A value of another sort is refused with both sorts."""

    def define():
        t = toy()

        @t.module.action
        def act(step: Step, n: Node) -> None:
            """Paint."""
            step.assign(t.colour[n], Taste.SOUR)  # fault

    refuses(define, "the value assigned to colour must be of Colour, found `SOUR` of Taste")


def test_the_parts_of_a_choice_have_one_sort():
    """where() takes a formula and two values of one sort, and not none twice."""

    def sorts():
        t = toy()
        where(t.flag.value, Colour.RED, Taste.SOUR)  # fault

    def condition():
        t = toy()
        where(t.most, 1, 2)  # fault

    def nothing():
        t = toy()
        where(t.flag.value, None, None)  # fault

    refuses(sorts, "where() must be of Taste, found `RED` of Colour")
    refuses(condition, "the condition of where() takes Bool, found `most`")
    refuses(nothing, "where() got none on both sides")


def test_quantifiers_are_given_sorts_and_a_body():
    """As many arguments as sorts, sorts with members, and a body that is a formula."""

    def number():
        toy()
        forall(Node, lambda a, b: a == b)  # fault

    def naturals():
        toy()
        exists(Size, lambda a: a == 1)  # fault

    def value():
        t = toy()
        forall(Node, lambda n: t.size[n])  # fault

    refuses(number, "forall() was given 1 sorts and a body of 2 arguments")
    refuses(naturals, "exists() ranges over open sorts and enumerations, found Size")
    refuses(value, "the body of forall() takes Bool, found `size[n]` of type Size")


def test_maps_take_members_of_their_domain():
    """A map is applied to its domain; bijective() takes a map from a sort to itself."""

    def applied():
        t = toy()

        @t.module.action
        def act(step: Step, f: Map[Node, Node], e: Edge) -> None:
            """Set."""
            step.require(f[e] == f[e], OTHER)  # fault

    def no_bijection():
        t = toy()

        @t.module.action
        def act(step: Step, f: Map[Node, Edge]) -> None:
            """Set."""
            step.require(bijective(f), OTHER)  # fault

    refuses(applied, "the argument of f must be of Node, found `e` of Edge")
    refuses(no_bijection, "bijective() takes a Map from a sort to itself, found f")
