"""Counterexamples to induction, replayed in plain Python before anyone sees them.

A solver's model is turned into a state and an event of an instance with the same sizes. The
concrete engine then has to find the same: what is known holds before, the step is taken (or
refused with the code), the claim fails after. Where it finds otherwise, the translation is wrong,
and that is an error of this project and no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from kvspec.models.concrete import Event, Machine, Outcome, State, show_event, show_state
from kvspec.models.symbolic.obligations import Obligation
from kvspec.models.symbolic.small import SmallModel
from kvspec.spec.language import Instance, Property, System, Type, instance

Reach = Callable[["Counterexample"], bool | None]
"""Says whether a search reached the state before the step; None if it cannot say."""


class ReplayError(RuntimeError):
    """The concrete engine does not confirm a solver's model: the translation has a fault."""


@attrs.frozen
class PassedGuard:
    """A guard that was passed, or that refused: its code, condition and what it found."""

    code: str
    condition: str
    found: str


@attrs.frozen(eq=False)
class Counterexample:
    """A step from a state that satisfies all that is known to one that breaks a claim.

    before, after: None for `after` if the step leaves the naturals; `event` is None for an initial
    state. label: whether the state before is reachable. note: what a refinement's replay found.
    """

    obligation: str
    claim: str
    instance: Instance
    before: State
    event: Event | None
    after: State | None
    guards: tuple[PassedGuard, ...]
    label: str = "not searched"
    note: str = ""

    def show(self) -> str:
        """Both states, their difference, the guards that let the step through."""
        machine = Machine(self.instance)
        lines = [
            f"breaks {self.claim} on {_sizes(self.instance)}; state before the step: {self.label}"
        ]
        lines.extend(f"  {line}" for line in show_state(machine, self.before).splitlines())
        if self.event is None:
            return "\n".join(lines)
        lines.append(f"step {show_event(machine, self.event)}")
        lines.extend(f"  {g.code}: {g.condition} (found {g.found})" for g in self.guards)
        if self.after is None:
            lines.append("the value assigned is below 0")
        else:
            changed = show_state(machine, self.after, self.before) or "nothing changes"
            lines.extend(f"  {line}" for line in changed.splitlines())
        if self.note:
            lines.append(self.note)
        return "\n".join(lines)


def _sizes(found: Instance) -> str:
    parts = {**found.sizes, **found.constants}
    return ", ".join(f"{name}={value}" for name, value in parts.items()) or "the instance"


def make_instance(system: System, model: SmallModel, bounds: dict[str, int] | int) -> Instance:
    """An instance of the model's sizes and constants."""
    sizes: dict[Type, int] = {}
    for name, kind in system.sorts().items():
        if kind.kind == "open":
            sizes[kind] = model.sizes[name]
        elif kind.kind == "natural":
            sizes[kind] = bounds if isinstance(bounds, int) else bounds[name]
    return instance("counterexample", system, sizes, constants=model.constants)


def make_event(obligation: Obligation, model: SmallModel) -> Event:
    """The call of the model."""
    if obligation.outcome is None:
        raise TypeError(f"{obligation.name} has no transition, so its model has no event")
    names = [parameter.name for parameter in obligation.outcome.action.parameters]
    return Event(obligation.outcome.action.name, tuple((n, model.values[n]) for n in names))


@attrs.frozen(eq=False)
class Replay:
    """A model run through the concrete engine."""

    machine: Machine
    before: State
    event: Event
    outcome: Outcome


def replay(
    system: System, known: Sequence[Property], obligation: Obligation, model: SmallModel, reach: int
) -> Replay:
    """Run the model's step, or say loudly that the concrete engine disagrees.

    reach: a bound for naturals that no step from this state passes.
    """
    machine = Machine(make_instance(system, model, reach))
    before = State(tuple(model.tables[name] for name in system.variables))
    for claim in known:
        if not machine.holds(claim, before):
            raise _disagree(
                machine, obligation, before, f"{claim.name} does not hold before the step"
            )
    event = make_event(obligation, model)
    outcome = machine.step(before, event)
    wanted = obligation.outcome.code if obligation.outcome else None
    kind = "refused" if wanted else "accepted"
    if outcome.kind not in (kind, "cut") or (outcome.kind != "cut" and outcome.code != wanted):
        raise _disagree(
            machine,
            obligation,
            before,
            f"{show_event(machine, event)} is {outcome.kind} {outcome.code or ''}",
        )
    return Replay(machine, before, event, outcome)


