"""Obligations as SMT-LIB 2, and what a second solver says of them.

The text is standard: sorts, datatypes, functions and quantifiers, no Z3 extension. Each file
tells the answer that is expected, so that any solver can be held to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import attrs
import z3

from kvspec.models.symbolic.domain import Term, Unbounded
from kvspec.models.symbolic.obligations import Obligation
from kvspec.models.symbolic.pool import SolverPool
from kvspec.models.symbolic.verdicts import matches
from kvspec.models.symbolic.world import World
from kvspec.spec.language import Property, System


class Texts:
    """The text of obligations of one system; what is known of its states is written once."""

    def __init__(self, system: System, known: Iterable[Property]) -> None:
        self.world = World(system, Unbounded(), known)
        self._known: list[str] | None = None

    def text(self, obligation: Obligation) -> str:
        """The obligation as one SMT-LIB 2 problem."""
        if self._known is None:
            self._known = self._commands(self.world.given)
        query = obligation.build(self.world)
        known = self._known if query.known else []
        commands = dict.fromkeys([*known, *self._commands(query.terms)])
        return "\n".join(
            (
                f'(set-info :source "{self.world.system.name}: {obligation.name}")',
                "(set-info :smt-lib-version 2.6)",
                "(set-logic ALL)",
                f"(set-info :status {obligation.expect})",
                *commands,
                "(check-sat)\n",
            )
        )

    def _commands(self, terms: list[Term]) -> list[str]:
        """Declarations and assertions, one text each."""
        solver = z3.Solver(ctx=self.world.domain.context)
        solver.add(terms)
        return balanced(re.split(r"\n(?=\()", solver.sexpr().strip()))


def balanced(lines: Iterable[str]) -> list[str]:
    """Whole commands: a line that opens more brackets than it closes goes on in the next one."""
    whole: list[str] = []
    depth = 0
    for line in lines:
        if depth:
            whole[-1] += f"\n{line}"
        else:
            whole.append(line)
        depth += line.count("(") - line.count(")")
    return whole


def file_name(name: str) -> str:
    """A file name for an obligation: `inductive-claim-publish.STALE.smt2`."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", name.replace("!", ".")) + ".smt2"


def write_obligations(texts: Iterator[tuple[Obligation, str]], directory: Path) -> list[Path]:
    """Write each problem to a file of its own."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for obligation, text in texts:
        path = directory / file_name(obligation.name)
        if path in written:
            raise ValueError(f"two obligations would be written to {path.name}: rename a property")
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


@attrs.frozen
class Opinion:
    """What one solver says of one problem.

    agrees: it gives the expected answer; None if it gives none.
    """

    name: str
    expect: str
    result: str
    reason: str
    seconds: float

    @property
    def agrees(self) -> bool | None:
        """Whether the answer is the expected one."""
        return None if self.result == "unknown" else self.result == self.expect


@attrs.frozen
class SecondOpinion:
    """All opinions of a solver; one that disagrees makes the verdict `violated`."""

    solver: str
    opinions: tuple[Opinion, ...]

    @property
    def agreed(self) -> int:
        """How many problems the solver answers as expected."""
        return sum(found.agrees is True for found in self.opinions)

    @property
    def disagreed(self) -> tuple[Opinion, ...]:
        """The problems that the solver answers otherwise."""
        return tuple(found for found in self.opinions if found.agrees is False)

    @property
    def unanswered(self) -> tuple[Opinion, ...]:
        """The problems on which the solver gives up."""
        return tuple(found for found in self.opinions if found.agrees is None)

    @property
    def verdict(self) -> str:
        """`holds`, `violated` or `unknown`."""
        return "violated" if self.disagreed else "unknown" if self.unanswered else "holds"

    def show(self) -> str:
        """The table of agreements, one kind of obligation a line, then every exception."""
        kinds = sorted({found.name.split(":")[0] for found in self.opinions})
        lines = [
            f"{self.solver}: {self.verdict}",
            "kind        problems  agrees  disagrees  unknown",
        ]
        for kind in kinds:
            of_kind = [found for found in self.opinions if found.name.split(":")[0] == kind]
            votes = [found.agrees for found in of_kind]
            lines.append(
                f"{kind:<10}  {len(votes):>8}  {votes.count(True):>6}  {votes.count(False):>9}  "
                f"{votes.count(None):>7}"
            )
        for found in (*self.disagreed, *self.unanswered):
            why = f" ({found.reason})" if found.reason else ""
            lines.append(
                f"{found.name}: expected {found.expect}, {self.solver} says {found.result}{why}"
            )
        return "\n".join(lines)


def second_opinion(
    directory: Path,
    *,
    solver: str = "cvc5",
    seconds_per_obligation: float = 10.0,
    workers: int = 2,
    only: Sequence[str] | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> SecondOpinion:
    """Ask a solver about every exported file of a directory, read back from disk."""
    paths = [path for path in sorted(directory.glob("*.smt2")) if matches(path.stem, only)]
    if not paths:
        raise FileNotFoundError(f"no .smt2 file in {directory}: export the obligations first")
    found: list[Opinion] = []
    with SolverPool(workers) as pool:
        asked = []
        for path in paths:
            text = path.read_text(encoding="utf-8")
            expect, name = _header(text, path)
            future = pool.submit(text, seconds_per_obligation, solver=solver, expect=expect)
            asked.append((name, expect, future))
        for name, expect, future in asked:
            answer = future.result()
            found.append(Opinion(name, expect, answer.result, answer.reason, answer.seconds))
            if progress is not None:
                progress(len(found), len(asked), name)
    return SecondOpinion(solver, tuple(found))


def _header(text: str, path: Path) -> tuple[str, str]:
    """The expected answer and the name that a file tells."""
    status = re.search(r"\(set-info :status (sat|unsat)\)", text)
    source = re.search(r'\(set-info :source "[^:"]*: ([^"]*)"\)', text)
    if status is None or source is None:
        raise ValueError(f"{path}: no :status and :source in its head: export it again")
    return status.group(1), source.group(1)
