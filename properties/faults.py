"""Named faults: a sound rule with one place changed, by the name of what goes wrong there.

`mutation` changes every place by a fixed set of operators; a fault is written by hand, because a real
system was seen to have it. It changes one guard, or what one variable gets, or adds one effect:

drop_guard, mutant   a change that `mutation` makes as well, under the name that it has there
loosen               another condition stands in for that of a guard
put                  another value is assigned to a variable
also                 the action does one thing more

The changed system is an ordinary one, so every engine takes it as it takes the specification.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import attrs

from kvspec.properties.mutation import mutate
from kvspec.spec.language import (
    Action,
    Assignment,
    DefinitionError,
    ErrorCode,
    Expr,
    Guard,
    Instance,
    Step,
    System,
    Variable,
)
from kvspec.spec.language.actions import check_action
from kvspec.spec.language.errors import caller, listing
from kvspec.spec.language.expr import boolean, coerce

Effect = Callable[..., None]
"""A function of a step and of parameters of the action, by name, that makes assignments."""


@attrs.frozen(eq=False)
class Fault:
    """One place of a rule changed. description: what the faulty system does, as a sentence without a subject.

    system, changed: the sound system and the faulty one. action: the rule. code: the guard that is
    changed, or in whose refusal an assignment is. variable: the one whose assignment is changed.
    """

    name: str
    description: str
    system: System
    changed: System
    action: str
    code: str | None = None
    variable: str | None = None

    def on(self, instance: Instance) -> Instance:
        """An instance of the sound system with the faulty one in its place, without expected counts."""
        if instance.system is not self.system:
            raise DefinitionError(
                f"{self.name} is a fault of {self.system.name}, and {instance.name} is an instance of "
                f"{instance.system.name}: give one of {self.system.name}"
            )
        return attrs.evolve(instance, system=self.changed, expected=None)


def mutant(system: System, name: str, says: str) -> Fault:
    """The fault that the mutant of that name is."""
    mutated = mutate(system)
    found = next((each for each in mutated.mutants if each.name == name), None)
    if found is None:
        near = [m.name for m in mutated.mutants if m.action == name.partition(".")[0]]
        raise DefinitionError(f"{system.name} has no mutant {name}; near are {listing(near)}")
    changed = mutated.select(found)
    return Fault(name, says, system, changed, found.action, found.code, found.variable)


def drop_guard(system: System, action: Action, code: ErrorCode, says: str) -> Fault:
    """The action without the guard of that code."""
    return mutant(system, f"{action.name}.drop-guard.{code.name}", says)


def loosen(
    system: System,
    action: Action,
    code: ErrorCode,
    condition: Callable[..., Expr],
    *,
    name: str,
    says: str,
) -> Fault:
    """The action with another condition in the guard of that code.

    condition: a function of parameters of the action, by name. name: what goes wrong, in a few words
    joined by hyphens; the action's name is put before it.
    """
    own = _own(system, action)
    old = own.guard(code.name)
    formula = boolean(condition(*_given(own, condition)), f"the guard {code.name} of {name}")
    guards = tuple(attrs.evolve(g, condition=formula) if g is old else g for g in own.guards)
    changed = attrs.evolve(own, guards=guards)
    return _fault(system, own, changed, name, says, code=code.name)


def put(
    system: System,
    action: Action,
    variable: Variable,
    value: Callable[..., object],
    *,
    name: str,
    says: str,
    refused: ErrorCode | None = None,
) -> Fault:
    """The action with another value assigned to one variable, which it assigns already.

    value: a function of parameters of the action and, where the assignment is for all members of a
    sort, of those members by the names that `kvspec show` prints (`slot_0`). refused: the assignment
    is the one in the refusal of that code.
    """
    own = _own(system, action)
    done = own.assignments if refused is None else own.guard(refused.name).refusal
    old = next((each for each in done if each.variable is variable), None)
    if old is None:
        known = listing(each.variable.name for each in done)
        raise DefinitionError(f"{name}: {own.name} assigns no {variable.name}; it assigns {known}")
    made = coerce(value(*_given(own, value, old)), variable.type, f"the value of {name}")
    after = tuple(attrs.evolve(each, value=made) if each is old else each for each in done)
    changed = _with(own, after, refused)
    code = None if refused is None else refused.name
    return _fault(system, own, changed, name, says, code=code, variable=variable.name)


def also(system: System, action: Action, effect: Effect, *, name: str, says: str) -> Fault:
    """The action with one more effect: assignments to a variable that it leaves alone."""
    own = _own(system, action)
    step = Step(f"{own.name} of {name}", lambda _: None)
    effect(step, *_given(own, effect, skip=1))
    variables = {done.variable.name for done in step.assignments}
    if step.guards or len(variables) != 1:
        raise DefinitionError(
            f"{name} adds {len(step.guards)} guards and assignments to {listing(variables)}: a fault "
            "changes one place, so add one assignment"
        )
    (variable,) = variables
    if any(done.variable.name == variable for done in own.assignments):
        raise DefinitionError(f"{own.name} assigns {variable} already: use put() for {name}")
    changed = attrs.evolve(own, assignments=(*own.assignments, *step.assignments))
    return _fault(system, own, changed, name, says, variable=variable)


def _own(system: System, action: Action) -> Action:
    own = system.own(action)
    if own is None:
        raise DefinitionError(
            f"{action.name} is no action of {system.name}: it has {listing(system.actions)}",
            caller(),
        )
    return own


def _given(
    action: Action, function: Callable[..., object], done: Assignment | None = None, skip: int = 0
) -> list[object]:
    known: dict[str, object] = {parameter.name: parameter for parameter in action.parameters}
    known |= {binder.name: binder for binder in (done.binders if done is not None else ())}
    names = list(inspect.signature(function).parameters)[skip:]
    for name in names:
        if name not in known:
            raise DefinitionError(
                f"a fault of {action.name} uses {name}, which it does not have: it has {listing(known)}"
            )
    return [known[name] for name in names]


def _with(action: Action, done: tuple[Assignment, ...], refused: ErrorCode | None) -> Action:
    if refused is None:
        return attrs.evolve(action, assignments=done)
    old = action.guard(refused.name)
    guards: tuple[Guard, ...] = tuple(
        attrs.evolve(g, refusal=done) if g is old else g for g in action.guards
    )
    return attrs.evolve(action, guards=guards)


def _fault(
    system: System,
    own: Action,
    changed: Action,
    name: str,
    says: str,
    *,
    code: str | None = None,
    variable: str | None = None,
) -> Fault:
    check_action(changed)
    actions = {**system.actions, own.name: changed}
    faulty = attrs.evolve(system, actions=actions)
    return Fault(f"{own.name}.{name}", says, system, faulty, own.name, code, variable)
