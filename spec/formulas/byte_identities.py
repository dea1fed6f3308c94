"""What holds between the ledgers of bytes, for any model and any number of requests."""

from __future__ import annotations

from typing import Any

from kvspec.spec.formulas.claims import Claims, one_more
from kvspec.spec.formulas.folds import count, larger, largest, total
from kvspec.spec.formulas.frame import Book
from kvspec.spec.formulas.quantities import (
    B_K,
    B_V,
    BATCH,
    BETA,
    CAPACITIES,
    COPIES,
    COPIES_HERE,
    D_H,
    H_KV,
    H_Q,
    L_CACHE,
    LENGTHS,
    LOGICAL,
    MATERIALIZED,
    METADATA,
    PHYSICAL,
    RECTANGULAR,
    RESERVED,
    T_COMMITTED,
    T_NEW,
    T_RESERVED,
    WORKSPACE,
    Quantity,
)

BYTES = Claims()
identity = BYTES.identity

MODEL = (L_CACHE, H_KV, D_H, B_K, B_V)
H_Q_OTHER = Quantity("H_q'", "query heads of the other model", H_Q.unit, 1)
T_NEW_REQUEST = Quantity("T_j", "committed cache length of a request that joins", T_COMMITTED.unit)
T_ALL = Quantity("T", "the one length that all requests have", T_COMMITTED.unit)
ELSEWHERE = Quantity("e_i", "copies of each request on all other tiers", COPIES_HERE.unit, 0, True)


def _sum_is_in_the_rectangle(_: Book, __: Any, lengths: Any) -> Any:
    number, longest = count(lengths), largest(lengths)
    return (number >= 0) & (longest >= 0) & (total(lambda t: t, lengths) <= number * longest)


@identity(BETA, LENGTHS, lemmas=(_sum_is_in_the_rectangle,))
def logical_is_within_the_rectangle(f: Book, token_bytes: Any, lengths: Any) -> Any:
    """The logical payload is at most the rectangle."""
    return f.logical_bytes(lengths, token_bytes) <= f.rectangular_bytes(lengths, token_bytes)


@identity(BETA, LENGTHS, lemmas=(_sum_is_in_the_rectangle,))
def padding_is_never_negative(f: Book, token_bytes: Any, lengths: Any) -> Any:
    """Padding invents no negative number of bytes."""
    logical = f.logical_bytes(lengths, token_bytes)
    return f.phantom_bytes(f.rectangular_bytes(lengths, token_bytes), logical) >= 0


def _longest_is_the_one(_: Book, __: Any, every: Any, lengths: Any) -> Any:
    number, longest = count(lengths), largest(lengths)
    same = (total(lambda t: t, lengths) == number * every) & (number >= 0)
    none = (number == 0) & (longest == 0)
    return same & (none | (longest == every))


@identity(
    BETA,
    T_ALL,
    LENGTHS,
    each=lambda _, every, length: length == every,
    lemmas=(_longest_is_the_one,),
)
def equal_lengths_have_one_product(f: Book, token_bytes: Any, every: Any, lengths: Any) -> Any:
    """Of requests of one length, logical payload and rectangle are their number times one of them."""
    all_ = count(lengths) * f.committed_bytes(every, token_bytes)
    rectangular = f.rectangular_bytes(lengths, token_bytes)
    return (f.logical_bytes(lengths, token_bytes) == all_) & (rectangular == all_)


@identity(RECTANGULAR, LOGICAL, MATERIALIZED, RESERVED)
def overheads_close_the_ledgers(
    f: Book, rectangular: Any, logical: Any, materialized: Any, reserved: Any
) -> Any:
    """Padding, replication and slack are what one ledger has more than the next."""
    padding = f.phantom_bytes(rectangular, logical) + logical == rectangular
    copies = f.replication_overhead_bytes(materialized, logical) + logical == materialized
    slack = f.reservation_slack_bytes(reserved, materialized) + materialized == reserved
    return padding & copies & slack


def _copies_hold_the_sum(_: Book, __: Any, lengths: Any, copies: Any) -> Any:
    return total(lambda r, t: r * t, copies, lengths) >= total(lambda t: t, lengths)


@identity(BETA, LENGTHS, COPIES, lemmas=(_copies_hold_the_sum,))
def materialized_is_at_least_logical(f: Book, token_bytes: Any, lengths: Any, copies: Any) -> Any:
    """What is materialized is at least what is logical, if every request has a copy."""
    logical = f.logical_bytes(lengths, token_bytes)
    return f.materialized_bytes(lengths, copies, token_bytes) >= logical


