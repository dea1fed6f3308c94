"""A lifecycle trace made from its operations and their outcomes: snapshots, receipts, batch rows, digests."""

from __future__ import annotations

import attrs

from kvspec.properties.documents.lifecycle import fingerprint_of, steps
from kvspec.spec.documents.contracts import Binding
from kvspec.spec.documents.lifecycle import LifecycleTrace, Snapshot, lifecycle, snapshot_digest


def _digested(snapshot: Snapshot) -> Snapshot:
    return attrs.evolve(snapshot, sha256=snapshot_digest(snapshot))


def completed(t: LifecycleTrace) -> LifecycleTrace:
    """The trace with all that the specification says of its operations."""
    made = tuple(
        attrs.evolve(
            each,
            number=n,
            stored=tuple(_digested(one) for one in step.stored),
            seen=step.seen,
            receipt=step.receipt,
            batch=step.batch,
        )
        for n, (each, step) in enumerate(zip(t.operations, steps(t), strict=True), 1)
    )
    t = attrs.evolve(t, total=len(made), operations=made)
    calls = zip(t.operations, t.calls, strict=True)
    return attrs.evolve(
        t,
        operations=tuple(
            attrs.evolve(each, fingerprint=fingerprint_of(t, each, call)) for each, call in calls
        ),
    )


lifecycle.binding = Binding(
    (
        "/total",
        "/operations/*/number",
        "/operations/*/stored",
        "/operations/*/seen",
        "/operations/*/receipt",
        "/operations/*/batch",
        "/operations/*/fingerprint",
    ),
    completed,
)
