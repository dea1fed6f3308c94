"""Runs of the specification for documents: what it accepts and refuses, step by step.

A document tells publications; the steps before one (begin, the staging of K and V of each layer and row,
prepare) are hidden in it, and are taken here. Layers are all staged alike, so a run has two at most, the
fewest among which one can lag behind; that more change nothing is what `kvspec prove` shows. Between two
positions that a document names all rows are alike, so that long stretches are shortened (`Positions`).
"""

from __future__ import annotations

from collections.abc import Iterable

from kvspec.models.concrete import Event, Machine, Refusal
from kvspec.models.concrete.evaluate import Bound
from kvspec.models.concrete.state import Value
from kvspec.spec import core, serving
from kvspec.spec.language import Instance

_LAYERS = 2
_STRETCH = 256


class Positions:
    """Positions of a document, and shorter ones for a run, in the same order.

    named: all that the document speaks of. The specification compares positions and takes steps of one
    row, so what it says of the shorter ones it says of these. Up to 256 rows in a stretch are kept.
    """

    def __init__(self, named: Iterable[int]) -> None:
        before, self._short = 0, {0: 0}
        for position in sorted({each for each in named if each > 0}):
            stretch = min(position - before, _STRETCH)
            self._short[position] = self._short[before] + stretch
            before = position
        self._true = {short: true for true, short in self._short.items()}

    @property
    def are_shorter(self) -> bool:
        """Whether any position of the run differs from the document's."""
        return any(true != short for true, short in self._short.items())

    def short(self, position: int) -> int:
        """The position in the run; those below 0, which are always wrong, are kept."""
        return self._short.get(position, position)

    def true(self, short: int | None) -> int | None:
        """The position in the document."""
        return None if short is None else self._true[short]


class Run:
    """A state of an instance, and the steps from it. Appends are of transaction 0, under key and ABI 0."""

    def __init__(self, instance: Instance) -> None:
        self.machine = Machine(instance)
        (self.state,) = self.machine.initial_states()

    def value(self, variable: str, *index: Value) -> Value:
        """The value of a variable of the specification."""
        return self.machine.value(self.state, variable, *index)

    def try_step(self, action: str, **values: Bound) -> Refusal | None:
        """Why the specification would refuse a step now, or None; nothing changes."""
        return self.machine.step(self.state, Event(action, tuple(values.items()))).refusal

    def step(self, action: str, **values: Bound) -> Refusal | None:
        """Take a step, or tell why the specification refuses it."""
        outcome = self.machine.step(self.state, Event(action, tuple(values.items())))
        if outcome.kind == "cut":
            raise RuntimeError(
                f"{action} leaves the bounds of {self.machine.instance!r}: give the run more room"
            )
        self.state = outcome.state
        return outcome.refusal

    def stage(self, handle: int, start: int, count: int, **more: Bound) -> Refusal | None:
        """Begin an append of rows [start, start + count), stage all of them, and prepare it."""
        refused = self.step("begin", x=0, h=handle, k=0, a=0, p=start, n=count, **more)
        if refused:
            return refused
        for layer in range(self.machine.instance.sizes["Layer"]):
            for position in range(start, start + count):
                for action in ("stage_k", "stage_v"):
                    refused = refused or self.step(action, x=0, l=layer, p=position)
        return refused or self.step("prepare", x=0)

    def publish(self) -> Refusal | None:
        """Publish the append that is staged, and forget it."""
        return self.step("publish", x=0) or self.step("forget", x=0)

    def append(self, handle: int, start: int, count: int, **more: Bound) -> Refusal | None:
        """Publish rows [start, start + count) with all hidden steps, or tell the first refusal."""
        return self.stage(handle, start, count, **more) or self.publish()

    def committed(self, handle: int) -> int | None:
        """Rows that readers of a handle see; None before its request and after the release."""
        if self.value("phase", handle) in ("VACANT", "RELEASED"):
            return None
        return int(self.value("length", handle) or 0)


def core_run(*, handles: int, longest: int, appends: int, layers: int = _LAYERS) -> Run:
    """A run of the core system. longest: the context limit. appends: publications it has room for."""
    return Run(
        core.make_instance(
            "DOCUMENT",
            "the requests of a document",
            handles=handles,
            txns=1,
            layers=min(layers, _LAYERS),
            longest=longest,
            versions=appends + 1,
            generations=2,
        )
    )


def serving_run(*, longest: int, appends: int) -> Run:
    """A run of the serving system, of one request."""
    return Run(
        serving.make_instance(
            "DOCUMENT",
            "the request of a document",
            layers=_LAYERS,
            longest=longest,
            versions=appends + 1,
            generations=2,
        )
    )
