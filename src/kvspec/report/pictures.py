"""The picture of the README: one publication, and one append that comes too late."""

from __future__ import annotations

from typing import Any

from kvspec.counterexamples import Trace, run_events, trace_of
from kvspec.counterexamples.lanes import lanes
from kvspec.models.concrete import Machine, parse_event
from kvspec.spec import core

_ZERO = {"h": "handle0", "k": "key0", "a": "abi0", "p": 0, "n": 1}
_STORY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("allocate", {"h": "handle0", "b": "block0", "a": "abi0"}),
    ("begin", {"x": "txn0", **_ZERO}),
    ("begin", {"x": "txn1", **_ZERO}),
    *(
        (action, {"x": txn, "l": layer, "p": 0})
        for txn in ("txn0", "txn1")
        for layer in ("layer0", "layer1")
        for action in ("stage_k", "stage_v")
    ),
    ("prepare", {"x": "txn0"}),
    ("prepare", {"x": "txn1"}),
    ("publish", {"x": "txn0"}),
    ("publish", {"x": "txn1"}),
)


def late_append() -> Trace:
    """Two appends from one snapshot: the first is published, the second is refused as stale."""
    instance = core.make_instance("PICTURE", "", handles=1, txns=2, layers=2, versions=2)
    machine = Machine(instance)
    events = [parse_event(machine, action, given, action) for action, given in _STORY]
    return trace_of(machine, run_events(machine, events), provenance="kvspec report")


def publication_picture(width: int = 102) -> str:
    """The space-time diagram of `late_append`: time goes down."""
    return lanes(late_append(), width=width)
