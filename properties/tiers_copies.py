"""What is claimed of copies on two tiers: who reads rows finds those of its prefix, and holds them."""

from __future__ import annotations

from kvspec.properties.core import properties as core
from kvspec.spec.append import Txn, is_live
from kvspec.spec.batch import Row, row_cache
from kvspec.spec.handles import Handle, Phase, is_free, length, parent, phase, version
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
)
from kvspec.spec.lifecycle import is_append_to
from kvspec.spec.tiers import (
    evict_from_device,
    evict_from_host,
    load,
    resume,
    store,
    system,
)
from kvspec.spec.tiers_state import (
    HostSlot,
    Node,
    above,
    copy_of,
    device_rows,
    host_rows,
    is_cached,
    is_empty,
    is_loading,
    is_retracted,
    is_storing,
    kept_for,
    load_from,
    matched,
    on_device,
    on_path,
    reference,
)

tiers = Properties(system, given=core)


def reads(h: Expr, n: Expr) -> Expr:
    """The request reads the node: it lies on the path that the request has matched."""
    return is_some(matched[h]) & on_path(n, the(matched[h]))


@tiers.invariant
def device_rows_are_those_of_their_prefix() -> Expr:
    """What lies on the device under the name of a prefix are the rows of that prefix."""
    return forall(Node, lambda n: implies(on_device(n), device_rows[n] == n))


@tiers.invariant
def host_rows_are_those_of_their_prefix() -> Expr:
    """A whole copy on the host has the rows of the prefix that it is a copy of."""
    return forall(HostSlot, lambda s: implies(is_some(host_rows[s]), host_rows[s] == copy_of[s]))


@tiers.invariant
def what_a_request_reads_is_on_the_device() -> Expr:
    """Every node on the path that a request has matched has its rows on the device."""
    return forall(Handle, Node, lambda h, n: implies(reads(h, n), on_device(n)))


@tiers.invariant
def a_request_reads_rows_of_its_own_prefix() -> Expr:
    """No node on the path that a request has matched has the rows of another one."""
    return forall(
        Handle,
        Node,
        lambda h, n: implies(reads(h, n) & on_device(n), device_rows[n] == n),
    )


@tiers.invariant
def a_request_holds_its_whole_path() -> Expr:
    """A request has a reference to every node on the path that it has matched, and to no other."""
    return forall(Handle, Node, lambda h, n: reads(h, n) == reference[n, h])


@tiers.invariant
def a_load_reads_a_whole_copy() -> Expr:
    """The host slot that a load reads has the rows of the node that is loaded."""
    return forall(
        Node, HostSlot, lambda n, s: implies(load_from[n] == s, (copy_of[s] == n) & ~is_storing(s))
    )


@tiers.invariant
def a_store_reads_rows_that_are_there() -> Expr:
    """The node that a store reads has its rows on the device."""
    return forall(HostSlot, lambda s: implies(is_storing(s), on_device(the(copy_of[s]))))


@tiers.invariant
def a_free_handle_holds_nothing_on_the_device() -> Expr:
    """No node is held for a handle whose request is released."""
    return forall(
        Handle, Node, lambda h, n: implies(is_free(h), ~reference[n, h] & ~is_some(matched[h]))
    )


@tiers.invariant
def a_free_handle_holds_nothing_on_the_host() -> Expr:
    """No host slot is kept for a handle whose request is released."""
    return forall(HostSlot, Handle, lambda s, h: implies(is_free(h), kept_for[s] != h))


@tiers.invariant
def a_host_slot_has_one_use() -> Expr:
    """No host slot is both a copy of a node and kept for a request."""
    return forall(HostSlot, lambda s: ~(is_some(copy_of[s]) & is_some(kept_for[s])))


@tiers.invariant
def a_node_has_one_host_copy() -> Expr:
    """No two host slots are copies of one node."""
    return forall(
        HostSlot,
        HostSlot,
        lambda s, t: implies(is_some(copy_of[s]) & (copy_of[s] == copy_of[t]), s == t),
    )


@tiers.invariant
def a_request_is_retracted_to_one_slot() -> Expr:
    """No two host slots have the rows of one request."""
    return forall(
        HostSlot,
        HostSlot,
        lambda s, t: implies(is_some(kept_for[s]) & (kept_for[s] == kept_for[t]), s == t),
    )


