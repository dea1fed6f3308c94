"""What is claimed of handles: their phases, what a reader sees of them, fork and truncate."""

from __future__ import annotations

from kvspec.properties.claims import core
from kvspec.properties.vocabulary import stays
from kvspec.spec.handles import (
    Handle,
    Layer,
    Phase,
    abi,
    context,
    generation,
    is_free,
    is_held,
    is_terminal,
    k_rows,
    length,
    parent,
    phase,
    rewind,
    v_rows,
    version,
)
from kvspec.spec.language import Expr, after, exists, fired, forall, implies, is_some, where
from kvspec.spec.lifecycle import allocate, cancel_request, finish, fork, release, truncate


@core.invariant
def every_layer_shows_the_committed_k_rows() -> Expr:
    """A held handle shows its committed length of K rows in every layer."""
    return forall(Handle, Layer, lambda h, l: implies(is_held(h), k_rows[h, l] == length[h]))


@core.invariant
def every_layer_shows_the_committed_v_rows() -> Expr:
    """A held handle shows its committed length of V rows in every layer."""
    return forall(Handle, Layer, lambda h, l: implies(is_held(h), v_rows[h, l] == length[h]))


@core.invariant
def a_free_handle_shows_no_rows() -> Expr:
    """A vacant or released handle shows no row in any layer."""
    return forall(
        Handle,
        Layer,
        lambda h, l: implies(is_free(h), (k_rows[h, l] == 0) & (v_rows[h, l] == 0)),
    )


@core.invariant
def committed_rows_fit_the_context() -> Expr:
    """No request commits more rows than its context limit."""
    return forall(Handle, lambda h: length[h] <= context)


@core.invariant
def a_vacant_handle_was_never_used() -> Expr:
    """A vacant handle has no length, no snapshot, no generation, no ABI and no parent."""
    return forall(
        Handle,
        lambda h: implies(
            phase[h] == Phase.VACANT,
            (length[h] == 0)
            & (version[h] == 0)
            & (generation[h] == 0)
            & ~is_some(abi[h])
            & ~is_some(parent[h]),
        ),
    )


@core.invariant
def a_held_handle_has_an_abi() -> Expr:
    """A held handle knows the cache ABI of its rows."""
    return forall(Handle, lambda h: implies(is_held(h), is_some(abi[h])))


@core.invariant
def no_handle_is_its_own_parent() -> Expr:
    """A handle is forked from another one."""
    return forall(Handle, lambda h: parent[h] != h)


@core.step
def phases_follow_the_life_of_a_request() -> Expr:
    """A phase changes from free to ready, from ready to ended, and from ended to released."""
    return forall(
        Handle,
        lambda h: (
            stays(phase[h])
            | (is_free(h) & (after(phase[h]) == Phase.DECODE_READY))
            | ((phase[h] == Phase.DECODE_READY) & after(is_terminal(h)))
            | (is_terminal(h) & (after(phase[h]) == Phase.RELEASED))
        ),
    )


@core.step
def an_ended_request_is_frozen() -> Expr:
    """From its end to its release a request keeps its length, snapshot and rows of every layer."""
    return forall(
        Handle,
        lambda h: implies(
            is_terminal(h) & after(is_terminal(h)),
            stays(length[h])
            & stays(version[h])
            & forall(Layer, lambda l: stays(k_rows[h, l]) & stays(v_rows[h, l])),
        ),
    )


@core.step
def a_tombstone_keeps_its_record() -> Expr:
    """A released handle keeps length, snapshot, generation, ABI and parent until it is given away."""
    return forall(
        Handle,
        lambda h: implies(
            after(phase[h] == Phase.RELEASED),
            stays(length[h]) & stays(version[h]) & stays(abi[h]) & stays(parent[h]),
        ),
    )


@core.step
def release_moves_the_generation_on() -> Expr:
    """A generation ends with the release of its request, and never otherwise."""
    return forall(
        Handle,
        lambda h: (
            after(generation[h])
            == where(
                is_held(h) & after(phase[h] == Phase.RELEASED), generation[h] + 1, generation[h]
            )
        ),
    )


@core.step
def a_snapshot_never_comes_back() -> Expr:
    """While a request lives, its snapshot number does not go back."""
    return forall(
        Handle,
        lambda h: implies(is_held(h) & after(is_held(h)), version[h] <= after(version[h])),
    )


