"""Expressions of the embedded language: immutable trees that every engine interprets.

Python's operators build trees. An expression is never true or false by itself: `and`, `or`, `not`,
`in`, `if` and chained comparisons call `bool()`, and that raises, since those would silently drop a
part of the formula. Equality builds a formula, so trees are compared with `same`, and hash by identity.

Subtraction is integer subtraction: `2 - 3` is -1. Division is by a positive number and rounds down:
`-1 // 2` is -1. That a natural variable is never assigned a negative number is an obligation of every
engine, not a property of the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, cast

import attrs

from kvspec.spec.language.errors import DefinitionError

Value = bool | int | str | None


@attrs.frozen
class Type:
    """The type of an expression, as the engines see it.

    kind: "bool", "natural" (integers; variables hold naturals), "enum", "open" (a sort with any
    number of indistinguishable members) or "option" (a member of `of`, or none).
    """

    kind: str
    name: str
    members: tuple[str, ...] = ()
    of: Type | None = None

    def __str__(self) -> str:
        return self.name


BOOL = Type("bool", "Bool")
INTEGER = Type("natural", "Nat")


def compatible(left: Type, right: Type) -> bool:
    """Whether values of the two types can be compared or assigned: naturals mix, all else is nominal."""
    return left == right or (left.kind == right.kind == "natural")


@attrs.frozen(eq=False, repr=False)
class Expr:
    """A node of an expression; `type` is the type of its value."""

    type: Type

    def __repr__(self) -> str:
        from kvspec.spec.language.show import show_expr

        return show_expr(self)

    def __bool__(self) -> NoReturn:
        raise DefinitionError(
            f"the expression `{self!r}` was used as a Python truth value (by and, or, not, in, if, "
            "a chained comparison or bool()): use & | ~, one_of(), where(), implies() and "
            "separate comparisons joined by &"
        )

    def __iter__(self) -> NoReturn:
        raise DefinitionError(f"`{self!r}` cannot be iterated: use forall() or exists()")

    def __contains__(self, item: object) -> NoReturn:
        raise DefinitionError(f"`in` does not build a formula on `{self!r}`: use one_of()")

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return equal(self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return ~equal(self, other)

    def __lt__(self, other: Expr | int) -> Expr:
        return _compare("lt", self, other)

    def __le__(self, other: Expr | int) -> Expr:
        return _compare("le", self, other)

    def __gt__(self, other: Expr | int) -> Expr:
        return _compare("lt", other, self)

    def __ge__(self, other: Expr | int) -> Expr:
        return _compare("le", other, self)

    def __add__(self, other: Expr | int) -> Expr:
        return _arithmetic("add", self, other)

    def __radd__(self, other: int) -> Expr:
        return _arithmetic("add", other, self)

    def __sub__(self, other: Expr | int) -> Expr:
        return _arithmetic("sub", self, other)

    def __rsub__(self, other: int) -> Expr:
        return _arithmetic("sub", other, self)

    def __mul__(self, other: Expr | int) -> Expr:
        return _arithmetic("mul", self, other)

    def __rmul__(self, other: int) -> Expr:
        return _arithmetic("mul", other, self)

    def __floordiv__(self, other: int) -> Expr:
        divisor: object = other
        if type(divisor) is not int or other < 1:
            raise DefinitionError(
                f"`{self!r}` is divided by {other!r}: a divisor is a number, 1 or more, so that a "
                "quotient has a meaning in every state"
            )
        return _arithmetic("div", self, other)

    def __and__(self, other: Expr) -> Expr:
        return _connective("and", self, other)

    def __or__(self, other: Expr) -> Expr:
        return _connective("or", self, other)

    def __rand__(self, other: bool) -> Expr:
        return _connective("and", other, self)

    def __ror__(self, other: bool) -> Expr:
        return _connective("or", other, self)

    def __invert__(self) -> Expr:
        return Op(BOOL, "not", (boolean(self, "~"),))


@attrs.frozen(eq=False, repr=False)
class Const(Expr):
    """A literal: a bool, an int, the name of an enumeration member, or None (an option's none).

    For an open type the value is the index of a member. Only mutation operators make such a
    constant, since a specification that names a member is not symmetric in it.
    """

    value: Value


@attrs.frozen(eq=False, repr=False)
class Symbol(Expr):
    """A name with one value in a step: role "parameter", "bound", "constant" or "top".

    A constant is a rigid number of the system that an instance fixes; `top` is the largest value
    that an instance allows in a sort of naturals, for use in limits alone.
    """

    name: str
    role: str


@attrs.frozen(eq=False, repr=False)
class MapSymbol:
    """A function-valued parameter: a map from one open sort to another type. Apply it with [ ]."""

    name: str
    domain: Type
    codomain: Type

    def __getitem__(self, argument: Expr) -> Expr:
        _expect(argument, self.domain, f"the argument of {self.name}")
        return Apply(self.codomain, self, argument)

    def __bool__(self) -> NoReturn:
        raise DefinitionError(
            f"the map {self.name} was used as a Python truth value: apply it, {self.name}[...]"
        )

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MapSymbol):
            return self is other
        raise DefinitionError(
            f"the map {self.name} was compared with {other!r}: compare its values, {self.name}[...]"
        )

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return self.name


@attrs.frozen(eq=False, repr=False)
class Apply(Expr):
    """The value of a function-valued parameter at an argument."""

    function: MapSymbol
    argument: Expr


@attrs.frozen(eq=False, repr=False)
class Bijective(Expr):
    """Whether a function-valued parameter is one-to-one and onto."""

    function: MapSymbol


@attrs.frozen(eq=False, repr=False)
class Read(Expr):
    """The value of a state variable at an index, before the step or (`primed`) after it."""

    variable: Any
    index: tuple[Expr, ...]
    primed: bool = False


@attrs.frozen(eq=False, repr=False)
class Op(Expr):
    """An operator: not and or implies eq lt le add sub ite some the."""

    op: str
    args: tuple[Expr, ...]


@attrs.frozen(eq=False, repr=False)
class Quantifier(Expr):
    """`forall` or `exists` over the members of the (open or enumerated) types of `bound`."""

    kind: str
    bound: tuple[Symbol, ...]
    body: Expr


@attrs.frozen(eq=False, repr=False)
class Fired(Expr):
    """In a step property: the step is one of this action; accepted, or refused with that code."""

    action: str
    refusal: str | None = None


@attrs.frozen(eq=False, repr=False)
class Variant(Expr):
    """`altered` in mutant `number`, `plain` in the specification and in every other mutant."""

    number: int
    plain: Expr
    altered: Expr


TRUE = Const(BOOL, True)
FALSE = Const(BOOL, False)


def lift(value: object) -> Expr:
    """A Python bool or int as a constant; an expression as it is."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, int):
        return Const(INTEGER, value)
    raise DefinitionError(
        f"found {value!r} of Python type {type(value).__name__} where an expression, bool or int "
        "is expected"
    )


def boolean(value: object, where: str) -> Expr:
    """`value` as a formula, or an error that names the place `where` it stands."""
    expr = lift(value)
    if expr.type != BOOL:
        raise DefinitionError(f"{where} takes Bool, found `{expr!r}` of type {expr.type}")
    return expr


def _expect(expr: Expr, expected: Type, where: str) -> None:
    if not isinstance(expr, Expr):
        raise DefinitionError(f"{where} must be an expression of {expected}, found {expr!r}")
    if not compatible(expr.type, expected):
        raise DefinitionError(f"{where} must be of {expected}, found `{expr!r}` of {expr.type}")


def coerce(value: object, expected: Type, where: str) -> Expr:
    """`value` as an expression of type `expected`; a member becomes `some(member)` of its option."""
    if value is None and expected.kind == "option":
        return Const(expected, None)
    expr = lift(value)
    if expected.kind == "option" and expr.type == expected.of:
        return Op(expected, "some", (expr,))
    _expect(expr, expected, where)
    return expr


def equal(left: object, right: object) -> Expr:
    """The formula `left = right`; a member compared with an option is lifted to `some(member)`."""
    one, two = lift(left) if left is not None else left, lift(right) if right is not None else right
    kinds = [side.type for side in (one, two) if isinstance(side, Expr)]
    wanted = next((kind for kind in kinds if kind.kind == "option"), kinds[0])
    where = f"both sides of == (here of {' and '.join(map(str, kinds))})"
    return Op(BOOL, "eq", (coerce(one, wanted, where), coerce(two, wanted, where)))


def _compare(op: str, left: Expr | int, right: Expr | int) -> Expr:
    args = (lift(left), lift(right))
    for arg in args:
        _expect(arg, INTEGER, "each side of an order comparison")
    return Op(BOOL, op, args)


def _arithmetic(op: str, left: Expr | int, right: Expr | int) -> Expr:
    args = (lift(left), lift(right))
    for arg in args:
        _expect(arg, INTEGER, "each operand of + - * and //")
    return Op(INTEGER, op, args)


def _connective(op: str, left: Expr | bool, right: Expr | bool) -> Expr:
    args: list[Expr] = []
    for side in (boolean(left, f"each side of {op}"), boolean(right, f"each side of {op}")):
        args.extend(side.args if isinstance(side, Op) and side.op == op else (side,))
    return Op(BOOL, op, tuple(args))


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct subexpressions."""
    match expr:
        case Op(args=args):
            return args
        case Read(index=index):
            return index
        case Apply(argument=argument):
            return (argument,)
        case Quantifier(body=body):
            return (body,)
        case Variant(plain=plain, altered=altered):
            return (plain, altered)
    return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all its subexpressions, parents first."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def rewrite(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The expression rebuilt from the leaves up, `change` applied to every node."""
    match expr:
        case Op(type=kind, op=op, args=args):
            expr = Op(kind, op, tuple(rewrite(arg, change) for arg in args))
        case Read(type=kind, variable=variable, index=index, primed=primed):
            expr = Read(kind, variable, tuple(rewrite(arg, change) for arg in index), primed)
        case Apply(type=kind, function=function, argument=argument):
            expr = Apply(kind, function, rewrite(argument, change))
        case Quantifier(type=kind, kind=which, bound=bound, body=body):
            expr = Quantifier(kind, which, bound, rewrite(body, change))
        case Variant(type=kind, number=number, plain=plain, altered=altered):
            expr = Variant(kind, number, rewrite(plain, change), rewrite(altered, change))
    return change(expr)


def free_symbols(expr: Expr, inner: tuple[Symbol, ...] = ()) -> Iterator[Symbol | MapSymbol]:
    """The parameters and bound members, by identity, that no quantifier of the expression binds."""
    if isinstance(expr, Symbol) and expr.role in ("parameter", "bound"):
        if not any(expr is symbol for symbol in inner):
            yield expr
    elif isinstance(expr, Apply | Bijective):
        yield expr.function
    if isinstance(expr, Quantifier):
        inner += expr.bound
    for child in children(expr):
        yield from free_symbols(child, inner)


def quantifier(kind: str, bound: tuple[Symbol, ...], body: Expr) -> Quantifier:
    """`for all` or `for some`; a bound name that means something else within the body gets another.

    Engines may look members up by name, so `forall(H, lambda c: is_alone(c))` must not bind twice
    what `is_alone` calls c as well.
    """
    taken = {found.name for found in free_symbols(body, bound)}
    taken |= {
        node.name
        for node in walk(body)
        if isinstance(node, Symbol) and node.role in ("constant", "top")
    }
    renamed: dict[Expr, Expr] = {}
    fresh: list[Symbol] = []
    for symbol in bound:
        name, number = symbol.name, 0
        while name in taken:
            number += 1
            name = f"{symbol.name}_{number}"
        taken.add(name)
        fresh.append(symbol if name == symbol.name else Symbol(symbol.type, name, symbol.role))
        if fresh[-1] is not symbol:
            renamed[symbol] = fresh[-1]
    if renamed:
        body = rewrite(body, lambda node: renamed.get(node, node))
    return Quantifier(BOOL, kind, tuple(fresh), body)


def substitute(expr: Expr, values: dict[Expr, Expr]) -> Expr:
    """The expression with free symbols (by identity) replaced; no quantifier catches what comes in."""

    def change(node: Expr) -> Expr:
        if isinstance(node, Quantifier):
            return quantifier(node.kind, node.bound, node.body)
        return values.get(node, node)

    return rewrite(expr, change)


def select_variant(expr: Expr, number: int) -> Expr:
    """The expression of mutant `number` (0 for the specification itself), free of variants."""

    def pick(node: Expr) -> Expr:
        if isinstance(node, Variant):
            return node.altered if node.number == number else node.plain
        return node

    return rewrite(expr, pick)


def same(left: Expr, right: Expr) -> bool:
    """Structural equality of two expressions, bound names included."""
    return key(left) == key(right)


def key(expr: Expr) -> tuple[Any, ...]:
    """A hashable value, equal for structurally equal expressions."""
    parts = tuple(key(child) for child in children(expr))
    match expr:
        case Const(value=value):
            return ("const", expr.type, type(value).__name__, value)
        case Symbol(name=name, role=role):
            return (role, expr.type, name)
        case Apply(function=function):
            return ("apply", function.name, *parts)
        case Bijective(function=function):
            return ("bijective", function.name)
        case Read(variable=variable, primed=primed):
            return ("read", variable.name, primed, *parts)
        case Op(op=op):
            return (op, *parts)
        case Quantifier(kind=kind, bound=bound):
            return (kind, tuple((b.name, b.type) for b in bound), *parts)
        case Fired(action=action, refusal=refusal):
            return ("fired", action, refusal)
        case Variant(number=number):
            return ("variant", number, *parts)
    return cast(tuple[Any, ...], ("unknown", id(expr)))
