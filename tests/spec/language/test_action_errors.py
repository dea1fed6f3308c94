"""Every misuse within an action is an error at its definition that names the line of the mistake."""

import pytest
from language_toys import EARLY, LATE, OTHER, Colour, Node, Size, refuses, toy

from kvspec.spec.language import (
    DefinitionError,
    ErrorCode,
    Map,
    Module,
    Step,
    after,
    fired,
)


def test_an_action_needs_a_docstring():
    """An action without a docstring is refused."""

    def define():
        t = toy()

        @t.module.action  # fault
        def act(step: Step, n: Node) -> None:
            step.assign(t.size[n], 1)

    refuses(define, "act has no docstring: say in one sentence what it does")


def test_an_action_does_something():
    """An action with neither guards nor assignments is refused."""

    def define():
        t = toy()

        @t.module.action  # fault
        def act(step: Step, n: Node) -> None:
            """Nothing."""

    refuses(define, "act has neither guards nor assignments")


def test_an_action_is_named_once():
    """A second action of the same name is refused."""

    def define():
        t = toy()

        def act(step: Step) -> None:
            """Set the flag."""
            step.assign(t.flag.value, True)

        t.module.action(act)

        @t.module.action  # fault
        def act(step: Step) -> None:
            """Clear the flag."""
            step.assign(t.flag.value, False)

    refuses(define, "module toy has two actions act")


def test_a_guard_is_a_formula():
    """A guard of a number is refused with its code."""

    def define():
        t = toy()

        @t.module.action
        def act(step: Step, n: Node) -> None:
            """Grow."""
            step.require(t.size[n], OTHER)  # fault

    refuses(define, "the guard OTHER takes Bool, found `size[n]` of type Size")


def test_a_guard_has_a_code():
    """A code that is a string is refused."""

    def define():
        t = toy()

        @t.module.action
        def act(step: Step) -> None:
            """Set."""
            step.require(t.flag.value, "SET")  # fault

    refuses(define, "act: a guard needs an ErrorCode, found 'SET'")


def test_a_variable_is_assigned_once():
    """A second assignment of a variable is refused, also at another index (assignments are simultaneous)."""

    def define():
        t = toy()

        @t.module.action
        def act(step: Step, n: Node, m: Node) -> None:
            """Grow."""
            step.assign(t.size[n], 1)
            step.assign(t.size[m], 2)  # fault

    refuses(define, "act: size is assigned twice", "with where() or every()")


def test_guards_come_first():
    """A guard after an assignment is refused."""

    def define():
        t = toy()

        @t.module.action
        def act(step: Step, n: Node) -> None:
            """Grow."""
            step.assign(t.size[n], 1)
            step.require(t.flag.value, OTHER)  # fault

    refuses(define, "act: a guard (OTHER) after an assignment: write all guards first")


def test_guards_stand_outside_of_loops():
    """A guard within every() is refused, and forall() named."""

    def define():
        t = toy()

        @t.module.action
        def act(step: Step) -> None:
            """Grow."""
            for n in step.every(Node):
                step.require(t.size[n] == 1, OTHER)  # fault

    refuses(define, "act: a guard within every(): use forall()")


def test_each_guard_has_its_own_code():
    """Two guards with one code are refused."""

    def define():
        t = toy()

        @t.module.action
        def act(step: Step, n: Node) -> None:
            """Grow."""
            step.require(t.flag.value, OTHER)
            step.require(t.size[n] == 1, OTHER)  # fault

    refuses(define, "act: two guards refuse with OTHER: give each guard its own code")


def test_guards_keep_the_order_of_failure_classes():
    """A guard of an earlier class after a later one is refused; one of no class may stand anywhere (A12)."""

    def define():
        t = toy()

        @t.module.action
        def act(step: Step, n: Node) -> None:
            """Grow."""
            step.require(t.flag.value, LATE)
            step.require(t.size[n] == 0, OTHER)
            step.require(t.size[n] == 1, EARLY)  # fault

    refuses(define, "act: the guard EARLY comes after one of a later failure class")


def test_an_action_writes_what_its_module_declares():
    """An assignment to a variable of a module that is used, and not declared as written, is refused."""

    def define():
        t = toy()
        other = Module("other", "Another.", uses=(t.module,), writes=(t.flag,))

        @other.action
        def act(step: Step, n: Node) -> None:
            """Grow."""
            step.assign(t.flag.value, True)
            step.assign(t.size[n], 1)  # fault

    refuses(
        define,
        "act: assigned to size of module toy, which other does not declare to write",
        "declared are flag",
    )


def test_an_action_reads_what_its_module_uses():
    """A variable of a module that is not used cannot be read."""

    def define():
        t = toy()
        other = Module("other", "Another.")
        mine = other.variable("mine", to=Size, init=0, meaning="mine")

        @other.action  # fault
        def act(step: Step, n: Node) -> None:
            """Grow."""
            step.assign(mine.value, t.size[n])

    refuses(define, "act reads size, a variable of module toy, which other does not use", "mine")


def test_an_action_uses_constants_that_its_module_knows():
    """A constant of a module that is not used must be shared."""

    def define():
        t = toy()
        other = Module("other", "Another.")
        mine = other.variable("mine", to=Size, init=0, meaning="mine")

        @other.action  # fault
        def act(step: Step) -> None:
            """Grow."""
            step.assign(mine.value, t.most)

    refuses(define, "act uses the constant most, which neither other nor a module it uses declares")