@identity(BETA, LENGTHS, COPIES, lemmas=(_copies_hold_the_sum,))
def replication_is_never_negative(f: Book, token_bytes: Any, lengths: Any, copies: Any) -> Any:
    """Second copies cost no negative number of bytes."""
    materialized = f.materialized_bytes(lengths, copies, token_bytes)
    logical = f.logical_bytes(lengths, token_bytes)
    return f.replication_overhead_bytes(materialized, logical) >= 0


def _capacity_holds_the_sum(_: Book, __: Any, lengths: Any, capacities: Any, copies: Any) -> Any:
    filled = total(lambda r, t: r * t, copies, lengths)
    return total(lambda r, c: r * c, copies, capacities) >= filled


def _fits(_: Any, length: Any, capacity: Any, __: Any) -> Any:
    return capacity >= length


LEDGER = (BETA, LENGTHS, CAPACITIES, COPIES)


@identity(*LEDGER, each=_fits, lemmas=(_capacity_holds_the_sum,))
def reserved_is_at_least_materialized(
    f: Book, token_bytes: Any, lengths: Any, capacities: Any, copies: Any
) -> Any:
    """What is reserved is at least what is materialized, if each length fits its capacity."""
    materialized = f.materialized_bytes(lengths, copies, token_bytes)
    return f.reserved_capacity_bytes(capacities, copies, token_bytes) >= materialized


@identity(*LEDGER, each=_fits, lemmas=(_capacity_holds_the_sum,))
def slack_is_never_negative(
    f: Book, token_bytes: Any, lengths: Any, capacities: Any, copies: Any
) -> Any:
    """Reservation leaves no negative number of bytes."""
    reserved = f.reserved_capacity_bytes(capacities, copies, token_bytes)
    materialized = f.materialized_bytes(lengths, copies, token_bytes)
    return f.reservation_slack_bytes(reserved, materialized) >= 0


TIERS = (BETA, METADATA, CAPACITIES, COPIES_HERE, ELSEWHERE, COPIES)


@identity(*TIERS, each=lambda _, __, ___, here, there, all_: all_ == here + there)
def a_tier_and_the_rest_are_all(
    f: Book, token_bytes: Any, metadata: Any, capacities: Any, here: Any, there: Any, copies: Any
) -> Any:
    """What is resident on a tier and what is elsewhere is what is allocated."""
    on_tier = f.resident_bytes(capacities, here, token_bytes, metadata)
    elsewhere = f.resident_bytes(capacities, there, token_bytes, metadata)
    reserved = f.reserved_capacity_bytes(capacities, copies, token_bytes)
    return on_tier + elsewhere == f.physical_bytes(reserved, f.allocator_bytes(copies, metadata))


@identity(*TIERS, each=lambda _, __, ___, here, there, all_: all_ == here + there)
def a_tier_may_be_split(
    f: Book, token_bytes: Any, metadata: Any, capacities: Any, here: Any, there: Any, both: Any
) -> Any:
    """A tier that is split in two holds what it held; so any number of tiers is a partition."""
    on_tier = f.resident_bytes(capacities, here, token_bytes, metadata)
    elsewhere = f.resident_bytes(capacities, there, token_bytes, metadata)
    return f.resident_bytes(capacities, both, token_bytes, metadata) == on_tier + elsewhere


@identity(BETA, T_NEW_REQUEST, LENGTHS)
def a_request_adds_its_own_bytes(f: Book, token_bytes: Any, joins: Any, lengths: Any) -> Any:
    """A request that joins adds its own committed bytes to the logical payload."""
    more = f.logical_bytes(one_more(lengths, joins), token_bytes)
    own = f.committed_bytes(joins, token_bytes)
    return more - f.logical_bytes(lengths, token_bytes) == own


@identity(BETA, T_NEW_REQUEST, LENGTHS)
def a_request_may_widen_the_rectangle(f: Book, token_bytes: Any, joins: Any, lengths: Any) -> Any:
    """A request that joins adds a row to the rectangle, and may make all rows longer."""
    more = f.rectangular_bytes(one_more(lengths, joins), token_bytes)
    number, longest = count(lengths), largest(lengths)
    wider = (number + 1) * larger(longest, joins) - number * longest
    return more - f.rectangular_bytes(lengths, token_bytes) == token_bytes * wider


@identity(BETA, T_COMMITTED)
def a_row_adds_one_token(f: Book, token_bytes: Any, length: Any) -> Any:
    """One committed row more adds the bytes of one token, whatever the length."""
    more = f.committed_bytes(length + 1, token_bytes)
    return more - f.committed_bytes(length, token_bytes) == token_bytes


