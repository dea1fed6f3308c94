"""Commutation: a runtime beside the canonical lifecycle, step by step, and what its projection shows.

`check` runs both at once from their initial states: at each transition of the runtime the canonical lifecycle
takes the operation that the projection names. By induction over these pairs phi(delta_a(S, op)) is
delta(phi(S), op) in a coordinate if and only if the two agree there after every transition. A claimed
coordinate that differs is a breach, and so is an operation that the canonical lifecycle refuses. A near
correspondence may differ; where it first does is told. A coordinate that the projection does not carry
collapses if two pairs look alike through the whole projection and differ in it: no adapter can make it up.
Pairs are found breadth first, so what is told is the shortest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from kvspec.models.concrete import Event, Machine, State, evaluate, show_event
from kvspec.models.concrete.evaluate import Bound
from kvspec.models.concrete.state import Value, indices
from kvspec.models.concrete.text import show_value
from kvspec.spec import canonical_lifecycle as sigma
from kvspec.spec.language import Instance, MapSymbol, instance
from kvspec.spec.language.refinement import AbstractCall
from kvspec.spec.projections import Projection, Seen

BOTTOM: Final = "bottom"
Coordinates = tuple[tuple[Value, ...], ...]


@attrs.frozen
class Pair:
    """A state of the runtime with the canonical one that its history asks for."""

    runtime: State
    canonical: State


@attrs.frozen
class Sight:
    """A reachable pair: the run to it, what the projection shows of it, and what the vector is.

    shown, required: for each coordinate by name, its values by handle, as text.
    """

    run: tuple[str, ...]
    shown: dict[str, tuple[str, ...]]
    required: dict[str, tuple[str, ...]]


@attrs.frozen
class Difference:
    """The shortest run after which a coordinate is shown otherwise than the vector has it."""

    coordinate: str
    sight: Sight


@attrs.frozen
class Collapse:
    """Two pairs that look alike through the projection and differ in a coordinate, at least."""

    coordinate: str
    one: Sight
    two: Sight


@attrs.frozen
class Refused:
    """The shortest run after which the canonical lifecycle refuses the operation of a step."""

    sight: Sight
    step: str
    operation: str
    code: str


@attrs.frozen
class Commutation:
    """What was found of a projection on an instance.

    pairs, transitions: explored. compared: coordinates of handles that were compared after a transition,
    bottom left out. left: transitions not followed because the vector would leave its bounds. differences:
    of claimed coordinates (breaches) and of near ones.
    """

    projection: Projection
    instance: Instance
    pairs: int
    transitions: int
    compared: dict[str, int]
    left: int
    differences: dict[str, Difference]
    refused: Refused | None
    collapses: dict[str, Collapse]

    @property
    def breaches(self) -> tuple[str, ...]:
        """The claimed coordinates that do not commute."""
        return tuple(n for n in self.differences if self.projection.seen[n].is_claimed)

    @property
    def verdict(self) -> str:
        """`holds` if some coordinate is claimed, each was compared, and none differs."""
        if self.breaches or self.refused:
            return "violated"
        return "unknown" if self.reason else "holds"

    @property
    def reason(self) -> str:
        """Why the verdict is unknown: no coordinate is claimed, or one was never known."""
        claimed = [n for n, s in self.projection.seen.items() if s.is_claimed]
        if not claimed:
            return "the projection claims no coordinate"
        void = [n for n in claimed if not self.compared[n]]
        return f"never known after a step: {', '.join(void)}" if void else ""


def canonical_machine(found: Instance, versions: int, generations: int) -> Machine:
    """The canonical lifecycle with the sizes of a runtime's instance."""
    sizes = {**found.sizes, **found.bounds, "Version": versions, "Generation": generations}
    known = sigma.system.sorts()
    made = instance(
        "beside",
        sigma.system,
        {kind: sizes[name] for name, kind in known.items() if kind.kind != "enum"},
        constants={sigma.longest: found.constants["longest"]},
    )
    return Machine(made)


def check(
    projection: Projection,
    found: Instance,
    *,
    versions: int = 4,
    generations: int = 1,
    variant: int = 0,
) -> Commutation:
    """Explore every pair of an instance whose vector has at most so many snapshots and generations.

    variant: the mutant of the runtime that is run, if the instance is one of its mutated system.
    """
    if any(found.system.variables.get(n) is not v for n, v in projection.runtime.variables.items()):
        raise ValueError(
            f"{projection} is checked on an instance of {projection.runtime.name}, found {found!r}"
        )
    canonical = canonical_machine(found, versions, generations)
    return _Search(projection, Machine(found, variant), canonical).run()


