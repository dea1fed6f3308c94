"""A stale publication of the core system, and caches made of machines, sound and faulty."""

from collections.abc import Callable

import attrs
import pytest

from kvspec.counterexamples.format import Mutation, Trace
from kvspec.counterexamples.record import run_events, trace_of
from kvspec.models.backend import Damage, Reply
from kvspec.models.concrete import Event, Machine, State
from kvspec.properties.core import properties
from kvspec.spec.core import make_instance, system
from kvspec.spec.language import Instance, System

PAIR = make_instance(
    "PAIR", "one request, two appends, two layers", handles=1, txns=2, layers=2, rows=1, versions=2
)


def without_guard(action: str, code: str) -> System:
    """The core system with one guard less."""
    found = system.action(action)
    kept = tuple(guard for guard in found.guards if guard.code.name != code)
    assert len(kept) == len(found.guards) - 1
    return attrs.evolve(
        system, actions={**system.actions, action: attrs.evolve(found, guards=kept)}
    )


FAULTY = without_guard("publish", "STALE_SNAPSHOT")


def event(action: str, **values: object) -> Event:
    """An event of the core system, its parameters by name."""
    names = [parameter.name for parameter in system.action(action).parameters]
    return Event(action, tuple((name, values[name]) for name in names))


def append_of(x: int) -> list[Event]:
    """All rows of an append staged and the append prepared."""
    staged = [event(f"stage_{kind}", x=x, l=layer, p=0) for layer in (0, 1) for kind in "kv"]
    return [*staged, event("prepare", x=x)]


STALE = [
    event("allocate", h=0, b=0, a=0),
    event("begin", x=0, h=0, k=0, a=0, p=0, n=1),
    event("begin", x=1, h=0, k=0, a=0, p=0, n=1),
    *append_of(0),
    *append_of(1),
    event("publish", x=0),
    event("publish", x=1),
]


@pytest.fixture(scope="session")
def faulty_machine() -> Machine:
    """The machine whose publish does not compare snapshots."""
    return Machine(attrs.evolve(PAIR, system=FAULTY))


@pytest.fixture(scope="session")
def stale(faulty_machine: Machine) -> Trace:
    """Two appends on one handle: the second is published on a snapshot that it never saw."""
    return trace_of(
        faulty_machine,
        run_events(faulty_machine, STALE),
        properties["publication_is_of_the_captured_snapshot"],
        mutation=Mutation(
            name="publish.drop-guard.STALE_SNAPSHOT",
            description="publish does not check STALE_SNAPSHOT",
        ),
        seed=7,
        provenance="written by hand as a test",
    )


class MachineBackend:
    """A cache that is a machine: sound, or with the fault of another system; hooks bend its answers."""

    def __init__(
        self,
        fault: System = system,
        reply: Callable[[Event, Reply], Reply] | None = None,
        observed: Callable[[Machine, Event, State], State] | None = None,
        harm: Callable[[Machine, State], list[Damage]] | None = None,
    ) -> None:
        self.fault = fault
        self.reply = reply
        self.observed = observed
        self.harm = harm

    def reset(self, instance: Instance) -> None:
        """Begin in the first initial state."""
        self.machine = Machine(attrs.evolve(instance, system=self.fault))
        self.state = self.machine.initial_states()[0]

    def perform(self, event: Event) -> Reply:
        """Step the machine, then bend the answer or the state."""
        outcome = self.machine.step(self.state, event)
        self.state = outcome.state
        reply = Reply(outcome.kind == "accepted", outcome.code, str(outcome.refusal or ""))
        if self.observed is not None:
            self.state = self.observed(self.machine, event, self.state)
        return reply if self.reply is None else self.reply(event, reply)

    def observe(self) -> State:
        """The machine's state."""
        return self.state

    def damage(self) -> list[Damage]:
        """What the hook measures."""
        return [] if self.harm is None else self.harm(self.machine, self.state)


def receipts_told_twice(machine: Machine, state: State) -> list[Damage]:
    """Two published appends hold the same receipt: one of them published rows that nobody has."""
    told = [
        machine.value(state, "receipt", x)
        for x in range(machine.instance.sizes["Txn"])
        if machine.value(state, "state", x) == "PUBLISHED"
    ]
    rows = machine.value(state, "version", 0) - machine.value(state, "length", 0)
    if len(told) < 2 or rows <= 0:
        return []
    return [Damage("rows", "handle0", rows, "publications whose rows are not there")]


@pytest.fixture(scope="session")
def backend() -> type[MachineBackend]:
    """The class of caches that are machines."""
    return MachineBackend


@pytest.fixture(scope="session")
def faulty_backend() -> Callable[..., MachineBackend]:
    """Makes a cache that publishes stale appends, and measures the harm."""

    def make(**hooks: object) -> MachineBackend:
        return MachineBackend(FAULTY, **{"harm": receipts_told_twice, **hooks})

    return make


@pytest.fixture(scope="session")
def stale_events() -> list[Event]:
    """The calls that lead to the stale publication."""
    return list(STALE)


@pytest.fixture(scope="session")
def pair() -> Instance:
    """One request, two appends, two layers."""
    return PAIR
