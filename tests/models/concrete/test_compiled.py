"""Compiled steps: on every event of every state of several instances they do as the interpreter does."""

from collections import deque

import garden
import pytest

from kvspec.models.concrete import Event
from kvspec.models.concrete.compiled import CUT, Compiled
from kvspec.spec.core import RACE, REUSE, TINY, make_instance
from kvspec.spec.handles import Handle, Length, Phase, length, phase
from kvspec.spec.language import Symbol, after, exists, type_of

FORKS = make_instance(
    "FORKS", "two handles, one append, a batch row", handles=2, txns=1, layers=1, rows=1
)
TALL = make_instance(
    "TALL", "one handle, two appends, two layers, two rows", handles=1, txns=2, layers=2, longest=2
)


def reachable(machine, most):
    """States that can be reached, breadth first, at most so many."""
    seen, queue = set(), deque(machine.initial_states())
    while queue and len(seen) < most:
        found = queue.popleft()
        if found not in seen:
            seen.add(found)
            queue.extend(outcome.state for _, outcome in machine.transitions(found))
    return seen


@pytest.mark.parametrize(
    ("instance", "most"),
    [(TINY, 999), (REUSE, 150), (FORKS, 90), (TALL, 60), (garden.make(), 60)],
    ids=lambda value: getattr(value, "name", None),
)
def test_compiled_and_interpreted_steps_agree(instance, most):
    """Every event of every state, within limits or not, has the same kind, state and code in both."""
    compiled = Compiled(instance)
    kinds = set()
    for found in reachable(compiled.machine, most):
        for event in compiled.machine.events():
            assert compiled.disagreement(found, event) is None
            kinds.add(compiled.step(found, event)[0])
    assert kinds == {"accepted", "refused", "cut"}


@pytest.mark.slow
@pytest.mark.parametrize("instance", [REUSE, RACE], ids=lambda found: found.name)
def test_whole_instances_agree(instance):
    """Every event of every reachable state of two more instances of the core."""
    compiled = Compiled(instance)
    states = reachable(compiled.machine, instance.expected.states)
    assert len(states) == instance.expected.states
    for found in states:
        for event in compiled.machine.events():
            assert compiled.disagreement(found, event) is None


def test_a_disagreement_is_told():
    """A compiled step that does something else is told with both results."""
    compiled = Compiled(TINY)
    (start,) = compiled.machine.initial_states()
    event = Event("evict", (("b", 0),))
    assert compiled.disagreement(start, event) is None
    compiled.steps["evict"] = lambda _cells, _block: None
    told = compiled.disagreement(start, event)
    assert told is not None
    assert "accepted" in told
    assert "BLOCK_EMPTY" in told


def test_a_step_that_is_cut_changes_no_cell():
    """What would leave the bounds is not done in part."""
    compiled = Compiled(TINY)
    cells = compiled.initial()
    assert compiled.steps["allocate"](cells, 0, 0, 0) is None
    assert compiled.steps["truncate"](cells, 0, 0) is None  # the one version there is
    before = list(cells)
    assert compiled.steps["truncate"](cells, 0, 0) == CUT
    assert cells == before


@pytest.mark.parametrize("instance", [TINY, FORKS, garden.make(initial={garden.flag: True})])
def test_the_initial_cells_are_the_initial_state(instance):
    """Compiled and interpreted machines start alike."""
    compiled = Compiled(instance)
    assert [compiled.restore(compiled.initial())] == compiled.machine.initial_states()


def test_a_start_that_is_open_is_refused():
    """A variable that may start anywhere has no one cell to start with."""
    with pytest.raises(TypeError, match=r"flag.*may start anywhere"):
        Compiled(garden.make()).initial()


def test_a_formula_is_a_function_of_cells():
    """A formula over a handle gives what the interpreter gives, before and after a step."""
    compiled = Compiled(REUSE)
    h = Symbol(type_of(Handle), "h", "parameter")
    is_ready = compiled.value((phase[h] == Phase.DECODE_READY) & (length[h] <= Length.top), h)
    any_ready = compiled.value(exists(Handle, lambda c: phase[c] == Phase.DECODE_READY))
    cells = compiled.initial()
    assert (is_ready(cells, 1), any_ready(cells)) == (False, False)
    assert compiled.steps["allocate"](cells, 1, 0, 0) is None
    assert (is_ready(cells, 0), is_ready(cells, 1), any_ready(cells)) == (False, True, True)
    assert compiled.flatten(compiled.restore(cells)) == cells


def test_a_formula_of_a_step_is_refused():
    """There is no state after the step in a formula of one state."""
    h = Symbol(type_of(Handle), "h", "parameter")
    with pytest.raises(TypeError, match="speaks of a step"):
        Compiled(TINY).value(after(length[h]) == 0, h)


def test_known_parameters_are_written_in():
    """A step with values for some parameters does as the step with all of them."""
    compiled = Compiled(FORKS)
    one, two = compiled.initial(), compiled.initial()
    assert compiled.step_for("allocate", h=1, b=0, a=0)(one) is None
    assert compiled.steps["allocate"](two, 1, 0, 0) is None
    assert one == two
    only = compiled.step_for("fork", p=1, children=(True, False))
    assert (only(one, 0), compiled.steps["fork"](two, 1, (True, False), 0)) == (None, None)
    assert one == two
    with pytest.raises(KeyError, match="no parameter z"):
        compiled.step_for("fork", z=1)
