"""Fan-out: n samples of a prompt are admitted and registered in one step, and one cancel ends them all.

Every request that has rows has a seat of the running batch. A fork brings its seats along: all children are
seated and are members of the group of their parent, or the fork is refused and nothing has happened. The
group is cancelled as one: every member that runs is ended in the step that ends the parent.

Modelled: other requests that take seats at any time, members that end by themselves, a parent that ends
before its samples. A parent with a running member is not cancelled alone, and is not released before them.
Left out: which seat, priorities, a wait for seats. Assumed: a member of a group has no group of its own.
"""

from __future__ import annotations

import attrs

from kvspec.spec import core
from kvspec.spec.append import (
    Txn,
    TxnState,
    append,
    base_generation,
    base_version,
    discard,
    is_live,
    k_end,
    key,
    state,
    target,
    txn_abi,
    v_end,
)
from kvspec.spec.failures import FailureClass, error_code
from kvspec.spec.handles import Handle, Phase, handles, phase
from kvspec.spec.language import (
    FALSE,
    Bool,
    Counts,
    Expr,
    Instance,
    Limit,
    Map,
    Module,
    Open,
    Option,
    Step,
    System,
    exists,
    forall,
    implies,
    is_some,
    limit,
    none,
    where,
)
from kvspec.spec.lifecycle import (
    allocate,
    cancel_request,
    finish,
    fork,
    is_append_to,
    lifecycle,
    release,
    truncate,
)


class Seat(Open):
    """A place for one request that runs."""


IN_A_GROUP = error_code("IN_A_GROUP", "the handle is a member of a group itself")
NO_RUNNING_MEMBER = error_code(
    "NO_RUNNING_MEMBER", "the handle has no group of which a member runs"
)
NOT_ALL_SEATED = error_code(
    "NOT_ALL_SEATED",
    "some child would have no seat, or another would have one",
    FailureClass.OWNERSHIP,
)
SEAT_TAKEN = error_code("SEAT_TAKEN", "the seat is taken", FailureClass.OWNERSHIP)
ONE_SEAT_FOR_TWO = error_code(
    "ONE_SEAT_FOR_TWO", "two children would have one seat", FailureClass.OWNERSHIP
)
GROUP_RUNS = error_code("GROUP_RUNS", "a member of the handle's group runs", FailureClass.OWNERSHIP)
GROUP_HELD = error_code(
    "GROUP_HELD", "a member of the handle's group is not released", FailureClass.OWNERSHIP
)

fan_out = Module(
    "fan_out",
    "Seats, and groups of samples.",
    uses=(handles, append, lifecycle),
    writes=(phase, state, target, base_generation, base_version, txn_abi, key, k_end, v_end),
)

seat = fan_out.variable(
    "seat", Handle, to=Option[Seat], init=none(Seat), meaning="seat of the request"
)
group = fan_out.variable(
    "group",
    Handle,
    to=Option[Handle],
    init=none(Handle),
    meaning="parent of whose group the request is a member",
)


def is_taken(s: Expr) -> Expr:
    """Some request has the seat."""
    return exists(Handle, lambda h: seat[h] == s)


def runs(h: Expr) -> Expr:
    """The request has not ended."""
    return phase[h] == Phase.DECODE_READY


def has_running_member(p: Expr) -> Expr:
    """Some member of the handle's group runs."""
    return exists(Handle, lambda c: (group[c] == p) & runs(c))


def is_ended_with(p: Expr, h: Expr) -> Expr:
    """A cancel of the group of p ends the request: it is the parent or a member, and runs."""
    return ((h == p) | (group[h] == p)) & runs(h)


def _is_to_an_ended(x: Expr, p: Expr) -> Expr:
    return exists(Handle, lambda h: is_append_to(x, h) & is_ended_with(p, h))


@fan_out.extend(allocate)
def allocate_with_a_seat(step: Step, h: Handle, s: Seat) -> None:
    """A new request takes a free seat, and is member of no group."""
    step.require(~is_taken(s), SEAT_TAKEN)
    step.assign(seat[h], s)


@fan_out.extend(fork)
def fork_with_seats(
    step: Step,
    p: Handle,
    children: Map[Handle, Bool],
    seated: Map[Handle, Bool],
    seats: Map[Handle, Seat],
) -> None:
    """All children are seated and registered in the parent's group at once, or none is."""
    step.require(~is_some(group[p]), IN_A_GROUP)
    step.require(forall(Handle, lambda c: seated[c] == children[c]), NOT_ALL_SEATED)
    step.require(forall(Handle, lambda c: implies(seated[c], ~is_taken(seats[c]))), SEAT_TAKEN)
    step.require(
        forall(
            Handle,
            Handle,
            lambda c, d: implies(seated[c] & seated[d] & (seats[c] == seats[d]), c == d),
        ),
        ONE_SEAT_FOR_TWO,
    )
    for c in step.every(Handle):
        step.assign(seat[c], where(seated[c], seats[c], seat[c]))
        step.assign(group[c], where(seated[c], p, group[c]))


