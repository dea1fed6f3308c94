"""The frame of an identity: a claim about formulas for all values, as data that a prover reads.

    @identity(BETA, LENGTHS)
    def equal_to_itself(f: Book, token_bytes: Any, lengths: Any) -> Any:
        "The logical payload is what it is."
        return f.logical_bytes(lengths, token_bytes) == f.logical_bytes(lengths, token_bytes)

The formulas are taken from the book `f`, so that a prover can put another one in its place. A claim
about lists holds for lists of any length, and one `over` a number for every number from its least
value: both are shown by induction. The same function, run on numbers, tells whether one case keeps the claim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from kvspec.spec.formulas.folds import Series
from kvspec.spec.formulas.quantities import Quantity
from kvspec.spec.language import DefinitionError, implies
from kvspec.spec.language.errors import listing
from kvspec.spec.language.expr import lift


@attrs.frozen(eq=False)
class Identity:
    """A claim about formulas.

    takes: what it speaks of, in order. holds: the claim, of a book and those. each: what is given of
    every row of the lists. lemmas: stronger claims, from which this one follows and which are shown
    by the same induction. over: the number that the induction runs over, from its least value.
    uses: other identities of numbers, each with the arguments for which it is needed.
    """

    name: str
    claim: str
    takes: tuple[Quantity, ...]
    holds: Callable[..., Any]
    each: Callable[..., Any] | None
    lemmas: tuple[Callable[..., Any], ...]
    over: Quantity | None
    uses: tuple[tuple[str, Callable[..., tuple[Any, ...]]], ...]

    @property
    def has_columns(self) -> bool:
        """Whether it speaks of lists."""
        return any(each.column for each in self.takes)

    @property
    def method(self) -> str:
        """How it is shown."""
        if self.over is not None:
            return f"induction over {self.over.symbol}"
        return "induction over the rows" if self.has_columns else "for all values at once"


class Claims:
    """Identities by name, in the order in which they are shown."""

    def __init__(self) -> None:
        self.by_name: dict[str, Identity] = {}

    def identity(
        self,
        *takes: Quantity,
        each: Callable[..., Any] | None = None,
        lemmas: tuple[Callable[..., Any], ...] = (),
        over: Quantity | None = None,
        uses: tuple[tuple[str, Callable[..., tuple[Any, ...]]], ...] = (),
    ) -> Callable[[Callable[..., Any]], Identity]:
        """Decorator: the function of a book and of what it takes is the claim; its docstring says it."""

        def add(function: Callable[..., Any]) -> Identity:
            name = function.__name__
            if name in self.by_name:
                raise DefinitionError(f"there are two identities {name}: give each its own name")
            symbols = [each.symbol for each in takes]
            if len(set(symbols)) < len(symbols):
                raise DefinitionError(
                    f"{name} takes {', '.join(symbols)}, expected every symbol once: give quantities "
                    "of their own symbols"
                )
            for used, _ in uses:
                if used not in self.by_name:
                    raise DefinitionError(
                        f"{name} uses {used}, which is not shown before it; there are "
                        f"{listing(self.by_name)}"
                    )
            claim = " ".join((function.__doc__ or "").split())
            made = Identity(name, claim, takes, function, each, lemmas, over, uses)
            self.by_name[name] = made
            return made

        return add


def one_more(column: Any, member: Any) -> Any:
    """A list with a member more."""
    return column.extended(member) if isinstance(column, Series) else (*column, member)


def follows(given: Any, then: Any) -> Any:
    """`then` wherever `given` holds, of truth values and of formulas."""
    if isinstance(given, bool) and isinstance(then, bool):
        return not given or then
    return implies(lift(given), lift(then))


def joined(*parts: Claims) -> Claims:
    """The identities of several modules."""
    whole = Claims()
    for part in parts:
        for name, one in part.by_name.items():
            if name in whole.by_name:
                raise DefinitionError(f"there are two identities {name}: give each its own name")
            whole.by_name[name] = one
    return whole
