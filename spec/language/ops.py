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
    Bijective,
    Expr,
    Fired,
    MapSymbol,
    Op,
    Read,
    Symbol,
    boolean,
    coerce,
    equal,
    lift,
    quantifier,
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
    bound = tuple(Symbol(t, n, "bound") for t, n in zip(types, names, strict=True))
    return quantifier(kind, bound, boolean(body(*bound), f"the body of {kind}()"))


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
