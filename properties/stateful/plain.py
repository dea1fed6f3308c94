"""Plain choice: events picked at random without a plan, to see what the plan is worth."""

from __future__ import annotations

import random
from collections.abc import Iterable

import attrs

from kvspec.properties.stateful.driver import Driver
from kvspec.properties.stateful.machine import BackendFactory, load_factory
from kvspec.properties.stateful.mismatch import Mismatch
from kvspec.properties.stateful.oracle import Oracle
from kvspec.properties.stateful.reference import SpecBackend
from kvspec.properties.stateful.tally import Tally
from kvspec.spec.language import Instance, Property


@attrs.frozen
class PlainChoice:
    """What plain choice did: sequences from a reset, events, transitions touched, and what it found."""

    sequences: int
    steps: int
    touched: int
    found: str | None


def plain_choice(
    instance: Instance,
    backend: str | BackendFactory = SpecBackend,
    properties: Iterable[Property] = (),
    *,
    steps: int,
    length: int = 50,
    seed: int = 0,
    refused: float = 0.0,
) -> PlainChoice:
    """Sequences of at most `length` random events, until so many events are done or one fails.

    Each is picked among the events that the specification accepts, all alike, or with the chance
    `refused` among those that it refuses; where none is accepted the sequence is over.
    """
    chance, oracle, tally = random.Random(seed), Oracle(instance, properties), Tally()
    driver = Driver(oracle, load_factory(backend)(), tally)
    found = None
    try:
        while tally.steps < steps:
            driver.begin()
            for _ in range(min(length, steps - tally.steps)):
                accepted = oracle.enabled(driver.state)
                if not accepted:
                    break
                others = oracle.refused(driver.state) if chance.random() < refused else []
                driver.perform(chance.choice(others or accepted))
    except Mismatch as mismatch:
        found = mismatch.message
    return PlainChoice(tally.sequences, tally.steps, len(tally.touched), found)
