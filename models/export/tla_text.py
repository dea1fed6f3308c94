"""Expressions of the language as TLA+ text, short ones on one line, long ones as bulleted lists."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from kvspec.models.export.names import Names
from kvspec.models.export.tla_words import Vocabulary, quoted
from kvspec.spec.language import (
    Apply,
    Bijective,
    Const,
    Expr,
    Fired,
    MapSymbol,
    Op,
    Quantifier,
    Read,
    Symbol,
    Variant,
)

WIDTH = 96
_LEVEL = {"implies": 1, "or": 3, "and": 3, "not": 4, "eq": 5, "ne": 5, "lt": 5, "le": 5, "add": 10}
_LEVEL |= {"sub": 11, "mul": 13, "div": 13}
_SIGN = {"or": r"\/", "and": "/\\", "eq": "=", "ne": "/=", "lt": "<", "le": "<=", "add": "+"}
_SIGN |= {"sub": "-", "implies": "=>", "mul": "*", "div": r"\div"}


@attrs.frozen
class Scope:
    """Parameters and bound members in sight, by name; TLA+ lets none hide another."""

    words: Vocabulary
    local: dict[str, str]
    taken: frozenset[str]

    def bind(self, names: Iterable[str]) -> tuple[Scope, list[str]]:
        """This scope with more names, and the text of each of those."""
        local, new = dict(self.local), []
        room = Names(set(self.taken))
        for name in names:
            local[name] = room.fresh(name)
            new.append(local[name])
        return Scope(self.words, local, frozenset(room.taken)), new

    @staticmethod
    def of(words: Vocabulary) -> Scope:
        """The scope of a definition, before it names parameters."""
        return Scope(words, {}, words.taken)

    def parameters(self, given: Iterable[Symbol | MapSymbol]) -> tuple[Scope, str, list[str]]:
        """This scope with parameters bound; the text that binds them; and their names."""
        given = tuple(given)
        inner, names = self.bind(p.name for p in given)
        pairs = zip(names, given, strict=True)
        header = ", ".join(rf"{name} \in {self.words.domain(p)}" for name, p in pairs)
        return inner, header, names

    def flat(self, expr: Expr, outer: int = 0) -> str:
        """The expression on one line, in brackets where its surroundings bind tighter."""
        match expr:
            case Const():
                return self._constant(expr)
            case Symbol(name=name, role=role):
                if role == "constant":
                    return self.words.constants[name]
                return self.words.tops[expr.type.name] if role == "top" else self.local[name]
            case Apply(function=function, argument=argument):
                return f"{self.local[function.name]}[{self.flat(argument)}]"
            case Bijective(function=function):
                return (
                    f"Bijective({self.local[function.name]}, {self.words.range(function.domain)})"
                )
            case Read(variable=variable, index=index, primed=primed):
                name = self.words.variables[variable.name] + ("'" if primed else "")
                return f"{name}[{', '.join(self.flat(i) for i in index)}]" if index else name
            case Quantifier():
                header, inner = self._header(expr)
                return _bracket(f"{header} {inner.flat(expr.body)}", 0, outer)
            case Fired(action=action, refusal=refusal):
                return self._fired(action, refusal, outer)
            case Variant():
                return self.flat(self._chosen(expr), outer)
            case Op():
                return self._operator(expr, outer)
        raise TypeError(f"{type(expr).__name__} has no text in TLA+: add it to {__name__}")

    def lines(self, expr: Expr, width: int = WIDTH) -> list[str]:
        """The expression on as many lines as it needs, the first at the margin."""
        text = self.flat(expr)
        if len(text) <= width:
            return [text]
        match expr:
            case Variant():
                return self.lines(self._chosen(expr), width)
            case Quantifier():
                header, inner = self._header(expr)
                return [header, *indent(inner.lines(expr.body, width - 2), "  ")]
            case Op(op="and" | "or" as op, args=args):
                return bulleted(_SIGN[op], [self.lines(arg, width - 3) for arg in args])
            case Op(op="implies", args=(left, right)):
                is_apart = isinstance(right, Quantifier) or not self._takes_in(right)
                first = self._closed(left, width - 3)
                second = (
                    self.lines(right, width - 3) if is_apart else self._closed(right, width - 3)
                )
                return [*indent(first, "   "), *hang("=> ", second)]
            case Op(op="ite", args=(condition, then, otherwise)):
                heads = zip(("IF ", "THEN ", "ELSE "), (condition, then, otherwise), strict=True)
                return [line for head, e in heads for line in hang(head, self.lines(e, width - 5))]
            case Op(op="not", args=(inner_expr,)):
                inside = hang("~(", self.lines(inner_expr, width - 3))
                return [*inside[:-1], f"{inside[-1]})"]
        return [text]

    def _takes_in(self, expr: Expr) -> bool:
        """Whether without brackets the expression would take in an implication that follows."""
        return self.flat(expr, 2) != self.flat(expr)

    def _closed(self, expr: Expr, width: int) -> list[str]:
        """As `lines`, in brackets if the expression needs them beside an implication."""
        found = self.lines(expr, width)
        if self._takes_in(expr):
            found = hang("(", found)
            found[-1] += ")"
        return found

    def _header(self, expr: Quantifier) -> tuple[str, Scope]:
        inner, header, _ = self.parameters(expr.bound)
        sign = "\\A" if expr.kind == "forall" else "\\E"
        return f"{sign} {header} :", inner

    def _chosen(self, expr: Variant) -> Expr:
        return expr.altered if expr.number == self.words.variant else expr.plain

    def _constant(self, expr: Const) -> str:
        kind, value = expr.type, expr.value
        match kind.kind:
            case "bool":
                return "TRUE" if value else "FALSE"
            case "enum":
                return quoted(str(value))
            case "option" if value is None and kind.of is not None:
                return self.words.nones[kind.of.name]
            case "open" | "option":
                sort = kind.name if kind.of is None else kind.of.name
                return self.words.members[sort, int(value or 0)]
        return str(value) if int(value or 0) >= 0 else f"({value})"

    def _fired(self, action: str, refusal: str | None, outer: int) -> str:
        if (action, refusal) not in self.words.steps:
            return "FALSE"
        name, parameters = self.words.steps[action, refusal]
        if not parameters:
            return name
        _, header, names = self.parameters(parameters)
        return _bracket(rf"\E {header} : {name}({', '.join(names)})", 0, outer)

    def _operator(self, expr: Op, outer: int) -> str:
        args = expr.args
        match expr.op:
            case "some":
                return self.flat(args[0], outer)
            case "the":
                return f"The{expr.type.name}({self.flat(args[0])})"
            case "ite":
                one, two, three = (self.flat(arg) for arg in args)
                return _bracket(f"IF {one} THEN {two} ELSE {three}", 0, outer)
            case "not":
                inner = args[0]
                if isinstance(inner, Op) and inner.op == "eq":
                    return self._infix("ne", inner.args, outer)
                return _bracket(f"~{self.flat(inner, 12)}", 4, outer)
        return self._infix(expr.op, args, outer)

    def _infix(self, op: str, args: tuple[Expr, ...], outer: int) -> str:
        level = _LEVEL[op]
        first = level if op in ("add", "sub") else level + 1
        parts = [self.flat(arg, level + 1 if place else first) for place, arg in enumerate(args)]
        return _bracket(f" {_SIGN[op]} ".join(parts), level, outer)


def bulleted(sign: str, items: Iterable[list[str]]) -> list[str]:
    """A list whose items all stand behind the sign."""
    return [line for item in items for line in hang(f"{sign} ", item)]


def comment(text: str) -> list[str]:
    """Text of any kind as lines of comment."""
    return [f"\\* {line}".rstrip() for line in text.splitlines()]


def _bracket(text: str, level: int, outer: int) -> str:
    return f"({text})" if level < outer else text


def hang(head: str, lines: list[str]) -> list[str]:
    """The lines behind a head, all at one margin."""
    return [head + lines[0], *indent(lines[1:], " " * len(head))]


def indent(lines: Iterable[str], by: str = "  ") -> list[str]:
    """The lines, moved to the right."""
    return [by + line for line in lines]
