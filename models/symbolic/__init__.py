"""The specification as Z3 formulas, for any number of handles, layers and tokens.

Reading order: `domain` (types in Z3, unbounded or small), `evaluate` (expressions and states),
`world` (a system's symbols and transitions), `obligations` and `refine` (what must be shown),
`prove` (showing it), `small` and `counterexample` (what is shown when it fails), `smtlib` (export
and a second solver), `equivalence` (changed actions), `bmc` (shortest runs of an instance); and
`identities` (formulas, which have no state).
"""

from kvspec.models.symbolic.bmc import BoundedResult, Trace, bmc
from kvspec.models.symbolic.counterexample import Counterexample, Reach, ReplayError
from kvspec.models.symbolic.equivalence import SameTransitions, prove_same_transitions
from kvspec.models.symbolic.identities import Proof, prove_identities, prove_identity
from kvspec.models.symbolic.prove import export_obligations, prove
from kvspec.models.symbolic.smtlib import Opinion, SecondOpinion, second_opinion
from kvspec.models.symbolic.verdicts import Item, ProofReport

__all__ = [
    "BoundedResult",
    "Counterexample",
    "Item",
    "Opinion",
    "Proof",
    "ProofReport",
    "Reach",
    "ReplayError",
    "SameTransitions",
    "SecondOpinion",
    "Trace",
    "bmc",
    "export_obligations",
    "prove",
    "prove_identities",
    "prove_identity",
    "prove_same_transitions",
    "second_opinion",
]