@core.step
def other_rows_are_another_snapshot() -> Expr:
    """A request whose length or visible rows change has a new snapshot."""
    return forall(
        Handle,
        lambda h: implies(
            (phase[h] == Phase.DECODE_READY)
            & after(phase[h] == Phase.DECODE_READY)
            & stays(version[h]),
            stays(length[h]) & forall(Layer, lambda l: stays(k_rows[h, l]) & stays(v_rows[h, l])),
        ),
    )


@core.step
def a_request_begins_without_rows() -> Expr:
    """A new request has no rows, snapshot number 0 and no parent."""
    return implies(
        fired(allocate),
        exists(
            Handle,
            lambda h: (
                is_free(h)
                & after(phase[h] == Phase.DECODE_READY)
                & after((length[h] == 0) & (version[h] == 0))
                & ~after(exists(Handle, lambda p: parent[h] == p))
            ),
        ),
    )


@core.step
def a_finish_ends_a_request() -> Expr:
    """Finish takes a ready request to FINISHED."""
    return implies(
        fired(finish),
        exists(
            Handle,
            lambda h: (phase[h] == Phase.DECODE_READY) & after(phase[h] == Phase.FINISHED),
        ),
    )


@core.step
def a_cancel_ends_a_request() -> Expr:
    """Cancel takes a ready request to CANCELLED."""
    return implies(
        fired(cancel_request),
        exists(
            Handle,
            lambda h: (phase[h] == Phase.DECODE_READY) & after(phase[h] == Phase.CANCELLED),
        ),
    )


@core.step
def a_release_frees_a_handle() -> Expr:
    """Release takes an ended request to RELEASED."""
    return implies(
        fired(release),
        exists(Handle, lambda h: is_terminal(h) & after(phase[h] == Phase.RELEASED)),
    )


@core.step
def a_fork_makes_a_child() -> Expr:
    """A fork gives a free handle to a child of a ready parent."""
    return implies(
        fired(fork),
        exists(
            Handle,
            Handle,
            lambda c, p: (
                is_free(c)
                & after(phase[c] == Phase.DECODE_READY)
                & after(parent[c] == p)
                & (phase[p] == Phase.DECODE_READY)
            ),
        ),
    )


@core.step
def a_child_is_a_prefix_of_its_parent() -> Expr:
    """A child begins at snapshot 0 with at most its parent's rows, under its parent's ABI."""
    return forall(
        Handle,
        Handle,
        lambda c, p: implies(
            fired(fork) & is_free(c) & after(is_held(c)) & after(parent[c] == p),
            after(version[c] == 0) & (after(length[c]) <= length[p]) & (after(abi[c]) == abi[p]),
        ),
    )


@core.step
def every_child_has_a_parent() -> Expr:
    """What becomes ready by a fork has a parent on record."""
    return forall(
        Handle,
        lambda c: implies(
            fired(fork) & is_free(c) & after(is_held(c)),
            exists(Handle, lambda p: after(parent[c] == p) & (phase[p] == Phase.DECODE_READY)),
        ),
    )


@core.step
def a_fork_leaves_others_alone() -> Expr:
    """A fork changes no handle that holds rows already."""
    return forall(
        Handle,
        lambda h: implies(
            fired(fork) & is_held(h),
            stays(phase[h])
            & stays(version[h])
            & stays(length[h])
            & stays(parent[h])
            & stays(abi[h]),
        ),
    )


@core.step
def truncate_makes_a_snapshot() -> Expr:
    """A truncate gives a ready request a new snapshot."""
    return implies(
        fired(truncate),
        exists(
            Handle,
            lambda h: (phase[h] == Phase.DECODE_READY) & (after(version[h]) == version[h] + 1),
        ),
    )


@core.step
def truncate_never_adds_rows() -> Expr:
    """A truncate makes no request longer."""
    return forall(Handle, lambda h: implies(fired(truncate), after(length[h]) <= length[h]))


@core.step
def truncate_stays_within_what_can_be_taken_back() -> Expr:
    """A truncate takes back no more rows than the cache can."""
    return forall(
        Handle, lambda h: implies(fired(truncate), length[h] <= after(length[h]) + rewind)
    )
