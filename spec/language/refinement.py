"""Refinements: how the states and steps of one system are those of a simpler one.

A refinement maps every variable of the abstract system to an expression of the concrete state,
and every transition of the concrete system to a step of the abstract one or to none (a stutter).
Where it holds, whatever is true of all runs of the abstract system is true of the concrete one,
seen through the mapping.

    refinement(
        "publication_is_atomic",
        concrete=core, abstract=atomic,
        mapping={rows: lambda h: length[h]},
        steps={publish: lambda x: call(extend, the(target[x]), count[x]), begin: STUTTER},
    )
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from kvspec.spec.language.actions import Action
from kvspec.spec.language.errors import DefinitionError, listing
from kvspec.spec.language.expr import Expr, MapSymbol, Read, Symbol, coerce, walk
from kvspec.spec.language.modules import System
from kvspec.spec.language.variables import ErrorCode, Variable

Argument = Expr | MapSymbol


@attrs.frozen(eq=False)
class Stutter:
    """The abstract state stays as it is."""


STUTTER = Stutter()


@attrs.frozen(eq=False)
class AbstractCall:
    """A step of the abstract system: accepted, or refused with the code `refused`."""

    action: Action
    arguments: dict[str, Argument]
    refused: str | None = None

    @property
    def name(self) -> str:
        """The action, and the code of its refusal."""
        return self.action.name if self.refused is None else f"{self.action.name}!{self.refused}"


Match = AbstractCall | Stutter


@attrs.frozen(eq=False)
class Image:
    """The value of an abstract variable at the index `binders`, as an expression of concrete state."""

    binders: tuple[Symbol, ...]
    value: Expr


@attrs.frozen(eq=False, repr=False)
class Refinement:
    """A checked refinement; made by `refinement(...)`.

    mapping: by abstract variable. constants: by abstract constant, an expression of concrete
    constants. steps: by concrete transition (`publish`, `publish!STALE_SNAPSHOT`), the abstract
    steps of which it is one.
    """

    name: str
    concrete: System
    abstract: System
    mapping: dict[str, Image]
    constants: dict[str, Expr]
    steps: dict[str, tuple[Match, ...]]
    doc: str

    def __repr__(self) -> str:
        return f"{self.name}: {self.concrete.name} refines {self.abstract.name}"


def call(action: Action, *arguments: Argument | int | bool, refused: Any = None) -> AbstractCall:
    """A step of the abstract system with its arguments, in the order of the action's parameters."""
    if len(arguments) != len(action.parameters):
        raise DefinitionError(
            f"{action.name} takes {len(action.parameters)} arguments "
            f"({listing(p.name for p in action.parameters)}), found {len(arguments)}"
        )
    found: dict[str, Argument] = {}
    for parameter, argument in zip(action.parameters, arguments, strict=True):
        where = f"the argument {parameter.name} of {action.name}"
        if not isinstance(parameter, MapSymbol):
            found[parameter.name] = coerce(argument, parameter.type, where)
        elif isinstance(argument, MapSymbol) and (argument.domain, argument.codomain) == (
            parameter.domain,
            parameter.codomain,
        ):
            found[parameter.name] = argument
        else:
            raise DefinitionError(
                f"{where} must be a map {parameter.domain} -> {parameter.codomain}, found {argument!r}"
            )
    code = refused.name if isinstance(refused, ErrorCode) else refused
    if code is not None:
        action.guard(code)
    return AbstractCall(action, found, code)


def refinement(
    name: str,
    *,
    concrete: System,
    abstract: System,
    mapping: Mapping[Variable, object],
    steps: Mapping[Any, object],
    constants: Mapping[Any, object] | None = None,
    doc: str = "",
) -> Refinement:
    """A checked refinement.

    mapping: for each abstract variable a function of its indices, or an expression if it has
    none. steps: for each concrete action, and for each of its refusals with an effect as (action,
    code): STUTTER, or a function of the action's parameters, by name, that gives STUTTER, a
    `call(...)` or a tuple of them (one of which the step is). constants: for those whose names
    differ.
    """
    for kind in abstract.sorts().values():
        if kind.kind == "open" and kind.name not in concrete.sorts():
            raise DefinitionError(
                f"{name}: {abstract.name} has the open sort {kind}, which {concrete.name} lacks: share it"
            )
    images = {variable.name: _image(name, variable, given) for variable, given in mapping.items()}
    _cover(name, "the mapping", images, abstract.variables)
    given_constants = {getattr(key, "name", key): value for key, value in (constants or {}).items()}
    for constant in given_constants:
        if constant not in abstract.constants:
            raise DefinitionError(
                f"refinement {name}: {constant} is no constant of {abstract.name}; it has "
                f"{listing(abstract.constants)}"
            )
    rigid = {
        constant: coerce(
            given_constants.get(constant, concrete.constants.get(constant)),
            symbol.type,
            f"{name}: the constant {constant} of {abstract.name}",
        )
        for constant, symbol in abstract.constants.items()
    }
    for constant, value in rigid.items():
        if any(
            isinstance(node, Read | Symbol) and not _is_rigid(node, concrete)
            for node in walk(value)
        ):
            raise DefinitionError(
                f"refinement {name}: the constant {constant} is mapped to {value!r}: use constants of "
                f"{concrete.name} alone; it has {listing(concrete.constants)}"
            )
    matches = matched_steps(name, concrete, abstract, steps)
    for image in images.values():
        _reads_only(name, concrete, image.value)
    return Refinement(name, concrete, abstract, images, rigid, matches, doc)


