"""Types, values and quantifiers in Z3, in two ways that share every formula built on them.

`Unbounded` is the domain of proofs: open sorts are uninterpreted, naturals are integers from 0,
variables are functions, quantifiers stay quantifiers. `Ground` is the domain of small models:
every sort has a size, naturals are bit-vectors, variables are one constant for each index, and
quantifiers are written out, so that a query is a plain bit-vector problem and its model is a
state of an instance.

Formulas are made by the methods of a domain and by Z3's functions, never by Python's `and`, `or`,
`not`: on a Z3 term those would silently drop a part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import z3

from kvspec.spec.language import Type

Term = Any
"""A Z3 term; z3 ships no types."""

Table = Callable[[tuple[Term, ...]], Term]
"""A variable or map: its value at an index."""


class Domain(ABC):
    """What a translation needs to know of types; `context` holds all its terms."""

    def __init__(self) -> None:
        self.context = z3.Context()
        self._depth = 0

    def truth(self, value: bool) -> Term:
        """A truth value."""
        return z3.BoolVal(value, self.context)

    def conjunction(self, terms: list[Term]) -> Term:
        """All of the terms; true of nothing."""
        return z3.And(terms) if len(terms) > 1 else terms[0] if terms else self.truth(True)

    def disjunction(self, terms: list[Term]) -> Term:
        """Any of the terms; false of nothing."""
        return z3.Or(terms) if len(terms) > 1 else terms[0] if terms else self.truth(False)

    def quantify(
        self,
        kind: str,
        types: tuple[Type, ...],
        body: Callable[[tuple[Term, ...]], Term],
        names: str = "",
    ) -> Term:
        """`forall` or `exists` over the members of the types; listed types are written out."""
        ranges: list[list[Term]] = []
        bound: list[Term] = []
        for position, each in enumerate(types):
            listed = self.members(each)
            if listed is None:
                # Named by its depth, a formula that is built twice is one term, and is equal to itself.
                name = names.split()[position] if names else each.name.lower()
                place = self._depth + len(bound) + 1
                bound.append(z3.Const(f"{name}.{place}", self.sort(each)))
                listed = [bound[-1]]
            ranges.append(listed)
        self._depth += len(bound)
        try:
            parts = [body(values) for values in product(*ranges)]
        finally:
            self._depth -= len(bound)
        joined = self.conjunction(parts) if kind == "forall" else self.disjunction(parts)
        if not bound:
            return joined
        return z3.ForAll(bound, joined) if kind == "forall" else z3.Exists(bound, joined)

    @abstractmethod
    def sort(self, kind: Type) -> Term:
        """The Z3 sort of a type."""

    @abstractmethod
    def members(self, kind: Type) -> list[Term] | None:
        """The members of a type that can be listed, else None."""

    @abstractmethod
    def table(self, name: str, domain: tuple[Type, ...], to: Type) -> tuple[Table, list[Term]]:
        """A free table of that type, and what must hold for its values to be in the type."""

    @abstractmethod
    def literal(self, kind: Type, value: Any) -> Term:
        """A constant of the language."""

    @abstractmethod
    def top(self, kind: Type) -> Term:
        """The largest natural of a sort."""

    @abstractmethod
    def some(self, kind: Type, member: Term) -> Term:
        """The option that holds a member."""

    @abstractmethod
    def the(self, kind: Type, option: Term) -> Term:
        """The member that an option of type `kind` holds, one fixed member if it holds none."""

    @abstractmethod
    def quotient(self, term: Term, divisor: Term) -> Term:
        """The term over a divisor, a literal of 1 or more, rounded down."""


class Unbounded(Domain):
    """Any number of members, at least one of each sort, and all naturals.

    What is shown here holds of every instance that has a member of each open sort.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sorts: dict[str, Term] = {}

    def sort(self, kind: Type) -> Term:
        """Uninterpreted, integer, Boolean, or a datatype for enumerations and options."""
        if kind.kind == "bool":
            return z3.BoolSort(self.context)
        if kind.kind == "natural":
            return z3.IntSort(self.context)
        if kind.name not in self._sorts:
            self._sorts[kind.name] = self._declare(kind)
        return self._sorts[kind.name]

    def _declare(self, kind: Type) -> Term:
        if kind.kind == "open":
            return z3.DeclareSort(kind.name, self.context)
        if kind.kind == "enum":
            names = [f"{kind.name}.{member}" for member in kind.members]
            return z3.EnumSort(kind.name, names, self.context)[0]
        of = _of(kind)
        made = z3.Datatype(f"Option.{of.name}", self.context)
        made.declare(f"none.{of.name}")
        made.declare(f"some.{of.name}", (f"the.{of.name}", self.sort(of)))
        return made.create()

    def members(self, kind: Type) -> list[Term] | None:
        """Enumerations are listed, open sorts are not."""
        if kind.kind != "enum":
            return None
        sort = self.sort(kind)
        return [sort.constructor(place)() for place in range(len(kind.members))]

    def table(self, name: str, domain: tuple[Type, ...], to: Type) -> tuple[Table, list[Term]]:
        """An uninterpreted function; its naturals are at least 0 at every index."""
        if domain:
            function = z3.Function(name, *(self.sort(kind) for kind in domain), self.sort(to))
        else:
            constant = z3.Const(name, self.sort(to))

        def read(index: tuple[Term, ...]) -> Term:
            return function(*index) if domain else constant

        if to.kind != "natural":
            return read, []
        if not domain:
            return read, [constant >= 0]
        return read, [self.quantify("forall", domain, lambda index: read(index) >= 0)]

    def literal(self, kind: Type, value: Any) -> Term:
        """A value; member 0 of an open sort is the fixed member that `the(none)` gives."""
        if kind.kind == "bool":
            return self.truth(bool(value))
        if kind.kind == "natural":
            return z3.IntVal(int(value), self.context)
        if kind.kind == "enum":
            return self.sort(kind).constructor(kind.members.index(value))()
        if kind.kind == "open":
            return z3.Const(f"member{value}.{kind.name}", self.sort(kind))
        sort = self.sort(kind)
        return (
            sort.constructor(0)()
            if value is None
            else self.some(kind, self.literal(_of(kind), value))
        )

    def top(self, kind: Type) -> Term:
        """There is none: a bound has no place in a proof."""
        raise ValueError(
            f"{kind}.top is the bound of an instance and has no meaning in a proof: use it in "
            "limits alone"
        )

    def some(self, kind: Type, member: Term) -> Term:
        """The constructor of the datatype."""
        return self.sort(kind).constructor(1)(member)

    def the(self, kind: Type, option: Term) -> Term:
        """The accessor, made total by a fixed, unknown member."""
        sort = self.sort(kind)
        return z3.If(
            sort.recognizer(1)(option), sort.accessor(1, 0)(option), self.literal(_of(kind), 0)
        )

    def quotient(self, term: Term, divisor: Term) -> Term:
        """Division of integers, which by a positive number rounds down."""
        return term / divisor


