"""What must be proved of a refinement: the concrete system's steps are those of the abstract one.

refines:NAME:init:VARIABLE        both begin alike, seen through the mapping
refines:NAME:natural:VARIABLE     a natural of the abstract state is mapped to a natural
refines:NAME:TRANSITION:guards    the abstract step is enabled whenever the concrete one is taken
refines:NAME:TRANSITION:VARIABLE  and gives the mapped state after it
refines:NAME:TRANSITION           the same in one, where the step is one of several

The invariants of the concrete system are taken for granted in all but the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
import z3

from kvspec.models.concrete import Event, Machine, State, evaluate, show_event, show_state
from kvspec.models.concrete import Outcome as ConcreteOutcome
from kvspec.models.concrete.state import Value, indices
from kvspec.models.symbolic.domain import Domain, Term
from kvspec.models.symbolic.evaluate import After, Initial, Scope, Store
from kvspec.models.symbolic.obligations import PROVE, Obligation, Query, is_natural, transitions
from kvspec.models.symbolic.world import Outcome, Taken, World, reads
from kvspec.spec.language import Expr, MapSymbol, Type, Variable, instance
from kvspec.spec.language.refinement import AbstractCall, Match, Refinement


@attrs.frozen(eq=False)
class Mapped:
    """The abstract state that a concrete one stands for; `scope` is of the concrete state."""

    refinement: Refinement
    scope: Scope

    def read(self, variable: Variable, index: tuple[Term, ...]) -> Term:
        """The mapping's value at an index."""
        image = self.refinement.mapping[variable.name]
        return self.scope.bind(image.binders, index).value(image.value)


@attrs.frozen(eq=False)
class AbstractStep:
    """An abstract step from a mapped state: when it is enabled, and what it leads to."""

    enabled: list[Term]
    after: After


def refinement_obligations(refinement: Refinement) -> Iterator[Obligation]:
    """Every obligation of a refinement."""
    for variable in refinement.abstract.variables.values():
        yield _initial(refinement, variable)
    for variable in refinement.abstract.variables.values():
        value = refinement.mapping[variable.name].value
        if variable.type.kind == "natural":
            yield _natural(refinement, variable, settled="syntax" if is_natural(value) else None)
    for outcome in transitions(refinement.concrete):
        matches = refinement.steps[outcome.name]
        if len(matches) > 1:
            yield _any_of(refinement, outcome, matches)
            continue
        if isinstance(matches[0], AbstractCall):
            yield _guards(refinement, outcome, matches[0])
        for variable in refinement.abstract.variables.values():
            yield _variable(refinement, outcome, matches[0], variable)


def expressions(refinement: Refinement) -> Iterator[Expr]:
    """The expressions in which a refinement speaks of the concrete state."""
    for image in refinement.mapping.values():
        yield image.value
    yield from refinement.constants.values()
    for matches in refinement.steps.values():
        for match in matches:
            if isinstance(match, AbstractCall):
                yield from (a for a in match.arguments.values() if isinstance(a, Expr))


def _name(refinement: Refinement, *parts: str) -> str:
    return ":".join(("refines", refinement.name, *parts))


def _scope(refinement: Refinement, concrete: Scope, names: dict[str, Term] | None = None) -> Scope:
    """The scope of abstract formulas in the state that `concrete` stands for."""
    rigid = {name: concrete.value(value) for name, value in refinement.constants.items()}
    mapped = Mapped(refinement, concrete)
    return Scope(concrete.domain, mapped, names={**rigid, **(names or {})})


def _initial(refinement: Refinement, variable: Variable) -> Obligation:
    def build(world: World) -> Query:
        concrete = world.scope(Initial(world.scope(), world.before))
        abstract = _scope(refinement, concrete)
        start = Initial(
            abstract, abstract.before
        )  # where it may start anywhere, it starts as mapped
        same = _same(world.domain, variable, abstract.before, start)
        typing = [*world.typing, *world.before.inside]
        return Query([*typing, z3.Not(same)], known=False)

    def confirm(machine: Machine, state: State) -> str | None:
        abstract = _abstract_machine(refinement, machine)
        found = map_state(refinement, machine, abstract, state)
        starts = abstract.initial_states()
        if found in starts:
            return None
        return f"mapped to\n{show_state(abstract, found)}\nin which {refinement.abstract.name} cannot begin"

    name = _name(refinement, "init", variable.name)
    free = not isinstance(variable.initial, Expr)
    return Obligation(
        name,
        "refines",
        PROVE,
        build,
        settled="syntax" if free else None,
        target=variable.name,
        confirm_state=confirm,
        begins=True,
    )