def _disagree(machine: Machine, obligation: Obligation, before: State, found: str) -> ReplayError:
    return ReplayError(
        f"{obligation.name}: the solver has a model that the concrete engine does not confirm: "
        f"{found}; the state is\n{show_state(machine, before)}\nThis is a fault in models/symbolic or "
        "models/concrete: report it with this text"
    )


def counterexample(
    system: System, known: Sequence[Property], obligation: Obligation, model: SmallModel, reach: int
) -> Counterexample:
    """The confirmed counterexample to an obligation that must have no model."""
    if obligation.kind == "initial":
        return _initial(system, obligation, model, reach)
    run = replay(system, known, obligation, model, reach)
    claim = obligation.claim
    if obligation.kind == "natural":
        confirmed = run.outcome.kind == "cut"
    elif claim is None:
        confirmed = True
    elif claim.kind == "step":
        confirmed = not run.machine.holds(claim, run.before, run.event, run.outcome)
    else:
        confirmed = not run.machine.holds(claim, run.outcome.state)
    if not confirmed or (run.outcome.kind == "cut" and obligation.kind != "natural"):
        raise _disagree(
            run.machine,
            obligation,
            run.before,
            f"the claim is kept by {show_event(run.machine, run.event)}",
        )
    return tell(system, obligation, model, run)


def tell(
    system: System, obligation: Obligation, model: SmallModel, run: Replay, note: str = ""
) -> Counterexample:
    """A confirmed run as a counterexample, on the smallest instance that holds both states."""
    after = None if run.outcome.kind == "cut" else run.outcome.state
    bounds = _bounds(system, [run.before, *([after] if after else [])], run.event)
    action = system.action(run.event.action)
    env = run.machine.environment(run.before, names=run.event.names)
    stop = next((n for n, g in enumerate(action.guards) if g.code.name == run.outcome.code), None)
    guards = tuple(
        PassedGuard(guard.code.name, repr(guard.condition), run.machine.found(guard, env))
        for guard in action.guards[: None if stop is None else stop + 1]
    )
    claim = obligation.claim.name if obligation.claim else obligation.target or obligation.name
    return Counterexample(
        obligation.name,
        claim,
        make_instance(system, model, bounds),
        run.before,
        run.event,
        after,
        guards,
        note=note,
    )


def _initial(
    system: System, obligation: Obligation, model: SmallModel, reach: int
) -> Counterexample:
    machine = Machine(make_instance(system, model, reach))
    claim = obligation.claim
    for state in machine.initial_states():
        if claim is not None and not machine.holds(claim, state):
            bounds = _bounds(system, [state], None)
            found = make_instance(system, model, bounds)
            return Counterexample(
                obligation.name, claim.name, found, state, None, None, (), "initial state"
            )
    state = machine.initial_states()[0]
    raise _disagree(machine, obligation, state, "it holds in every initial state")


def _bounds(system: System, states: list[State], event: Event | None) -> dict[str, int]:
    """The largest value of each sort of naturals in the states and the event."""
    bounds = {name: 0 for name, kind in system.sorts().items() if kind.kind == "natural"}

    def note(kind: Type, value: object) -> None:
        if kind.kind == "natural" and isinstance(value, int):
            bounds[kind.name] = max(bounds.get(kind.name, 0), value)

    for state in states:
        for variable, table in zip(system.variables.values(), state.tables, strict=True):
            for value in table:
                note(variable.type, value)
    if event is not None:
        for parameter in system.action(event.action).parameters:
            kind = getattr(parameter, "type", None)
            if isinstance(kind, Type):
                note(kind, event.names[parameter.name])
    return bounds
