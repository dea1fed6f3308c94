"""Readable text of every object of the language: an action prints as one would write it on a board."""

from __future__ import annotations

import attrs

from kvspec.spec.language.actions import Action, Assignment
from kvspec.spec.language.expr import (
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
from kvspec.spec.language.modules import System

_LOOSE = {"implies": 1, "or": 2, "and": 3, "not": 4, "eq": 5, "lt": 5, "le": 5, "add": 6, "sub": 6}
_LOOSE |= {"mul": 7, "div": 7}
_SIGN = {
    "implies": "=>",
    "or": "or",
    "and": "and",
    "eq": "=",
    "lt": "<",
    "le": "<=",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "//",
}


def show_expr(expr: Expr, outer: int = 0) -> str:
    """The expression as text, with the brackets it needs."""
    match expr:
        case Const(type=kind, value=value):
            return show_value(kind.kind, value)
        case Symbol(name=name):
            return name
        case Apply(function=function, argument=argument):
            return f"{function.name}[{show_expr(argument)}]"
        case Bijective(function=function):
            return f"{function.name} is a bijection"
        case Read(variable=variable, index=index, primed=primed):
            mark = "'" if primed else ""
            where = f"[{', '.join(show_expr(part) for part in index)}]" if index else ""
            return f"{variable.name}{mark}{where}"
        case Quantifier(kind=kind, bound=bound, body=body):
            names = ", ".join(f"{b.name} in {b.type}" for b in bound)
            text = f"for {'all' if kind == 'forall' else 'some'} {names}: {show_expr(body)}"
            return f"({text})" if outer else text
        case Fired(action=action, refusal=refusal):
            return f"{action} refused with {refusal}" if refusal else f"step is {action}"
        case Variant(number=number, plain=plain, altered=altered):
            return f"<{number}: {show_expr(plain)} | {show_expr(altered)}>"
        case Op():
            return _show_op(expr, outer)
    return object.__repr__(expr)


def show_value(kind: str, value: object) -> str:
    """A literal as text."""
    if value is None:
        return "none"
    if kind == "bool":
        return "true" if value else "false"
    return f"#{value}" if kind == "open" else str(value)


def _show_op(expr: Op, outer: int) -> str:
    args = expr.args
    if expr.op == "some":
        return show_expr(args[0], outer)
    if expr.op == "the":
        return (
            show_expr(args[0], outer) if isinstance(args[0], Read) else f"the({show_expr(args[0])})"
        )
    if expr.op == "ite":
        one, two, three = (show_expr(arg) for arg in args)
        return f"({two} if {one} else {three})"
    if expr.op == "not":
        inner = args[0]
        if isinstance(inner, Op) and inner.op == "not":
            return show_expr(inner.args[0], outer)
        if isinstance(inner, Op) and inner.op == "eq":
            return _bracket(
                f"{show_expr(inner.args[0], 6)} != {show_expr(inner.args[1], 6)}", 5, outer
            )
        return _bracket(f"not {show_expr(inner, 5)}", 4, outer)
    level = _LOOSE[expr.op]
    tight = expr.op in ("implies", "eq", "lt", "le")
    parts = [
        show_expr(arg, level + (tight or (place > 0 and _binds(expr.op, arg))))
        for place, arg in enumerate(args)
    ]
    return _bracket(f" {_SIGN[expr.op]} ".join(parts), level, outer)


def _binds(op: str, right: Expr) -> bool:
    """Whether brackets are needed on the right: a - (b + c), and a * (b // c), which is rounded apart."""
    return op in ("sub", "div") or (op == "mul" and isinstance(right, Op) and right.op == "div")


def _bracket(text: str, level: int, outer: int) -> str:
    return f"({text})" if level < outer else text


def show_assignment(done: Assignment) -> str:
    """`variable'[index] = value`, with the members it is made for."""
    where = f"[{', '.join(show_expr(part) for part in done.index)}]" if done.index else ""
    text = f"{done.variable.name}'{where} = {show_expr(done.value)}"
    if done.binders:
        names = ", ".join(f"{b.name} in {b.type}" for b in done.binders)
        return f"for all {names}: {text}"
    return text


def show_parameter(parameter: Symbol | MapSymbol) -> str:
    """A parameter with its sort."""
    if isinstance(parameter, MapSymbol):
        return f"{parameter.name}: {parameter.domain} -> {parameter.codomain}"
    return f"{parameter.name}: {parameter.type}"


def _effects(assignments: tuple[Assignment, ...]) -> list[str]:
    """A line for each assignment; those made for the same members stand together."""
    lines: list[str] = []
    binders: tuple[Symbol, ...] = ()
    for done in assignments:
        if done.binders and [*map(id, done.binders)] != [*map(id, binders)]:
            names = ", ".join(f"{b.name} in {b.type}" for b in done.binders)
            lines.append(f"for all {names}:")
        binders = done.binders
        text = show_assignment(attrs.evolve(done, binders=()))
        lines.append(f"  {text}" if binders else text)
    return lines


def show_action(action: Action) -> str:
    """The action as on a board: its name, its guards with their codes, what it assigns.

    What a refusal assigns stands below its guard, once for guards with the same effect in a row.
    """
    lines = [f"{action.name}({', '.join(show_parameter(p) for p in action.parameters)})"]
    lines.extend(f"  | {line}" for line in action.doc.splitlines())
    width = max((len(show_expr(guard.condition)) for guard in action.guards), default=0)
    width = min(width, 60)
    before: list[str] = []
    for position, guard in enumerate(action.guards):
        effects = _effects(guard.refusal)
        end = (
            ""
            if not effects
            else ", which assigns the same"
            if effects == before
            else ", which assigns"
        )
        text = f"{show_expr(guard.condition):{width}}  else {guard.code.name}{end}"
        lines.append(f"  {'when' if position == 0 else '    '} {text}")
        if effects != before:
            lines.extend(f"           {line}" for line in effects)
        before = effects
    for position, line in enumerate(_effects(action.assignments)):
        lines.append(f"  {'then' if position == 0 else '    '} {line}")
    return "\n".join(lines)


def show_system(system: System) -> str:
    """The whole system: sorts, constants, variables with their meaning, actions."""
    lines = [f"system {system.name}", f"  {system.doc}", ""]
    for kind in system.sorts().values():
        what = {"open": "any number of members", "natural": "naturals"}.get(
            kind.kind, ", ".join(kind.members)
        )
        lines.append(f"sort {kind.name}: {what}")
    lines.extend(f"constant {symbol.name}: {symbol.type}" for symbol in system.constants.values())
    lines.append("")
    lines.extend(
        f"variable {variable.signature} = {variable.initial!r}  # {variable.meaning}"
        for variable in system.variables.values()
    )
    for action in system.actions.values():
        lines.extend(("", show_action(action)))
    return "\n".join(lines)
