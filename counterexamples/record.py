"""From an engine's result to a trace: the plain-Python machine confirms it, and says where it departs.

What an engine found is taken step by step by the machine that it searched; a difference between the two
is a `ReplayError` and no trace. Then the specification takes the same steps, up to the first that it
refuses or takes otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import attrs

from kvspec.counterexamples.claims import Move, broken_at, is_stuck
from kvspec.counterexamples.errors import ReplayError, UnknownNameError
from kvspec.counterexamples.fairness import unfair, with_limits
from kvspec.counterexamples.format import (
    KINDS,
    Broken,
    Departure,
    InstanceRecord,
    Mutation,
    StepRecord,
    Trace,
)
from kvspec.counterexamples.resolve import resolve
from kvspec.counterexamples.systems import find_system
from kvspec.models.concrete import Event, Machine, State, show_event, state_json
from kvspec.models.concrete.text import parameter_json
from kvspec.spec.language import Instance, Property, System


class EngineStep(Protocol):
    """A step as an engine gives it: the first has no event, and its state is where the run begins."""

    @property
    def event(self) -> Event | None:
        """What was done."""

    @property
    def outcome(self) -> str:
        """`initial`, `accepted` or `refused`."""

    @property
    def code(self) -> str | None:
        """The code of a refusal."""

    @property
    def state(self) -> State:
        """The state after the step."""


@attrs.frozen
class Entry:
    """A step of a run: what `run_events` gives and `trace_of` takes."""

    event: Event | None
    outcome: str
    state: State
    code: str | None = None


def run_events(
    machine: Machine, events: Iterable[Event], initial: State | None = None
) -> tuple[Entry, ...]:
    """The run of these events from a state, by default the first initial one; refusals are steps too."""
    state = machine.initial_states()[0] if initial is None else initial
    run = [Entry(None, "initial", state)]
    for event in events:
        outcome = machine.step(state, event)
        if outcome.kind == "cut":
            raise ReplayError(
                f"step {len(run)}: {show_event(machine, event)} leaves the bounds of "
                f"{machine.instance!r}: use a larger instance"
            )
        state = outcome.state
        run.append(Entry(event, outcome.kind, state, outcome.code))
    return tuple(run)


def trace_of(
    machine: Machine,
    steps: Sequence[EngineStep],
    claim: Property | Broken | None = None,
    *,
    mutation: Mutation | None = None,
    sound: System | None = None,
    loop: int | None = None,
    seed: int | None = None,
    provenance: str = "",
) -> Trace:
    """The trace of a run that an engine found on the machine (which has the mutation, if there is one).

    claim: what it breaks, or the witness that it reaches; a Property is evaluated on the run.
    sound: the specification without the mutation, by default the known system of the same name.
    Raises ReplayError if plain Python does not find what the engine found.
    """
    _confirm(machine, steps)
    specification = _sound_system(machine, sound, mutated=mutation is not None)
    _confirm_claim(machine, steps, claim, loop)
    reference = Machine(attrs.evolve(machine.instance, system=specification))
    trace = Trace(
        system=specification.name,
        instance=_instance_record(reference.instance),
        mutation=mutation,
        property=_broken(claim),
        initial=state_json(machine, steps[0].state),
        steps=[_record(machine, step) for step in steps[1:]],
        sound=departure(reference, steps),
        loop=loop,
        seed=seed,
        provenance=provenance,
    )
    resolve(trace, "the recorded trace", specification)
    return trace


def departure(specification: Machine, steps: Sequence[EngineStep]) -> Departure | None:
    """The first step that the specification refuses or takes otherwise; none if it takes all of them."""
    state = steps[0].state
    for number, step in enumerate(steps[1:], 1):
        if step.event is None:
            raise ReplayError(f"step {number} has no event: only the first entry of a run has none")
        outcome = specification.step(state, step.event)
        if (outcome.kind, outcome.code, outcome.state) != (step.outcome, step.code, step.state):
            kind = outcome.kind
            assert_known(kind, number)
            return Departure(step=number, outcome=kind, code=outcome.code)  # type: ignore[arg-type]
        state = step.state
    return None


def assert_known(kind: str, number: int) -> None:
    """Refuse an outcome that the format does not have."""
    if kind not in ("accepted", "refused", "cut"):
        raise ReplayError(
            f"step {number} has the outcome {kind!r}: expected accepted, refused, cut"
        )


def _confirm(machine: Machine, steps: Sequence[EngineStep]) -> None:
    if not steps or steps[0].event is not None:
        raise ReplayError(
            "a run begins with an entry without event, whose state is the initial one"
        )
    state = steps[0].state
    for number, step in enumerate(steps[1:], 1):
        if step.event is None:
            raise ReplayError(f"step {number} has no event: only the first entry of a run has none")
        outcome = machine.step(state, step.event)
        if (outcome.kind, outcome.code, outcome.state) != (step.outcome, step.code, step.state):
            raise ReplayError(
                f"step {number}, {show_event(machine, step.event)}: the engine found "
                f"{step.outcome} {step.code or ''}, plain Python {outcome.kind} {outcome.code or ''}"
                f"{'' if outcome.state == step.state else ', and another state'}: is this the machine "
                "(mutant, instance) that was searched? If so, one of the two engines has a fault"
            )
        state = step.state


def _confirm_claim(
    machine: Machine, steps: Sequence[EngineStep], claim: Property | Broken | None, loop: int | None
) -> None:
    if isinstance(claim, Property):
        moves = [(s.event, s.code) for s in steps[1:] if s.event is not None]
        if broken_at(machine, [s.state for s in steps], moves, claim, loop) is None:
            what = "reaches the witness" if claim.kind == "witness" else "breaks the claim"
            raise ReplayError(
                f"no state or step of the run {what} {claim.name}: is it this claim's?"
            )
        if claim.kind == "leads_to":
            _confirm_fair(machine, [s.state for s in steps], moves, claim, loop)
    elif claim is not None and claim.kind == "deadlock" and not is_stuck(machine, steps[-1].state):
        raise ReplayError("the last state of the run has a transition, so it is no deadlock")


def _confirm_fair(
    machine: Machine,
    states: list[State],
    moves: list[Move],
    claim: Property,
    loop: int | None,
) -> None:
    reason = unfair(with_limits(machine), states, moves, claim, loop)
    if reason is not None:
        raise ReplayError(f"the run shows nothing of {claim.name}, since it is not fair: {reason}")


def _sound_system(machine: Machine, sound: System | None, *, mutated: bool) -> System:
    if sound is not None:
        return sound
    try:
        return find_system(machine.system.name).system
    except UnknownNameError:
        if mutated:
            raise
        return machine.system


def _instance_record(instance: Instance) -> InstanceRecord:
    """The instance by its name, unless that name belongs to other sizes."""
    name: str | None = instance.name
    try:
        named = find_system(instance.system.name).instances.get(instance.name)
    except UnknownNameError:
        named = None
    parts = (instance.sizes, instance.bounds, instance.constants)
    if named is not None and (named.sizes, named.bounds, named.constants) != parts:
        name = None
    return InstanceRecord(
        name=name,
        sizes=dict(instance.sizes),
        bounds=dict(instance.bounds),
        constants=dict(instance.constants),
    )


def _broken(claim: Property | Broken | None) -> Broken | None:
    if not isinstance(claim, Property):
        return claim
    if claim.kind not in KINDS:
        raise ReplayError(f"{claim.name} is of kind {claim.kind}: a trace shows {', '.join(KINDS)}")
    return Broken(name=claim.name, kind=claim.kind)  # type: ignore[arg-type]


def _record(machine: Machine, step: EngineStep) -> StepRecord:
    if step.event is None:
        raise ReplayError("only the first entry of a run has no event")
    return StepRecord(
        action=step.event.action,
        parameters=parameter_json(machine, step.event),
        outcome=step.outcome,  # type: ignore[arg-type]
        code=step.code,
        state=state_json(machine, step.state),
    )
