"""Linearized publication: the core system refines the atomic one.

Every step of the core system is one step of the atomic system, or changes nothing that a reader sees.
An append takes effect in its publication, all layers together, and nowhere else.
"""

from __future__ import annotations

from typing import Any

from kvspec.spec import atomic, serving
from kvspec.spec.append import begin, count, prepare, publish, stage_k, stage_v, target
from kvspec.spec.batch import enter, leave, reorder
from kvspec.spec.core import system
from kvspec.spec.failures import (
    HANDLE_TERMINAL,
    OUTPUT_STOPPED,
    STALE_FRONTIER,
    STALE_GENERATION,
    STALE_SNAPSHOT,
)
from kvspec.spec.frontier import emit, stop, verify
from kvspec.spec.handles import abi, generation, k_rows, length, phase, v_rows, version
from kvspec.spec.language import the
from kvspec.spec.language.refinement import STUTTER, call, refinement
from kvspec.spec.lifecycle import (
    allocate,
    cancel_request,
    cancel_txn,
    finish,
    fork,
    release,
    truncate,
)
from kvspec.spec.prefix import evict
from kvspec.spec.retry import forget, retry

_SEEN = {
    atomic.seen_phase: lambda h: phase[h],
    atomic.seen_generation: lambda h: generation[h],
    atomic.seen_version: lambda h: version[h],
    atomic.seen_abi: lambda h: abi[h],
    atomic.seen_length: lambda h: length[h],
    atomic.seen_k: lambda h, l: k_rows[h, l],
    atomic.seen_v: lambda h, l: v_rows[h, l],
}
UNSEEN: dict[Any, object] = {
    (publish, STALE_GENERATION): STUTTER,
    (publish, STALE_SNAPSHOT): STUTTER,
    (publish, HANDLE_TERMINAL): STUTTER,
    begin: STUTTER,
    stage_k: STUTTER,
    stage_v: STUTTER,
    prepare: STUTTER,
    cancel_txn: STUTTER,
    retry: STUTTER,
    forget: STUTTER,
    enter: STUTTER,
    leave: STUTTER,
    reorder: STUTTER,
    evict: STUTTER,
}
"""Steps of the core in which nothing changes that a reader sees."""
_STEPS: dict[Any, object] = {
    allocate: lambda h, a: call(atomic.atomic_allocate, h, a),
    fork: lambda p, children, n: call(atomic.atomic_fork, p, children, n),
    truncate: lambda h, n: call(atomic.atomic_truncate, h, n),
    publish: lambda x: call(atomic.atomic_append, the(target[x]), count[x]),
    finish: lambda h: call(atomic.atomic_finish, h),
    cancel_request: lambda h: call(atomic.atomic_cancel, h),
    release: lambda h: call(atomic.atomic_release, h),
    **UNSEEN,
}

publication_is_atomic = refinement(
    "publication_is_atomic",
    concrete=system,
    abstract=atomic.system,
    mapping=_SEEN,
    steps=_STEPS,
    doc="Each step of the staged system is one atomic step, or nothing that a reader sees.",
)

publication_of_drafts_is_atomic = refinement(
    "publication_of_drafts_is_atomic",
    concrete=serving.system,
    abstract=atomic.system,
    mapping=_SEEN,
    steps={
        **_STEPS,
        (publish, STALE_FRONTIER): STUTTER,
        (publish, OUTPUT_STOPPED): STUTTER,
        verify: STUTTER,
        emit: STUTTER,
        stop: STUTTER,
    },
    doc="With outputs and drafts each step is one atomic step too, or nothing that a reader sees.",
)
