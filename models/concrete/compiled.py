"""Steps as Python functions over one flat list of values: the plain interpretation, made fast.

Each action of an instance becomes a function of a list of cells and of its parameters, which changes the
list in place and gives None, the code of a refusal, or `CUT`. The source is written from the same trees
that `evaluate` walks; quantifiers and `every` loops are written out, so this is for instances with few
members and any bounds. Cells stand in the order of a state's tables: `flatten` and `restore` go between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import product
from typing import Any, Final

from kvspec.models.concrete.evaluate import Bound
from kvspec.models.concrete.machine import Event, Machine, Outcome
from kvspec.models.concrete.state import State, Value, indices, values_of
from kvspec.spec.language import (
    Action,
    Apply,
    Assignment,
    Bijective,
    Const,
    Expr,
    Instance,
    MapSymbol,
    Op,
    Quantifier,
    Read,
    Symbol,
    Variable,
    Variant,
)

Cells = list[Any]
StepFunction = Callable[..., str | None]

CUT: Final = "(cut)"
"""What a step gives that would leave the bounds; no code of a guard has parentheses."""

_INFIX: Final = {
    "eq": "==", "lt": "<", "le": "<=", "add": "+", "sub": "-", "mul": "*", "div": "//"
}  # fmt: skip


class Layout:
    """Where the value of each variable at each index stands among the cells."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.base: dict[str, int] = {}
        self.size = 0
        for variable in instance.system.variables.values():
            self.base[variable.name] = self.size
            self.size += self.count(variable)

    def count(self, variable: Variable) -> int:
        """How many indices a variable has."""
        count = 1
        for kind in variable.domain:
            count *= self.instance.members(kind)
        return count

    def place(self, variable: Variable, *index: int) -> int:
        """The cell of a variable at an index of members, each by its number."""
        offset = 0
        for kind, member in zip(variable.domain, index, strict=True):
            offset = offset * self.instance.members(kind) + member
        return self.base[variable.name] + offset


class _Source:
    """Python source of expressions, with symbols as names or as values known beforehand."""

    def __init__(self, layout: Layout, names: dict[str, str]) -> None:
        self.layout = layout
        self.instance = layout.instance
        self.names = names

    def bind(self, symbols: tuple[Symbol, ...], values: tuple[Value, ...]) -> _Source:
        """The same with these symbols known."""
        known = {s.name: repr(v) for s, v in zip(symbols, values, strict=True)}
        return _Source(self.layout, {**self.names, **known})

    def cases(self, symbols: tuple[Symbol, ...]) -> Iterator[_Source]:
        """The same once for every choice of members for the symbols."""
        ranges = (values_of(symbol.type, self.instance) for symbol in symbols)
        return (self.bind(symbols, values) for values in product(*ranges))

    def text(self, expr: Expr) -> str:
        """The expression as Python source, in parentheses where it needs them."""
        match expr:
            case Const(value=value):
                return repr(value)
            case Symbol():
                return self._symbol(expr)
            case Read(primed=False):
                return f"s[{self.cell(expr.variable, expr.index)}]"
            case Op():
                return self._operator(expr)
            case Quantifier(kind=kind, bound=bound, body=body):
                parts = [case.text(body) for case in self.cases(bound)]
                return _join("and" if kind == "forall" else "or", parts)
            case Apply(function=function, argument=argument):
                return f"{self.names[function.name]}[{self.text(argument)}]"
            case Bijective(function=function):
                name = self.names[function.name]
                return f"(len(set({name})) == len({name}))"
            case Variant(plain=plain):
                return self.text(plain)
        raise TypeError(f"{expr!r} speaks of a step, and a step's own guards and values cannot")

    def cell(self, variable: Variable, index: tuple[Expr, ...]) -> str:
        """The number of a cell, as a number where the whole index is known."""
        base, terms, stride = self.layout.base[variable.name], [], 1
        for kind, part in reversed(list(zip(variable.domain, index, strict=True))):
            text = self.text(part)
            if kind.kind == "enum":
                known = {repr(member): str(n) for n, member in enumerate(kind.members)}
                text = known.get(text, f"{kind.members!r}.index({text})")
            if text.isdigit():
                base += stride * int(text)
            else:
                terms.append(text if stride == 1 else f"{stride} * {text}")
            stride *= self.instance.members(kind)
        return " + ".join([str(base), *terms] if base or not terms else terms)

    def _symbol(self, symbol: Symbol) -> str:
        if symbol.role == "constant":
            return repr(self.instance.constants[symbol.name])
        if symbol.role == "top":
            return repr(self.instance.bounds[symbol.type.name])
        return self.names[symbol.name]

    def _operator(self, expr: Op) -> str:
        args = [self.text(arg) for arg in expr.args]
        match expr.op:
            case "not":
                return f"(not {args[0]})"
            case "and" | "or":
                return _join(expr.op, args)
            case "implies":
                return f"(not {args[0]} or {args[1]})"
            case "ite":
                return f"({args[1]} if {args[0]} else {args[2]})"
            case "some":
                return args[0]
            case "the":
                return f"({args[0]} or 0)"
        return f"({args[0]} {_INFIX[expr.op]} {args[1]})"

    def assignments(self, done: tuple[Assignment, ...], depth: str) -> list[str]:
        """Lines that take all values before they put any: assignments are simultaneous."""
        take: list[str] = []
        check: list[str] = []
        put: list[str] = []
        for each in done:
            for case in self.cases(each.binders):
                name, cell = f"t{len(put)}", case.cell(each.variable, each.index)
                if "s[" in cell:  # an index that a cell tells is that of before, too
                    take.append(f"{depth}i{len(put)} = {cell}")
                    cell = f"i{len(put)}"
                take.append(f"{depth}{name} = {case.text(each.value)}")
                put.append(f"{depth}s[{cell}] = {name}")
                if each.variable.type.kind == "natural" and not self._stays(each.value, each):
                    bound = self.instance.bounds[each.variable.type.name]
                    check.append(f"{depth}if not 0 <= {name} <= {bound}:")
                    check.append(f"{depth}    return {CUT!r}")
        return [*take, *check, *put]

    def _stays(self, value: Expr, done: Assignment) -> bool:
        """Whether a value is within the variable's bound whatever the state: it is not looked at."""
        match value:
            case Const(value=known):
                bound = self.instance.bounds[done.variable.type.name]
                return isinstance(known, int) and 0 <= known <= bound
            case Read(variable=variable):
                return bool(variable.type == done.variable.type)
            case Op(op="ite", args=(_, one, two)):
                return self._stays(one, done) and self._stays(two, done)
            case Variant(plain=plain):
                return self._stays(plain, done)
        return False


