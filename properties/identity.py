"""What is claimed of identity: in every tier a request finds rows that are its own in every field."""

from __future__ import annotations

from kvspec.properties.vocabulary import stays
from kvspec.spec.identity import (
    Object,
    Request,
    Slot,
    adapter,
    adapter_epoch,
    asks,
    close,
    compute,
    digest,
    evict_object,
    evict_slot,
    images,
    load,
    mask,
    match,
    object_key,
    object_rows,
    reads,
    salt,
    same_identity,
    slot_key,
    slot_rows,
    store,
    submit,
    system,
    tokens,
    weights,
)
from kvspec.spec.language import (
    Expr,
    Properties,
    Variable,
    after,
    exists,
    fired,
    forall,
    implies,
    is_some,
    the,
    weak,
)

identity = Properties(system)


def names_its_rows(key: Expr, rows: Expr) -> Expr:
    """There is a key exactly if there are rows, and then both are the same identity."""
    return (is_some(key) == is_some(rows)) & implies(
        is_some(key), same_identity(the(key), the(rows))
    )


def reads_its_own(field: Variable) -> Expr:
    """What a request reads has the field that the request asks for."""
    return forall(
        Request,
        Slot,
        lambda r, s: implies(reads[r] == s, field[the(slot_rows[s])] == field[the(asks[r])]),
    )


@identity.invariant
def a_request_reads_rows_of_its_tokens() -> Expr:
    """What a request reads was computed from its own tokens."""
    return reads_its_own(tokens)


@identity.invariant
def a_request_reads_rows_of_its_weights() -> Expr:
    """What a request reads was computed by the weights that it needs."""
    return reads_its_own(weights)


@identity.invariant
def a_request_reads_rows_of_its_adapter() -> Expr:
    """What a request reads was computed by its own adapter set."""
    return reads_its_own(adapter)


@identity.invariant
def a_request_reads_rows_of_the_adapter_as_it_is_loaded() -> Expr:
    """What a request with an adapter set reads was computed by that load of it which the request needs."""
    return forall(
        Request,
        Slot,
        lambda r, s: implies(
            (reads[r] == s) & is_some(adapter[the(asks[r])]),
            adapter_epoch[the(slot_rows[s])] == adapter_epoch[the(asks[r])],
        ),
    )


@identity.invariant
def a_request_reads_rows_of_its_tenant() -> Expr:
    """What a request reads has the salt of its own tenant."""
    return reads_its_own(salt)


@identity.invariant
def a_request_reads_rows_of_its_mask() -> Expr:
    """What a request reads was computed from tokens where it has tokens, and from embeddings elsewhere."""
    return reads_its_own(mask)


@identity.invariant
def a_request_reads_rows_of_its_images() -> Expr:
    """What a request reads was computed from its own images."""
    return reads_its_own(images)


@identity.invariant
def what_is_read_is_there() -> Expr:
    """A request that reads is open, and the slot that it reads has rows."""
    return forall(
        Request,
        Slot,
        lambda r, s: implies(
            reads[r] == s, is_some(asks[r]) & is_some(slot_key[s]) & is_some(slot_rows[s])
        ),
    )


@identity.invariant
def a_tier_has_one_object_under_a_digest() -> Expr:
    """No two objects of the external tier are found under one digest."""
    return forall(
        Object,
        Object,
        lambda o, p: implies(
            is_some(object_key[o])
            & is_some(object_key[p])
            & (digest[the(object_key[o])] == digest[the(object_key[p])]),
            o == p,
        ),
    )


@identity.invariant
def a_slot_is_found_by_what_its_rows_are() -> Expr:
    """The key of a slot has every field of the identity that its rows are of."""
    return forall(Slot, lambda s: names_its_rows(slot_key[s], slot_rows[s]))


@identity.invariant
def an_object_is_found_by_what_its_rows_are() -> Expr:
    """The key of an object has every field of the identity that its rows are of."""
    return forall(Object, lambda o: names_its_rows(object_key[o], object_rows[o]))


@identity.step
def an_open_request_keeps_its_identity() -> Expr:
    """What a request asks for does not change while it is open."""
    return forall(
        Request,
        lambda r: implies(is_some(asks[r]) & after(is_some(asks[r])), stays(asks[r])),
    )


