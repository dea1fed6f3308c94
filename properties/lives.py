"""One life for the core and for what stands beside it: each of these systems refines `life`.

A settlement of a step that ran ahead is a publication behind the rows that are there, a preemption cuts
a request back to none, and the end of a speculative round publishes what the client got.
"""

from __future__ import annotations

from kvspec.properties.refinements import UNSEEN
from kvspec.spec import core, drafting, life, run_ahead
from kvspec.spec.append import count, publish, start, target
from kvspec.spec.handles import Phase, length, phase
from kvspec.spec.language import Expr, Variable, the, where
from kvspec.spec.language.refinement import STUTTER, call, refinement
from kvspec.spec.lifecycle import (
    allocate,
    cancel_request,
    finish,
    fork,
    release,
    truncate,
)

the_core_lives = refinement(
    "the_core_lives",
    concrete=core.system,
    abstract=life.system,
    mapping={
        life.stage: lambda h: phase[h],
        life.rows: lambda h: where(phase[h] == Phase.RELEASED, 0, length[h]),
    },
    steps={
        allocate: lambda h: call(life.begin_life, h, 0),
        fork: lambda p, children, n: call(life.fork_life, p, children, n),
        truncate: lambda h, n: call(life.cut_rows, h, n),
        publish: lambda x: call(life.add_rows, the(target[x]), start[x], count[x]),
        finish: lambda h: call(life.finish_life, h),
        cancel_request: lambda h: call(life.cancel_life, h, length[h]),
        release: lambda h: call(life.release_life, h),
        **UNSEEN,
    },
    doc="A publication of the core adds rows where those of the request end.",
)


def _stage(h: Expr, outcome: Variable, outcomes: type) -> Expr:
    """The phase of a request that tells what became of it; it is ready until then."""
    told = Phase.VACANT
    for name in ("CANCELLED", "FINISHED", "RELEASED", "PENDING"):
        if not hasattr(outcomes, name):
            continue
        meant = Phase.DECODE_READY if name == "PENDING" else getattr(Phase, name)
        told = where(outcome[h] == getattr(outcomes, name), meant, told)
    return told


a_settlement_is_a_publication = refinement(
    "a_settlement_is_a_publication",
    concrete=run_ahead.system,
    abstract=life.system,
    mapping={
        life.stage: lambda h: _stage(h, run_ahead.outcome, run_ahead.Outcome),
        life.rows: lambda h: run_ahead.settled[h],
    },
    steps={
        run_ahead.submit: lambda h: call(life.begin_life, h, 0),
        run_ahead.start: STUTTER,
        run_ahead.dispatch: STUTTER,
        run_ahead.settle: lambda f: call(
            life.add_rows, the(run_ahead.owner[f]), run_ahead.first[f], run_ahead.rows[f]
        ),
        run_ahead.drain: STUTTER,
        run_ahead.lose: STUTTER,
        run_ahead.index: STUTTER,
        run_ahead.preempt: lambda h: call(life.cut_rows, h, 0),
        run_ahead.finish: lambda h: call(life.finish_life, h),
        run_ahead.cancel: lambda h: call(life.cancel_life, h, 0),
        run_ahead.release: lambda h: call(life.release_life, h),
    },
    doc="A step that comes back adds its rows behind the settled ones; a preemption takes all of them.",
)

a_round_is_a_publication = refinement(
    "a_round_is_a_publication",
    concrete=drafting.system,
    abstract=life.system,
    mapping={
        life.stage: lambda h: _stage(h, drafting.outcome, drafting.Outcome),
        life.rows: lambda h: drafting.position[h],
    },
    steps={
        drafting.admit: lambda h, p: call(life.begin_life, h, p),
        drafting.draft: STUTTER,
        drafting.verify: STUTTER,
        drafting.deliver: STUTTER,
        drafting.lose: STUTTER,
        drafting.close: lambda h: call(
            life.add_rows, h, drafting.written[h] - 1 - drafting.drafts[h], drafting.delivered[h]
        ),
        drafting.truncate: lambda h, n: call(life.cut_rows, h, n),
        drafting.finish: lambda h: call(life.finish_life, h),
        drafting.cancel: lambda h: call(life.cancel_life, h, drafting.written[h] - drafting.cut(h)),
    },
    doc="The end of a round adds a row for each token that the client got, behind those from before it.",
)