@fan_out.extend(cancel_request)
def cancel_without_members(step: Step, h: Handle) -> None:
    """A request is cancelled alone if no member of its group runs."""
    step.require(~has_running_member(h), GROUP_RUNS)


@fan_out.extend(release)
def release_after_members(step: Step, h: Handle) -> None:
    """A release gives the seat back and leaves the group; a parent goes last."""
    step.require(forall(Handle, lambda c: group[c] != h), GROUP_HELD)
    step.assign(seat[h], none(Seat))
    step.assign(group[h], none(Handle))


@fan_out.action
def cancel_group(step: Step, p: Handle) -> None:
    """End a parent and every member of its group that runs, with all their open appends."""
    step.require(has_running_member(p), NO_RUNNING_MEMBER)
    for h in step.every(Handle):
        step.assign(phase[h], where(is_ended_with(p, h), Phase.CANCELLED, phase[h]))
    for x in step.every(Txn):
        discard(step, x, TxnState.ABORTED, is_live(x) & _is_to_an_ended(x, p))


system = System.of(
    "fan_out",
    "The core, seats, and groups of samples of one prompt.",
    *core.system.modules,
    fan_out,
)


@limit(truncate)
def truncates_nothing() -> Expr:
    """The search is about members that append, and not about shorter snapshots."""
    return FALSE


@limit(finish)
def finishes_nothing() -> Expr:
    """The search is about members that are cancelled."""
    return FALSE


CANCELS_ONLY = (truncates_nothing, finishes_nothing)


def make_instance(
    name: str,
    doc: str,
    *,
    handles: int,
    seats: int,
    txns: int = 0,
    versions: int = 0,
    generations: int = 1,
    blocks: int = 1,
    longest: int = 1,
    rows: int = 0,
    rewinds: int | None = None,
    limits: tuple[Limit, ...] = (),
    expected: Counts | None = None,
) -> Instance:
    """An instance of one layer. rows: of a batch. limits: those that it has beside the core's."""
    made = core.make_instance(
        name,
        doc,
        of=system,
        handles=handles,
        txns=txns,
        layers=1,
        versions=versions,
        generations=generations,
        blocks=blocks,
        longest=longest,
        rows=rows,
        rewinds=rewinds,
        more={Seat: seats},
        expected=expected,
    )
    return attrs.evolve(made, limits=(*made.limits, *limits))


ROOM = make_instance(
    "ROOM",
    "a parent, two children and two seats",
    handles=3,
    seats=2,
    expected=Counts(531, 1_609, 12, 10),
)
GROUP = make_instance(
    "GROUP",
    "a parent, two children and three seats",
    handles=3,
    seats=3,
    expected=Counts(1_602, 7_330, 12, 10),
)
RIVAL = make_instance(
    "RIVAL",
    "a parent, a child and another request, two seats",
    handles=3,
    seats=2,
    blocks=2,
    expected=Counts(1_925, 6_813, 12, 10),
)
PAIR = make_instance(
    "PAIR",
    "a parent, a child and an append",
    handles=2,
    seats=2,
    txns=1,
    versions=1,
    expected=Counts(5_315, 24_670, 20, 29),
)
SECOND_ROW = make_instance(
    "SECOND_ROW",
    "appends of a second row, cancelled with their group",
    handles=2,
    seats=2,
    txns=1,
    versions=2,
    longest=2,
    limits=CANCELS_ONLY,
    expected=Counts(5_215, 21_570, 32, 58),
)
SECOND_REQUEST = make_instance(
    "SECOND_REQUEST",
    "groups on handles that are used again",
    handles=2,
    seats=2,
    txns=1,
    versions=1,
    generations=2,
    limits=CANCELS_ONLY,
    expected=Counts(3_985, 17_289, 26, 16),
)
IN_A_BATCH = make_instance(
    "IN_A_BATCH",
    "a parent and a child, one of which runs in a batch",
    handles=2,
    seats=2,
    rows=1,
    expected=Counts(179, 592, 8, 3),
)

INSTANCES = (ROOM, GROUP, RIVAL, PAIR, SECOND_ROW, SECOND_REQUEST, IN_A_BATCH)
