"""Runs of the specification for documents: what it accepts and refuses, step by step.

A document tells publications; the steps before one (begin, the staging of K and V of each layer and row,
prepare) are hidden in it, and are taken here. Layers are all staged alike, so a run has two at most, the
fewest among which one can lag behind; that more change nothing is what `kvspec prove` shows.
"""

from __future__ import annotations

from kvspec.models.concrete import Event, Machine, Refusal
from kvspec.models.concrete.evaluate import Bound
from kvspec.models.concrete.state import Value
from kvspec.spec import core, serving
from kvspec.spec.language import Instance

_LAYERS = 2


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
