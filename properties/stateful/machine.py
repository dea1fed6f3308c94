"""Machine: a Hypothesis state machine made from an instance, its claims and a backend.

A step of the machine is a whole walk from a reset, so that Hypothesis drops walks as it drops steps,
and shrinks within one through the bytes of its script. Which walk a step takes follows from its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, ClassVar, cast

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from kvspec.models.backend import Backend
from kvspec.properties.stateful.draws import Choice, Script, scripts
from kvspec.properties.stateful.driver import Driver
from kvspec.properties.stateful.oracle import Oracle
from kvspec.properties.stateful.plan import Plan, make_plan
from kvspec.properties.stateful.tally import Tally
from kvspec.properties.stateful.walks import Walk
from kvspec.spec.language import Instance, Property

BackendFactory = Callable[[], Backend]
WALKS_AT_MOST = 16
"""Walks in one example: more would be more than Hypothesis draws for one example."""


def _scripts(self: WalkMachine) -> st.SearchStrategy[Script]:
    return scripts(len(self.next_walk))


def _parts(self: PartMachine) -> st.SearchStrategy[int]:
    return st.integers(0, len(self.parts) - 1)


class WalkMachine(RuleBasedStateMachine):
    """Takes one walk after the other; made by `machine_for` or `machine_of`."""

    oracle: ClassVar[Oracle]
    make_backend: ClassVar[tuple[BackendFactory]]
    walks: ClassVar[Sequence[Walk]]
    tally: ClassVar[Tally]
    damage_every: ClassVar[int] = 16

    def __init__(self) -> None:
        super().__init__()
        self._number = 0
        self._driver: Driver | None = None

    @property
    def next_walk(self) -> Walk:
        """The walk that the next step takes."""
        return self.walks[self._number % len(self.walks)]

    @rule(script=st.runner().flatmap(_scripts))
    def walk(self, script: Script) -> None:
        """Take the next walk, as its script says."""
        walk = self.next_walk
        self._number += 1
        if not script.is_dropped:
            self._take(walk, script)

    def _take(self, walk: Walk, script: Script) -> None:
        if self._driver is None:
            backend = self.make_backend[0]()
            self._driver = Driver(self.oracle, backend, self.tally, damage_every=self.damage_every)
            if not self.tally.is_closed:
                self.tally.examples += 1
        driver, choice = self._driver, Choice(self.oracle, script)
        driver.begin()
        for place in choice.places():
            _try(driver, choice.added(driver.state, place))
            _try(driver, choice.planned(driver.state, walk, place))
        driver.end()


class PartMachine(WalkMachine):
    """Draws which part of the walks an example takes, for a machine that is to take all of them."""

    parts: ClassVar[Sequence[Sequence[Walk]]]

    @initialize(part=st.runner().flatmap(_parts))
    def choose(self, part: int) -> None:
        """Choose the walks of this example."""
        self.__dict__["walks"] = self.parts[part]


def _try(driver: Driver, number: int | None) -> None:
    if number is not None:
        driver.perform(number)


def machine_of(
    oracle: Oracle,
    walks: Sequence[Walk],
    factory: BackendFactory,
    tally: Tally,
    *,
    damage_every: int = 16,
) -> type[WalkMachine]:
    """A state machine that takes exactly these walks, in this order, in each example."""
    members = {
        "oracle": oracle,
        "walks": walks,
        "make_backend": (factory,),
        "tally": tally,
        "damage_every": damage_every,
    }
    return _finished("Walks", WalkMachine, members, len(walks))


def machine_for(
    instance: Instance,
    properties: Iterable[Property],
    backend: str | BackendFactory,
    *,
    plan: Plan | None = None,
    damage_every: int = 16,
) -> type[RuleBasedStateMachine]:
    """A Hypothesis state machine; its `TestCase` is what pytest collects.

    Each example takes a part of the planned walks, drawn by its number. It does not say what it never
    reached: `run` and `stateful_test` do.
    """
    claims = list(properties)
    plan = make_plan(instance, claims) if plan is None else plan
    members = {
        "oracle": Oracle(instance, claims, plan.checked),
        "parts": split(plan.walks, WALKS_AT_MOST),
        "walks": plan.walks,
        "make_backend": (load_factory(backend),),
        "tally": Tally(),
        "damage_every": damage_every,
    }
    return _finished("Parts", PartMachine, members, WALKS_AT_MOST + 1)


def _finished(
    name: str, base: type[WalkMachine], members: dict[str, Any], steps: int
) -> type[WalkMachine]:
    made = cast("type[WalkMachine]", type(name, (base,), members))
    made.TestCase.settings = settings(
        deadline=None, stateful_step_count=steps, suppress_health_check=list(HealthCheck)
    )
    return made


def split(walks: Sequence[Walk], size: int) -> list[Sequence[Walk]]:
    """The walks in parts of at most so many, as even as can be, in order."""
    count = -(-len(walks) // size)
    return [walks[len(walks) * n // count : len(walks) * (n + 1) // count] for n in range(count)]


def load_factory(backend: str | BackendFactory) -> BackendFactory:
    """What makes a backend: a callable, or its name as `package.module:factory`."""
    if not isinstance(backend, str):
        return backend
    module, _, name = backend.partition(":")
    if not module or not name:
        raise ValueError(f"found the backend {backend!r}: expected package.module:factory")
    factory = getattr(import_module(module), name, None)
    if not callable(factory):
        raise TypeError(f"{module} has no function or class {name}: check the name after the colon")
    return cast("BackendFactory", factory)
