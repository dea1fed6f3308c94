"""Proofs that formulas keep their identities for all whole numbers, by Z3.

A claim without lists is one query. A claim about lists, or over a number, is shown by induction:
it holds of no row (of the first number), and with a row (one number) more it holds again. Nothing is
written for that but the claim: it is run once on nothing, and once on one member more.

Where that does not succeed, a counterexample is looked for among short lists and small numbers, and
told only if plain Python confirms it. A step that fails alone refutes nothing, and is `unknown`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs
import z3

from kvspec.models.symbolic.domain import Term, Unbounded
from kvspec.models.symbolic.evaluate import Scope
from kvspec.models.symbolic.smtlib import file_name
from kvspec.models.symbolic.verdicts import matches
from kvspec.spec.formulas.claims import Claims, Identity
from kvspec.spec.formulas.folds import Series, symbol
from kvspec.spec.formulas.frame import BOOK, Book, unknown
from kvspec.spec.formulas.quantities import Quantity
from kvspec.spec.language import Expr, Symbol, all_of, implies, walk
from kvspec.spec.language.expr import lift

HOLDS, VIOLATED, UNKNOWN = "holds", "violated", "unknown"
LONGEST = 3
"""Counterexamples are looked for among lists of at most this length, and that many numbers."""

Progress = Callable[[int, int, str], None]


@attrs.frozen
class Case:
    """Values that break an identity, as plain Python confirms. values: by symbol of the quantity."""

    values: dict[str, Any]

    def show(self) -> str:
        """`B_token = 1, T_i = [0, 2]`."""
        return ", ".join(f"{name} = {value}" for name, value in self.values.items())


@attrs.frozen
class Proof:
    """The verdict on one identity: holds, violated with a case, or unknown with a reason."""

    identity: Identity
    verdict: str
    seconds: float
    reason: str = ""
    case: Case | None = None

    def show(self) -> str:
        """One line, and a second one for what breaks it."""
        line = f"{self.verdict:<8}  {self.identity.name}: {self.identity.claim}"
        if self.case is not None:
            return f"{line}\n          broken by {self.case.show()}"
        return f"{line}\n          {self.reason}" if self.reason else line


def prove_identities(
    claims: Claims,
    book: Book = BOOK,
    *,
    seconds: float = 10.0,
    only: list[str] | None = None,
    progress: Progress | None = None,
) -> tuple[Proof, ...]:
    """The verdict on each identity of a book of formulas. seconds: for each query."""
    chosen = [each for each in claims.by_name.values() if matches(each.name, only)]
    found = []
    for place, each in enumerate(chosen):
        found.append(prove_identity(each, claims, book, seconds=seconds))
        if progress is not None:
            progress(place + 1, len(chosen), each.name)
    return tuple(found)


def prove_identity(
    identity: Identity, claims: Claims, book: Book = BOOK, *, seconds: float = 10.0
) -> Proof:
    """The verdict on one identity, and first on those that it uses."""
    began = time.perf_counter()
    prover = _Prover(identity, claims, book, seconds)
    failed = [name for name, query in prover.queries() if not prover.is_valid(query)]
    if not prover.has_case():
        failed.append("that anything is as it supposes")
    for name, _ in identity.uses:
        used = prove_identity(claims.by_name[name], claims, book, seconds=seconds)
        if used.verdict != HOLDS:
            failed.append(f"{name}, which it uses")
    if not failed:
        return Proof(identity, HOLDS, time.perf_counter() - began)
    case = prover.counterexample()
    spent = time.perf_counter() - began
    if case is not None:
        return Proof(identity, VIOLATED, spent, case=case)
    reason = f"not shown: {', '.join(failed)}; nothing small breaks it"
    return Proof(identity, UNKNOWN, spent, reason)


def export_identities(claims: Claims, directory: Path, book: Book = BOOK) -> list[Path]:
    """Write every query of every proof as SMT-LIB 2, for any solver, and for `second_opinion`."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for identity in claims.by_name.values():
        prover = _Prover(identity, claims, book, 1.0)
        for name, query in prover.queries():
            path = directory / file_name(f"{identity.name}-{name}")
            path.write_text(prover.problem(name, query), encoding="utf-8")
            written.append(path)
    return written


@attrs.frozen
class Query:
    """What is given, and what is claimed to follow."""

    given: tuple[Any, ...]
    claim: Any


