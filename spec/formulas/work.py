"""Work: token rows that decoder layers execute, and the query-key pairs of dense causal attention.

Each is counted for one layer (and one query head), without a cache and with one. A call without a
cache processes the whole prefix again; with one, only the first call is wide. The last output is
selected and not processed, so `G` outputs need `G - 1` calls after the first.

Left out: operations, traffic and time. A row or a pair is a semantic unit of work, not a cost.
"""

from __future__ import annotations

from fractions import Fraction

from kvspec.spec.formulas.folds import N, of_one_query, ratio, repeated, summation
from kvspec.spec.formulas.frame import Requirement, formula
from kvspec.spec.formulas.quantities import CACHED, S_CALL, UNCACHED, G, P
from kvspec.spec.formulas.units import ONE, PAIR, TOKEN


@formula("N_rows,uncached", unit=TOKEN, takes=(P, G), section="0x03")
def rows_uncached(P: N, G: N) -> N:
    """Rows without a cache: call g of G processes a prefix of P + g."""
    return repeated(G, P) + repeated(G, G - 1) // 2


@formula("N_rows,cached", unit=TOKEN, takes=(P, G), section="0x03")
def rows_cached(P: N, G: N) -> N:
    """Rows with a cache: the prompt, and each output but the last."""
    return P + G - 1


@formula("N_rows,saved", unit=TOKEN, takes=(P, G), section="0x03")
def rows_saved(P: N, G: N) -> N:
    """Rows of the past that a cache keeps from being executed again."""
    return repeated(G - 1, P) + repeated(G - 1, G - 2) // 2


@formula("N_pairs", unit=PAIR, takes=(S_CALL,), section="0x03")
def causal_pairs(S: N) -> N:
    """Pairs of a dense causal call: query q sees the keys up to itself."""
    return S * (S + 1) // 2


@formula("N_pairs,uncached", unit=PAIR, takes=(P, G), section="0x03")
def pairs_uncached(P: N, G: N) -> N:
    """Pairs without a cache: a whole triangle in each call."""
    return summation(0, G, lambda g: causal_pairs(P + g), "g")


@formula("N_pairs,cached", unit=PAIR, takes=(P, G), section="0x03")
def pairs_cached(P: N, G: N) -> N:
    """Pairs with a cache: the prompt's triangle, then one query a call against all keys."""
    return causal_pairs(P) + summation(1, G, lambda j: of_one_query(P + j), "j")


@formula("N_pairs,saved", unit=PAIR, takes=(P, G), section="0x03")
def pairs_saved(P: N, G: N) -> N:
    """Pairs that a cache saves: the triangle of old queries in each call after the first."""
    return summation(1, G, lambda j: causal_pairs(P + j - 1), "j")


@formula(
    "reduction",
    unit=ONE,
    takes=(UNCACHED, CACHED),
    section="0x03",
    requires=(Requirement("work without a cache is no less than with one", lambda u, c: u >= c),),
)
def reduction(uncached: int, cached: int) -> Fraction:
    """How many times as much work is done without a cache, exactly."""
    found: Fraction = ratio(uncached, cached)
    return found
