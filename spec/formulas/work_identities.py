"""What holds between rows, pairs and frontiers, for any prompt and any number of outputs."""

from __future__ import annotations

from typing import Any

from kvspec.spec.formulas.claims import Claims
from kvspec.spec.formulas.folds import summation
from kvspec.spec.formulas.frame import Book
from kvspec.spec.formulas.quantities import (
    CACHED,
    E_PROCESSED,
    G_IN,
    S_CALL,
    S_PROMPT,
    UNCACHED,
    E,
    G,
    P,
)

WORK = Claims()
identity = WORK.identity


@identity(P, G, over=G)
def uncached_rows_are_their_sum(f: Book, P: Any, G: Any) -> Any:
    """Rows without a cache are the widths of all calls together."""
    return f.rows_uncached(P, G) == summation(0, G, lambda g: P + g, "g")


@identity(P, G)
def cached_and_saved_rows_are_all(f: Book, P: Any, G: Any) -> Any:
    """Rows with a cache and rows that it saves are the rows without one."""
    return f.rows_cached(P, G) + f.rows_saved(P, G) == f.rows_uncached(P, G)


@identity(S_CALL, over=S_CALL)
def a_triangle_is_exact(f: Book, S: Any) -> Any:
    """Twice the pairs of a causal call are S * (S + 1): halving loses nothing."""
    return 2 * f.causal_pairs(S) == S * (S + 1)


@identity(S_CALL, over=S_CALL)
def a_triangle_is_its_rows(f: Book, S: Any) -> Any:
    """The pairs of a causal call are 1 + 2 + ... + S."""
    return f.causal_pairs(S) == summation(1, S + 1, lambda q: q, "q")


@identity(P, G, over=G)
def cached_and_saved_pairs_are_all(f: Book, P: Any, G: Any) -> Any:
    """Pairs with a cache and pairs that it saves are the pairs without one."""
    return f.pairs_cached(P, G) + f.pairs_saved(P, G) == f.pairs_uncached(P, G)


@identity(P, G, over=G, uses=(("a_triangle_is_exact", lambda P, G: (P + G,)),))
def uncached_pairs_have_a_closed_form(f: Book, P: Any, G: Any) -> Any:
    """Pairs without a cache are a cubic polynomial of P and G."""
    rest = 3 * (2 * P + 1) * G * (G - 1) + G * (G - 1) * (2 * G - 1)
    return 12 * f.pairs_uncached(P, G) == 6 * G * P * (P + 1) + rest


@identity(P, G, over=G, uses=(("a_triangle_is_exact", lambda P, _: (P,)),))
def cached_pairs_have_a_closed_form(f: Book, P: Any, G: Any) -> Any:
    """Pairs with a cache are a quadratic polynomial of P and G."""
    return 2 * f.pairs_cached(P, G) == P * (P + 1) + 2 * (G - 1) * P + G * (G - 1)


@identity(UNCACHED, CACHED)
def a_reduction_is_a_factor(f: Book, uncached: Any, cached: Any) -> Any:
    """The reduction times the work with a cache is the work without one."""
    return f.reduction(uncached, cached) * cached == uncached


@identity(P)
def the_first_call_saves_nothing(f: Book, P: Any) -> Any:
    """With one output there is no past to save."""
    return (f.rows_saved(P, 1) == 0) & (f.pairs_saved(P, 1) == 0)


@identity(P, E, E_PROCESSED)
def the_frontier_is_what_is_not_committed(f: Book, P: Any, E: Any, E_processed: Any) -> Any:
    """Logical tokens less committed ones are the frontier."""
    ahead = f.logical_tokens(P, E) - f.committed_tokens(P, E_processed)
    return ahead == f.frontier(E, E_processed)


@identity(S_PROMPT, G_IN)
def a_stop_leaves_one_token_ahead(f: Book, S: Any, G_in: Any) -> Any:
    """After an ordinary stop, one emitted token has no committed row."""
    outputs, committed = f.stop_output(G_in), f.stop_committed(S, G_in)
    return (f.frontier(outputs, G_in) == 1) & (f.logical_tokens(S, outputs) == committed + 1)


@identity(S_PROMPT, G_IN)
def a_repair_commits_every_token(f: Book, S: Any, G_in: Any) -> Any:
    """After a repair, every returned token has its row, and one row more is committed than before."""
    returned = f.logical_tokens(S, f.stop_output(G_in))
    repaired = f.repaired_committed(S, G_in)
    return (repaired == returned) & (repaired == f.stop_committed(S, G_in) + 1)


@identity(P, G)
def rows_of_a_cached_run_are_committed(f: Book, P: Any, G: Any) -> Any:
    """A run with a cache executes a row for each token that is committed when it stops."""
    return f.rows_cached(P, G) == f.stop_committed(P, G - 1)
