"""Both translations agree with the concrete engine, state by state and step by step."""

import random
from itertools import product
from typing import Any

import pytest
import z3

from kvspec.models.concrete import Event, Machine, State, evaluate
from kvspec.models.concrete.state import indices, values_of
from kvspec.models.symbolic.domain import Ground, Unbounded
from kvspec.models.symbolic.obligations import transitions
from kvspec.models.symbolic.world import World
from kvspec.spec.examples import peer
from kvspec.spec.language import (
    Bool,
    Enum,
    ErrorCode,
    Map,
    MapSymbol,
    Module,
    Natural,
    Open,
    Option,
    Properties,
    System,
    after,
    bijective,
    exists,
    fired,
    forall,
    implies,
    instance,
    is_some,
    member,
    none,
    one_of,
    the,
    where,
)

BUSY = ErrorCode("BUSY", "in use")
ODD = ErrorCode("ODD", "it does not fit")


class Node(Open):
    """A node."""


class Slot(Open):
    """A slot."""


class Count(Natural):
    """A number."""


class Color(Enum):
    """A color."""

    RED = member()
    BLUE = member()
    GREEN = member()


def everything() -> tuple[Any, Properties]:
    """A system that uses every node of the language."""
    module = Module("everything", "All of the language.")
    room = module.constant("room", Count, meaning="a number")
    link = module.variable("link", Node, to=Option[Node], init=none(Node), meaning="a node or none")
    paint = module.variable("paint", Node, to=Color, init=Color.RED, meaning="its color")
    size = module.variable(
        "size",
        Node,
        Color,
        to=Count,
        init=lambda n, c: where(c == Color.RED, 1, 0),
        meaning="sizes",
    )
    free = module.variable("free", Slot, to=Bool, init=True, meaning="is it free")
    total = module.variable("total", to=Count, init=0, meaning="a number")

    def wish_of(wish: Any) -> Any:
        return exists(Slot, lambda s: one_of(wish[s], Color.RED, Color.GREEN) & free[s])

    @module.action
    def move(step: Any, n: Node, to: Map[Node, Node], wish: Map[Slot, Color], k: Count) -> None:
        """Use everything that an action may use."""
        step.require(k <= room, ODD)
        step.require(
            bijective(to) | (wish_of(wish) & is_some(link[n])),
            BUSY,
            refused={total.value: total.value + size[the(link[n]), paint[n]]},
        )
        step.assign(link[the(link[n])], to[n])
        for m in step.every(Node):
            step.assign(paint[m], where(m == n, Color.BLUE, paint[to[m]]))
            for c in step.every(Color):
                step.assign(size[m, c], size[to[m], c] + k - where(c == Color.GREEN, k, 0))

    @module.action
    def clear(step: Any, s: Slot, c: Color) -> None:
        """Take a slot, and forget the sizes of one color."""
        step.require(free[s], BUSY, refused=lambda effect: effect.assign(free[s], True))
        step.assign(free[s], False)
        for m in step.every(Node):
            step.assign(size[m, c], 0)
            step.assign(link[m], where(link[m] == m, None, link[m]))

    system = System.of("everything", "All of the language.", module)
    properties = Properties(system)

    @properties.invariant
    def nested_names_do_not_mix() -> Any:
        """A helper that quantifies is used under another quantifier of the same names."""
        return forall(
            Node,
            Color,
            lambda n, c: implies(
                exists(Node, lambda m: (m != n) & (size[m, c] < size[n, c])),
                is_some(link[n]) & (size[the(link[n]), c] - 1 <= room),
            ),
        )

    def has_another(x: Any) -> Any:
        return exists(Node, lambda n: link[n] != x)

    @properties.invariant
    def an_inner_name_is_not_an_outer_one() -> Any:
        """Some node does not link to n, where the helper calls that node n as well."""
        return forall(Node, lambda n: has_another(n))  # noqa: PLW0108 - the name is the point

    @properties.step
    def steps_are_told_apart() -> Any:
        """A step property with every kind of reference to the step."""
        return implies(fired(move, BUSY), total.value <= after(total.value)) & (
            fired(clear)
            | exists(Slot, lambda s: free[s] == after(free[s]))
            | (after(size[the(link[the(none(Node))]), Color.RED]) == 1)
        )

    return system, properties


def sampled(system: Any, sizes: dict[Any, int], constants: dict[str, int]) -> Any:
    """An instance, and a machine on it."""
    found = instance("sampled", system, sizes, constants=constants)
    return Machine(found)


def random_state(machine: Machine, rng: random.Random) -> State:
    """A state of the right types, reachable or not."""
    return State(
        tuple(
            tuple(
                rng.choice(values_of(v.type, machine.instance)[:4])
                for _ in indices(v, machine.instance)
            )
            for v in machine.system.variables.values()
        )
    )


def random_event(machine: Machine, action: Any, rng: random.Random) -> Event:
    """An event with parameters drawn apart."""
    values: list[tuple[str, Any]] = []
    for p in action.parameters:
        if isinstance(p, MapSymbol):
            options = values_of(p.codomain, machine.instance)
            count = machine.instance.members(p.domain)
            drawn = tuple(rng.choice(options) for _ in range(count))
            if rng.random() < 0.5 and len(options) == count:
                drawn = tuple(rng.sample(options, count))
            values.append((p.name, drawn))
        else:
            values.append((p.name, rng.choice(values_of(p.type, machine.instance)[:4])))
    return Event(action.name, tuple(values))


def literal_members(domain: Any, kind: Any, machine: Machine) -> list[Any]:
    """The members of a type as terms."""
    return [domain.literal(kind, value) for value in values_of(kind, machine.instance)]


