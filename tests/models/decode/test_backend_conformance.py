"""The decode backend against the reference machine, event by event: answer, code and state."""

import random
from collections import deque
from functools import cache

import attrs
import pytest
import torch

from kvspec.models.concrete import Event, Machine, Outcome, Refusal, State, show_event, show_state
from kvspec.models.decode import (
    LAYOUT_KINDS,
    DecodeBackend,
    agrees,
    make_backend,
)
from kvspec.spec import core
from kvspec.spec.language import Instance

INSTANCES = {instance.name: instance for instance in core.INSTANCES}
Step = tuple[Event, Outcome, int]
WEIGHTS = {
    **dict.fromkeys(("cancel_txn", "cancel_request", "finish", "truncate", "leave"), 1),
    **dict.fromkeys(("stage_k", "stage_v", "prepare", "publish"), 40),
}
HELD = ("DECODE_READY", "FINISHED", "CANCELLED")


class Graph:
    """What the machine of an instance does in each state, worked out when asked, states by number."""

    def __init__(self, instance: Instance) -> None:
        self.machine = Machine(instance)
        self.numbers: dict[State, int] = {}
        self.states: list[State] = []
        self.tried: dict[int, tuple[list[Step], list[Step]]] = {}

    def number(self, state: State) -> int:
        """The number of a state."""
        if state not in self.numbers:
            self.numbers[state] = len(self.states)
            self.states.append(state)
        return self.numbers[state]

    def steps(self, at: int) -> tuple[list[Step], list[Step]]:
        """The transitions of a state, and the refusals without effect, within limits."""
        if at not in self.tried:
            state, found = self.states[at], ([], [])
            for event in self.machine.events():
                if self.machine.within_limits(state, event):
                    outcome = self.machine.step(state, event)
                    if outcome.kind != "cut":
                        to = self.number(outcome.state)
                        found[not outcome.is_transition].append((event, self.lean(outcome, to), to))
            self.tried[at] = found
        return self.tried[at]

    def lean(self, outcome: Outcome, to: int) -> Outcome:
        """The outcome with one copy of each state, and the code alone of a refusal, to save memory."""
        code = outcome.code
        refusal = None if code is None else Refusal(code, "", "")
        return attrs.evolve(outcome, state=self.states[to], refusal=refusal)


@cache
def graph_of(name: str) -> Graph:
    """The graph of an instance, which both layouts walk."""
    return Graph(INSTANCES[name])


class Walker:
    """A backend and the reference machine of one instance, side by side."""

    def __init__(self, instance: Instance, backend: DecodeBackend) -> None:
        self.graph = graph_of(instance.name)
        self.machine = self.graph.machine
        self.backend = backend
        self.start = self.graph.number(self.machine.initial_states()[0])
        self.reset()

    @property
    def state(self) -> State:
        """The state of both."""
        return self.graph.states[self.at]

    def reset(self) -> None:
        """Both in their initial state."""
        self.backend.reset(self.machine.instance)
        self.at = self.start
        assert self.backend.observe() == self.state

    def step(self, event: Event, outcome: Outcome, to: int) -> None:
        """The backend answers as the machine does, and comes to the same state."""
        reply = self.backend.perform(event)
        said = f"{show_event(self.machine, event)} answered {reply}, expected {outcome.code}"
        assert (reply.accepted, reply.code) == (outcome.kind == "accepted", outcome.code), said
        found = self.backend.observe()
        assert found == outcome.state, f"{said}\n{show_state(self.machine, found, outcome.state)}"
        self.at = to

    def draw(self, draw: random.Random, share: float) -> Step:
        """A transition with probability ``share``, else a refusal; either where the other lacks.

        An action is drawn before its event: one that ends something seldom, one that brings an
        append to its publication often, for there are many steps to it.
        """
        transitions, refusals = self.graph.steps(self.at)
        first = transitions if draw.random() < share else refusals
        choice = first or transitions or refusals
        actions = sorted({event.action for event, _, _ in choice})
        weights = [WEIGHTS.get(action, 6) for action in actions]
        (action,) = draw.choices(actions, weights)
        return draw.choice([step for step in choice if step[0].action == action])

    def path_to(self, wanted: set[int], barren: set[int]) -> list[Step] | None:
        """A shortest way from here to one of some states.

        When there is none, all that can be reached from here joins the barren states, through which
        no later search goes.
        """
        before: dict[int, tuple[int, Step] | None] = {self.at: None}
        queue = deque([self.at])
        while queue:
            at = queue.popleft()
            if at in wanted:
                path = []
                while (link := before[at]) is not None:
                    at, step = link
                    path.append(step)
                return path[::-1]
            for step in self.graph.steps(at)[0]:
                if step[2] not in before and step[2] not in barren:
                    before[step[2]] = (at, step)
                    queue.append(step[2])
        barren.update(before)
        return None


