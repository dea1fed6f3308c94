"""State variables: named tables over sorts, and the codes with which an action refuses."""

from __future__ import annotations

from typing import Any, NoReturn

import attrs

from kvspec.spec.language.errors import DefinitionError, caller
from kvspec.spec.language.expr import (
    Expr,
    Fired,
    Read,
    Symbol,
    Type,
    coerce,
    free_symbols,
    walk,
)
from kvspec.spec.language.sorts import type_of


@attrs.frozen(repr=False, eq=False)
class AnyValue:
    """The initial value of a variable that may start anywhere in its type."""

    def __repr__(self) -> str:
        return "ANY"


ANY = AnyValue()


@attrs.frozen(repr=False, eq=False)
class Variable:
    """A table `name: domain -> type`, one value for each index; no index for an empty domain.

    initial: the value at every index before the first step, an expression over `binders`, or ANY.
    meaning: one line for the reader.
    """

    name: str
    domain: tuple[Type, ...]
    type: Type
    binders: tuple[Symbol, ...]
    initial: Expr | AnyValue
    module: str
    meaning: str
    place: tuple[str, int]

    def __getitem__(self, index: Expr | tuple[Expr, ...]) -> Expr:
        """The value at an index: `state[x]`, `k_rows[x, layer]`; `counter[()]` without a domain."""
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) != len(self.domain):
            raise DefinitionError(
                f"{self!r} takes {len(self.domain)} indices ({self.signature}), found {len(parts)}"
            )
        coerced = tuple(
            coerce(part, kind, f"index {place + 1} of {self.name}")
            for place, (part, kind) in enumerate(zip(parts, self.domain, strict=True))
        )
        return Read(self.type, self, coerced)

    def __bool__(self) -> NoReturn:
        raise DefinitionError(
            f"the variable {self!r} was used as a Python truth value: take its value at an index, "
            f"{self.example}, and join formulas by & | ~"
        )

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Variable):
            return self is other
        raise DefinitionError(
            f"the variable {self!r} itself was compared with {other!r}: compare its value at an "
            f"index, {self.example}"
        )

    def __hash__(self) -> int:
        return id(self)

    @property
    def example(self) -> str:
        """How its value is written."""
        if not self.domain:
            return f"{self.name}.value"
        return f"{self.name}[{', '.join(kind.name.lower() for kind in self.domain)}]"

    @property
    def value(self) -> Expr:
        """The value of a variable without a domain."""
        return self[()]

    @property
    def signature(self) -> str:
        """The variable and its type as a reader would write them."""
        domain = " x ".join(map(str, self.domain))
        return f"{self.name}: {domain} -> {self.type}" if domain else f"{self.name}: {self.type}"

    def __repr__(self) -> str:
        return self.name


@attrs.frozen(repr=False, eq=False)
class ErrorCode:
    """Why an action is refused: the name states the condition that was found.

    order: the place of its failure class in the order in which failures are told (see
    `spec.failures`); guards of one action never go back in it.
    """

    name: str
    meaning: str
    order: int = 0

    def __repr__(self) -> str:
        return self.name


def _check_initial(name: str, initial: Expr, binders: tuple[Symbol, ...]) -> None:
    """An initial value is one of the indices and of constants: there is no state yet to read."""
    for node in walk(initial):
        if isinstance(node, Read | Fired) or (isinstance(node, Symbol) and node.role == "top"):
            raise DefinitionError(
                f"the initial value of {name} uses {node!r}: use its indices and constants alone, or ANY"
            )
    for found in free_symbols(initial):
        if not any(found is binder for binder in binders):
            raise DefinitionError(
                f"the initial value of {name} uses {found!r}, which is none of its indices"
            )


def make_variable(
    name: str, domain: tuple[Any, ...], to: Any, init: Any, module: str, meaning: str
) -> Variable:
    """A checked variable; `init` is a value, a function of the indices, or ANY."""
    if not name.isidentifier():
        raise DefinitionError(f"{name!r} is no identifier: name a variable as a Python name")
    if not meaning.strip():
        raise DefinitionError(
            f"variable {name} has no meaning: give one line that says what it holds"
        )
    types = tuple(type_of(sort) for sort in domain)
    for kind in types:
        if kind.kind not in ("open", "enum"):
            raise DefinitionError(
                f"variable {name} is indexed by {kind}: index by open sorts and enumerations"
            )
    codomain = type_of(to)
    binders = tuple(Symbol(kind, f"i{n}", "bound") for n, kind in enumerate(types))
    initial = init
    if not isinstance(init, AnyValue):
        value = init(*binders) if callable(init) and not isinstance(init, Expr) else init
        initial = coerce(value, codomain, f"the initial value of {name}")
        _check_initial(name, initial, binders)
    return Variable(name, types, codomain, binders, initial, module, meaning, caller())
