"""The compiled step of any event against the plain machine."""

from random import Random

import numpy as np
import pytest

from kvspec.models.concrete import Event, Machine
from kvspec.models.concrete.state import State
from kvspec.models.explicit.stepper import Stepper
from kvspec.spec import core, wrapping
from kvspec.spec.language import Instance

MANY_WORDS = core.make_instance(
    "MANY_WORDS",
    "states of several words, and sorts of one member and of none",
    handles=3,
    txns=3,
    layers=2,
    blocks=2,
    longest=9,
    versions=40,
    generations=9,
)


def some_event(machine: Machine, random: Random) -> Event:
    """An event of an action that has any."""
    while True:
        action = random.choice(list(machine.system.actions.values()))
        ranges = [machine._range(parameter) for parameter in action.parameters]
        if all(ranges):
            names = [parameter.name for parameter in action.parameters]
            values = [random.choice(values) for values in ranges]
            return Event(action.name, tuple(zip(names, values, strict=True)))


def compare(instance: Instance, seed: int, steps: int) -> set[str]:
    """Step at random by both; gives the kinds of outcome that came up."""
    random, machine, stepper = Random(seed), Machine(instance), Stepper(instance)
    state: State = machine.initial_states()[0]
    kinds = set()
    for _ in range(steps):
        choices = [some_event(machine, random) for _ in range(4)]
        event = next((e for e in choices if machine.step(state, e).kind == "accepted"), choices[0])
        told = machine.step(state, event)
        before = np.array(stepper.pack(state), np.int64)
        after = before.copy()
        row = np.array(stepper.row(event), np.int64)
        answer = stepper.step(before, 0, after, 0, row, 0, 0)
        kinds.add(told.kind)
        if told.kind == "cut":
            assert answer < 0, event
            continue
        assert answer == (0 if told.code is None else stepper.code_numbers[told.code]), event
        assert tuple(after.tolist()) == stepper.pack(told.state), event
        state = told.state
    return kinds


@pytest.mark.parametrize(
    "instance", [core.SMALL, core.FAN_OUT, MANY_WORDS, wrapping.SAFE], ids=lambda i: i.name
)
def test_the_compiled_step_is_the_plain_one(instance: Instance) -> None:
    """Answers, states and refusals with effects are those of the machine, on states of any size."""
    kinds = compare(instance, 3, 250)
    assert {"accepted", "refused"} <= kinds


def test_steps_beyond_the_bounds_are_told_apart() -> None:
    """A step that is cut says what it would have answered."""
    stepper, machine = Stepper(core.TINY), Machine(core.TINY)
    (state,) = machine.initial_states()
    allocate = Event("allocate", (("h", 0), ("b", 0), ("a", 0)))
    cut = Event("truncate", (("h", 0), ("n", 0)))
    for event in (allocate, cut):
        state = machine.step(state, event).state
    words = np.array(stepper.pack(state), np.int64)
    row = np.array(stepper.row(cut), np.int64)
    assert machine.step(state, cut).kind == "cut"
    assert stepper.step(words, 0, words.copy(), 0, row, 0, 0) == -1
