"""Bounded model checking: the shortest run of an instance that breaks a property, on bit-vectors.

Every state of a run is one bit-vector or Boolean for each variable at each index; a step is a
choice among the transitions of the system. The problem is handed to Z3's solver for
quantifier-free bit-vectors, one depth after the other, so the first run found is a shortest one.
It is replayed in plain Python before it is returned. That none is found up to a depth is no
proof: the verdict is then `unknown`, with the depth as its reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import product

import attrs
import z3

from kvspec.models.concrete import Event, Machine, State, show_event, show_state
from kvspec.models.symbolic.counterexample import ReplayError
from kvspec.models.symbolic.domain import Ground, Term
from kvspec.models.symbolic.evaluate import Initial, Store, Tables
from kvspec.models.symbolic.obligations import transitions
from kvspec.models.symbolic.small import read_call, read_tables
from kvspec.models.symbolic.world import (
    Call,
    Taken,
    World,
    all_expressions,
    factors,
    largest_literal,
    summands,
)
from kvspec.spec.language import Instance, Property, Variable


@attrs.frozen(eq=False)
class Trace:
    """A run of an instance: a state, then events with the states they lead to."""

    instance: Instance
    initial: State
    steps: tuple[tuple[Event, State], ...]

    def show(self) -> str:
        """One step a line, with what it changes."""
        machine = Machine(self.instance)
        lines, before = [], self.initial
        for number, (event, state) in enumerate(self.steps, 1):
            changed = show_state(machine, state, before).replace("\n", "; ") or "nothing changes"
            lines.append(f"{number:>3} {show_event(machine, event)}: {changed}")
            before = state
        return "\n".join(lines) or "the initial state"


@attrs.frozen(eq=False)
class BoundedResult:
    """`violated` with a shortest trace (for a witness: `holds`), or `unknown` up to a depth."""

    property: str
    instance: str
    verdict: str
    depth: int
    seconds: float
    reason: str = ""
    trace: Trace | None = None


def bmc(
    instance: Instance,
    claim: Property,
    depth: int,
    *,
    seconds: float = 600.0,
    variant: int = 0,
    progress: Callable[[int, float], None] | None = None,
) -> BoundedResult:
    """Search all runs of at most `depth` steps for one that breaks an invariant or step property.

    Of a witness, the run that reaches it is searched. seconds: for the whole search. variant: the
    mutant that is read. progress: called with each depth that is done and the seconds so far.
    """
    start = time.monotonic()
    unrolled = Unrolled(instance, claim, variant)
    reason = f"no violation up to depth {depth}"
    reached = depth
    for length in range(depth + 1):
        left = seconds - (time.monotonic() - start)
        answer = unrolled.check(length, left) if left > 0 else z3.unknown
        if answer == z3.sat:
            verdict = "holds" if claim.kind == "witness" else "violated"
            trace = unrolled.trace(length)
            took = time.monotonic() - start
            return BoundedResult(claim.name, instance.name, verdict, length, took, "", trace)
        if answer != z3.unsat:
            reached = length - 1
            reason = f"no violation up to depth {reached}, then out of {seconds:g} s"
            break
        if progress is not None:
            progress(length, time.monotonic() - start)
    took = time.monotonic() - start
    return BoundedResult(claim.name, instance.name, "unknown", reached, took, reason)


class Unrolled:
    """The runs of an instance, made longer one step at a time."""

    def __init__(self, instance: Instance, claim: Property, variant: int) -> None:
        if claim.kind not in ("invariant", "lemma", "step", "witness"):
            raise ValueError(
                f"{claim.name} is a claim of kind {claim.kind}: bounded model checking takes invariants, "
                "lemmas, step properties and witnesses"
            )
        self.instance = instance
        self.claim = claim
        self.variant = variant
        system = instance.system
        exprs = [*all_expressions(system), claim.body, *instance.initial.values()]
        literal = largest_literal(exprs)
        largest = max([*instance.bounds.values(), *instance.constants.values(), literal, 1])
        domain = Ground(instance.sizes, instance.bounds, 1)
        reach = int((largest * summands(exprs) ** 2) ** factors(exprs) ** 2)
        domain.width = reach.bit_length() + 1
        self.domain = domain
        self.world = World(system, domain, constants=instance.constants, variant=variant)
        self.outcomes = transitions(system)
        self.states: list[Tables] = [Tables(system.variables, domain, "at0")]
        self.choices: list[Term] = []
        self.calls: list[dict[str, Call]] = []
        self.bad: list[Term] = []
        self._model: Term = None
        self.solver = z3.SolverFor("QF_BV", ctx=domain.context)
        self.solver.set("random_seed", 0)
        self._begin()

    def check(self, length: int, seconds: float) -> Term:
        """Whether a run of exactly this length ends in a violation."""
        while len(self.states) <= length:
            self._extend()
        state = self.states[length]
        if self.claim.kind == "step":
            bad = self.bad[length - 1] if length else self.domain.truth(False)
        else:
            holds = self.world.scope(state).value(self.claim.body)
            bad = holds if self.claim.kind == "witness" else z3.Not(holds)
        self.solver.push()
        self.solver.add(bad)
        self.solver.set("timeout", max(1, int(seconds * 1000)))
        answer = self.solver.check()
        self._model = self.solver.model() if answer == z3.sat else None
        self.solver.pop()
        return answer

    def trace(self, length: int) -> Trace:
        """The run of the last model, confirmed in plain Python."""
        system, domain = self.instance.system, self.domain
        states = [
            State(tuple(read_tables(system, domain, state, self._model).values()))
            for state in self.states[: length + 1]
        ]
        steps: list[tuple[Event, State]] = []
        for place in range(length):
            chosen = self._model.eval(self.choices[place], model_completion=True).as_long()
            outcome = self.outcomes[chosen]
            values = read_call(domain, self.calls[place][outcome.action.name], self._model)
            names = [parameter.name for parameter in outcome.action.parameters]
            event = Event(outcome.action.name, tuple((name, values[name]) for name in names))
            steps.append((event, states[place + 1]))
        trace = Trace(self.instance, states[0], tuple(steps))
        confirm(trace, self.claim, self.variant)
        return trace

    def _begin(self) -> None:
        """The first state is an initial one."""
        first = self.states[0]
        self.solver.add(first.inside)
        start = Initial(self.world.scope(), first, self.instance.initial)
        self.solver.add([now == then for now, then in self._cells(first, start)])

    def _cells(self, one: Store, two: Store) -> Iterator[tuple[Term, Term]]:
        """The values of two states, side by side."""
        for variable in self.instance.system.variables.values():
            ranges = [self.domain.members(kind) or [] for kind in variable.domain]
            for index in product(*ranges):
                yield one.read(variable, index), two.read(variable, index)

    def _extend(self) -> None:
        """One step more: exactly one transition is chosen, possible, and gives the next state."""
        number = len(self.states) - 1
        before = self.states[-1]
        after = Tables(self.instance.system.variables, self.domain, f"at{number + 1}")
        bits = max(1, (len(self.outcomes) - 1).bit_length())
        choice = z3.BitVec(f"choice{number}", bits, self.domain.context)
        hits = [choice == place for place in range(len(self.outcomes))]
        calls: dict[str, Call] = {}
        taken: list[Taken] = []
        for outcome in self.outcomes:
            call = self.world.call(outcome.action, f"step{number}")
            calls[outcome.action.name] = call
            taken.append(self.world.take(outcome, before, call))
        self.solver.add(self.domain.disjunction(hits))
        for hit, way in zip(hits, taken, strict=True):
            conditions = [*way.enabled, *self._allowed(way), *self._uncut(way)]
            self.solver.add(z3.Implies(hit, self.domain.conjunction(conditions)))
        moved = Moved(before, hits, taken)
        self.solver.add([new == old for new, old in self._cells(after, moved)])
        self.states.append(after)
        self.choices.append(choice)
        self.calls.append(calls)
        if self.claim.kind == "step":
            self.bad.append(self._broken(before, after, hits))

    def _allowed(self, way: Taken) -> list[Term]:
        """The limits of the instance."""
        return [way.scope.value(c) for c in self.instance.limits_on(way.outcome.action)]

    def _uncut(self, way: Taken) -> list[Term]:
        """Every natural that is assigned lies within its bound."""
        terms = []
        for done in way.outcome.assignments:
            kind = done.variable.type
            if kind.kind != "natural":
                continue
            for members in product(*(self.domain.members(b.type) or [] for b in done.binders)):
                value = way.scope.bind(done.binders, members).value(done.value)
                terms.extend(self.domain.inside(kind, value))
        return terms

    def _broken(self, before: Tables, after: Tables, hits: list[Term]) -> Term:
        """The step breaks the step property."""
        fired = {
            (outcome.action.name, outcome.code): hit
            for outcome, hit in zip(self.outcomes, hits, strict=True)
        }
        scope = attrs.evolve(self.world.scope(before), after=after, fired=fired)
        return z3.Not(scope.value(self.claim.body))


@attrs.frozen(eq=False)
class Moved:
    """The state after the transition that was chosen."""

    before: Store
    hits: list[Term]
    taken: list[Taken]

    def read(self, variable: Variable, index: tuple[Term, ...]) -> Term:
        """What the chosen transition leaves at an index."""
        value = self.before.read(variable, index)
        for hit, way in zip(self.hits, self.taken, strict=True):
            if variable.name in way.outcome.writes:
                value = z3.If(hit, way.after.read(variable, index), value)
        return value


def confirm(trace: Trace, claim: Property, variant: int) -> None:
    """Replay a trace in plain Python, or say loudly where the concrete engine disagrees."""
    machine = Machine(trace.instance, variant)
    if trace.initial not in machine.initial_states():
        raise ReplayError(f"{claim.name}: the trace begins in a state that is not initial")
    state, broken = trace.initial, False
    for number, (event, wanted) in enumerate(trace.steps, 1):
        outcome = machine.step(state, event)
        allowed = machine.within_limits(state, event)
        if not (allowed and outcome.is_transition and outcome.state == wanted):
            raise ReplayError(
                f"{claim.name}: step {number}, {show_event(machine, event)}, is {outcome.kind} "
                f"{outcome.code or ''} in the concrete engine and leads elsewhere: report this trace\n"
                f"{trace.show()}"
            )
        if claim.kind == "step":
            broken = not machine.holds(claim, state, event, outcome)
        state = wanted
    if claim.kind != "step":
        broken = machine.holds(claim, state) == (claim.kind == "witness")
    if not broken:
        raise ReplayError(f"{claim.name}: the trace ends without breaking it:\n{trace.show()}")
