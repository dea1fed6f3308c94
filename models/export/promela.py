"""Promela text of an instance, such that Spin stores one state for each state of ours.

One process loops over the steps of the instance, each one a `d_step` of its own, so that it is one
transition. All state is in global variables; what is set aside within a step is 0 again at its end
(Spin's breadth-first search knows no `hidden` variables), so it tells no states apart. Cells that
may start anywhere are chosen before the loop, one transition each; `Model.before` and `Model.first`
say how many states and transitions that adds.

Claims cost no states: an invariant is a further alternative of the loop, possible only where it is
broken; a step property is an assertion within each step that could break it, and there speaks of
the values that the step is about to write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

import attrs

from kvspec.models.export import terms
from kvspec.models.export.ground import Ground, Step, Table, Write
from kvspec.models.export.names import promela_names
from kvspec.models.export.terms import Apply, Cell, Num, Temporary, Term
from kvspec.spec.language import Instance, Property

CHECKED = ("invariant", "lemma", "step", "witness", "end")
"""The kinds of properties that become Promela; a witness is checked as its negation."""

_TIGHT = {
    "or": 1,
    "and": 2,
    "not": 7,
    "eq": 3,
    "ne": 3,
    "lt": 4,
    "le": 4,
    "add": 5,
    "sub": 5,
    "mul": 6,
    "div": 6,
}
_SIGN = {
    "or": "||",
    "and": "&&",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "add": "+",
    "sub": "-",
}
_SIGN |= {"mul": "*", "div": "/"}


@attrs.frozen
class Model:
    """The text, and what is needed to read Spin's answer.

    labels: by line number, the step that stands there. claims: by line number, the property that is
    asserted there. choices: the number of values of each cell that starts anywhere.
    """

    text: str
    labels: dict[int, str]
    claims: dict[int, str]
    choices: tuple[int, ...]

    @property
    def before(self) -> int:
        """States that Spin stores before all cells have an initial value."""
        return sum(prod(self.choices[:done]) for done in range(len(self.choices)))

    @property
    def first(self) -> int:
        """Transitions that Spin takes to give the cells their initial values."""
        return sum(prod(self.choices[: done + 1]) for done in range(len(self.choices)))


def to_promela(instance: Instance, properties: Iterable[Property] = (), *, variant: int = 0) -> str:
    """The instance as a Promela model with the claims in `properties` built in as assertions.

    properties: of the kinds in `CHECKED`; Spin stops at the first that is violated, and at the first
    witness that it finds. variant: the mutant to write. Raises ValueError for a leads_to, since
    Spin knows fairness of processes and not of actions.
    """
    return build(instance, properties, variant=variant).text


def build(instance: Instance, properties: Iterable[Property] = (), *, variant: int = 0) -> Model:
    """As `to_promela`, with what is needed to read Spin's answer."""
    claims = list(properties)
    for claim in claims:
        if claim.kind not in CHECKED:
            raise ValueError(
                f"the property {claim.name} is a {claim.kind}; found in an export to Promela, where "
                f"{', '.join(CHECKED)} are expected: check it with TLC or the explicit engine"
            )
    return _Writer(Ground(instance, variant), claims).model()


