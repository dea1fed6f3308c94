"""Frontiers: how far output is ahead of committed K and V.

An emitted token has no row until a call has taken it as input. While generation goes on, and after
an ordinary stop, one token is ahead; a repair processes it and emits nothing.
"""

from __future__ import annotations

from kvspec.spec.formulas.folds import N
from kvspec.spec.formulas.frame import Requirement, formula
from kvspec.spec.formulas.quantities import E_PROCESSED, G_IN, S_PROMPT, E, P
from kvspec.spec.formulas.units import TOKEN


@formula("L", unit=TOKEN, takes=(P, E), section="0x03")
def logical_tokens(P: N, E: N) -> N:
    """Tokens that were given or returned."""
    return P + E


@formula("T_committed", unit=TOKEN, takes=(P, E_PROCESSED), section="0x03")
def committed_tokens(P: N, E_processed: N) -> N:
    """Tokens whose rows are committed."""
    return P + E_processed


@formula(
    "F",
    unit=TOKEN,
    takes=(E, E_PROCESSED),
    section="0x03",
    requires=(
        Requirement("no more tokens are processed than were emitted", lambda e, done: done <= e),
    ),
)
def frontier(E: N, E_processed: N) -> N:
    """Emitted tokens that no call has processed."""
    return E - E_processed


@formula("O", unit=TOKEN, takes=(G_IN,), section="0x09")
def stop_output(G_in: N) -> N:
    """Outputs of a request that stops: those taken as input, and the last."""
    return G_in + 1


@formula("K_c", unit=TOKEN, takes=(S_PROMPT, G_IN), section="0x09")
def stop_committed(S: N, G_in: N) -> N:
    """Committed length at an ordinary stop."""
    return S + G_in


@formula("K_c(repaired)", unit=TOKEN, takes=(S_PROMPT, G_IN), section="0x09")
def repaired_committed(S: N, G_in: N) -> N:
    """Committed length once a repair has processed the last output."""
    return S + G_in + 1
