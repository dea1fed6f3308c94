"""The codes of failures and the order in which they are told (A12)."""

import attrs
import pytest

from kvspec.spec import core, serving
from kvspec.spec.append import begin
from kvspec.spec.failures import CODES, FailureClass
from kvspec.spec.language import DefinitionError, Step

SYSTEMS = (core.system, serving.system)
GUARDS = [
    (action.name, guard)
    for system in SYSTEMS
    for action in system.actions.values()
    for guard in action.guards
]


def test_every_code_is_used_by_some_guard():
    """No code is declared that neither the core nor the serving system gives (A12, C7)."""
    assert set(CODES) == {guard.code.name for _, guard in GUARDS}


def test_every_guard_has_a_code_of_the_list():
    """Every guard of both systems refuses with a code of the list, the very object (A12)."""
    assert [name for name, guard in GUARDS if CODES.get(guard.code.name) is not guard.code] == []


def test_the_classes_are_in_the_order_of_the_contract():
    """ABI, position and mask, layer set, generation and snapshot, frontier, ownership (A12)."""
    ordered = sorted(FailureClass, key=int)[1:]
    assert [kind.name for kind in ordered] == [
        "ABI",
        "POSITION",
        "LAYERS",
        "SNAPSHOT",
        "FRONTIER",
        "OWNERSHIP",
    ]
    assert all(isinstance(FailureClass(code.order), FailureClass) for code in CODES.values())
    used = {FailureClass(code.order) for code in CODES.values()}
    assert used == set(FailureClass)


def test_guards_of_every_action_keep_the_order():
    """Within an action the classes of the guards never go back (A12)."""
    for system in SYSTEMS:
        for action in system.actions.values():
            orders = [guard.code.order for guard in action.guards if guard.code.order]
            assert orders == sorted(orders), action.name


def test_codes_and_meanings_tell_each_other_apart():
    """Each code has a meaning of its own, and its name states a condition in capitals (A12)."""
    assert len({code.meaning for code in CODES.values()}) == len(CODES)
    for name, code in CODES.items():
        assert code.name == name == name.upper()
        assert not code.meaning.endswith(".")


def record(guards):
    """Record the guards in this order as those of one action."""
    step = Step("begin", lambda _: None)
    for guard in guards:
        step.require(guard.condition, guard.code)
    return step


@pytest.mark.parametrize("place", range(len(begin.guards) - 1))
def test_the_language_refuses_guards_out_of_order(place):
    """Begin with two neighbouring guards exchanged is refused exactly if their classes then go back (A12)."""
    guards = list(begin.guards)
    guards[place], guards[place + 1] = guards[place + 1], guards[place]
    orders = [guard.code.order for guard in guards if guard.code.order]
    if orders == sorted(orders):
        record(guards)
        return
    with pytest.raises(DefinitionError, match="comes after one of a later failure class"):
        record(guards)


def test_a_code_is_a_value():
    """A code carries its name, meaning and place; it cannot be changed."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        CODES["STALE_SNAPSHOT"].order = 1