def cover(walker: Walker, *, refuse_in: int = 1) -> tuple[int, int]:
    """Take every transition once at least, and count states and transitions.

    Every refusal is tried too, in one of so many states.
    """
    left: dict[int, list[Step]] = {}
    unfinished, barren = {walker.at}, set()
    taken = 0
    while unfinished:
        here = walker.at
        if here not in left:
            transitions, refusals = walker.graph.steps(here)
            for step in refusals if len(left) % refuse_in == 0 else ():
                walker.step(*step)
            assert walker.backend.damage() == []
            left[here] = transitions[::-1]
            unfinished |= {step[2] for step in transitions if step[2] not in left}
        if left[here]:
            taken += 1
            # One that leads to more work, if there is one: then no way has to be looked for.
            ahead = [place for place, step in enumerate(left[here]) if step[2] in unfinished]
            walker.step(*left[here].pop(ahead[-1] if ahead else -1))
            continue
        unfinished.discard(here)
        path = None if here in barren else walker.path_to(unfinished, barren)
        if path is None and unfinished:
            walker.reset()
            path = walker.path_to(unfinished, barren)
        for step in path or []:
            walker.step(*step)
    return len(left), taken


def cached_agrees(backend: DecodeBackend, machine: Machine, state: State) -> None:
    """Cached and uncached logits of every readable handle agree."""
    for handle in range(machine.instance.sizes["Handle"]):
        if machine.value(state, "phase", handle) in HELD:
            assert agrees(backend.logits(handle), backend.uncached_logits(handle))


@pytest.mark.parametrize("layout", LAYOUT_KINDS)
@pytest.mark.parametrize("name", ["TINY", "REUSE"])
def test_every_transition_and_refusal_is_answered_alike(name: str, layout: str) -> None:
    """On a small instance the backend agrees with the machine in every state, on every event."""
    instance = INSTANCES[name]
    assert instance.expected is not None
    states, transitions = cover(Walker(instance, make_backend(layout)))
    assert states == instance.expected.states
    assert transitions == instance.expected.transitions


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["static"])  # two minutes; the layout with more to go wrong
def test_every_race_is_answered_alike(layout: str) -> None:
    """Two appends on one handle: every state and transition of RACE, all refusals in some states."""
    states, transitions = cover(Walker(core.RACE, make_backend(layout)), refuse_in=20)
    assert core.RACE.expected is not None
    assert states == core.RACE.expected.states
    assert transitions == core.RACE.expected.transitions


@pytest.mark.parametrize("layout", LAYOUT_KINDS)
@pytest.mark.parametrize("name", ["RACE", "LAYERS", "BRANCH", "SMALL", "FAN_OUT"])
def test_random_steps_are_answered_alike(name: str, layout: str) -> None:
    """Along random walks, most of whose steps are transitions, answers and states are equal."""
    walker = Walker(INSTANCES[name], make_backend(layout))
    draw = random.Random(name)
    published = 0
    for step in range(1200):
        if step % 60 == 0:
            walker.reset()
        event, outcome, to = walker.draw(draw, share=0.7)
        walker.step(event, outcome, to)
        published += event.action == "publish" and outcome.kind == "accepted"
        if step % 7 == 0:
            assert walker.backend.damage() == []
            cached_agrees(walker.backend, walker.machine, walker.state)
    assert published >= 5 or not INSTANCES[name].sizes["Txn"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_dtypes_are_sound_too(dtype: torch.dtype) -> None:
    """In every dtype a walk over LAYERS leaves no damage beyond that dtype's tolerance."""
    walker = Walker(core.LAYERS, make_backend("static", dtype=dtype))
    draw = random.Random(3)
    for step in range(200):
        if step % 40 == 0:
            walker.reset()
        walker.step(*walker.draw(draw, share=1.0))
        assert walker.backend.damage() == []
