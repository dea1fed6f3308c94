"""What is claimed of a fan-out: all samples are admitted or none, and one cancel ends them all."""

from __future__ import annotations

from kvspec.properties.core import properties as core
from kvspec.spec.append import Txn, TxnState, is_live, state
from kvspec.spec.batch import leave
from kvspec.spec.fan_out import (
    Seat,
    ask,
    cancel_group,
    group,
    has_running_member,
    is_taken,
    runs,
    seat,
    system,
    turn_away,
    waits,
    wish,
)
from kvspec.spec.handles import (
    Handle,
    Phase,
    is_free,
    is_held,
    is_terminal,
    parent,
    phase,
)
from kvspec.spec.language import (
    Expr,
    Properties,
    after,
    exists,
    fired,
    forall,
    implies,
    is_some,
    the,
    weak,
    where,
)
from kvspec.spec.lifecycle import fork, is_append_to, release

fan_out = Properties(system, given=core)


@fan_out.invariant
def every_held_request_has_a_seat() -> Expr:
    """A request that has rows has a seat: no sample is registered without being admitted."""
    return forall(Handle, lambda h: implies(is_held(h), is_some(seat[h])))


@fan_out.invariant
def requests_do_not_share_a_seat() -> Expr:
    """No two requests have one seat."""
    return forall(
        Handle,
        Handle,
        lambda h, g: implies(is_some(seat[h]) & (seat[h] == seat[g]), h == g),
    )


@fan_out.invariant
def a_free_handle_has_no_seat() -> Expr:
    """A released request has given its seat back, and has left its group."""
    return forall(Handle, lambda h: implies(is_free(h), ~is_some(seat[h]) & ~is_some(group[h])))


@fan_out.invariant
def a_group_is_registered_whole() -> Expr:
    """Parent and members of a group are requests that are held."""
    return forall(Handle, Handle, lambda c, p: implies(group[c] == p, is_held(c) & is_held(p)))


@fan_out.invariant
def a_child_is_in_the_group_of_its_parent() -> Expr:
    """Every request that was forked is known to its parent's group as long as it is held."""
    return forall(Handle, lambda c: implies(is_held(c) & is_some(parent[c]), group[c] == parent[c]))


@fan_out.invariant
def no_sample_outlives_the_cancel_of_its_prompt() -> Expr:
    """If a parent was cancelled, none of its children runs."""
    return forall(
        Handle,
        Handle,
        lambda c, p: implies((parent[c] == p) & (phase[p] == Phase.CANCELLED), ~runs(c)),
    )


@fan_out.invariant
def groups_have_no_groups() -> Expr:
    """The parent of a group is a member of none."""
    return forall(Handle, Handle, lambda c, p: implies(group[c] == p, ~is_some(group[p])))


@fan_out.invariant
def no_sample_of_a_group_is_missing() -> Expr:
    """A prompt that has a sample waits for no other: all are there, or none is."""
    return forall(Handle, Handle, Handle, lambda c, d, p: implies(group[c] == p, ~(wish[d] == p)))


@fan_out.invariant
def samples_are_asked_for_by_prompts() -> Expr:
    """Who waits for samples is held, and is no sample itself."""
    return forall(
        Handle, Handle, lambda c, p: implies(wish[c] == p, is_held(p) & ~is_some(group[p]))
    )


@fan_out.step
def who_asks_runs_and_waits() -> Expr:
    """Samples are asked for by a request that runs, on free handles, and at least one is."""
    return forall(
        Handle,
        Handle,
        lambda c, p: implies(
            fired(ask) & (wish[c] != p) & after(wish[c] == p), runs(p) & is_free(c)
        ),
    ) & implies(
        fired(ask),
        exists(Handle, lambda c: ~is_some(wish[c]) & after(is_some(wish[c]))),
    )


@fan_out.step
def a_sample_is_waited_for_until_it_is_there() -> Expr:
    """A prompt waits for a sample until it has it, is turned away, or is released."""
    return forall(
        Handle,
        Handle,
        lambda c, p: implies(
            (wish[c] == p) & after(wish[c] != p),
            fired(turn_away) | after(group[c] == p) | after(is_free(p)),
        ),
    )


