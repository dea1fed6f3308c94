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
from kvspec.spec.language import Instance, Property, Symbol, System, Type, instance

Reach = Callable[["Counterexample"], bool | None]
"""Says whether a search reached the state before the step; None if it cannot say."""


NOT_REACHED = "not reached"
"""How the label of a state begins that a whole search of an instance did not come to."""


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
        if self.label.startswith(NOT_REACHED):
            lines.append(
                "no run is known that breaks it: the claim does not prove itself; "
                "state a lemma that excludes the state before the step"
            )
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


def make_event(obligation: Obligation, model: SmallModel) -> Event | None:
    """The call of the model, if the obligation speaks of one."""
    action = obligation.outcome.action if obligation.outcome else obligation.action
    if action is None:
        return None
    return Event(action.name, tuple((p.name, model.values[p.name]) for p in action.parameters))


@attrs.frozen(eq=False)
class Replay:
    """A model run through the concrete engine; without an event it is a state alone."""

    machine: Machine
    before: State
    event: Event | None
    outcome: Outcome | None


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
            found = f"{claim.name} does not hold before the step"
            raise _disagree(machine, obligation, before, found)
    event = make_event(obligation, model)
    if event is None:
        return Replay(machine, before, None, None)
    outcome = machine.step(before, event)
    if obligation.outcome is not None and outcome.kind != "cut":
        code = obligation.outcome.code
        if (outcome.kind, outcome.code) != ("refused" if code else "accepted", code):
            found = f"{show_event(machine, event)} is {outcome.kind} {outcome.code or ''}"
            raise _disagree(machine, obligation, before, found)
    return Replay(machine, before, event, outcome)


def _disagree(machine: Machine, obligation: Obligation, before: State, found: str) -> ReplayError:
    return ReplayError(
        f"{obligation.name}: the solver has a model that the concrete engine does not confirm: "
        f"{found}; the state is\n{show_state(machine, before)}\nThis is a fault in models/symbolic "
        "or models/concrete: report it with this text"
    )


def counterexample(
    system: System, known: Sequence[Property], obligation: Obligation, model: SmallModel, reach: int
) -> Counterexample:
    """The confirmed counterexample to an obligation that must have no model."""
    if obligation.begins:
        return _initial(system, obligation, model, reach)
    run = replay(system, known, obligation, model, reach)
    note = _broken(obligation, run)
    if note is None:
        found = "nothing is broken"
        if run.event is not None:
            found = f"nothing is broken by {show_event(run.machine, run.event)}"
        raise _disagree(run.machine, obligation, run.before, found)
    return _tell(system, obligation, model, run, note)


def _broken(obligation: Obligation, run: Replay) -> str | None:
    """What the run breaks, beyond the claim's own name; None if it breaks nothing."""
    if run.event is None or run.outcome is None:
        if obligation.confirm_state is None:
            return None
        return obligation.confirm_state(run.machine, run.before)
    if obligation.kind == "natural":
        return "" if run.outcome.kind == "cut" else None
    if obligation.confirm_step is not None:
        return obligation.confirm_step(run.machine, run.before, run.event, run.outcome)
    claim = obligation.claim
    if run.outcome.kind == "cut" or claim is None:
        return None
    if claim.kind == "step":
        holds = run.machine.holds(claim, run.before, run.event, run.outcome)
    else:
        holds = run.machine.holds(claim, run.outcome.state)
    return None if holds else ""


def _tell(
    system: System, obligation: Obligation, model: SmallModel, run: Replay, note: str
) -> Counterexample:
    """A confirmed run as a counterexample, on the smallest instance that holds both states."""
    after = None
    guards: tuple[PassedGuard, ...] = ()
    states = [run.before]
    if run.event is not None and run.outcome is not None:
        guards = _guards(run.machine, run.before, run.event, run.outcome)
        if run.outcome.kind != "cut":
            after = run.outcome.state
            states.append(after)
    return Counterexample(
        obligation.name,
        _claim(obligation),
        make_instance(system, model, _bounds(system, states, run.event)),
        run.before,
        run.event,
        after,
        guards,
        note=note,
    )


def _claim(obligation: Obligation) -> str:
    return obligation.claim.name if obligation.claim else obligation.target or obligation.name


def _guards(
    machine: Machine, before: State, event: Event, outcome: Outcome
) -> tuple[PassedGuard, ...]:
    """The guards that were passed, and the one that refused."""
    action = machine.system.action(event.action)
    env = machine.environment(before, names=event.names)
    codes = [guard.code.name for guard in action.guards]
    tried = len(codes) if outcome.code is None else codes.index(outcome.code) + 1
    return tuple(
        PassedGuard(guard.code.name, repr(guard.condition), machine.found(guard, env))
        for guard in action.guards[:tried]
    )


def _initial(
    system: System, obligation: Obligation, model: SmallModel, reach: int
) -> Counterexample:
    machine = Machine(make_instance(system, model, reach))
    states = machine.initial_states()
    for state in states:
        if obligation.confirm_state is not None:
            note = obligation.confirm_state(machine, state)
        else:
            claim = obligation.claim
            note = "" if claim is not None and not machine.holds(claim, state) else None
        if note is not None:
            found = make_instance(system, model, _bounds(system, [state], None))
            name, claim_name = obligation.name, _claim(obligation)
            label = "an initial state"
            return Counterexample(name, claim_name, found, state, None, None, (), label, note)
    raise _disagree(machine, obligation, states[0], "it holds in every initial state")


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
            if isinstance(parameter, Symbol):
                note(parameter.type, event.names[parameter.name])
    return bounds
