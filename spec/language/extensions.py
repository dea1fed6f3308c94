"""Extensions: what another module adds to an action, and the one action that a system then has.

A module may extend an action of a module that it uses: with parameters, with guards, and with
assignments to its own variables. The rules of the action stay as they are, so that every step of the
joined action is a step of the first one. An observer adds assignments alone: it takes part in every
step and hinders none.

    @frontier.extend(publish)
    def publish_outputs(step: Step, x: Txn) -> None:
        '''An append publishes rows of known tokens alone.'''
        step.require(drafts[x] == 0, UNVERIFIED_DRAFT)
        step.assign(emitted[the(target[x])], ...)

The function's parameters that the action has are the action's, by name; others are new. Guards join
the action's in the order of failure classes: one of a class stands before the first of a later class,
after all others. `step.refused(effect)` adds to every refusal of the action that has an effect.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

import attrs

from kvspec.spec.language.actions import (
    Action,
    Assignment,
    Guard,
    Step,
    check_action,
    expressions,
    parameters_of,
)
from kvspec.spec.language.errors import DefinitionError, listing
from kvspec.spec.language.expr import TRUE, Expr, MapSymbol, Symbol
from kvspec.spec.language.variables import ErrorCode, Variable


@attrs.frozen(repr=False, eq=False)
class Extension:
    """What module `module` adds to `base`: parameters, guards, assignments, and effects of refusals."""

    name: str
    module: str
    doc: str
    base: Action
    parameters: tuple[Symbol | MapSymbol, ...]
    guards: tuple[Guard, ...]
    assignments: tuple[Assignment, ...]
    refusal: tuple[Assignment, ...]
    place: tuple[str, int]

    def expressions(self) -> Iterator[Expr]:
        """Every expression of the extension."""
        guards = (*self.guards, Guard(TRUE, ErrorCode("REFUSED", ""), self.refusal, self.place))
        yield from expressions(attrs.evolve(self.base, guards=guards, assignments=self.assignments))

    def __repr__(self) -> str:
        return f"Extension({self.module}.{self.name} of {self.base.name})"


class ExtensionStep(Step):
    """What an extension's function is given: a step that can also add to refusals."""

    def __init__(self, action: str, may_write: Callable[[Variable], str | None]) -> None:
        super().__init__(action, may_write)
        self.refusal: tuple[Assignment, ...] = ()

    def refused(self, effect: Callable[[Step], None]) -> None:
        """Whatever refusal of the extended action has an effect has this one as well.

        Those are the refusals of the action and of other extensions; a guard of this one says its own.
        """
        if self.refusal:
            raise DefinitionError(f"{self._action}: refused() twice: make one effect of both")
        made = Step(f"{self._action} refused", self._may_write)
        effect(made)
        if made.guards:
            raise DefinitionError(f"{self._action}: the effect of a refusal has guards of its own")
        self.refusal = tuple(made.assignments)


def record_extension(
    function: Callable[..., None],
    module: str,
    base: Action,
    may_write: Callable[[Variable], str | None],
) -> Extension:
    """Run the function once on symbols, those of `base` where the names agree."""
    place = (function.__code__.co_filename, function.__code__.co_firstlineno)
    name, doc = function.__name__, inspect.getdoc(function)
    if not doc:
        raise DefinitionError(f"{name} has no docstring: say in one sentence what it adds", place)
    known = {parameter.name: parameter for parameter in base.parameters}
    used: list[Symbol | MapSymbol] = []
    for found in parameters_of(function, name, place):
        given = known.get(found.name, found)
        if _sort(given) != _sort(found):
            raise DefinitionError(
                f"{name}: parameter {found.name} is of {_sort(found)}, but of {_sort(given)} in "
                f"{base.name}, which it extends: give it that sort or another name",
                place,
            )
        used.append(given)
    step = ExtensionStep(f"{name} (of {base.name})", may_write)
    function(step, *used)
    if not step.guards and not step.assignments:
        raise DefinitionError(f"{name} adds neither guards nor assignments to {base.name}", place)
    new = tuple(p for p in used if p.name not in known)
    return Extension(
        name,
        module,
        doc,
        base,
        new,
        tuple(step.guards),
        tuple(step.assignments),
        step.refusal,
        place,
    )


def _sort(parameter: Symbol | MapSymbol) -> str:
    if isinstance(parameter, MapSymbol):
        return f"Map[{parameter.domain}, {parameter.codomain}]"
    return parameter.type.name


def join(base: Action, extensions: list[Extension]) -> Action:
    """The action with all that is added to it."""
    made = base
    for extension in extensions:
        made = _join(made, extension)
    made = attrs.evolve(made, guards=tuple(_effects(extensions, g) for g in made.guards))
    for extension in extensions:
        _check_refusal(made, extension)
    check_action(made)
    return attrs.evolve(made, extends=base)


def _effects(extensions: list[Extension], guard: Guard) -> Guard:
    """The guard with what every extension but its own adds to a refusal that has an effect."""
    if not guard.refusal:
        return guard
    refusal = guard.refusal
    for extension in extensions:
        if not any(guard is own for own in extension.guards):
            refusal = (*refusal, *_apart(refusal, extension))
    return attrs.evolve(guard, refusal=refusal)


def _check_refusal(action: Action, extension: Extension) -> None:
    """An effect of refusals that no refusal has is a mistake."""
    added = extension.refusal
    if added and not any(d is added[0] for guard in action.guards for d in guard.refusal):
        raise DefinitionError(
            f"{extension.name} adds to refusals of {action.name}, of which none but its own has an "
            "effect: leave out refused()",
            extension.place,
        )


def _join(action: Action, extension: Extension) -> Action:
    known = [parameter.name for parameter in action.parameters]
    for parameter in extension.parameters:
        if parameter.name in known:
            raise DefinitionError(
                f"{extension.name} adds a parameter {parameter.name} to {action.name}, which another "
                f"extension adds as well ({listing(known)}): choose another name",
                extension.place,
            )
    _check_codes(action, extension)
    guards = list(action.guards)
    for guard in extension.guards:
        guards.insert(_rank(guards, guard), guard)
    written = {done.variable.name for done in action.assignments}
    for done in extension.assignments:
        if done.variable.name in written:
            raise DefinitionError(
                f"{extension.name} assigns {done.variable}, which {action.name} assigns already: "
                "extend an action with assignments to other variables",
                done.place,
            )
    return attrs.evolve(
        action,
        doc=f"{action.doc} {extension.doc}",
        parameters=(*action.parameters, *extension.parameters),
        guards=tuple(guards),
        assignments=(*action.assignments, *extension.assignments),
    )


def _check_codes(action: Action, extension: Extension) -> None:
    codes = [guard.code.name for guard in action.guards]
    for guard in extension.guards:
        if guard.code.name in codes:
            raise DefinitionError(
                f"{extension.name} refuses with {guard.code}, as {action.name} does already: give "
                "each guard its own code",
                guard.place,
            )


def _apart(before: tuple[Assignment, ...], extension: Extension) -> tuple[Assignment, ...]:
    written = {done.variable.name for done in before}
    for done in extension.refusal:
        if done.variable.name in written:
            raise DefinitionError(
                f"{extension.name} assigns {done.variable} in a refusal that assigns it already",
                done.place,
            )
    return extension.refusal


def _rank(guards: list[Guard], guard: Guard) -> int:
    """Where a guard of an extension stands: before the first one of a later class, else at the end."""
    if guard.code.order:
        for place, other in enumerate(guards):
            if other.code.order > guard.code.order:
                return place
    return len(guards)
