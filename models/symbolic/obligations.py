"""What must be proved of a system, as named obligations.

initial    each invariant and lemma holds in the initial state
inductive  each holds after each transition from a state in which all of them hold
step       each step property holds of each transition from such a state
natural    no assignment gives a natural a value below 0 in such a state
enabled    each transition is possible from some such state (else what is said of it is void)
refuses    each guard refuses in some such state
antecedent what a property is conditional on holds in some such state, or of some such step

The first four must be unsatisfiable, the last three satisfiable. Obligations of a refinement are
in `refine`. An obligation builds its formula in any domain: the proof and its counterexample are
of one text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs
import z3

from kvspec.models.concrete import Event, Machine, State
from kvspec.models.concrete import Outcome as ConcreteOutcome
from kvspec.models.symbolic.domain import Term, Unbounded
from kvspec.models.symbolic.evaluate import Initial
from kvspec.models.symbolic.world import Call, Outcome, World, outcomes, reads
from kvspec.spec.language import (
    Action,
    Assignment,
    Const,
    Expr,
    Fired,
    Op,
    Properties,
    Property,
    Read,
    Symbol,
    System,
    walk,
)

PROVE, WITNESS = "unsat", "sat"

ConfirmState = Callable[[Machine, State], str | None]
ConfirmStep = Callable[[Machine, State, Event, ConcreteOutcome], str | None]


@attrs.frozen(eq=False)
class Query:
    """Formulas that are looked for a model of, and the call whose parameters the model tells.

    known: the first formulas, which all queries of a world share, are left out of `terms`.
    """

    terms: list[Term]
    call: Call | None = None
    known: bool = True


@attrs.frozen(eq=False)
class Obligation:
    """One thing to show.

    name: `kind:claim:transition`. expect: "unsat" if its query must have no model, "sat" if it
    must have one. settled: why it needs no solver ("frame": the transition writes nothing that
    the property reads; "syntax": the assigned value is a sum of naturals; "extension": the
    transition is one of the system whose claim this is), or None. begins: it
    speaks of initial states. confirm_state, confirm_step: in plain Python, what is broken by a
    state or by a step from it, or None; without them the claim itself is evaluated.
    """

    name: str
    kind: str
    expect: str
    build: Callable[[World], Query]
    claim: Property | None = None
    outcome: Outcome | None = None
    settled: str | None = None
    target: str = ""
    action: Action | None = None
    begins: bool = False
    confirm_state: ConfirmState | None = None
    confirm_step: ConfirmStep | None = None


def formulas(obligation: Obligation, world: World) -> tuple[list[Term], Query]:
    """All formulas of an obligation in a world, and its query."""
    query = obligation.build(world)
    return ([*world.given, *query.terms] if query.known else query.terms), query


def transitions(system: System) -> list[Outcome]:
    """Every transition of a system."""
    return [found for action in system.actions.values() for found in outcomes(action)]


def obligations(system: System, properties: Properties) -> Iterator[Obligation]:
    """Every obligation of a system and its properties, in the order of the list above."""
    steps = transitions(system)
    kept = properties.of_kind("invariant", "lemma")
    for claim in properties.inherited():
        for outcome in steps:
            yield _inductive(claim, outcome, is_step_of(properties, outcome))
    for claim in kept:
        yield _initial(claim)
    for claim in kept:
        for outcome in steps:
            yield _inductive(claim, outcome)
    for claim in properties.of_kind("step"):
        still = stutter_keeps(system, claim)
        for outcome in steps:
            yield _step(claim, outcome, "frame" if still and is_stutter(claim, outcome) else None)
    for outcome in steps:
        for done in outcome.assignments:
            if done.variable.type.kind == "natural":
                yield _natural(done, outcome)
    for outcome in steps:
        yield enabled(outcome)
    for action in system.actions.values():
        for place in range(len(action.guards)):
            if not action.guards[place].refusal:
                yield _refuses(Outcome(action, place))
    for claim in properties.of_kind("invariant", "lemma", "step"):
        if claim.antecedent is not None:
            yield _antecedent(claim, claim.antecedent, steps)


def _initial(claim: Property) -> Obligation:
    def build(world: World) -> Query:
        start = Initial(world.scope(), world.before)
        typing = [*world.typing, *world.before.inside]
        return Query([*typing, z3.Not(world.scope(start).value(claim.body))], known=False)

    return Obligation(f"initial:{claim.name}", "initial", PROVE, build, claim, begins=True)


def is_step_of(properties: Properties, outcome: Outcome) -> bool:
    """The transition changes what the given claims speak of just as one of the given system does."""
    given = properties.given
    if given is None:
        return False
    base = given.system.actions.get(outcome.action.name)
    if base is None:
        return False
    place = None
    if outcome.code is not None:
        codes = [guard.code.name for guard in base.guards]
        if outcome.code not in codes:
            return False
        place = codes.index(outcome.code)
    before = Outcome(base, place)
    variables = given.system.variables.values()
    written = [d for d in outcome.assignments if any(d.variable is v for v in variables)]
    return _same(written, before.assignments) and _asks_as_much(outcome, before)


def _same(one: Sequence[object], two: Sequence[object]) -> bool:
    """The two have the very same members, in whatever order."""
    return len(one) == len(two) and all(any(a is b for b in two) for a in one)


def _asks_as_much(outcome: Outcome, before: Outcome) -> bool:
    """Each condition under which the given transition comes about is one of this transition as well."""
    asked, wanted = _conditions(outcome), _conditions(before)
    refused = outcome.refused_by, before.refused_by
    if refused[0] is not None and refused[1] is not None:
        last = outcome.action.guards[refused[0]].condition
        if last is not before.action.guards[refused[1]].condition:
            return False
    return all(any(condition is other for other in asked) for condition in wanted)


def _conditions(outcome: Outcome) -> list[Expr]:
    """The conditions that hold where the outcome comes about: those of the guards that let it pass."""
    return [guard.condition for guard in outcome.action.guards[: outcome.refused_by]]


def _inductive(claim: Property, outcome: Outcome, extends: bool = False) -> Obligation:
    def build(world: World) -> Query:
        taken = world.take(outcome)
        return Query([*taken.enabled, z3.Not(taken.later(claim.body))], taken.call)

    settled = "extension" if extends else None
    settled = settled if outcome.writes & reads(claim.body) else "frame"
    name = f"inductive:{claim.name}:{outcome.name}"
    return Obligation(name, "inductive", PROVE, build, claim, outcome, settled)


def _step(claim: Property, outcome: Outcome, settled: str | None) -> Obligation:
    def build(world: World) -> Query:
        taken = world.take(outcome)
        return Query([*taken.enabled, z3.Not(taken.claim(claim.body))], taken.call)

    name = f"step:{claim.name}:{outcome.name}"
    return Obligation(name, "step", PROVE, build, claim, outcome, settled)


def is_stutter(claim: Property, outcome: Outcome) -> bool:
    """The step property cannot tell the transition from one that changes nothing."""
    for node in walk(claim.body):
        if isinstance(node, Fired) and (node.action, node.refusal) == (
            outcome.action.name,
            outcome.code,
        ):
            return False
    return not outcome.writes & reads(claim.body)


def stutter_keeps(system: System, claim: Property) -> bool:
    """The step property is true of every step that changes nothing, by its form alone."""
    world = World(system, Unbounded())
    scope = attrs.evolve(world.scope(), after=world.before, fired={})
    return bool(z3.is_true(z3.simplify(scope.value(claim.body))))


def _natural(done: Assignment, outcome: Outcome) -> Obligation:
    def build(world: World) -> Query:
        taken = world.take(outcome)
        types = tuple(binder.type for binder in done.binders)
        below = world.domain.quantify(
            "exists",
            types,
            lambda found: taken.scope.bind(done.binders, found).value(done.value) < 0,
        )
        return Query([*taken.enabled, below], taken.call)

    variable = done.variable.name
    settled = "syntax" if is_natural(done.value) else None
    name = f"natural:{variable}:{outcome.name}"
    return Obligation(name, "natural", PROVE, build, None, outcome, settled, variable)


def is_natural(expr: Expr) -> bool:
    """The term is at least 0 whatever the state: no subtraction and no negative number is in it."""
    match expr:
        case Const(value=value):
            return isinstance(value, int) and value >= 0
        case Read() | Symbol():
            return True
        case Op(op="add" | "mul" | "div", args=args):
            return all(is_natural(arg) for arg in args)
        case Op(op="ite", args=args):
            return all(is_natural(arg) for arg in args[1:])
    return False


def enabled(outcome: Outcome) -> Obligation:
    """The outcome comes about from some state that satisfies all that is known."""

    def build(world: World) -> Query:
        taken = world.take(outcome)
        return Query([*taken.enabled], taken.call)

    return Obligation(f"enabled:{outcome.name}", "enabled", WITNESS, build, None, outcome)


def _refuses(outcome: Outcome) -> Obligation:
    return attrs.evolve(enabled(outcome), name=f"refuses:{outcome.name}", kind="refuses")


def _antecedent(claim: Property, antecedent: Expr, steps: list[Outcome]) -> Obligation:
    def build(world: World) -> Query:
        if claim.kind != "step":
            return Query([world.scope().value(antecedent)])
        ways = []
        for outcome in steps:
            taken = world.take(outcome)
            ways.append(world.domain.conjunction([*taken.enabled, taken.claim(antecedent)]))
        return Query([world.domain.disjunction(ways)])

    return Obligation(f"antecedent:{claim.name}", "antecedent", WITNESS, build, claim)