@attrs.frozen
class _Prover:
    """One identity on its way to Z3."""

    identity: Identity
    claims: Claims
    book: Book
    seconds: float

    def queries(self) -> Iterator[tuple[str, Query]]:
        """What must be shown, by name."""
        if self.identity.over is not None:
            yield from self._over_a_number()
        elif self.identity.has_columns:
            yield from self._over_rows()
        else:
            values = self._values()
            yield "the claim", Query(self._given(values), self._claim(values))

    def _values(self) -> list[Any]:
        return [unknown(each) for each in self.identity.takes]

    def _claim(self, values: list[Any]) -> Any:
        return self.identity.holds(self.book, *values)

    def _invariant(self, values: list[Any]) -> Any:
        """What the induction shows: the lemmas, or the claim itself."""
        lemmas = [lemma(self.book, *values) for lemma in self.identity.lemmas]
        return all_of(*map(lift, lemmas)) if lemmas else self._claim(values)

    def _given(self, values: list[Any]) -> tuple[Any, ...]:
        """Quantities are no less than their least value, and what is used holds of these values."""
        pairs = zip(self.identity.takes, values, strict=True)
        given = [v >= q.least for q, v in pairs if not (q.column or q.flag)]
        for name, arguments in self.identity.uses:
            used = self.claims.by_name[name]
            at = list(arguments(*values))
            inside = [lift(v >= q.least) for q, v in zip(used.takes, at, strict=True)]
            given.append(implies(all_of(*inside), lift(used.holds(self.book, *at))))
        return tuple(given)

    def _over_a_number(self) -> Iterator[tuple[str, Query]]:
        place = self.identity.takes.index(_known(self.identity.over))
        values = self._values()
        number = values[place]
        start = [*values[:place], self.identity.takes[place].least, *values[place + 1 :]]
        after = [*values[:place], number + 1, *values[place + 1 :]]
        yield "the first number", Query(self._given(start), self._invariant(start))
        given = (*self._given(values), *self._given(after))
        yield (
            "one number more",
            Query((*given, self._invariant(values)), self._invariant(after)),
        )
        if self.identity.lemmas:
            yield (
                "the lemmas suffice",
                Query((*given, self._invariant(values)), self._claim(values)),
            )

    def _over_rows(self) -> Iterator[tuple[str, Query]]:
        values = self._values()
        given = self._given(values)
        none = [() if isinstance(each, Series) else each for each in values]
        yield "no row", Query(given, self._invariant(none))
        row = [
            _member(quantity, "next") if quantity.column else value
            for quantity, value in zip(self.identity.takes, values, strict=True)
        ]
        after = [
            each.extended(member) if isinstance(each, Series) else each
            for each, member in zip(values, row, strict=True)
        ]
        more = (*given, *self._row_given(row), self._invariant(values))
        yield "one row more", Query(more, self._invariant(after))
        if self.identity.lemmas:
            yield (
                "the lemmas suffice",
                Query((*given, self._invariant(values)), self._claim(values)),
            )

    def _row_given(self, row: list[Any]) -> tuple[Any, ...]:
        """What is given of a row: values no less than the least, and what the identity says."""
        pairs = zip(self.identity.takes, row, strict=True)
        given = [value >= quantity.least for quantity, value in pairs if quantity.column]
        return (*given, self.identity.each(*row)) if self.identity.each else tuple(given)

    def is_valid(self, query: Query) -> bool:
        """Whether Z3 shows that the claim follows."""
        return bool(self._check(query)[0] == z3.unsat)

    def problem(self, name: str, query: Query) -> str:
        """The query as one SMT-LIB 2 problem, whose answer is `unsat` if the claim follows."""
        solver, _ = self._solver(query)
        source = f"identities: {self.identity.name} {name}"
        return "\n".join(
            (
                f'(set-info :source "{source}")',
                "(set-info :smt-lib-version 2.6)",
                "(set-logic ALL)",
                "(set-info :status unsat)",
                solver.sexpr().strip(),
                "(check-sat)\n",
            )
        )

    def _solver(self, query: Query) -> tuple[Term, dict[str, Term]]:
        """A solver that is told what is given and the claim's opposite, and the term of each symbol."""
        domain = Unbounded()
        given = [lift(each) for each in query.given]
        claim = lift(query.claim)
        symbols = _symbols([*given, claim])
        names = {name: z3.Const(name, domain.sort(found.type)) for name, found in symbols.items()}
        scope = Scope(domain, _Nothing(), names=names)
        solver = z3.Solver(ctx=domain.context)
        solver.set("timeout", max(1, int(self.seconds * 1000)))
        solver.set("random_seed", 0)
        solver.add([scope.value(each) for each in given])
        solver.add(z3.Not(scope.value(claim)))
        return solver, names

    def _check(self, query: Query) -> tuple[Any, Callable[[Symbol], Any]]:
        """Whether what is given and the claim's opposite can hold together, and values if so."""
        solver, names = self._solver(query)
        answer = solver.check()
        model = solver.model() if answer == z3.sat else None

        def value(found: Symbol) -> Any:
            if model is None or found.name not in names:
                return False if found.type.kind == "bool" else 0
            term: Term = model.eval(names[found.name], model_completion=True)
            return z3.is_true(term) if found.type.kind == "bool" else term.as_long()

        return answer, value

    def has_case(self) -> bool:
        """Whether some values, and a list that is not empty, are as the identity supposes."""
        *_, (values, given) = self._small()
        return bool(self._check(Query((*self._given(values), *given), False))[0] == z3.sat)

    def counterexample(self) -> Case | None:
        """Values that break the claim, confirmed by running it on them."""
        for values, given in self._small():
            answer, read = self._check(Query((*self._given(values), *given), self._claim(values)))
            if answer != z3.sat:
                continue
            numbers = [_numbers(value, read) for value in values]
            if self._breaks(numbers):
                names = (each.symbol for each in self.identity.takes)
                return Case(dict(zip(names, map(_listed, numbers), strict=True)))
        return None

    def _small(self) -> Iterator[tuple[list[Any], tuple[Any, ...]]]:
        """Lists of every small length, or small numbers, and symbols for all else."""
        values = self._values()
        if self.identity.over is not None:
            place = self.identity.takes.index(_known(self.identity.over))
            least = self.identity.takes[place].least
            for number in range(least, least + LONGEST + 1):
                yield [*values[:place], number, *values[place + 1 :]], ()
            return
        for length in range(LONGEST + 1 if self.identity.has_columns else 1):
            rows = [
                [
                    _member(quantity, place) if quantity.column else value
                    for quantity, value in zip(self.identity.takes, values, strict=True)
                ]
                for place in range(length)
            ]
            lists = [
                tuple(row[place] for row in rows) if quantity.column else values[place]
                for place, quantity in enumerate(self.identity.takes)
            ]
            yield lists, tuple(part for row in rows for part in self._row_given(row))

    def _breaks(self, numbers: list[Any]) -> bool:
        """Whether plain Python finds these numbers legal and the claim false of them."""
        legal = all(
            member >= quantity.least
            for quantity, value in zip(self.identity.takes, numbers, strict=True)
            for member in (value if quantity.column else (value,))
        )
        if self.identity.each is not None and self.identity.has_columns:
            legal = legal and all(self.identity.each(*row) for row in self._rows(numbers))
        return bool(legal and not self._claim(numbers))

    def _rows(self, numbers: list[Any]) -> Iterable[list[Any]]:
        columns = [place for place, each in enumerate(self.identity.takes) if each.column]
        for row in range(len(numbers[columns[0]])):
            yield [value[row] if place in columns else value for place, value in enumerate(numbers)]


class _Nothing:
    """A state without variables."""

    def read(self, variable: Any, index: tuple[Term, ...]) -> Term:
        """There is none to read."""
        raise ValueError(f"{variable.name}{list(index)} is read in a formula, which has no state")


def _known(quantity: Quantity | None) -> Quantity:
    if quantity is None:
        raise ValueError("an induction over a number needs the number: give `over`")
    return quantity


def _member(quantity: Quantity, place: object) -> Expr:
    return symbol(f"{quantity.symbol}[{place}]")


def _symbols(exprs: Iterable[Expr]) -> dict[str, Symbol]:
    """Every symbol of the expressions by name; one name is one value."""
    return {node.name: node for expr in exprs for node in walk(expr) if isinstance(node, Symbol)}


def _numbers(value: Any, read: Callable[[Symbol], Any]) -> Any:
    if isinstance(value, tuple):
        return tuple(_numbers(member, read) for member in value)
    return read(value) if isinstance(value, Symbol) else value


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