class _Writer:
    """Lays the model out line by line."""

    def __init__(self, ground: Ground, claims: list[Property]) -> None:
        self.ground = ground
        self.claims = claims
        self.steps = ground.steps()
        self.lines: list[str] = []
        self.labels: dict[int, str] = {}
        self.asserted: dict[int, str] = {}
        self.temporaries = 0
        self.widest = 0
        scope = promela_names()
        self.names = {name: scope.fresh(name) for name in ground.tables}
        self.process = scope.fresh("steps")
        self.aside = scope.fresh("aside")

    def model(self) -> Model:
        """The finished model."""
        body = self._body()
        self._head()
        shift = len(self.lines)
        return Model(
            "\n".join([*self.lines, *body]) + "\n",
            {line + shift: label for line, label in self.labels.items()},
            {line + shift: name for line, name in self.asserted.items()},
            tuple(len(values) for _, _, values in self._open()),
        )

    def _head(self) -> None:
        instance = self.ground.instance
        self.lines += [
            f"/* {_plain(repr(instance))}",
            f" * {_plain(instance.system.doc)}",
            " * An option holds 0 for none and one more than its member otherwise.",
            " * For exact counts: spin -o1 -o2 -a FILE; gcc -O2 -DSAFETY -DNOREDUCE -DBFS -o pan pan.c",
            " * (without -o2 Spin drops variables that no step reads, and states fall together). */",
            "#define NONE 0",
            "#define SOME(member) ((member) + 1)",
            "#define THE(option) ((option) -> (option) - 1 : 0)",
        ]
        for kind in instance.system.sorts().values():
            if kind.kind == "enum":
                self.lines += [f"#define {kind.name}_{m} {n}" for n, m in enumerate(kind.members)]
        self.lines.append("")
        self.lines += [
            line
            for name, table in self.ground.tables.items()
            for line in self._declare(name, table)
        ]
        if self.temporaries:
            note = "  /* values set aside within a step, 0 between steps */"
            self.lines.append(f"{_width(self.widest)} {self.aside}[{self.temporaries}];{note}")
        self.lines.append("")

    def _declare(self, name: str, table: Table) -> Iterator[str]:
        size = len(table.starts)
        note = f"  /* {table.variable.signature}: {_plain(table.variable.meaning)} */"
        if not size:
            yield f"/* {name} has no cells in this instance */"
            return
        first = [values[0] if len(values) == 1 else Num(0) for values in table.starts]
        start = _text(first[0], {})
        if any(value != first[0] for value in first):
            start = f"{{ {', '.join(_text(value, {}) for value in first)} }}"
        shape = f"[{size}]" if table.variable.domain else ""
        kind = "bool" if table.variable.type.kind == "bool" else _width(table.top)
        yield f"{kind} {self.names[name]}{shape} = {start};{note}"

    def _open(self) -> list[tuple[str, int, tuple[Num, ...]]]:
        """The cells without one initial value: table, place and values."""
        return [
            (name, place, values)
            for name, table in self.ground.tables.items()
            for place, values in enumerate(table.starts)
            if len(values) != 1
        ]

    def _body(self) -> list[str]:
        body = [f"active proctype {self.process}() {{"]
        for name, place, values in self._open():
            cell = self._cell(name, Num(place))
            options = " ".join(f":: {cell} = {_text(value, {})}" for value in values)
            body.append(
                f"  if {options} fi;" if values else "  false;  /* no value to start with */"
            )
        body.append("end:")
        body.append("  do")
        for claim in self.claims:
            if claim.kind in ("invariant", "lemma", "witness"):
                self._claim(body, claim)
        if any(claim.kind == "end" for claim in self.claims):
            self._deadlock(body)
        for step in self.steps:
            self._step(body, step)
        if not self.steps:
            body.append("  :: false")
        body += ["  od", "}"]
        return body

    def _claim(self, body: list[str], claim: Property) -> None:
        holds = self.ground.term(claim.body)
        broken = holds if claim.kind == "witness" else terms.negation(holds)
        if broken != terms.NO:
            self._assert_not(body, self._show(broken), f"{claim.kind} {claim.name}", claim.name)

    def _deadlock(self, body: list[str]) -> None:
        """No proper end, and no step leads on, not even one that is cut or outside a limit."""
        ends = [self.ground.term(claim.body) for claim in self.claims if claim.kind == "end"]
        onward = [
            terms.conjunction(
                step.meant, terms.disjunction(moves(step), terms.negation(step.allowed))
            )
            for step in self.steps
        ]
        stuck = terms.negation(terms.disjunction(*ends, *onward))
        if stuck != terms.NO:
            self._assert_not(body, self._show(stuck), "no deadlock", "deadlock")

    def _assert_not(self, body: list[str], broken: str, note: str, name: str) -> None:
        body += [f"  :: d_step {{ /* {note} */", f"       {broken} ->", "       assert(false) }"]
        self.asserted.update(dict.fromkeys(range(len(body) - 2, len(body) + 1), name))

    def _step(self, body: list[str], step: Step) -> None:
        if step.guard == terms.NO:
            return
        start = len(body) + 1
        body.append(f"  :: d_step {{ /* {step.label} */")
        body.append(f"       {self._show(step.guard)} ->")
        for claim in self.claims:
            if claim.kind == "step":
                fired = (step.event.action, step.code)
                holds = self.ground.term(claim.body, fired=fired, writes=step.writes)
                if holds != terms.YES:
                    body.append(f"       assert({self._show(holds)});  /* step {claim.name} */")
                    self.asserted[len(body)] = claim.name
        body.append(f"       {'; '.join(self._assignments(step)) or 'skip'} }}")
        self.labels.update(dict.fromkeys(range(start, len(body) + 1), step.label))

    def _assignments(self, step: Step) -> Iterator[str]:
        """The writes one after the other, so that each still reads the state before the step."""
        used = 0
        for target, value in in_sequence(step.writes):
            if isinstance(target, Temporary):
                used, self.widest = used + 1, max(self.widest, target.top)
                yield f"{self.aside}[{target.number}] = {self._show(value)}"
            else:
                yield f"{self._cell(target.table, target.place)} = {self._show(value)}"
        self.temporaries = max(self.temporaries, used)
        for number in range(used):
            yield f"{self.aside}[{number}] = 0"

    def _cell(self, table: str, place: Term) -> str:
        return _text(Cell(table, place, 0), self._addresses())

    def _show(self, term: Term, outer: int = 0) -> str:
        return _text(term, self._addresses(), outer)

    def _addresses(self) -> dict[str, tuple[str, bool]]:
        return {
            name: (self.names[name], bool(table.variable.domain))
            for name, table in self.ground.tables.items()
        } | {"": (self.aside, True)}


