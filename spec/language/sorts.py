"""Sorts: the Python classes that name the types of a specification.

A sort is a class, so that an action's signature reads `def publish(step: Step, x: Txn)` and is
checked by a type checker as well as by this package. Its members are never instances of the class:
at definition time a parameter is a symbol, in an instance a small integer, in a proof an element of
an uninterpreted sort.

    class Handle(Open):      any number of indistinguishable members
    class Length(Natural):   naturals; an instance gives the largest, a proof leaves them open
    class Phase(Enum):       listed members, `READY = member()`
    Option[Handle]           a member or none
    Map[Row, Row]            a function-valued parameter; Map[Handle, Bool] is a set of handles
"""

from __future__ import annotations

import typing
from typing import Any, Generic, TypeVar

from kvspec.spec.language.errors import DefinitionError
from kvspec.spec.language.expr import BOOL, INTEGER, Const, Expr, Symbol, Type, coerce

S = TypeVar("S")
D = TypeVar("D")
C = TypeVar("C")


class _SortClass(type):
    """Gives a sort class its readable representation and, for naturals, `top`."""

    def __repr__(cls) -> str:
        return cls.__name__

    @property
    def top(cls) -> Expr:
        """The largest value that the instance at hand allows; for limits, never for guards."""
        kind = type_of(cls)
        if kind.kind != "natural":
            raise DefinitionError(f"{cls.__name__} is no sort of naturals and has no top")
        return Symbol(kind, f"{cls.__name__}.top", "top")


class Sort(Expr, metaclass=_SortClass):
    """Base of the classes that name types; never instantiated."""


class Open(Sort):
    """Base of the sorts with any number of members, told apart by equality alone."""


class Natural(Sort):
    """Base of the sorts of naturals: lengths, versions, counts."""


class Bool(Sort):
    """Truth values."""


def member() -> Expr:
    """A member of an enumeration; the class fills in its name."""
    return Const(INTEGER, None)


class Enum(Sort):
    """Base of the enumerations; members are class attributes made by `member()`."""

    def __init_subclass__(cls) -> None:
        names = tuple(name for name, value in vars(cls).items() if isinstance(value, Const))
        if not names:
            raise DefinitionError(
                f"the enumeration {cls.__name__} has no members: write `NAME = member()` for each"
            )
        kind = Type("enum", cls.__name__, names)
        for name in names:
            setattr(cls, name, Const(kind, name))
        cls.enum_type = kind  # type: ignore[attr-defined]


class Option(Sort, Generic[S]):
    """A member of a sort, or none: `Option[Handle]`."""


class Map(Sort, Generic[D, C]):
    """The type of a function-valued parameter: `Map[Row, Row]`, `Map[Handle, Bool]`."""

    def __getitem__(self, argument: Expr) -> Expr:
        """The value at `argument` (a parameter at definition time is a MapSymbol; this types it)."""
        raise NotImplementedError("a Map is used as the type of a parameter and never instantiated")


def type_of(sort: Any) -> Type:
    """The engines' type of a sort class, `Option[...]`, or a Type itself."""
    if isinstance(sort, Type):
        return sort
    if typing.get_origin(sort) is Option:
        (of,) = typing.get_args(sort)
        return _option_of(type_of(of))
    if isinstance(sort, type) and sort not in (Sort, Open, Enum):
        if issubclass(sort, Bool):
            return BOOL
        if issubclass(sort, Natural):
            return INTEGER if sort is Natural else Type("natural", sort.__name__)
        if issubclass(sort, Enum):
            return typing.cast(Type, sort.enum_type)  # type: ignore[attr-defined]
        if issubclass(sort, Open):
            return Type("open", sort.__name__)
    raise DefinitionError(
        f"found {sort!r} where a sort is expected: a class derived from Open, Natural or Enum, "
        "Bool, or Option[...]"
    )


def _option_of(inner: Type) -> Type:
    if inner.kind != "open":
        raise DefinitionError(f"Option takes an open sort, found {inner}")
    return Type("option", f"Option[{inner}]", of=inner)


def map_types(sort: Any) -> tuple[Type, Type] | None:
    """Domain and codomain of a `Map[...]` annotation, or None for any other sort."""
    if typing.get_origin(sort) is not Map:
        return None
    domain, codomain = (type_of(part) for part in typing.get_args(sort))
    if domain.kind != "open" or codomain.kind not in ("open", "bool", "enum"):
        raise DefinitionError(
            f"Map[{domain}, {codomain}]: the domain must be an open sort and the codomain an open "
            "sort, an enumeration or Bool, so that an instance can list all maps"
        )
    return domain, codomain


def none(sort: Any) -> Expr:
    """The none of `Option[sort]`."""
    return coerce(None, _option_of(type_of(sort)), "none()")