class _Search:
    """The breadth-first search over pairs."""

    def __init__(self, projection: Projection, runtime: Machine, canonical: Machine) -> None:
        self.projection = projection
        self.runtime = runtime
        self.canonical = canonical
        self.parents: dict[Pair, tuple[Pair, Event] | None] = {}
        self.depth: dict[Pair, int] = {}
        self.transitions = self.left = 0
        self.compared = dict.fromkeys(projection.seen, 0)
        self.differences: dict[str, Difference] = {}
        self.refused: Refused | None = None
        self.views: dict[Coordinates, dict[str, dict[tuple[Value, ...], Pair]]] = {}
        self.tables = [sigma.system.variables[name] for name in projection.seen]
        self.order = list(sigma.system.variables)
        self.steps: dict[State, list[tuple[Event, str | None, State]]] = {}
        self.looks: dict[State, Coordinates] = {}

    def run(self) -> Commutation:
        """Search everything and put the result together."""
        waiting = [
            Pair(one, two)
            for one in self.runtime.initial_states()
            for two in self.canonical.initial_states()
        ]
        for pair in waiting:
            self.parents[pair], self.depth[pair] = None, 0
            self._look(pair, after_step=False)
        for pair in waiting:
            for event, code, state in self._transitions(pair.runtime):
                after = self._follow(pair, event, code, state)
                if after is None:
                    continue
                self.transitions += 1
                new = after not in self.parents
                if new:
                    self.parents[after], self.depth[after] = (pair, event), self.depth[pair] + 1
                    waiting.append(after)
                self._look(after, after_step=True, new=new)
        return Commutation(
            self.projection,
            self.runtime.instance,
            len(self.parents),
            self.transitions,
            self.compared,
            self.left,
            self.differences,
            self.refused,
            dict(self._collapses()),
        )

    def _transitions(self, state: State) -> list[tuple[Event, str | None, State]]:
        """What the runtime can do, computed once: many pairs have the same state of it."""
        if state not in self.steps:
            found = self.runtime.transitions(state)
            self.steps[state] = [(event, done.code, done.state) for event, done in found]
        return self.steps[state]

    def _follow(self, pair: Pair, event: Event, code: str | None, state: State) -> Pair | None:
        """The pair after a transition of the runtime; None if the vector cannot or may not follow."""
        label = event.action if code is None else f"{event.action}!{code}"
        refusals: list[tuple[Event, str]] = []
        for match in self.projection.steps[label]:
            if not isinstance(match, AbstractCall):
                return Pair(state, pair.canonical)
            step = self._operation(match, pair, event)
            taken = self.canonical.step(pair.canonical, step)
            if taken.kind == "cut":
                self.left += 1
                return None
            if taken.kind == "accepted":
                return Pair(state, taken.state)
            refusals.append((step, taken.code or ""))
        if self.refused is None:
            step, refusal = refusals[0]
            told = show_event(self.runtime, event), show_event(self.canonical, step)
            self.refused = Refused(self._sight(pair), *told, refusal)
        return None

    def _operation(self, match: AbstractCall, pair: Pair, event: Event) -> Event:
        env = self.runtime.environment(pair.runtime, names=event.names)
        values = tuple(
            (name, env.names[a.name] if isinstance(a, MapSymbol) else evaluate(a, env))
            for name, a in match.arguments.items()
        )
        return Event(match.action.name, values)

    def _look(self, pair: Pair, *, after_step: bool, new: bool = True) -> None:
        """Compare the coordinates of a pair, and note how it looks."""
        shown = self._shown(pair.runtime)
        for name, values, wanted in zip(
            self.projection.seen, shown, self._required(pair), strict=True
        ):
            known = [(v, w) for v, w in zip(values, wanted, strict=True) if v != BOTTOM]
            if after_step:
                self.compared[name] += len(known)
            if name not in self.differences and any(v != w for v, w in known):
                self.differences[name] = Difference(name, self._sight(pair))
            if new:
                seen = self.views.setdefault(shown, {}).setdefault(name, {})
                seen.setdefault(wanted, pair)

    def _shown(self, state: State) -> Coordinates:
        """The coordinates that the projection shows in a state of the runtime, computed once."""
        if state not in self.looks:
            self.looks[state] = tuple(
                tuple(
                    self._value(state, seen, index)
                    for index in indices(variable, self.canonical.instance)
                )
                for variable, seen in zip(self.tables, self.projection.seen.values(), strict=True)
            )
        return self.looks[state]

    def _value(self, state: State, seen: Seen, index: tuple[Value, ...]) -> Value:
        if seen.image is None:
            return BOTTOM
        names: dict[str, Bound] = dict(
            zip((b.name for b in seen.image.binders), index, strict=True)
        )
        env = self.runtime.environment(state, names=names)
        return evaluate(seen.image.value, env) if evaluate(seen.known, env) else BOTTOM

    def _required(self, pair: Pair) -> Coordinates:
        return tuple(pair.canonical.tables[self.order.index(v.name)] for v in self.tables)

    def _sight(self, pair: Pair) -> Sight:
        run: list[str] = []
        here: Pair | None = pair
        while here is not None:
            parent = self.parents[here]
            if parent is not None:
                run.append(show_event(self.runtime, parent[1]))
            here = parent[0] if parent else None
        return Sight(
            tuple(reversed(run)),
            self._text(self._shown(pair.runtime)),
            self._text(self._required(pair)),
        )

    def _text(self, rows: Coordinates) -> dict[str, tuple[str, ...]]:
        return {
            v.name: tuple(BOTTOM if x == BOTTOM else show_value(v.type, x) for x in row)
            for v, row in zip(self.tables, rows, strict=True)
        }

    def _collapses(self) -> Iterator[tuple[str, Collapse]]:
        """For each coordinate the pair of alike-looking pairs with the shortest runs."""
        for name in self.projection.seen:
            best: tuple[int, Pair, Pair] | None = None
            for view in self.views.values():
                firsts = sorted(view[name].values(), key=self.depth.__getitem__)[:2]
                if len(firsts) < 2:
                    continue
                cost = sum(self.depth[pair] for pair in firsts)
                if best is None or cost < best[0]:
                    best = cost, firsts[0], firsts[1]
            if best is not None:
                yield name, Collapse(name, self._sight(best[1]), self._sight(best[2]))
