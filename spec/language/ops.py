"""Builders of formulas that have no Python operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from kvspec.spec.language.errors import DefinitionError
from kvspec.spec.language.expr import (
    BOOL,
    FALSE,
    TRUE,
    Apply,
    Bijective,
    Expr,
    Fired,
    MapSymbol,
    Op,
    Quantifier,
    Read,
    Symbol,
    boolean,
    children,
    coerce,
    equal,
    lift,
    rewrite,
)
from kvspec.spec.language.sorts import type_of


def _quantify(kind: str, sorts: tuple[Any, ...], body: Callable[..., Expr]) -> Expr:
    names = list(inspect.signature(body).parameters)
    if len(names) != len(sorts) or not sorts:
        raise DefinitionError(
            f"{kind}() was given {len(sorts)} sorts and a body of {len(names)} arguments: "
            "give as many arguments as sorts, and the body last"
        )
    types = [type_of(sort) for sort in sorts]
    for found in types:
        if found.kind not in ("open", "enum"):
            raise DefinitionError(
                f"{kind}() ranges over open sorts and enumerations, found {found}"
            )
    while True:
        bound = tuple(Symbol(t, n, "bound") for t, n in zip(types, names, strict=True))
        formula = boolean(body(*bound), f"the body of {kind}()")
        captured = _free_names(formula, bound) & set(names)
        if not captured:
            return Quantifier(BOOL, kind, bound, formula)
        names = [f"{name}_" if name in captured else name for name in names]


def _free_names(expr: Expr, bound: tuple[Symbol, ...]) -> set[str]:
    """Names of what an expression refers to from outside, given the symbols that are bound in it.

    A helper that quantifies over `t` may be given an outer symbol that is called `t` as well: engines
    that look names up would take one for the other, so the inner one is given another name.
    """
    match expr:
        case Symbol(name=name):
            return set() if any(expr is symbol for symbol in bound) else {name}
        case Quantifier(bound=inner, body=body):
            return _free_names(body, (*bound, *inner))
        case Bijective(function=function):
            return {function.name}
    names = {expr.function.name} if isinstance(expr, Apply) else set()
    return names.union(*(_free_names(child, bound) for child in children(expr)))


def forall(*sorts_then_body: Any) -> Expr:
    """`forall(Handle, Layer, lambda h, l: ...)`: the body holds for all members."""
    *sorts, body = sorts_then_body
    return _quantify("forall", tuple(sorts), body)


def exists(*sorts_then_body: Any) -> Expr:
    """`exists(Handle, lambda h: ...)`: the body holds for some members."""
    *sorts, body = sorts_then_body
    return _quantify("exists", tuple(sorts), body)


def implies(antecedent: Expr, consequent: Expr) -> Expr:
    """If the first holds, so does the second."""
    return Op(BOOL, "implies", (boolean(antecedent, "implies"), boolean(consequent, "implies")))


def where(condition: Expr, then: object, otherwise: object) -> Expr:
    """`then` if the condition holds, else `otherwise`, which gives the type unless it is a literal."""
    second = lift(otherwise) if otherwise is not None else None
    first = lift(then) if then is not None else None
    typed = [side.type for side in (second, first) if side is not None]
    if not typed:
        raise DefinitionError("where() got none on both sides: give one side with a type")
    kind = next((t for t in typed if t.kind == "option"), typed[0])
    one, two = coerce(first, kind, "where()"), coerce(second, kind, "where()")
    return Op(kind, "ite", (boolean(condition, "the condition of where()"), one, two))


def one_of(value: Expr, *options: object) -> Expr:
    """The value equals one of the options."""
    return any_of(*(equal(value, option) for option in options))


def all_of(*formulas: Expr) -> Expr:
    """The conjunction; true of nothing."""
    result = TRUE if not formulas else formulas[0]
    for formula in formulas[1:]:
        result = result & formula
    return result


def any_of(*formulas: Expr) -> Expr:
    """The disjunction; false of nothing."""
    result = FALSE if not formulas else formulas[0]
    for formula in formulas[1:]:
        result = result | formula
    return result


def is_some(option: Expr) -> Expr:
    """The option holds a member."""
    if option.type.kind != "option":
        raise DefinitionError(f"is_some() takes an option, found `{option!r}` of {option.type}")
    return ~equal(option, None)


def the(option: Expr) -> Expr:
    """The member that an option holds; of none it is some fixed member, the same in all steps."""
    if option.type.kind != "option" or option.type.of is None:
        raise DefinitionError(f"the() takes an option, found `{option!r}` of {option.type}")
    return Op(option.type.of, "the", (option,))


def bijective(function: Any) -> Expr:
    """A function-valued parameter is one-to-one and onto."""
    if not isinstance(function, MapSymbol) or function.domain != function.codomain:
        raise DefinitionError(f"bijective() takes a Map from a sort to itself, found {function!r}")
    return Bijective(BOOL, function)


def after(expr: Expr) -> Expr:
    """The expression in the state after the step; for step properties alone."""

    def prime(node: Expr) -> Expr:
        if isinstance(node, Read):
            if node.primed:
                raise DefinitionError(f"after() within after(): `{node!r}` is already primed")
            return Read(node.type, node.variable, node.index, primed=True)
        return node

    return rewrite(expr, prime)


def fired(action: Any, refused: Any = None) -> Expr:
    """The step is one of this action; `refused=CODE`: it is that refusal with an effect."""
    name = action if isinstance(action, str) else action.name
    code = refused if refused is None or isinstance(refused, str) else refused.name
    return Fired(BOOL, name, code)
