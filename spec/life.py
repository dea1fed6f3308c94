"""The life of a request as a reader sees it, without numbers that only grow.

A request begins, gets rows behind those that it has, is cut back, ends, and is released. This is what the
core and the systems beside it have in common: `core`, `run_ahead` and `drafting` are shown to refine it
(`kvspec.properties.lives`), each by a mapping of its own state, so that a settlement of a step ahead and the
end of a speculative round are publications, and a preemption cuts a request back to no rows.

Modelled: where a publication begins, which must be where the rows end; a cancel with which the last rows
still count, or with which all rows go. Left out: generations, snapshots and layers (`atomic`), what is in
flight, and how long a request may wait: a claim that something happens is each system's own.
"""

from __future__ import annotations

from kvspec.spec.failures import (
    BEYOND_COMMITTED,
    CHILD_IN_USE,
    CONTEXT_FULL,
    EMPTY_APPEND,
    HANDLE_LIVE,
    HANDLE_TERMINAL,
    NO_CHILD,
    NOT_TERMINAL,
    POSITION_MISMATCH,
)
from kvspec.spec.handles import Handle, Length, Phase, context
from kvspec.spec.language import (
    Bool,
    Counts,
    Expr,
    Map,
    Module,
    Step,
    System,
    exists,
    forall,
    implies,
    instance,
    one_of,
    where,
)

life = Module("life", "Requests and their rows.")
life.share(context)

stage = life.variable("stage", Handle, to=Phase, init=Phase.VACANT, meaning="phase of the request")
rows = life.variable("rows", Handle, to=Length, init=0, meaning="rows that a reader sees")


def _is_free(h: Expr) -> Expr:
    return one_of(stage[h], Phase.VACANT, Phase.RELEASED)


@life.action
def begin_life(step: Step, h: Handle, n: Length) -> None:
    """A request begins on a free handle, with n rows that are there already."""
    step.require(_is_free(h), HANDLE_LIVE)
    step.require(n <= context, CONTEXT_FULL)
    step.assign(stage[h], Phase.DECODE_READY)
    step.assign(rows[h], n)


@life.action
def add_rows(step: Step, h: Handle, p: Length, n: Length) -> None:
    """A ready request gets n rows from position p on, all at once."""
    step.require(stage[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(n >= 1, EMPTY_APPEND)
    step.require(p == rows[h], POSITION_MISMATCH)
    step.require(rows[h] + n <= context, CONTEXT_FULL)
    step.assign(rows[h], rows[h] + n)


@life.action
def cut_rows(step: Step, h: Handle, n: Length) -> None:
    """A ready request is cut back to its first n rows."""
    step.require(stage[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(n <= rows[h], BEYOND_COMMITTED)
    step.assign(rows[h], n)


@life.action
def fork_life(step: Step, p: Handle, children: Map[Handle, Bool], n: Length) -> None:
    """Free handles begin with the first n rows of a ready request, all of them at once."""
    step.require(stage[p] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(exists(Handle, lambda c: children[c]), NO_CHILD)
    step.require(n <= rows[p], BEYOND_COMMITTED)
    step.require(forall(Handle, lambda c: implies(children[c], _is_free(c))), CHILD_IN_USE)
    for c in step.every(Handle):
        step.assign(stage[c], where(children[c], Phase.DECODE_READY, stage[c]))
        step.assign(rows[c], where(children[c], n, rows[c]))


@life.action
def finish_life(step: Step, h: Handle) -> None:
    """A ready request ends after its last row."""
    step.require(stage[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.assign(stage[h], Phase.FINISHED)


@life.action
def cancel_life(step: Step, h: Handle, n: Length) -> None:
    """A ready request ends early, with n rows: what was on its way may still count, or all be gone."""
    step.require(stage[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(n <= context, CONTEXT_FULL)
    step.assign(stage[h], Phase.CANCELLED)
    step.assign(rows[h], n)


@life.action
def release_life(step: Step, h: Handle) -> None:
    """The rows of an ended request are gone."""
    step.require(one_of(stage[h], Phase.FINISHED, Phase.CANCELLED), NOT_TERMINAL)
    step.assign(stage[h], Phase.RELEASED)
    step.assign(rows[h], 0)


system = System.of("life", "Requests and their rows, as every system sees them.", life)

LIVES = instance(
    "LIVES",
    system,
    {Handle: 2, Length: 3},
    constants={context: 2},
    expected=Counts(121, 750, 6, 0),
    doc="two requests of up to two rows",
)
