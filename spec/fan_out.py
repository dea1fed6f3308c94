"""Fan-out: n samples of a prompt are admitted and registered in one step, and one cancel ends them all.

Every request that has rows has a seat of the running batch. A prompt asks for its samples, which reserves
nothing, and waits. A fork brings their seats along: all that were asked for are seated and are members of the
group of their parent, or the fork is refused and nothing has happened. A prompt that has waited for room in
vain is turned away: it goes on without samples. A group is cancelled as one: every member that runs is ended
in the step that ends the parent.

Modelled: rivals that take seats and handles at any time, members that end by themselves, a parent that ends
before its samples. A parent with a running member is not cancelled alone, and is not released before them.
Left out: which seat, priorities. Assumed: a member of a group has no group of its own.
"""

from __future__ import annotations

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
from kvspec.spec.failures import CHILD_IN_USE, HANDLE_TERMINAL, FailureClass, error_code
from kvspec.spec.handles import Handle, Phase, handles, is_free, phase
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
GROUP_BEGUN = error_code("GROUP_BEGUN", "the handle has samples, or waits for them")
NO_SAMPLE = error_code("NO_SAMPLE", "the handle asks for no sample")
ASKED_FOR = error_code("ASKED_FOR", "another handle has asked for a sample there")
WAITS_FOR_NONE = error_code(
    "WAITS_FOR_NONE", "the handle does not wait for its samples, or a part of them is there"
)
NOT_ALL_SAMPLES = error_code(
    "NOT_ALL_SAMPLES",
    "the children are not the samples that the handle asked for",
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
wish = fan_out.variable(
    "wish",
    Handle,
    to=Option[Handle],
    init=none(Handle),
    meaning="prompt that has asked for a sample on this handle, and has none there yet",
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


def has_begun(p: Expr) -> Expr:
    """The handle has members of its group, or waits for some."""
    return exists(Handle, lambda c: (group[c] == p) | (wish[c] == p))


def waits(p: Expr) -> Expr:
    """The request runs, and waits for samples."""
    return runs(p) & exists(Handle, lambda c: wish[c] == p)


def waits_for_all(p: Expr) -> Expr:
    """The request waits, and has no sample yet."""
    return waits(p) & forall(Handle, lambda c: group[c] != p)


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


@fan_out.action
def ask(step: Step, p: Handle, samples: Map[Handle, Bool]) -> None:
    """A prompt asks for its samples; nothing is reserved for them."""
    step.require(runs(p), HANDLE_TERMINAL)
    step.require(~is_some(group[p]), IN_A_GROUP)
    step.require(~has_begun(p), GROUP_BEGUN)
    step.require(exists(Handle, lambda c: samples[c]), NO_SAMPLE)
    step.require(forall(Handle, lambda c: implies(samples[c], ~is_some(wish[c]))), ASKED_FOR)
    step.require(forall(Handle, lambda c: implies(samples[c], is_free(c))), CHILD_IN_USE)
    for c in step.every(Handle):
        step.assign(wish[c], where(samples[c], p, wish[c]))


@fan_out.action
def turn_away(step: Step, p: Handle) -> None:
    """A prompt that has waited in vain for all of its samples goes on without them."""
    step.require(waits_for_all(p), WAITS_FOR_NONE)
    for c in step.every(Handle):
        step.assign(wish[c], where(wish[c] == p, none(Handle), wish[c]))


@fan_out.extend(fork)
def fork_with_seats(
    step: Step,
    p: Handle,
    children: Map[Handle, Bool],
    seats: Map[Handle, Seat],
) -> None:
    """All samples are seated and registered in the parent's group at once, or none is."""
    step.require(forall(Handle, lambda c: children[c] == (wish[c] == p)), NOT_ALL_SAMPLES)
    step.require(forall(Handle, lambda c: implies(children[c], ~is_taken(seats[c]))), SEAT_TAKEN)
    step.require(
        forall(
            Handle,
            Handle,
            lambda c, d: implies(children[c] & children[d] & (seats[c] == seats[d]), c == d),
        ),
        ONE_SEAT_FOR_TWO,
    )
    for c in step.every(Handle):
        step.assign(seat[c], where(children[c], seats[c], seat[c]))
        step.assign(group[c], where(children[c], p, group[c]))
        step.assign(wish[c], where(children[c], none(Handle), wish[c]))


@fan_out.extend(cancel_request)
def cancel_without_members(step: Step, h: Handle) -> None:
    """A request is cancelled alone if no member of its group runs."""
    step.require(~has_running_member(h), GROUP_RUNS)


@fan_out.extend(release)
def release_after_members(step: Step, h: Handle) -> None:
    """A release gives the seat back, leaves the group and asks for nothing; a parent goes last."""
    step.require(forall(Handle, lambda c: group[c] != h), GROUP_HELD)
    step.assign(seat[h], none(Seat))
    step.assign(group[h], none(Handle))
    for c in step.every(Handle):
        step.assign(wish[c], where(wish[c] == h, none(Handle), wish[c]))


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
    return core.make_instance(
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
        limits=limits,
        expected=expected,
    )


ROOM = make_instance(
    "ROOM",
    "a parent, two children and two seats",
    handles=3,
    seats=2,
    expected=Counts(1_125, 3_391, 12, 10),
)
GROUP = make_instance(
    "GROUP",
    "a parent, two children and three seats",
    handles=3,
    seats=3,
    expected=Counts(2_493, 9_031, 12, 10),
)
RIVAL = make_instance(
    "RIVAL",
    "a parent, a child and another request, two seats",
    handles=3,
    seats=2,
    blocks=2,
    expected=Counts(6_677, 26_001, 12, 10),
)
PAIR = make_instance(
    "PAIR",
    "a parent, a child and an append",
    handles=2,
    seats=2,
    txns=1,
    versions=1,
    expected=Counts(7_411, 35_098, 20, 29),
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
    expected=Counts(7_403, 32_606, 32, 58),
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
    expected=Counts(5_793, 26_009, 27, 16),
)
IN_A_BATCH = make_instance(
    "IN_A_BATCH",
    "a parent and a child, one of which runs in a batch",
    handles=2,
    seats=2,
    rows=1,
    expected=Counts(251, 832, 8, 3),
)

INSTANCES = (ROOM, GROUP, RIVAL, PAIR, SECOND_ROW, SECOND_REQUEST, IN_A_BATCH)