@identity.step
def a_reader_keeps_its_slot() -> Expr:
    """A request that reads a slot reads no other one."""
    return forall(
        Request,
        lambda r: implies(is_some(reads[r]) & after(is_some(reads[r])), stays(reads[r])),
    )


@identity.step
def rows_of_a_slot_stay_until_it_is_evicted() -> Expr:
    """A slot that has rows before and after a step has the same ones."""
    return forall(
        Slot,
        lambda s: implies(
            is_some(slot_rows[s]) & after(is_some(slot_rows[s])), stays(slot_rows[s])
        ),
    )


@identity.step
def rows_of_an_object_stay_until_it_is_evicted() -> Expr:
    """An object that has rows before and after a step has the same ones."""
    return forall(
        Object,
        lambda o: implies(
            is_some(object_rows[o]) & after(is_some(object_rows[o])), stays(object_rows[o])
        ),
    )


@identity.step
def a_submission_opens_a_request() -> Expr:
    """A request that is submitted was not open, and is."""
    return implies(
        fired(submit), exists(Request, lambda r: ~is_some(asks[r]) & after(is_some(asks[r])))
    )


@identity.step
def every_way_to_rows_makes_a_reader() -> Expr:
    """A request that computes, matches or loads rows reads them, and read none before."""
    return implies(
        fired(compute) | fired(match) | fired(load),
        exists(Request, lambda r: ~is_some(reads[r]) & after(is_some(reads[r]))),
    )


@identity.step
def a_store_copies_a_slot() -> Expr:
    """A store fills an empty object with the rows of some slot."""
    return implies(
        fired(store),
        exists(
            Slot,
            Object,
            lambda s, o: (
                is_some(slot_rows[s])
                & ~is_some(object_rows[o])
                & after(object_rows[o] == slot_rows[s])
            ),
        ),
    )


@identity.step
def a_close_ends_a_request() -> Expr:
    """A request that is closed was open, and reads nothing."""
    return implies(
        fired(close),
        exists(
            Request,
            lambda r: is_some(asks[r]) & after(~is_some(asks[r]) & ~is_some(reads[r])),
        ),
    )


@identity.step
def an_eviction_empties() -> Expr:
    """An eviction empties a slot or an object that had rows."""
    return implies(
        fired(evict_slot),
        exists(Slot, lambda s: is_some(slot_key[s]) & ~after(is_some(slot_key[s]))),
    ) & implies(
        fired(evict_object),
        exists(Object, lambda o: is_some(object_key[o]) & ~after(is_some(object_key[o]))),
    )


@identity.witness
def reaches_a_collision() -> Expr:
    """An object is found under the digest of what a request asks for, and is of another identity."""
    return exists(
        Request,
        Object,
        lambda r, o: (
            is_some(asks[r])
            & is_some(object_key[o])
            & (digest[the(object_key[o])] == digest[the(asks[r])])
            & ~same_identity(the(object_key[o]), the(asks[r]))
        ),
    )


@identity.witness
def reaches_a_name_in_two_fields() -> Expr:
    """Of rows and a request with one name between them, one has it as adapter set and one as salt."""
    return exists(
        Request,
        Slot,
        lambda r, s: (
            is_some(asks[r])
            & is_some(slot_key[s])
            & is_some(salt[the(asks[r])])
            & ~is_some(adapter[the(asks[r])])
            & (adapter[the(slot_key[s])] == salt[the(asks[r])])
            & ~is_some(salt[the(slot_key[s])])
        ),
    )


@identity.witness
def reaches_rows_of_both_tiers() -> Expr:
    """Two requests read rows of one identity, which are in the external tier as well."""
    return exists(
        Request,
        Request,
        Object,
        lambda r, q, o: (
            (r != q)
            & is_some(reads[r])
            & is_some(reads[q])
            & (asks[r] == asks[q])
            & (object_key[o] == asks[r])
        ),
    )


@identity.end
def no_request_is_open() -> Expr:
    """The system may stop where no request is open."""
    return forall(Request, lambda r: ~is_some(asks[r]))


@identity.leads_to(weak(evict_slot, "s"))
def every_slot_is_read_or_evicted(s: Slot) -> tuple[Expr, Expr]:
    """Rows that nobody reads are read again or evicted in the end."""
    unread = forall(Request, lambda r: reads[r] != s)
    return is_some(slot_key[s]) & unread, ~(is_some(slot_key[s]) & unread)