def test_targets_are_variables():
    """A sum, a variable without its index, and a variable after the step cannot be assigned."""

    def total():
        t = toy()

        @t.module.action
        def act(step: Step, n: Node) -> None:
            """Grow."""
            step.assign(t.size[n] + 1, 1)  # fault

    def whole():
        t = toy()

        @t.module.action
        def act(step: Step, n: Node) -> None:
            """Grow."""
            step.assign(t.size, 1)  # fault

    def primed():
        t = toy()

        @t.module.action
        def act(step: Step, n: Node) -> None:
            """Grow."""
            step.assign(after(t.size[n]), 1)  # fault

    refuses(total, "act: assigned to size[n] + 1: assign to a variable at an index")
    refuses(whole, "act: assigned to size: assign to a variable at an index")
    refuses(primed, "act: assigned to size'[n]")


def test_every_indexes_what_it_assigns():
    """A variable assigned in a loop without the loop's member among its indices is refused."""

    def outside():
        t = toy()

        @t.module.action
        def act(step: Step, n: Node) -> None:
            """Grow."""
            for _ in step.every(Node):
                step.assign(t.size[n], 1)  # fault

    def through():
        t = toy()

        @t.module.action
        def act(step: Step, f: Map[Node, Node]) -> None:
            """Grow."""
            for n in step.every(Node):
                step.assign(t.size[f[n]], 1)  # fault

    refuses(outside, "act: size is assigned for every Node, which is not among its indices")
    refuses(through, "act: size is assigned for every Node, which is not among its indices")


def test_every_ranges_over_members():
    """every() over naturals or truth values is refused."""

    def define():
        t = toy()

        @t.module.action
        def act(step: Step) -> None:
            """Grow."""
            for _ in step.every(Size):  # fault
                pass

    refuses(define, "act: every() ranges over open sorts and enumerations")


def test_a_member_does_not_leave_its_loop():
    """The member of a loop used after the loop is refused."""

    def define():
        t = toy()

        @t.module.action  # fault
        def act(step: Step) -> None:
            """Grow."""
            for n in step.every(Node):
                step.assign(t.size[n], 1)
            step.assign(t.colour[n], Colour.RED)

    refuses(define, "act uses node_0 in `node_0`", "neither a parameter", "every() it stands in")


def test_a_loop_may_be_left():
    """What comes after a loop that is left by break is assigned once, not for all members."""
    t = toy()

    @t.module.action
    def act(step: Step) -> None:
        """Grow."""
        for n in step.every(Node):
            step.assign(t.size[n], 1)
            break
        step.assign(t.flag.value, True)

    assert [len(done.binders) for done in act.assignments] == [1, 0]


@pytest.mark.parametrize(
    "formula",
    [lambda t, n: after(t.size[n]) == 1, lambda t, n: fired("act") | t.flag.value],
    ids=["after", "fired"],
)
def test_an_action_does_not_speak_of_steps(formula):
    """after() and fired() are for properties."""

    def define():
        t = toy()

        @t.module.action  # fault
        def act(step: Step, n: Node) -> None:
            """Grow."""
            step.require(formula(t, n), OTHER)
            step.assign(t.size[n], 1)

    refuses(define, "act uses", "after() and fired() are for properties")


def test_an_action_does_not_know_the_bounds_of_an_instance():
    """Sort.top in a guard or in an assigned value is refused."""

    def define():
        t = toy()

        @t.module.action  # fault
        def act(step: Step, n: Node) -> None:
            """Grow."""
            step.assign(t.size[n], Size.top)

    def no_top():
        toy()
        Node.top  # noqa: B018 # fault

    refuses(define, "act uses Size.top: bounds of an instance belong into limits, not actions")
    refuses(no_top, "Node is no sort of naturals and has no top")


def test_a_refusal_assigns_and_does_not_guard():
    """The effect of a refusal has no guards and assigns each variable once."""

    def guarded():
        t = toy()

        @t.module.action
        def act(step: Step) -> None:
            """Set."""
            step.require(  # fault
                t.flag.value, OTHER, refused=lambda s: s.require(t.flag.value, LATE)
            )

    def twice():
        t = toy()

        @t.module.action
        def act(step: Step) -> None:
            """Set."""
            step.require(t.flag.value, OTHER, {t.flag.value: True, t.flag.value: False})  # fault

    refuses(guarded, "act: the refusal with OTHER has guards of its own")
    refuses(twice, "act refused with OTHER: flag is assigned twice")


def test_a_look_up_of_a_guard_lists_what_exists():
    """Asking an action for a guard that it lacks names the ones it has."""
    t = toy()

    @t.module.action
    def act(step: Step) -> None:
        """Set."""
        step.require(t.flag.value, OTHER)

    assert act.guard("OTHER").code is OTHER
    with pytest.raises(KeyError, match=r"act has no guard LATE; it has \[OTHER\]"):
        act.guard("LATE")


def test_an_error_outside_of_this_package_has_its_place():
    """The error carries file and line apart from its message."""
    error = DefinitionError("wrong", ("file.py", 7))
    assert (error.file, error.line, str(error)) == ("file.py", 7, "file.py:7: wrong")
    assert ErrorCode("A", "a").order == 0