@fan_out.step
def a_prompt_is_turned_away_whole() -> Expr:
    """Who is turned away runs, has no sample, and waits for none afterwards; nobody else is."""
    return forall(
        Handle,
        Handle,
        Handle,
        lambda c, d, p: implies(
            fired(turn_away) & (wish[c] == p) & after(wish[c] != p),
            runs(p) & (group[d] != p) & after(wish[d] != p),
        ),
    ) & implies(
        fired(turn_away),
        exists(Handle, lambda c: is_some(wish[c]) & after(~is_some(wish[c])))
        & forall(
            Handle,
            Handle,
            lambda c, d: implies(
                (after(wish[c]) != wish[c]) & (after(wish[d]) != wish[d]), wish[c] == wish[d]
            ),
        ),
    )


@fan_out.step
def a_fork_registers_every_child() -> Expr:
    """Every child of a fork has a seat and is a member of its parent's group."""
    return forall(
        Handle,
        lambda c: implies(
            fired(fork) & is_free(c) & after(is_held(c)),
            after(is_some(seat[c]) & (group[c] == parent[c])),
        ),
    )


@fan_out.step
def a_seat_is_kept() -> Expr:
    """A request has its seat from its begin until its release, and its group as well."""
    return forall(
        Handle,
        lambda h: implies(
            is_held(h) & after(is_held(h)),
            (after(seat[h]) == seat[h]) & (after(group[h]) == group[h]),
        ),
    )


@fan_out.step
def a_cancel_of_a_group_ends_it() -> Expr:
    """After the cancel of a group, neither its parent nor any member runs that was there."""
    return implies(
        fired(cancel_group),
        exists(
            Handle,
            lambda p: (
                has_running_member(p)
                & forall(
                    Handle,
                    lambda h: implies(
                        ((h == p) | (group[h] == p)) & runs(h), after(phase[h] == Phase.CANCELLED)
                    ),
                )
                & forall(
                    Handle,
                    lambda h: implies(
                        ~(((h == p) | (group[h] == p)) & runs(h)), after(phase[h]) == phase[h]
                    ),
                )
            ),
        ),
    )


@fan_out.step
def a_cancel_of_a_group_ends_its_appends() -> Expr:
    """Of the appends that are open at a cancel of a group, those to ended requests end and others do not."""
    return forall(
        Txn,
        Handle,
        lambda x, h: implies(
            fired(cancel_group) & is_live(x) & is_append_to(x, h) & is_held(h),
            where(
                after(phase[h]) == phase[h], after(is_live(x)), after(state[x] == TxnState.ABORTED)
            ),
        ),
    )


@fan_out.witness
def reaches_two_samples() -> Expr:
    """Two members of one group run."""
    return exists(
        Handle,
        Handle,
        lambda c, d: (c != d) & is_some(group[c]) & (group[c] == group[d]) & runs(c) & runs(d),
    )


@fan_out.witness
def reaches_an_ended_parent_with_a_running_sample() -> Expr:
    """A parent has finished, and a member of its group runs."""
    return exists(Handle, lambda p: is_terminal(p) & has_running_member(p))


@fan_out.witness
def reaches_no_room() -> Expr:
    """Every seat is taken while a request runs that could be forked."""
    return forall(Seat, is_taken) & exists(Handle, runs)


@fan_out.witness
def reaches_an_append_to_a_sample() -> Expr:
    """An append to a running member of a group is open."""
    return exists(
        Txn, Handle, lambda x, h: is_live(x) & is_append_to(x, h) & is_some(group[h]) & runs(h)
    )


@fan_out.witness
def reaches_a_wait_without_room() -> Expr:
    """A prompt waits for a sample whose handle another request has taken."""
    return exists(Handle, lambda c: is_some(wish[c]) & waits(the(wish[c])) & is_held(c))


@fan_out.end
def nothing_is_left_to_release() -> Expr:
    """The system may stop where no handle holds rows."""
    return core["nothing_is_left_to_release"].body


@fan_out.leads_to(weak(leave, "h"), weak(release, "h"))
def every_cancelled_request_is_released(h: Handle) -> tuple[Expr, Expr]:
    """A cancelled request leaves the batch and is released in the end, the parent of a group with it."""
    return phase[h] == Phase.CANCELLED, phase[h] == Phase.RELEASED


@fan_out.leads_to(weak(fork, "p"), weak(turn_away, "p"))
def every_wait_for_samples_ends(p: Handle) -> tuple[Expr, Expr]:
    """A prompt that waits gets every sample that it asked for, or is turned away, whatever rivals do."""
    return waits(p), ~waits(p)