@tiers.invariant
def a_retracted_request_reads_nothing_on_the_device() -> Expr:
    """A retracted request has matched no prefix, and no batch row reads it."""
    return forall(
        Handle,
        lambda h: implies(
            is_retracted(h),
            ~is_some(matched[h]) & forall(Row, lambda r: row_cache[r] != h),
        ),
    )


@tiers.invariant
def nothing_is_computed_for_a_retracted_request() -> Expr:
    """No append is in flight to a request whose rows are on the host."""
    return forall(
        Handle, Txn, lambda h, x: implies(is_retracted(h), ~(is_live(x) & is_append_to(x, h)))
    )


@tiers.invariant
def a_path_is_closed() -> Expr:
    """The shorter prefixes of a node on a cached node's path are on that path as well."""
    return forall(
        Node,
        Node,
        Node,
        lambda l, m, n: implies(is_cached(n) & above[l, m] & above[m, n], above[l, n]),
    )


@tiers.invariant
def no_prefix_is_shorter_than_itself() -> Expr:
    """No cached node is above itself."""
    return forall(Node, lambda n: implies(is_cached(n), ~above[n, n]))


@tiers.invariant
def only_what_is_missing_is_loaded() -> Expr:
    """No load is in flight of a node that has rows on the device."""
    return forall(Node, lambda n: ~(on_device(n) & is_loading(n)))


@tiers.step
def who_loses_its_prefix_is_released_or_retracted() -> Expr:
    """A request reads every node that it has matched until it is released or retracted."""
    return forall(
        Handle,
        Node,
        lambda h, n: implies(
            reads(h, n) & ~after(reads(h, n)), after(is_free(h)) | after(is_retracted(h))
        ),
    )


@tiers.step
def rows_on_the_host_are_not_cut_off() -> Expr:
    """A retracted request has the length and the version with which it was moved to the host."""
    return forall(
        Handle,
        lambda h: implies(
            is_retracted(h) & after(is_retracted(h)),
            (after(length[h]) == length[h]) & (after(version[h]) == version[h]),
        ),
    )


@tiers.step
def a_child_shares_rows_on_the_device() -> Expr:
    """A child's parent has its rows on the device, and the child reads the prefix that it reads."""
    return forall(
        Handle,
        Handle,
        lambda c, p: implies(
            is_free(c) & ~after(is_free(c)) & (after(parent[c]) == p),
            ~is_retracted(p) & (after(matched[c]) == matched[p]),
        ),
    )


@tiers.step
def host_rows_of_an_ended_request_are_given_up_by_release() -> Expr:
    """A request that has ended is not moved back to the device."""
    return forall(
        Handle,
        lambda h: implies(
            is_retracted(h) & ~after(is_retracted(h)),
            (phase[h] == Phase.DECODE_READY) | after(is_free(h)),
        ),
    )


@tiers.step
def a_store_fills_a_slot_of_its_own() -> Expr:
    """A store that begins has a host slot that was empty, and reads rows into it."""
    return implies(
        fired(store), exists(HostSlot, lambda s: ~is_some(copy_of[s]) & after(is_storing(s)))
    )


@tiers.step
def a_load_that_begins_is_in_flight() -> Expr:
    """A load that begins is of a node that none was in flight of."""
    return implies(fired(load), exists(Node, lambda n: ~is_loading(n) & after(is_loading(n))))


@tiers.step
def a_load_that_ends_has_brought_rows() -> Expr:
    """A node whose load has ended has rows on the device."""
    return forall(
        Node, lambda n: implies(is_loading(n) & after(~is_loading(n)), after(on_device(n)))
    )


@tiers.step
def an_eviction_from_the_device_frees_rows() -> Expr:
    """An eviction from the device takes the rows of some node."""
    return implies(
        fired(evict_from_device), exists(Node, lambda n: on_device(n) & after(~on_device(n)))
    )


@tiers.step
def an_eviction_from_the_host_frees_a_slot() -> Expr:
    """An eviction from the host empties some slot."""
    return implies(
        fired(evict_from_host),
        exists(HostSlot, lambda s: is_some(copy_of[s]) & after(is_empty(s))),
    )


@tiers.step
def a_resumed_request_is_on_the_device() -> Expr:
    """A request that is resumed was on the host and is there no more."""
    return implies(
        fired(resume), exists(Handle, lambda h: is_retracted(h) & after(~is_retracted(h)))
    )
