"""A refinement names every variable and every step; what is wrong in it is an error at its definition."""

import attrs
import pytest
from language_toys import LATE, OTHER, Node, Size

from kvspec.spec.language import DefinitionError, Map, Module, Open, Step, System, after
from kvspec.spec.language.refinement import STUTTER, AbstractCall, Image, call, refinement


class Elsewhere(Open):
    """A sort that the concrete system lacks."""


def counter(name, sort=Node):
    """A system that counts by any number up to a constant, and refuses with an effect."""
    module = Module(name, "A counter.")
    most = module.constant("most", Size, meaning="the most")
    rows = module.variable(f"{name}_rows", sort, to=Size, init=0, meaning="rows")
    late = module.variable(f"{name}_late", to=Size, init=0, meaning="late ones")

    def add(step: Step, n: sort, k: Size) -> None:
        """Add k rows."""
        step.require(k <= most, OTHER)
        step.require(rows[n] == 0, LATE, refused={late.value: late.value + 1})
        step.assign(rows[n], rows[n] + k)

    def move(step: Step, f: Map[sort, sort]) -> None:
        """Move rows."""
        for n in step.every(sort):
            step.assign(rows[n], rows[f[n]])

    for function, name_ in ((add, f"{name}_add"), (move, f"{name}_move")):
        function.__annotations__ = {
            key: {"sort": sort, "Size": Size, "Map[sort, sort]": Map[sort, sort]}.get(kind, kind)
            for key, kind in function.__annotations__.items()
        }
        function.__name__ = name_
        module.action(function)
    return System.of(name, "A counter.", module)


LOW, HIGH = counter("low"), counter("high")
ADD, MOVE = HIGH.action("high_add"), HIGH.action("high_move")


def define(**changed):
    """The refinement of the upper counter by the lower one, with parts replaced."""
    low, high = LOW.variables, HIGH.variables
    given = {
        "mapping": {
            high["high_rows"]: lambda n: low["low_rows"][n],
            high["high_late"]: low["low_late"].value,
        },
        "steps": {
            LOW.action("low_add"): lambda n, k: call(ADD, n, k),
            (LOW.action("low_add"), LATE): lambda n, k: call(ADD, n, k, refused=LATE),
            LOW.action("low_move"): lambda f: (call(MOVE, f), STUTTER),
        },
        **changed,
    }
    return refinement("counts", concrete=LOW, abstract=HIGH, **given)


def steps(**changed):
    """The steps of the refinement with some replaced, by the name of the transition."""
    named = {
        "add": LOW.action("low_add"),
        "late": (LOW.action("low_add"), LATE),
        "move": LOW.action("low_move"),
    }
    plain = {
        "add": lambda n, k: call(ADD, n, k),
        "late": lambda n, k: call(ADD, n, k, refused=LATE),
        "move": STUTTER,
    }
    return {named[name]: value for name, value in {**plain, **changed}.items()}


def test_a_refinement_records_what_it_maps():
    """Images by variable, matches by transition, and constants of the same name by default."""
    made = define()
    assert set(made.mapping) == {"high_rows", "high_late"}
    assert isinstance(made.mapping["high_rows"], Image)
    assert repr(made.mapping["high_rows"].value) == "low_rows[i0]"
    assert set(made.steps) == {"low_add", "low_add!LATE", "low_move"}
    (late,) = made.steps["low_add!LATE"]
    assert isinstance(late, AbstractCall)
    assert late.name == "high_add!LATE"
    assert repr(made.constants["most"]) == "most"
    assert made.steps["low_move"][1] is STUTTER


@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        (
            {"mapping": {}},
            ("the mapping must name exactly high_late, high_rows", "missing: high_late, high_rows"),
        ),
        (
            {"steps": {LOW.action("low_move"): STUTTER}},
            ("the steps must name exactly", "missing: low_add, low_add!LATE"),
        ),
        (
            {"steps": steps(add=lambda m: call(ADD, m, 1))},
            ("low_add has no parameter m; it has k, n",),
        ),
        ({"steps": steps(add=lambda n: n)}, ("low_add is mapped to n: give STUTTER or call",)),
        (
            {"steps": steps(add=lambda n: call(LOW.action("low_add"), n, 1))},
            ("low_add is no action of high; it has high_add, high_move",),
        ),
        (
            {"steps": {**steps(), ADD: STUTTER}},
            ("refinement counts: high_add is no action of low",),
        ),
        (
            {"steps": steps(add=lambda n: call(ADD, n, HIGH.variables["high_rows"][n]))},
            ("reads high_rows[n], no variable of low before the step",),
        ),
        (
            {"steps": steps(add=lambda n: call(ADD, n, after(LOW.variables["low_rows"][n])))},
            ("reads low_rows'[n], no variable of low before the step",),
        ),
        (
            {"constants": {"most": LOW.variables["low_late"].value}},
            ("the constant most is mapped to low_late: use constants of low alone; it has most",),
        ),
        (
            {"constants": {"most": HIGH.constants["most"]}},
            ("the constant most is mapped to most: use constants of low alone; it has most",),
        ),
        (
            {"constants": {"least": 1}},
            ("refinement counts: least is no constant of high; it has most",),
        ),
    ],
)
def test_a_refinement_that_is_not_well_formed_says_why(changed, parts):
    """Missing, unknown and foreign parts are named."""
    with pytest.raises(DefinitionError) as caught:
        define(**changed)
    for part in parts:
        assert part in str(caught.value)


def test_a_call_takes_the_arguments_of_its_action():
    """Number, sort and shape of arguments are checked, and the code of a refusal."""
    n, k = ADD.parameters
    (f,) = MOVE.parameters
    with pytest.raises(DefinitionError, match=r"high_add takes 2 arguments \(k, n\), found 1"):
        call(ADD, n)
    with pytest.raises(DefinitionError, match="the argument n of high_add must be of Node"):
        call(ADD, k, k)
    with pytest.raises(DefinitionError, match="the argument f of high_move must be a map Node"):
        call(MOVE, n)
    with pytest.raises(KeyError, match="high_add has no guard EARLY"):
        call(ADD, n, 1, refused="EARLY")
    assert call(MOVE, f).name == "high_move"


def test_open_sorts_are_shared():
    """The abstract system's open sorts must be those of the concrete one."""
    other = counter("other", Elsewhere)
    with pytest.raises(DefinitionError, match="other has the open sort Elsewhere, which low lacks"):
        refinement("counts", concrete=LOW, abstract=other, mapping={}, steps={})


def test_a_mapped_value_has_the_sort_of_the_variable():
    """A truth value for a number is refused with the place where it stands."""
    low, high = LOW.variables, HIGH.variables
    mapping = {
        high["high_rows"]: lambda n: low["low_rows"][n] == 0,
        high["high_late"]: low["low_late"].value,
    }
    with pytest.raises(
        DefinitionError, match="counts: what high_rows is mapped to must be of Size"
    ):
        define(mapping=mapping)


def test_a_refinement_cannot_be_changed():
    """It is checked once and stays as it is."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        define().name = "other"
