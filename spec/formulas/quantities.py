"""Quantities: the symbols of the text, each with its meaning, its unit and its least value.

One letter may stand for two things in the text's sections; here each has one symbol.
"""

from __future__ import annotations

import attrs

from kvspec.spec.formulas.units import (
    BYTE,
    HEAD,
    LAYER,
    MS,
    ONE,
    REQUEST,
    SCALAR,
    TOKEN,
    Unit,
)


@attrs.frozen
class Quantity:
    """What a formula takes.

    least: the smallest value that is legal. column: one value for each request, copy or output.
    flag: a truth value.
    """

    symbol: str
    meaning: str
    unit: Unit
    least: int = 0
    column: bool = False
    flag: bool = False


def column(quantity: Quantity, symbol: str, meaning: str) -> Quantity:
    """The quantity of each member of a list."""
    return attrs.evolve(quantity, symbol=symbol, meaning=meaning, column=True)


L_CACHE = Quantity("L_cache", "layers that produce K and V", LAYER, 1)
H_KV = Quantity("H_kv", "K/V heads of a layer on this shard", HEAD / (LAYER * TOKEN), 1)
H_Q = Quantity("H_q", "query heads of a layer", HEAD / (LAYER * TOKEN), 1)
D_H = Quantity("d_h", "scalars of a head", SCALAR / HEAD, 1)
B_K = Quantity("b_K", "bytes of a stored key scalar", BYTE / SCALAR, 1)
B_V = Quantity("b_V", "bytes of a stored value scalar", BYTE / SCALAR, 1)
BETA = Quantity("B_token", "bytes of one committed token on this shard", BYTE / TOKEN, 1)
BATCH = Quantity("B", "requests of a call", REQUEST, 1)
T_NEW = Quantity("T_new", "tokens that a call appends to each request", TOKEN / REQUEST, 1)
T_COMMITTED = Quantity("T_committed", "committed cache length of a request", TOKEN)
T_RESERVED = Quantity("T_reserved", "reserved token capacity of a request", TOKEN)
LENGTHS = column(T_COMMITTED, "T_i", "committed cache length of each request that owns cache")
CAPACITIES = column(T_RESERVED, "C_i", "reserved token capacity of each copy of a request")
COPIES = Quantity(
    "r_i", "materialized copies of each request, the first included", ONE, 1, column=True
)
COPIES_HERE = Quantity("n_i", "copies of each request on one tier", ONE, 0, column=True)
METADATA = Quantity("m_copy", "allocator's bytes for a live copy", BYTE)
WORKSPACE = Quantity("B_workspace", "temporary bytes of the event at this cut", BYTE)
LOGICAL = Quantity("B_logical", "bytes of committed tokens, each history once", BYTE)
RECTANGULAR = Quantity("B_rectangular", "bytes if all were padded to the longest", BYTE)
MATERIALIZED = Quantity("B_materialized", "bytes of committed tokens in all copies", BYTE)
RESERVED = Quantity("B_reserved", "bytes of the capacity set aside in all copies", BYTE)
ALLOCATOR = Quantity("B_allocator", "bytes of the allocator's own state", BYTE)
PHYSICAL = Quantity("B_physical", "bytes of cache that are allocated", BYTE)

P = Quantity("P", "prompt tokens", TOKEN, 1)
G = Quantity("G", "output tokens selected and returned", TOKEN, 1)
S_CALL = Quantity("S", "tokens of a dense causal call", TOKEN)
UNCACHED = Quantity("N_uncached", "rows, or pairs, without a cache", TOKEN)
CACHED = Quantity("N_cached", "rows, or pairs, with a cache", TOKEN, 1)
E = Quantity("E", "output tokens emitted", TOKEN)
E_PROCESSED = Quantity("E_processed", "emitted tokens that a call has processed since", TOKEN)
S_PROMPT = Quantity("S", "prompt tokens of a request that stops", TOKEN, 1)
G_IN = Quantity("G_in", "generated tokens that a call has taken as input", TOKEN)

ARRIVAL = Quantity("a", "when a request arrives", MS)
OUTPUTS = Quantity("y_j", "when each output is emitted, in order", MS, column=True)
FINISH = Quantity("f", "when a request stops", MS)
RELEASE = Quantity("r", "when a request's ownership of its cache ends", MS)
TTFT = Quantity("TTFT", "time to the first output", MS)
TTFT_LIMIT = Quantity("tau_TTFT", "the longest legal time to the first output", MS)
TBT = Quantity("TBT_j", "each time between outputs", MS, column=True)
TBT_LIMIT = Quantity("tau_TBT", "the longest legal time between outputs", MS)
IS_COMPLETE = Quantity("complete", "whether the request completed successfully", ONE, flag=True)
COMPLETED = Quantity("N_completed", "requests completed in the window", REQUEST)
VALID = Quantity("N_valid", "of those, requests that keep their limits", REQUEST)
VALID_TOKENS = Quantity("G_valid", "output tokens of requests that keep their limits", TOKEN)
WINDOW = Quantity("W", "width of the window of observation", MS, 1)
PAYLOADS = Quantity("B_t", "bytes owned during each interval", BYTE, column=True)
DURATIONS = Quantity("dt", "length of each interval", MS, column=True)
