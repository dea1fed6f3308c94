"""Refinements are proved for any number of members, and broken ones are shown with a step."""

from typing import Any

import pytest

from kvspec.models.symbolic import prove
from kvspec.spec.language import (
    DefinitionError,
    Enum,
    ErrorCode,
    Module,
    Natural,
    Open,
    Option,
    Properties,
    System,
    forall,
    implies,
    is_some,
    member,
    none,
    the,
)
from kvspec.spec.language.refinement import STUTTER, Refinement, call, refinement


class Handle(Open):
    """A handle."""


class Txn(Open):
    """An append."""


class Layer(Open):
    """A layer."""


class Count(Natural):
    """Rows, versions."""


class Phase(Enum):
    """Where an append is."""

    IDLE = member()
    OPEN = member()


BUSY = ErrorCode("BUSY", "the append is open")
CLOSED = ErrorCode("CLOSED", "the append is not open")
INCOMPLETE = ErrorCode("INCOMPLETE", "a layer is not staged")
STALE = ErrorCode("STALE", "the handle has moved on")


def atomic() -> tuple[System, Any]:
    """Handles whose rows are visible in all layers at once."""
    module = Module("atomic", "One step a row.")
    rows = module.variable("rows", Handle, Layer, to=Count, init=0, meaning="rows seen")

    @module.action
    def extend(step: Any, h: Handle) -> None:
        """Add a row in every layer."""
        for layer in step.every(Layer):
            step.assign(rows[h, layer], rows[h, layer] + 1)

    return System.of("atomic", "One step a row.", module), rows


def staged(*, checks_base: bool, at_once: bool = True) -> tuple[Refinement, Properties]:
    """Handles whose rows are staged layer by layer and published at once (or not)."""
    simple, seen = atomic()
    module = Module("staged", "Many steps a row.")
    phase = module.variable("phase", Txn, to=Phase, init=Phase.IDLE, meaning="phase of the append")
    target = module.variable(
        "target", Txn, to=Option[Handle], init=none(Handle), meaning="what it extends"
    )
    base = module.variable("base", Txn, to=Count, init=0, meaning="rows at begin")
    bit = module.variable("bit", Txn, Layer, to=Count, init=0, meaning="rows after this layer")
    rows = module.variable("rows", Handle, Layer, to=Count, init=0, meaning="rows seen")
    length = module.variable("length", Handle, to=Count, init=0, meaning="rows committed")

    @module.action
    def begin(step: Any, t: Txn, h: Handle) -> None:
        """Open an append."""
        step.require(phase[t] == Phase.IDLE, BUSY)
        step.assign(phase[t], Phase.OPEN)
        step.assign(target[t], h)
        step.assign(base[t], length[h])
        for layer in step.every(Layer):
            step.assign(bit[t, layer], length[h])

    @module.action
    def stage(step: Any, t: Txn, l: Layer) -> None:
        """Stage the row of one layer."""
        step.require(phase[t] == Phase.OPEN, CLOSED)
        step.assign(bit[t, l], base[t] + 1)
        if not at_once:
            step.assign(rows[the(target[t]), l], base[t] + 1)

    @module.action
    def publish(step: Any, t: Txn) -> None:
        """Show the row in every layer."""
        h = the(target[t])
        step.require(phase[t] == Phase.OPEN, CLOSED)
        step.require(forall(Layer, lambda layer: bit[t, layer] == base[t] + 1), INCOMPLETE)
        if checks_base:
            step.require(length[h] == base[t], STALE, refused={phase[t]: Phase.IDLE})
        step.assign(phase[t], Phase.IDLE)
        step.assign(length[h], base[t] + 1)
        for layer in step.every(Layer):
            step.assign(rows[h, layer], bit[t, layer])

    system = System.of("staged", "Many steps a row.", module)
    properties = Properties(system)

    @properties.invariant
    def layers_show_the_length() -> Any:
        """Every layer shows the committed rows."""
        return forall(Handle, Layer, lambda h, layer: rows[h, layer] == length[h])

    @properties.lemma
    def an_open_append_has_a_target() -> Any:
        """An open append has a handle."""
        return forall(Txn, lambda t: implies(phase[t] == Phase.OPEN, is_some(target[t])))

    steps: dict[Any, Any] = {
        begin: STUTTER,
        stage: STUTTER,
        publish: lambda t: call(simple.action("extend"), the(target[t])),
    }
    if checks_base:
        steps[publish, STALE] = STUTTER
    return (
        refinement(
            "publication_is_atomic",
            concrete=system,
            abstract=simple,
            mapping={seen: lambda h, layer: rows[h, layer]},
            steps=steps,
        ),
        properties,
    )


