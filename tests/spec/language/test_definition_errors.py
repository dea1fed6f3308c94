"""Every misuse in modules, systems and properties is an error that names its line."""

import pytest
from language_toys import EARLY, Colour, Node, Size, grown, refuses, toy

from kvspec.spec.language import (
    Enum,
    Map,
    Module,
    Natural,
    Open,
    Option,
    Properties,
    Step,
    System,
    after,
    bijective,
    exists,
    fired,
    forall,
    implies,
    is_some,
    none,
    strong,
    the,
    type_of,
    weak,
)


def test_a_variable_has_an_identifier_and_a_meaning():
    """A name that is no Python name, and a meaning left empty, are refused."""

    def name():
        toy().module.variable("two words", to=Size, init=0, meaning="x")  # fault

    def meaning():
        toy().module.variable("words", to=Size, init=0, meaning=" ")  # fault

    refuses(name, "'two words' is no identifier: name a variable as a Python name")
    refuses(meaning, "variable words has no meaning: give one line that says what it holds")


def test_a_variable_is_indexed_by_members():
    """A domain of naturals or options is refused."""

    def naturals():
        toy().module.variable("words", Size, to=Size, init=0, meaning="x")  # fault

    def options():
        toy().module.variable("words", Option[Node], to=Size, init=0, meaning="x")  # fault

    refuses(naturals, "variable words is indexed by Size: index by open sorts and enumerations")
    refuses(options, "variable words is indexed by Option[Node]")


def test_an_initial_value_has_the_sort_of_the_variable():
    """An initial value of another sort is refused."""

    def define():
        toy().module.variable("words", Node, to=Size, init=Colour.RED, meaning="x")  # fault

    refuses(define, "the initial value of words must be of Size, found `RED` of Colour")


def test_an_initial_value_reads_no_state():
    """There is no state before the first one; bounds of instances are not for initial values either."""

    def reads():
        t = toy()
        t.module.variable("words", Node, to=Size, init=lambda n: t.size[n], meaning="x")  # fault

    def top():
        toy().module.variable("words", to=Size, init=Size.top, meaning="x")  # fault

    refuses(reads, "the initial value of words uses size[i0]: use its indices and constants alone")
    refuses(top, "the initial value of words uses Size.top")


def test_an_initial_value_may_depend_on_the_index_and_on_constants():
    """A function of the indices, and a constant, are initial values."""
    t = toy()
    link = t.module.variable("own", Node, to=Option[Node], init=lambda n: n, meaning="itself")
    words = t.module.variable("words", to=Size, init=t.most, meaning="x")
    assert repr(link.initial) == "i0"
    assert repr(words.initial) == "most"


def test_a_variable_is_declared_once():
    """A second variable of that name is refused, in a module and in those that use it."""

    def again():
        toy().module.variable("size", to=Size, init=0, meaning="x")  # fault

    def below():
        other = Module("other", "Another.", uses=(toy().module,))
        other.variable("size", to=Size, init=0, meaning="x")  # fault

    refuses(again, "a variable size exists already: choose another name")
    refuses(below, "a variable size exists already: choose another name")


def test_a_constant_is_a_natural_declared_once_with_a_meaning():
    """A constant of another sort, without meaning, or declared again, is refused."""

    def sort():
        toy().module.constant("least", Node, meaning="x")  # fault

    def meaning():
        toy().module.constant("least", Size, meaning="")  # fault

    def again():
        toy().module.constant("most", Size, meaning="x")  # fault

    def shared():
        t = toy()
        Module("other", "Another.").share(t.flag.value)  # fault

    refuses(sort, "constant least is of Node: constants are naturals")
    refuses(meaning, "constant least has no meaning")
    refuses(again, "a constant most exists already: choose another name")
    refuses(shared, "Module(other) shares flag, which is no constant of a module")


def test_an_enumeration_has_members():
    """An enumeration without members is refused, as no variable of it could have a value."""

    def define():
        class Nothing(Enum):  # fault
            """Nothing."""

    refuses(define, "the enumeration Nothing has no members: write `NAME = member()` for each")


def test_a_module_writes_variables_of_modules_it_uses():
    """writes= names variables of the modules in uses=."""

    def define():
        t = toy()
        Module("other", "Another.", writes=(t.flag,))  # fault

    refuses(define, "module other declares writes to flag, which none of the modules it uses has")


def test_a_system_has_every_module_that_is_used():
    """A module that is used and not in the system is refused."""

    def define():
        t = toy()
        other = Module("other", "Another.", uses=(t.module,))
        System.of("half", "Half.", other)  # fault

    refuses(define, "Module(other) uses Module(toy), which system half lacks: add it")


def test_names_of_a_system_are_unique():
    """Two modules cannot declare one name."""

    def define():
        System.of("twice", "Twice.", toy("one").module, toy("two").module)  # fault

    refuses(define, "system twice: the name colour is declared twice")


def test_one_name_is_one_sort():
    """Two kinds of sorts with one name are refused, since engines tell sorts apart by name."""

    def define():
        t = toy()

        class Size(Open):
            """A thing."""

        t.module.variable("thing", Size, to=Colour, init=Colour.RED, meaning="x")
        System.of("mixed", "Mixed.", t.module)  # fault

    refuses(define, "system mixed: the name Size is given to two sorts, one natural and one open")