def _join(word: str, parts: list[str]) -> str:
    if not parts:
        return repr(word == "and")
    return parts[0] if len(parts) == 1 else f"({f' {word} '.join(parts)})"


class Compiled:
    """An instance with each action as a function, and formulas over handles as functions."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.layout = Layout(instance)
        self.steps: dict[str, StepFunction] = {
            name: self._compile(name, self.source(action))
            for name, action in instance.system.actions.items()
        }

    def step_for(self, action: str, **known: Bound) -> StepFunction:
        """The function of an action with values for some parameters, of those that are left."""
        found = self.instance.system.action(action)
        wrong = set(known) - {parameter.name for parameter in found.parameters}
        if wrong:
            raise KeyError(f"{action} has no parameter {', '.join(sorted(wrong))}: {found!r}")
        return self._compile(action, self.source(found, known))

    def source(self, action: Action, known: dict[str, Bound] | None = None) -> str:
        """The function of an action as Python source; known: values of parameters that it lacks."""
        fixed = {name: repr(value) for name, value in (known or {}).items()}
        names = {p.name: fixed.get(p.name, f"p_{p.name}") for p in action.parameters}
        source = _Source(self.layout, names)
        left = [text for name, text in names.items() if name not in fixed]
        lines = [f"def {action.name}({', '.join(['s', *left])}):"]
        for guard in action.guards:
            lines.append(f"    if not {source.text(guard.condition)}:")
            lines.extend(source.assignments(guard.refusal, "        "))
            lines.append(f"        return {guard.code.name!r}")
        lines.extend(source.assignments(action.assignments, "    "))
        return "\n".join([*lines, "    return None", ""])

    def value(self, expr: Expr, *parameters: Symbol | MapSymbol) -> Callable[..., Any]:
        """A formula as a function of the cells and of the members that it speaks of."""
        names = {parameter.name: f"p_{parameter.name}" for parameter in parameters}
        text = _Source(self.layout, names).text(expr)
        head = ", ".join(["s", *names.values()])
        return self._compile("value", f"def value({head}):\n    return {text}\n")

    def _compile(self, name: str, source: str) -> Callable[..., Any]:
        space: dict[str, Any] = {}
        code = compile(source, f"<{self.instance.system.name}.{name}>", "exec")
        exec(code, space)  # noqa: S102  # the source is made above, from a specification of ours
        found: Callable[..., Any] = space[name]
        return found

    @cached_property
    def machine(self) -> Machine:
        """The interpreted machine of the same instance."""
        return Machine(self.instance)

    def flatten(self, state: State) -> Cells:
        """The cells of a state."""
        return [value for table in state.tables for value in table]

    def restore(self, cells: Cells) -> State:
        """The state of cells."""
        tables, start = [], 0
        for variable in self.instance.system.variables.values():
            size = self.layout.count(variable)
            tables.append(tuple(cells[start : start + size]))
            start += size
        return State(tuple(tables))

    def initial(self) -> Cells:
        """The cells of the initial state; each variable must start with one value."""
        cells: Cells = []
        for variable in self.instance.system.variables.values():
            start = self.instance.initial.get(variable.name, variable.initial)
            if not isinstance(start, Expr):
                raise TypeError(f"{variable} of {self.instance!r} may start anywhere: pin it")
            made = self.value(start, *variable.binders)
            cells.extend(made(cells, *index) for index in indices(variable, self.instance))
        return cells

    def step(self, state: State, event: Event) -> tuple[str, State, str | None]:
        """Kind, state and code as `Machine.step` tells them."""
        cells = self.flatten(state)
        values: list[Bound] = [value for _, value in event.values]
        code = self.steps[event.action](cells, *values)
        if code == CUT:
            return "cut", state, None
        return ("accepted" if code is None else "refused"), self.restore(cells), code

    def disagreement(self, state: State, event: Event) -> str | None:
        """What differs between the compiled and the interpreted step, if anything does."""
        told: Outcome = self.machine.step(state, event)
        expected = (told.kind, told.state, told.code)
        found = self.step(state, event)
        if found == expected:
            return None
        return f"{event}: compiled gives {found}, interpreted {expected}"