def test_staging_refines_the_atomic_system() -> None:
    """Begin, stage and a stale publish are stutters; publish is the atomic step."""
    found, properties = staged(checks_base=True)
    report = prove(found.concrete, properties, [found], workers=0)
    assert report.verdict == "holds", report.show()
    assert report["refines:publication_is_atomic:publish:rows"].how == "solver"
    assert report["refines:publication_is_atomic:begin:rows"].how == "frame"


def test_a_lost_update_is_no_atomic_step() -> None:
    """Without the comparison of the base, a second publish changes nothing: the proof shows it."""
    found, properties = staged(checks_base=False)
    report = prove(found.concrete, properties, [found], workers=0)
    item = report["refines:publication_is_atomic:publish:rows"]
    assert report.verdict == "violated"
    assert item.verdict == "failed"
    assert item.counterexample is not None
    assert item.counterexample.event is not None
    assert item.counterexample.event.action == "publish"
    assert "seen in atomic" in item.counterexample.note
    assert "extend(h=handle0) gives" in item.counterexample.note


def test_rows_seen_while_staging_are_no_stutter() -> None:
    """A layer that shows its row before publication breaks the refinement in `stage`."""
    found, properties = staged(checks_base=True, at_once=False)
    report = prove(found.concrete, properties, [found], workers=0, only=["refines:*"])
    item = report["refines:publication_is_atomic:stage:rows"]
    assert item.verdict == "failed"
    assert item.counterexample is not None
    assert "which is no stutter" in item.counterexample.note


def test_a_step_may_be_one_of_several() -> None:
    """A tuple of steps asks that the step is one of them."""
    found, properties = staged(checks_base=True)
    publish = found.concrete.action("publish")
    extend = found.abstract.action("extend")
    target = found.concrete.variables["target"]
    steps = {
        found.concrete.action("begin"): (STUTTER, STUTTER),
        found.concrete.action("stage"): STUTTER,
        publish: lambda t: (STUTTER, call(extend, the(target[t]))),
        (publish, STALE): STUTTER,
    }
    wider = refinement(
        "wider",
        concrete=found.concrete,
        abstract=found.abstract,
        mapping={
            found.abstract.variables["rows"]: lambda h, l: found.concrete.variables["rows"][h, l]
        },
        steps=steps,
    )
    report = prove(found.concrete, properties, [wider], workers=0, only=["refines:*"])
    assert report.verdict == "holds", report.show()


def test_a_beginning_that_differs_is_found() -> None:
    """The mapped initial state must be one of the abstract system."""
    found, properties = staged(checks_base=True)
    rows = found.concrete.variables["rows"]
    shifted = refinement(
        "shifted",
        concrete=found.concrete,
        abstract=found.abstract,
        mapping={found.abstract.variables["rows"]: lambda h, l: rows[h, l] + 1},
        steps={found.concrete.action(name): STUTTER for name in ("begin", "stage", "publish")}
        | {(found.concrete.action("publish"), STALE): STUTTER},
    )
    report = prove(found.concrete, properties, [shifted], workers=0, only=["refines:*:init:*"])
    item = report["refines:shifted:init:rows"]
    assert item.verdict == "failed"
    assert item.counterexample is not None
    assert "atomic cannot begin" in item.counterexample.note


def test_a_mapping_below_zero_is_found() -> None:
    """A natural of the abstract state is mapped to a natural."""
    found, properties = staged(checks_base=True)
    rows = found.concrete.variables["rows"]
    lowered = refinement(
        "lowered",
        concrete=found.concrete,
        abstract=found.abstract,
        mapping={found.abstract.variables["rows"]: lambda h, l: rows[h, l] - 1},
        steps={found.concrete.action(name): STUTTER for name in ("begin", "stage", "publish")}
        | {(found.concrete.action("publish"), STALE): STUTTER},
    )
    report = prove(found.concrete, properties, [lowered], workers=0, only=["refines:*:natural:*"])
    item = report["refines:lowered:natural:rows"]
    assert item.verdict == "failed"
    assert item.counterexample is not None
    assert item.counterexample.note == "rows is mapped to -1"


def test_a_transition_without_a_step_is_refused() -> None:
    """Every transition of the concrete system is mapped, refusals with an effect included."""
    found, _ = staged(checks_base=True)
    rows = found.concrete.variables["rows"]
    with pytest.raises(DefinitionError, match="missing: publish!STALE"):
        refinement(
            "partial",
            concrete=found.concrete,
            abstract=found.abstract,
            mapping={found.abstract.variables["rows"]: lambda h, l: rows[h, l]},
            steps={found.concrete.action(n): STUTTER for n in ("begin", "stage", "publish")},
        )