def _natural(refinement: Refinement, variable: Variable, settled: str | None) -> Obligation:
    def build(world: World) -> Query:
        mapped = Mapped(refinement, world.scope())
        below = world.domain.quantify(
            "exists", variable.domain, lambda index: mapped.read(variable, index) < 0
        )
        return Query([below])

    def confirm(machine: Machine, state: State) -> str | None:
        abstract = _abstract_machine(refinement, machine)
        found = map_state(refinement, machine, abstract, state)
        place = list(refinement.abstract.variables).index(variable.name)
        negative = [value for value in found.tables[place] if isinstance(value, int) and value < 0]
        return f"{variable.name} is mapped to {negative[0]}" if negative else None

    name = _name(refinement, "natural", variable.name)
    return Obligation(
        name,
        "refines",
        PROVE,
        build,
        settled=settled,
        target=variable.name,
        confirm_state=confirm,
    )


def _guards(refinement: Refinement, outcome: Outcome, match: AbstractCall) -> Obligation:
    def build(world: World) -> Query:
        taken = world.take(outcome)
        step = _step(refinement, taken, match)
        return Query([*taken.enabled, z3.Not(world.domain.conjunction(step.enabled))], taken.call)

    return _of_step(refinement, outcome, build, "guards")


def _variable(
    refinement: Refinement, outcome: Outcome, match: Match, variable: Variable
) -> Obligation:
    def build(world: World) -> Query:
        taken = world.take(outcome)
        return Query(
            [*taken.enabled, z3.Not(_leads(refinement, taken, match, variable))], taken.call
        )

    image = refinement.mapping[variable.name].value
    writes = _of_match(match).writes if isinstance(match, AbstractCall) else frozenset()
    still = variable.name not in writes and not outcome.writes & reads(image)
    return _of_step(refinement, outcome, build, variable.name, "frame" if still else None)


def _any_of(refinement: Refinement, outcome: Outcome, matches: tuple[Match, ...]) -> Obligation:
    def build(world: World) -> Query:
        taken = world.take(outcome)
        ways = []
        for match in matches:
            parts = [
                _leads(refinement, taken, match, variable)
                for variable in refinement.abstract.variables.values()
            ]
            if isinstance(match, AbstractCall):
                parts.extend(_step(refinement, taken, match).enabled)
            ways.append(world.domain.conjunction(parts))
        return Query([*taken.enabled, z3.Not(world.domain.disjunction(ways))], taken.call)

    return _of_step(refinement, outcome, build)


def _of_step(
    refinement: Refinement,
    outcome: Outcome,
    build: Callable[[World], Query],
    part: str = "",
    settled: str | None = None,
) -> Obligation:
    name = _name(refinement, outcome.name, *([part] if part else []))

    def confirm(
        machine: Machine, before: State, event: Event, found: ConcreteOutcome
    ) -> str | None:
        return explain(refinement, outcome.name, machine, before, event, found)

    return Obligation(
        name,
        "refines",
        PROVE,
        build,
        outcome=outcome,
        settled=settled,
        target=f"{refinement.name} ({part})" if part else refinement.name,
        confirm_step=confirm,
    )


def _of_match(match: AbstractCall) -> Outcome:
    codes = [guard.code.name for guard in match.action.guards]
    return Outcome(match.action, None if match.refused is None else codes.index(match.refused))


