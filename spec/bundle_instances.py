"""Instances of `spec.bundle`, and the limits that keep each of them to what it is there for."""

from __future__ import annotations

import attrs

from kvspec.spec import core, serving
from kvspec.spec.append import begin, count
from kvspec.spec.bundle import asked, attach, carried, constrained, died, system
from kvspec.spec.frontier import emit, stop, tokens
from kvspec.spec.handles import Handle, Phase, length, parent, phase
from kvspec.spec.language import Counts, Expr, Instance, Limit, forall, is_some, limit
from kvspec.spec.lifecycle import allocate, cancel_txn, finish, fork, truncate
from kvspec.spec.retry import retry


def make_instance(
    name: str,
    doc: str,
    *,
    handles: int = 1,
    txns: int = 1,
    blocks: int = 1,
    rows: int = 0,
    longest: int = 2,
    versions: int = 1,
    rewinds: int | None = None,
    rollbacks: int = 0,
    replays: int = 0,
    limits: tuple[Limit, ...] = (),
    expected: Counts | None = None,
) -> Instance:
    """An instance of one layer; `limits` are asked beside those of the core."""
    made = core.make_instance(
        name,
        doc,
        of=serving.system,
        handles=handles,
        txns=txns,
        layers=1,
        blocks=blocks,
        rows=rows,
        longest=longest,
        versions=versions,
        rewinds=rewinds,
    )
    return attrs.evolve(
        made,
        system=system,
        constants={**made.constants, "rollback": rollbacks, "replay": replays},
        limits=(*made.limits, *limits),
        expected=expected,
    )


@limit(fork)
def forks_nothing(children: object) -> Expr:
    """No request is forked."""
    return forall(Handle, lambda c: ~children[c])  # type: ignore[index]


@limit(truncate)
def truncates_nothing(n: Expr) -> Expr:
    """No request is truncated."""
    return n < 0


@limit(begin)
def begins_without_drafts(h: Expr, p: Expr, n: Expr) -> Expr:
    """Every append is of known tokens."""
    return p + n <= tokens(h)


@limit(retry)
def retries_nothing(n: Expr) -> Expr:
    """No client asks again for a receipt."""
    return n < 0


@limit(finish)
def finishes_nothing(h: Expr) -> Expr:
    """A request ends early or not at all."""
    return length[h] < 0


@limit(cancel_txn)
def aborts_nothing(x: Expr) -> Expr:
    """An append ends with its publication, or with its request."""
    return count[x] < 0


@limit(stop)
def stops_nothing(h: Expr) -> Expr:
    """No request emits its last output."""
    return length[h] < 0


@limit(begin)
def begins_what_has_a_grammar(h: Expr) -> Expr:
    """A request has a grammar before it has rows."""
    return constrained[h]


@limit(allocate)
def allocates_beside_the_lost() -> Expr:
    """A request comes while no other one is ready."""
    return forall(Handle, lambda g: phase[g] != Phase.DECODE_READY)


@limit(fork)
def forks_a_continuation_without_rows(p: Expr) -> Expr:
    """A request is forked that has outputs of a lost one and no rows of its own; no child is."""
    return (carried[p] >= 1) & (length[p] == 0) & ~is_some(parent[p])


@limit(begin)
def begins_before_a_death(h: Expr, p: Expr, n: Expr) -> Expr:
    """An append is of all known tokens, before any worker died."""
    return forall(Handle, lambda g: ~died[g]) & (p + n == tokens(h))


@limit(emit)
def emits_before_a_death() -> Expr:
    """An output is emitted before any worker died."""
    return forall(Handle, lambda g: ~died[g])


@limit(system.action("cancel_request"))
def dies_once(h: Expr, dead: Expr) -> Expr:
    """No worker dies under a request that continues another."""
    return ~dead | (asked[h] == 0)


@limit(attach)
def attaches_at_once(h: Expr) -> Expr:
    """A grammar comes to the first request, before it has anything else."""
    return forall(Handle, lambda g: (g == h) | (phase[g] == Phase.VACANT))


BRIEF = (retries_nothing, finishes_nothing, stops_nothing)
PLAIN = (
    *BRIEF,
    truncates_nothing,
    begins_without_drafts,
    aborts_nothing,
    begins_what_has_a_grammar,
    allocates_beside_the_lost,
)
"""Limits that leave ordinary appends, outputs, early ends and what follows a worker's death."""

ROUNDS = make_instance(
    "ROUNDS",
    "one request and its rounds of drafts",
    longest=3,
    versions=2,
    rollbacks=1,
    expected=Counts(14_289, 73_017, 21, 9),
)
RIVALS = make_instance(
    "RIVALS",
    "two appends of one request",
    txns=2,
    limits=BRIEF,
    expected=Counts(4_849, 30_845, 20, 4),
)
ROWS = make_instance(
    "ROWS",
    "two requests in two batch rows",
    handles=2,
    txns=0,
    blocks=2,
    rows=2,
    longest=1,
    limits=(*BRIEF, forks_nothing, truncates_nothing),
    expected=Counts(1_611, 8_134, 10, 1),
)
MIGRATION = make_instance(
    "MIGRATION",
    "a request whose worker dies, and another one that continues it",
    handles=2,
    blocks=2,
    replays=1,
    limits=(*PLAIN, forks_nothing),
    expected=Counts(15_659, 65_313, 26, 9),
)
FAMILY = make_instance(
    "FAMILY",
    "a lost request, another one that continues it, and a fork of that",
    handles=3,
    blocks=2,
    replays=1,
    limits=(
        *PLAIN,
        forks_a_continuation_without_rows,
        begins_before_a_death,
        emits_before_a_death,
        dies_once,
        attaches_at_once,
    ),
    expected=Counts(33_766, 132_402, 36, 43),
)
STRANDED = make_instance(
    "STRANDED",
    "a lost request with a grammar that no other worker can bring to where it was",
    handles=2,
    blocks=2,
    limits=(
        *PLAIN,
        forks_nothing,
        begins_before_a_death,
        emits_before_a_death,
        dies_once,
        attaches_at_once,
    ),
    expected=Counts(3_163, 11_331, 26, 7),
)
FORKS = make_instance(
    "FORKS",
    "a request of one row and its fork",
    handles=2,
    longest=1,
    limits=BRIEF,
    expected=Counts(15_853, 77_399, 21, 29),
)

INSTANCES = (ROWS, RIVALS, FORKS, STRANDED, ROUNDS, MIGRATION, FAMILY)