def matched_steps(
    name: str, concrete: System, abstract: System, steps: Mapping[Any, object]
) -> dict[str, tuple[Match, ...]]:
    """For each transition of the concrete system the abstract steps of which it is one, checked."""
    matches = _steps(name, concrete, steps)
    _cover(name, "the steps", matches, _transitions(concrete))
    for found in matches.values():
        _check_calls(name, concrete, abstract, found)
    return matches


def image_of(name: str, concrete: System, variable: Variable, given: Any) -> Image:
    """What an abstract variable is mapped to, as an expression of the concrete state, checked."""
    image = _image(name, variable, given)
    _reads_only(name, concrete, image.value)
    return image


def _is_rigid(node: Expr, concrete: System) -> bool:
    return isinstance(node, Symbol) and concrete.constants.get(node.name) is node


def _image(name: str, variable: Variable, given: Any) -> Image:
    value = given(*variable.binders) if callable(given) and not isinstance(given, Expr) else given
    where = f"{name}: what {variable.name} is mapped to"
    return Image(variable.binders, coerce(value, variable.type, where))


def _transitions(system: System) -> list[str]:
    names = []
    for action in system.actions.values():
        names.append(action.name)
        names.extend(f"{action.name}!{guard.code.name}" for guard in action.guards if guard.refusal)
    return names


def _cover(name: str, what: str, found: Iterable[str], wanted: Iterable[str]) -> None:
    missing, extra = set(wanted) - set(found), set(found) - set(wanted)
    if missing or extra:
        raise DefinitionError(
            f"refinement {name}: {what} must name exactly {listing(wanted)}; missing: "
            f"{listing(missing)}; not known: {listing(extra)}"
        )


def _steps(
    name: str, concrete: System, steps: Mapping[Any, object]
) -> dict[str, tuple[Match, ...]]:
    found: dict[str, tuple[Match, ...]] = {}
    for key, given in steps.items():
        named: Action = key[0] if isinstance(key, tuple) else key
        code: ErrorCode | None = key[1] if isinstance(key, tuple) else None
        action = concrete.own(named)
        if action is None:
            raise DefinitionError(
                f"refinement {name}: {named.name} is no action of {concrete.name}"
            )
        label = action.name if code is None else f"{action.name}!{code.name}"
        result = given
        if callable(given):
            known = {parameter.name: parameter for parameter in action.parameters}
            wanted = list(inspect.signature(given).parameters)
            for parameter in wanted:
                if parameter not in known:
                    raise DefinitionError(
                        f"refinement {name}: {label} has no parameter {parameter}; it has {listing(known)}"
                    )
            result = given(*(known[parameter] for parameter in wanted))
        listed = result if isinstance(result, tuple) else (result,)
        for each in listed:
            if not isinstance(each, AbstractCall | Stutter):
                raise DefinitionError(
                    f"refinement {name}: {label} is mapped to {each!r}: give STUTTER or call(...)"
                )
        found[label] = listed
    return found


def _check_calls(name: str, concrete: System, abstract: System, found: tuple[Match, ...]) -> None:
    for each in found:
        if isinstance(each, Stutter):
            continue
        if abstract.actions.get(each.action.name) is not each.action:
            raise DefinitionError(
                f"refinement {name}: {each.action.name} is no action of {abstract.name}; it has "
                f"{listing(abstract.actions)}"
            )
        for argument in each.arguments.values():
            if isinstance(argument, Expr):
                _reads_only(name, concrete, argument)


def _reads_only(name: str, concrete: System, expr: Expr) -> None:
    for node in walk(expr):
        if isinstance(node, Read) and (
            node.primed or concrete.variables.get(node.variable.name) is not node.variable
        ):
            raise DefinitionError(
                f"refinement {name}: `{expr!r}` reads {node!r}, no variable of {concrete.name} before "
                f"the step; it has {listing(concrete.variables)}"
            )