def _width(top: int) -> str:
    return "byte" if top < 2**8 else "short" if top < 2**15 else "int"


def _plain(text: str) -> str:
    """Text that cannot end a comment."""
    return " ".join(text.replace("*/", "* /").split())


def _text(term: Term, addresses: dict[str, tuple[str, bool]], outer: int = 0) -> str:
    """The term in Promela, in brackets where what stands around it binds tighter than `outer`."""
    match term:
        case Num(value=value, text=text):
            return text or (str(value) if value >= 0 else f"({value})")
        case Temporary(number=number):
            return f"{addresses[''][0]}[{number}]"
        case Cell(table=table, place=place):
            name, is_array = addresses[table]
            return f"{name}[{_text(place, addresses)}]" if is_array else name
    args = term.args
    match term.op:
        case "ite":
            one, two, three = (_text(arg, addresses, 1) for arg in args)
            return f"({one} -> {two} : {three})"
        case "the" | "some":
            return f"{'THE' if term.op == 'the' else 'SOME'}({_text(args[0], addresses)})"
        case "not":
            inner = args[0]
            if isinstance(inner, Apply) and inner.op == "eq":
                return _text(Apply("ne", inner.args), addresses, outer)
            return f"!({_text(inner, addresses)})"
    level = _TIGHT[term.op]
    inside = level if term.op in ("and", "or", "add") else level + 1
    parts = [_text(arg, addresses, inside) for arg in args]
    joined = f" {_SIGN[term.op]} ".join(parts)
    return f"({joined})" if level < outer else joined


def moves(step: Step) -> Term:
    """Whether the step leads to another state, where its guard holds."""
    given = step.meant
    known = given.args if isinstance(given, Apply) and given.op == "and" else (given,)
    parts: list[Term] = []
    for write in step.writes:
        cell = Cell(write.table, write.place, terms.span(write.value)[1])
        old = [
            e.args[1] for e in known if isinstance(e, Apply) and e.op == "eq" and e.args[0] == cell
        ]
        stays = [terms.equals(value, write.value) for value in old] or [
            terms.equals(cell, write.value)
        ]
        parts.append(terms.negation(terms.conjunction(*stays)))
    return terms.disjunction(*parts)


def in_sequence(writes: tuple[Write, ...]) -> list[tuple[Write | Temporary, Term]]:
    """The writes in an order in which none reads what an earlier one wrote; else by way of temporaries."""
    pending = [w for w in writes if w.value != Cell(w.table, w.place, terms.span(w.value)[1])]
    found: list[tuple[Write | Temporary, Term]] = []
    count = 0
    while pending:
        free = next(
            (w for w in pending if not _is_read(w, [o for o in pending if o is not w])), None
        )
        if free is not None:
            pending.remove(free)
            found.append((free, free.value))
            continue
        write = next(w for w in pending if list(terms.cells(w.value)) or list(terms.cells(w.place)))
        place, value = write.place, write.value
        if list(terms.cells(place)):
            found.append((Temporary(count, terms.span(place)[1]), place))
            place, count = Temporary(count, terms.span(place)[1]), count + 1
        if list(terms.cells(value)):
            found.append((Temporary(count, terms.span(value)[1]), value))
            value, count = Temporary(count, terms.span(value)[1]), count + 1
        pending[pending.index(write)] = Write(write.table, place, value)
    return found


def _is_read(write: Write, others: list[Write]) -> bool:
    """Whether one of the others reads a cell that the write may change."""
    for other in others:
        for cell in (*terms.cells(other.value), *terms.cells(other.place)):
            if cell.table == write.table and terms.equals(cell.place, write.place) != terms.NO:
                return True
    return False