def test_a_property_has_a_docstring_and_its_own_name():
    """A property without a docstring, or named like another, is refused."""

    def docstring():
        t = toy()
        claims = Properties(grown(t))

        @claims.invariant  # fault
        def flagged():
            return t.flag.value

    def twice():
        t = toy()
        claims = Properties(grown(t))

        def flagged():
            """The flag is set."""
            return t.flag.value

        claims.invariant(flagged)

        @claims.step  # fault
        def flagged():
            """The flag stays."""
            return t.flag.value

    refuses(docstring, "flagged has no docstring: say the claim in one sentence")
    refuses(twice, "two properties are named flagged")


def claims_of(kind, formula):
    """A property of that kind with that formula of the toy, defined at one line."""
    t = toy()
    claims = Properties(grown(t))

    def claim():
        """A claim."""
        return formula(t)

    getattr(claims, kind)(claim)  # fault


@pytest.mark.parametrize(
    ("kind", "formula", "parts"),
    [
        ("invariant", lambda t: t.most, ("the property claim takes Bool, found `most`",)),
        ("invariant", lambda t: after(t.flag.value), ("claim uses after(), and only step",)),
        ("witness", lambda t: fired("grow"), ("claim uses fired(), and only step properties may",)),
        ("step", lambda t: fired("shrink"), ("claim names shrink, no action of toy: it has grow",)),
        (
            "step",
            lambda t: fired("grow", "OTHER"),
            ("claim names grow refused with OTHER, which is never a step", "an effect are none"),
        ),
        ("step", lambda t: after(after(t.flag.value)), ("after() within after(): `flag'`",)),
        ("invariant", lambda t: toy().flag.value, ("claim reads flag, no variable of system toy",)),
        ("invariant", lambda t: toy().most <= 3, ("claim uses most, no constant of system toy",)),
        ("lemma", lambda t: t.most <= Size.top, ("claim uses Size.top: bounds of an instance",)),
        ("end", lambda t: is_some(t.flag.value), ("is_some() takes an option, found `flag`",)),
        ("invariant", lambda t: the(t.most) == 1, ("the() takes an option, found `most`",)),
    ],
)
def test_a_property_speaks_of_its_system(kind, formula, parts):
    """Foreign variables and constants, bounds, and steps in claims about states are refused."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - parts say which
        claims_of(kind, formula)
    for part in parts:
        assert part in str(caught.value)
    assert caught.value.file == __file__


def test_a_property_binds_its_names():
    """A member that leaks out of its quantifier, or a parameter of an action, is refused."""

    def leaks():
        t = toy()
        kept = []
        forall(Node, lambda n: kept.append(n) or t.flag.value)
        claims = Properties(grown(t))

        @claims.invariant  # fault
        def small():
            """All are small."""
            return t.size[kept[0]] <= 1

    refuses(leaks, "small uses n in `size[n] <= 1`, which no quantifier of it binds")


def test_leads_to_is_claimed_for_members():
    """Both formulas of a leads_to may use its parameters, and must be formulas."""
    t = toy()
    system = grown(t)
    claims = Properties(system)

    @claims.leads_to(weak(system.action("grow"), "n"), strong(system.action("grow")))
    def grows(n: Node):
        """A node without size gets one."""
        return t.size[n] == 0, t.size[n] >= 1

    assert [symbol.name for symbol in grows.bound] == ["n"]
    assert [f.strong for f in grows.fairness] == [False, True]
    assert claims["grows"] is grows

    def goal():
        @claims.leads_to()  # fault
        def numbers(n: Node):
            """Wrong."""
            return t.size[n] == 0, t.size[n]

    refuses(goal, "numbers takes Bool, found `size[n]` of type Size")


def test_fairness_names_parameters():
    """Fairness apart for a parameter that the action lacks is refused."""

    def define():
        weak(grown(toy()).action("grow"), "x")  # fault

    refuses(define, "grow has no parameter x: it has ['n', 'k']")


def test_fairness_is_of_actions_of_the_system():
    """A leads_to that assumes fairness of another system's action is refused."""

    def define():
        t = toy()
        claims = Properties(grown(t))

        @claims.leads_to(weak(grown(toy()).action("grow")))  # fault
        def grows(n: Node):
            """A node grows."""
            return t.size[n] == 0, t.size[n] == 1

    refuses(define, "grows assumes fairness of grow, no action of toy: it has grow")


def test_look_ups_list_what_exists():
    """A system's action and a collection's property are found by name, or what exists is listed."""
    system = grown(toy())
    with pytest.raises(KeyError, match="system toy has no action 'shrink'; it has grow"):
        system.action("shrink")
    with pytest.raises(KeyError, match="no property 'small'; there are none"):
        Properties(system)["small"]


def test_options_and_maps_have_open_sorts():
    """none() and Option take an open sort."""

    def define():
        none(Size)  # fault

    refuses(define, "Option takes an open sort, found Size")


def test_sorts_are_not_called_types_of_values():
    """type_of() of what is no sort names what is."""
    for wrong in (Natural.__mro__[1], Open, 3, None):
        with pytest.raises(Exception, match="where a sort is expected"):
            type_of(wrong)


def test_map_symbols_leak_no_more_than_others():
    """A map of one action is refused in a property."""
    t = toy()
    kept = []

    @t.module.action
    def move(step: Step, f: Map[Node, Node]) -> None:
        """Move."""
        kept.append(f)
        step.require(bijective(f), EARLY)
        for n in step.every(Node):
            step.assign(t.size[n], t.size[f[n]])

    claims = Properties(System.of("toy", "A toy.", t.module))

    def define():
        @claims.invariant  # fault
        def bijection():
            """It is."""
            return implies(bijective(kept[0]), exists(Node, lambda n: t.size[n] == 0))

    refuses(define, "bijection uses f in")