class Ground(Domain):
    """Sizes for all open sorts and a largest value for naturals: a finite problem on bit-vectors.

    bounds: largest value of each sort of naturals, or one for all. depth, degree: an arithmetic term
    can reach (largest value * depth) ** degree, so that no sum and no product overflows.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        bounds: Mapping[str, int] | int,
        depth: int,
        degree: int = 1,
    ) -> None:
        super().__init__()
        self.sizes = dict(sizes)
        self.bounds = bounds
        largest = bounds if isinstance(bounds, int) else max(bounds.values(), default=0)
        reach = int((max(largest, 1) * max(depth, 1)) ** degree)
        self.width = reach.bit_length() + 1

    def bound(self, kind: Type) -> int:
        """The largest value of a sort of naturals."""
        return self.bounds if isinstance(self.bounds, int) else self.bounds[kind.name]

    def count(self, kind: Type) -> int:
        """How many values an open sort, option or enumeration has."""
        if kind.kind == "enum":
            return len(kind.members)
        return self.sizes[_of(kind).name] + 1 if kind.kind == "option" else self.sizes[kind.name]

    def _bits(self, kind: Type) -> int:
        if kind.kind == "natural":
            return self.width
        if kind.kind == "enum":
            return max(1, (len(kind.members) - 1).bit_length())
        return max(1, self.sizes[_of(kind).name].bit_length())  # a member and an option alike

    def sort(self, kind: Type) -> Term:
        """Bit-vectors, and Booleans as they are."""
        if kind.kind == "bool":
            return z3.BoolSort(self.context)
        return z3.BitVecSort(self._bits(kind), self.context)

    def members(self, kind: Type) -> list[Term] | None:
        """All members of open sorts and enumerations."""
        return [self._number(kind, place) for place in range(self.count(kind))]

    def _number(self, kind: Type, place: int) -> Term:
        return z3.BitVecVal(place, self._bits(kind), self.context)

    def table(self, name: str, domain: tuple[Type, ...], to: Type) -> tuple[Table, list[Term]]:
        """One constant for each index; reading at a term that is no constant chooses among them."""
        cells: dict[tuple[int, ...], Term] = {}
        inside: list[Term] = []
        for index in product(*(range(self.count(kind)) for kind in domain)):
            cell = z3.Const(f"{name}{list(index) if index else ''}", self.sort(to))
            cells[index] = cell
            inside.extend(self.inside(to, cell))
        counts = [self.count(kind) for kind in domain]

        def read(index: tuple[Term, ...], fixed: tuple[int, ...] = ()) -> Term:
            if 0 in counts:  # there is no such index, so any value will do
                return z3.Const(f"{name}[]", self.sort(to))
            if len(fixed) == len(counts):
                return cells[fixed]
            part = index[len(fixed)]
            if z3.is_bv_value(part):
                return read(index, (*fixed, part.as_long()))
            kind = domain[len(fixed)]
            found = read(index, (*fixed, counts[len(fixed)] - 1))
            for place in range(counts[len(fixed)] - 1):
                here = read(index, (*fixed, place))
                found = (
                    here
                    if here.eq(found)
                    else z3.If(part == self._number(kind, place), here, found)
                )
            return found

        return read, inside

    def inside(self, kind: Type, term: Term) -> list[Term]:
        """What says that a term is a value of its type."""
        if kind.kind == "bool":
            return []
        if kind.kind == "natural":
            return [term >= 0, term <= self.top(kind)]
        count = self.count(kind)
        return [] if count == 2 ** self._bits(kind) else [z3.ULT(term, self._number(kind, count))]

    def literal(self, kind: Type, value: Any) -> Term:
        """A value as a bit-vector; none comes after the members."""
        if kind.kind == "bool":
            return self.truth(bool(value))
        if kind.kind == "natural":
            return z3.BitVecVal(int(value), self.width, self.context)
        if kind.kind == "enum":
            return self._number(kind, kind.members.index(value))
        return self._number(kind, self.sizes[_of(kind).name] if value is None else int(value))

    def top(self, kind: Type) -> Term:
        """The bound of the instance."""
        return z3.BitVecVal(self.bound(kind), self.width, self.context)

    def some(self, kind: Type, member: Term) -> Term:
        """Members and options are numbered alike."""
        del kind
        return member

    def the(self, kind: Type, option: Term) -> Term:
        """Member 0 of none."""
        return z3.If(option == self.literal(kind, None), self._number(_of(kind), 0), option)

    def quotient(self, term: Term, divisor: Term) -> Term:
        """Signed division rounds towards 0, so what is negative is rounded up as a positive number."""
        return z3.If(term < 0, -((divisor - 1 - term) / divisor), term / divisor)

    def decode(self, kind: Type, term: Term, model: Term) -> Any:
        """The value of a term in a model, as the concrete engine writes it."""
        found = model.eval(term, model_completion=True)
        if kind.kind == "bool":
            return z3.is_true(found)
        if kind.kind == "natural":
            return found.as_signed_long()
        place = found.as_long()
        if kind.kind == "enum":
            return kind.members[place]
        return None if kind.kind == "option" and place == self.sizes[_of(kind).name] else place


def _of(kind: Type) -> Type:
    """The open sort of a member or option."""
    return kind.of if kind.of is not None else kind