def _step(refinement: Refinement, taken: Taken, match: AbstractCall) -> AbstractStep:
    """The abstract step from the mapped state before, with arguments evaluated there."""
    names: dict[str, Term] = {}
    maps = {}
    enabled: list[Term] = []
    for parameter, argument in match.arguments.items():
        if isinstance(argument, MapSymbol):
            maps[parameter] = taken.scope.maps[argument.name]
        else:
            names[parameter] = taken.scope.value(argument)
            if argument.type.kind == "natural" and not is_natural(argument):
                enabled.append(names[parameter] >= 0)
    scope = attrs.evolve(_scope(refinement, taken.scope, names), maps=maps)
    outcome = _of_match(match)
    passed = match.action.guards[: outcome.refused_by]
    enabled.extend(scope.value(guard.condition) for guard in passed)
    if outcome.refused_by is not None:
        enabled.append(z3.Not(scope.value(match.action.guards[outcome.refused_by].condition)))
    return AbstractStep(enabled, After(scope, outcome.assignments))


def _leads(refinement: Refinement, taken: Taken, match: Match, variable: Variable) -> Term:
    """The mapped state after the step has the variable as the abstract step leaves it."""
    before = Mapped(refinement, taken.scope)
    after = Mapped(refinement, attrs.evolve(taken.scope, before=taken.after))
    expected: Store = before
    if isinstance(match, AbstractCall):
        expected = _step(refinement, taken, match).after
    return _same(taken.scope.domain, variable, after, expected)


def _same(domain: Domain, variable: Variable, found: Store, expected: Store) -> Term:
    """Two states agree on a variable at every index."""
    return domain.quantify(
        "forall",
        variable.domain,
        lambda index: found.read(variable, index) == expected.read(variable, index),
    )


def _abstract_machine(refinement: Refinement, machine: Machine) -> Machine:
    """The abstract system on an instance of the same sizes."""
    concrete = machine.instance
    bound = max(concrete.bounds.values(), default=0)
    sizes: dict[Type, int] = {}
    for name, kind in refinement.abstract.sorts().items():
        if kind.kind == "open":
            sizes[kind] = concrete.sizes[name]
        elif kind.kind == "natural":
            sizes[kind] = bound
    blank = State(())
    constants = {
        name: int(evaluate(value, machine.environment(blank)) or 0)
        for name, value in refinement.constants.items()
    }
    return Machine(instance("abstract", refinement.abstract, sizes, constants=constants))


def map_state(refinement: Refinement, machine: Machine, abstract: Machine, state: State) -> State:
    """The abstract state that a concrete one stands for, in plain Python."""
    tables: list[tuple[Value, ...]] = []
    for name, variable in refinement.abstract.variables.items():
        image = refinement.mapping[name]
        binders = [binder.name for binder in image.binders]
        tables.append(
            tuple(
                evaluate(
                    image.value,
                    machine.environment(state, names=dict(zip(binders, index, strict=True))),
                )
                for index in indices(variable, abstract.instance)
            )
        )
    return State(tuple(tables))


def explain(
    refinement: Refinement,
    transition: str,
    machine: Machine,
    before: State,
    event: Event,
    outcome: ConcreteOutcome,
) -> str | None:
    """Why a concrete step is none of the abstract steps it is mapped to; None if it is one."""
    abstract = _abstract_machine(refinement, machine)
    old = map_state(refinement, machine, abstract, before)
    new = map_state(refinement, machine, abstract, outcome.state)
    changed = show_state(abstract, new, old) or "nothing changes"
    reasons = [f"seen in {refinement.abstract.name}: {changed}"]
    env = machine.environment(before, names=event.names)
    for match in refinement.steps[transition]:
        if not isinstance(match, AbstractCall):
            if new == old:
                return None
            reasons.append("which is no stutter")
            continue
        values = tuple(
            (name, env.names[a.name] if isinstance(a, MapSymbol) else evaluate(a, env))
            for name, a in match.arguments.items()
        )
        step = Event(match.action.name, values)
        found = abstract.step(old, step)
        if found.is_transition and found.code == match.refused and found.state == new:
            return None
        reasons.append(f"{show_event(abstract, step)} {_what(abstract, old, found)}")
    return "\n".join(reasons)


def _what(abstract: Machine, old: State, found: ConcreteOutcome) -> str:
    if found.refusal is not None:
        return f"is refused: {found.refusal}"
    if found.kind == "cut":
        return "leaves the naturals"
    return f"gives: {show_state(abstract, found.state, old) or 'no change'}"