def facts(world: World, machine: Machine, state: State) -> list[Any]:
    """What says that the world is in this state of this instance, with no member more."""
    domain, found = world.domain, []
    for kind in world.system.sorts().values():
        if kind.kind == "open" and isinstance(domain, Unbounded):
            listed = literal_members(domain, kind, machine)
            found.append(
                domain.quantify(
                    "forall", (kind,), lambda x, some=listed: z3.Or([x[0] == m for m in some])
                )
            )
            if len(listed) > 1:
                found.append(z3.Distinct(*listed))
    for name, value in machine.instance.constants.items():
        kind = world.system.constants[name].type
        found.append(world.constants[name] == domain.literal(kind, value))
    for (name, variable), table in zip(world.system.variables.items(), state.tables, strict=True):
        for index, value in zip(indices(variable, machine.instance), table, strict=True):
            at = tuple(domain.literal(k, i) for k, i in zip(variable.domain, index, strict=True))
            cell = world.before.tables[name](at)
            found.append(cell == domain.literal(variable.type, value))
    return found


def parameters(world: World, machine: Machine, event: Event) -> list[Any]:
    """What says that the action is called with these values."""
    action = machine.system.action(event.action)
    call, domain, found = world.call(action), world.domain, []
    for p in action.parameters:
        value = event.names[p.name]
        if isinstance(p, MapSymbol):
            for at, to in zip(literal_members(domain, p.domain, machine), value, strict=True):
                found.append(call.maps[p.name]((at,)) == domain.literal(p.codomain, to))
        else:
            found.append(call.names[p.name] == domain.literal(p.type, value))
    return found


def expectations(
    world: World, machine: Machine, state: State, event: Event, claims: Properties
) -> list[tuple[Any, Any]]:
    """Terms of one event in one state, each with the term that the concrete engine gives."""
    domain = world.domain
    done = machine.step(state, event)
    pairs: list[tuple[Any, Any]] = []
    for claim in claims.of_kind("invariant", "lemma", "witness"):
        holds = machine.holds(claim, state)
        pairs.append((world.scope().value(claim.body), domain.truth(holds)))
    env = machine.environment(state, names=event.names)
    for outcome in transitions(machine.system):
        if outcome.action.name != event.action:
            continue
        taken = world.take(outcome)
        kind = "refused" if outcome.code else "accepted"
        conditions = list(taken.enabled)
        if done.kind == "cut":  # the bound of the instance is not the proof's
            continue
        happens = (done.kind, done.code) == (kind, outcome.code)
        pairs.append((domain.conjunction(conditions), domain.truth(happens)))
        if not happens:
            continue
        for claim in claims.of_kind("step"):
            holds = machine.holds(claim, state, event, done)
            pairs.append((taken.claim(claim.body), domain.truth(holds)))
        for variable, table in zip(world.system.variables.values(), done.state.tables, strict=True):
            for index, value in zip(indices(variable, machine.instance), table, strict=True):
                at = tuple(
                    domain.literal(k, i) for k, i in zip(variable.domain, index, strict=True)
                )
                new = taken.after.read(variable, at)
                pairs.append((new, domain.literal(variable.type, value)))
    for guard in machine.system.action(event.action).guards:
        scope = world.take(transitions_of(machine, event)).scope
        holds = bool(evaluate(guard.condition, env))
        pairs.append((scope.value(guard.condition), domain.truth(holds)))
    return pairs


def transitions_of(machine: Machine, event: Event) -> Any:
    """The accepted outcome of an event's action."""
    return next(o for o in transitions(machine.system) if o.action.name == event.action)


def peer_case() -> tuple[System, Properties, dict[Any, int], dict[str, int]]:
    """The peer system."""
    sizes = {
        peer.Handle: 2, peer.Txn: 2, peer.Layer: 2, peer.Length: 9, peer.Generation: 9
    }  # fmt: skip
    return peer.system, peer.properties, sizes, {"max_length": 3, "max_generation": 3}


def everything_case() -> tuple[System, Properties, dict[Any, int], dict[str, int]]:
    """The system with all of the language."""
    system, properties = everything()
    return system, properties, {Node: 3, Slot: 2, Count: 20}, {"room": 2}


@pytest.mark.parametrize("case", [peer_case, everything_case])
@pytest.mark.parametrize("kind", ["ground", "unbounded"])
def test_terms_have_the_values_of_the_concrete_engine(case: Any, kind: str) -> None:
    """Guards, claims and next states are the same in random states, reachable or not."""
    system, properties, sizes, constants = case()
    machine = sampled(system, sizes, constants)
    rng = random.Random(7)
    bounds = machine.instance.bounds
    domain = Unbounded() if kind == "unbounded" else Ground(machine.instance.sizes, bounds, 8)
    world = World(system, domain)
    checked = 0
    for _, action in product(range(12), system.actions.values()):
        state, event = random_state(machine, rng), random_event(machine, action, rng)
        solver = z3.Solver(ctx=domain.context)
        solver.add(facts(world, machine, state) + parameters(world, machine, event))
        assert solver.check() == z3.sat
        pairs = expectations(world, machine, state, event, properties)
        solver.add(z3.Or([found != expected for found, expected in pairs]))
        if solver.check() != z3.unsat:
            model = solver.model()
            wrong = [
                (found, expected, model.eval(found))
                for found, expected in pairs
                if not z3.is_true(model.eval(found == expected))
            ]
            pytest.fail(f"{event} in {state}: {wrong[:3]}")
        checked += len(pairs)
    assert checked > 200