@identity(L_CACHE, H_Q, H_Q_OTHER, H_KV, D_H, B_K, B_V)
def query_heads_are_not_stored(
    f: Book, layers: Any, query: Any, other: Any, heads: Any, width: Any, key: Any, value: Any
) -> Any:
    """Two models that differ in query heads alone have one payload."""
    one = f.model_token_bytes(layers, query, heads, width, key, value)
    return one == f.model_token_bytes(layers, other, heads, width, key, value)


@identity(L_CACHE, H_Q, H_KV, D_H, B_K, B_V)
def a_model_stores_its_kv_heads(
    f: Book, layers: Any, query: Any, heads: Any, width: Any, key: Any, value: Any
) -> Any:
    """The bytes of a token of a model are those of its cache."""
    stored = f.token_bytes(layers, heads, width, key, value)
    return f.model_token_bytes(layers, query, heads, width, key, value) == stored


@identity(*MODEL)
def doubling_layers_doubles_a_token(
    f: Book, layers: Any, heads: Any, width: Any, key: Any, value: Any
) -> Any:
    """Twice the layers, twice the bytes of a token."""
    once = f.token_bytes(layers, heads, width, key, value)
    return f.token_bytes(2 * layers, heads, width, key, value) == 2 * once


@identity(*MODEL)
def doubling_heads_doubles_a_token(
    f: Book, layers: Any, heads: Any, width: Any, key: Any, value: Any
) -> Any:
    """Twice the K/V heads, twice the bytes of a token."""
    once = f.token_bytes(layers, heads, width, key, value)
    return f.token_bytes(layers, 2 * heads, width, key, value) == 2 * once


@identity(*MODEL)
def doubling_the_width_doubles_a_token(
    f: Book, layers: Any, heads: Any, width: Any, key: Any, value: Any
) -> Any:
    """Twice the width of a head, twice the bytes of a token."""
    once = f.token_bytes(layers, heads, width, key, value)
    return f.token_bytes(layers, heads, 2 * width, key, value) == 2 * once


@identity(*MODEL)
def doubling_both_scalars_doubles_a_token(
    f: Book, layers: Any, heads: Any, width: Any, key: Any, value: Any
) -> Any:
    """Twice the bytes of a key scalar and of a value scalar, twice the bytes of a token."""
    once = f.token_bytes(layers, heads, width, key, value)
    return f.token_bytes(layers, heads, width, 2 * key, 2 * value) == 2 * once


@identity(*MODEL)
def a_decode_step_stages_one_token(
    f: Book, layers: Any, heads: Any, width: Any, key: Any, value: Any
) -> Any:
    """A call that appends one token to one request stages the bytes of one token."""
    staged = f.append_bytes(layers, 1, 1, heads, width, key, value)
    return staged == f.token_bytes(layers, heads, width, key, value)


@identity(L_CACHE, BATCH, T_NEW, H_KV, D_H, B_K, B_V)
def every_layer_stages_alike(
    f: Book, layers: Any, batch: Any, new: Any, heads: Any, width: Any, key: Any, value: Any
) -> Any:
    """A call stages in all layers as many times what it stages in one."""
    one = f.layer_append_bytes(batch, new, heads, width, key, value)
    return f.append_bytes(layers, batch, new, heads, width, key, value) == layers * one


@identity(BETA, METADATA, T_RESERVED)
def one_copy_is_a_ledger_of_its_own(f: Book, token_bytes: Any, metadata: Any, capacity: Any) -> Any:
    """Of one request with one copy, the sums are what that copy reserves and occupies."""
    reserved = f.reserved_capacity_bytes((capacity,), (1,), token_bytes)
    resident = f.resident_bytes((capacity,), (1,), token_bytes, metadata)
    whole = f.copy_bytes(capacity, token_bytes, metadata)
    return (reserved == f.reserved_bytes(capacity, token_bytes)) & (resident == whole)


@identity(PHYSICAL, WORKSPACE)
def workspace_comes_on_top(f: Book, physical: Any, workspace: Any) -> Any:
    """Workspace is added to what is allocated, and changes nothing of it."""
    return f.instantaneous_bytes(physical, workspace) - physical == workspace


@identity(H_Q, H_KV)
def groups_cover_the_query_heads(f: Book, query_heads: Any, kv_heads: Any) -> Any:
    """Every query head is in the group of one K/V head."""
    return f.query_group(query_heads, kv_heads) * kv_heads == query_heads
