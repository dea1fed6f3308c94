"""What every name of a system is called in its TLA+ module."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from kvspec.models.export.names import Names, identifier, plain_name, tla_names
from kvspec.spec.language import (
    Const,
    Expr,
    Instance,
    MapSymbol,
    Property,
    Symbol,
    System,
    Type,
    Variable,
    walk,
)
from kvspec.spec.language.actions import expressions

SUGGESTED_SIZE = 2
"""Members of each open sort, and largest natural, in the configuration of a bare system."""


@attrs.frozen
class Source:
    """What is exported: a system, an instance of it if there is one, and claims about it."""

    system: System
    instance: Instance | None
    claims: tuple[Property, ...]
    variant: int = 0

    def size(self, sort: str) -> int:
        """The number of members of an open sort."""
        return self.instance.sizes[sort] if self.instance else SUGGESTED_SIZE

    def start(self, variable: Variable) -> object:
        """The initial value of a variable, or ANY."""
        pinned = self.instance.initial.get(variable.name) if self.instance else None
        return variable.initial if pinned is None else pinned

    def nodes(self) -> Iterator[Expr]:
        """Every node of every expression that the module will hold."""
        for action in self.system.actions.values():
            for expr in expressions(action):
                yield from walk(expr)
        for variable in self.system.variables.values():
            start = self.start(variable)
            if isinstance(start, Expr):
                yield from walk(start)
        for claim in self.claims:
            for formula in (claim.body, claim.goal):
                if formula is not None:
                    yield from walk(formula)
        for limit in self.instance.limits if self.instance else ():
            yield from walk(limit.condition)

    def named_members(self) -> list[tuple[str, int]]:
        """Members of open sorts that an expression names; those are not interchangeable."""
        found: dict[tuple[str, int], None] = {}
        for node in self.nodes():
            if isinstance(node, Const) and node.type.kind in ("open", "option"):
                kind = node.type.of or node.type
                if node.value is not None:
                    found[kind.name, int(node.value)] = None
        return list(found)


@attrs.frozen
class Vocabulary:
    """The text of everything that the module as a whole defines.

    taken: all of it, and what TLA+ reserves. steps: for an action, or one with the code of a
    refusal that has an effect, its operator and parameters. variant: the mutant that is written.
    """

    taken: frozenset[str]
    sorts: dict[str, str]
    nones: dict[str, str]
    tops: dict[str, str]
    constants: dict[str, str]
    variables: dict[str, str]
    members: dict[tuple[str, int], str]
    steps: dict[tuple[str, str | None], tuple[str, tuple[Symbol | MapSymbol, ...]]]
    properties: dict[str, str]
    fairness: dict[str, str]
    module: str = ""
    variant: int = 0

    def range(self, kind: Type) -> str:
        """The set of a type's values."""
        match kind.kind:
            case "bool":
                return "BOOLEAN"
            case "natural":
                return f"0..{self.tops[kind.name]}"
            case "option" if kind.of is not None:
                return rf"{self.sorts[kind.of.name]} \cup {{{self.nones[kind.of.name]}}}"
        return self.sorts[kind.name]

    def domain(self, parameter: Symbol | MapSymbol) -> str:
        """The set over which a parameter ranges."""
        if isinstance(parameter, MapSymbol):
            return f"[{self.range(parameter.domain)} -> {self.range(parameter.codomain)}]"
        return self.range(parameter.type)

    def table(self, variable: Variable) -> str:
        """The set of a variable's values."""
        if not variable.domain:
            return self.range(variable.type)
        return f"[{self.indices(variable)} -> {self.range(variable.type)}]"

    def indices(self, variable: Variable) -> str:
        """The set of a variable's indices."""
        return r" \X ".join(self.range(kind) for kind in variable.domain)


def vocabulary(source: Source, scope: Names | None = None) -> Vocabulary:
    """Names for all of the system; `scope` is left with those that are taken."""
    scope = tla_names() if scope is None else scope
    system = source.system
    kinds = list(system.sorts().values())
    module = scope.fresh(identifier(system.name).lstrip("_") or "System")
    open_sorts = [kind.name for kind in kinds if kind.kind == "open"]
    used = {v.type for v in system.variables.values()} | {n.type for n in source.nodes()}
    options = {kind.of.name for kind in used if kind.of is not None}
    scope.taken |= {f"The{name}" for name in open_sorts}
    return Vocabulary(
        sorts={kind.name: scope.fresh(kind.name) for kind in kinds if kind.kind != "natural"},
        nones={name: scope.fresh(f"No{name}") for name in open_sorts if name in options},
        tops={k.name: scope.fresh(f"{k.name}Top") for k in kinds if k.kind == "natural"},
        constants={name: scope.fresh(name) for name in system.constants},
        variables={name: scope.fresh(name) for name in system.variables},
        steps=_steps(system, scope),
        members={
            (name, place): scope.fresh(f"{plain_name(name).lower()}{place}")
            for name in open_sorts
            for place in range(source.size(name))
        },
        properties={claim.name: scope.fresh(claim.name) for claim in source.claims},
        fairness={c.name: scope.fresh(f"{c.name}_fairness") for c in source.claims if c.fairness},
        module=module,
        variant=source.variant,
        taken=frozenset(scope.taken),
    )


def _steps(
    system: System, scope: Names
) -> dict[tuple[str, str | None], tuple[str, tuple[Symbol | MapSymbol, ...]]]:
    found: dict[tuple[str, str | None], tuple[str, tuple[Symbol | MapSymbol, ...]]] = {}
    for action in system.actions.values():
        found[action.name, None] = (scope.fresh(action.name), action.parameters)
        for guard in action.guards:
            if guard.refusal:
                name = scope.fresh(f"{action.name}_{guard.code.name}")
                found[action.name, guard.code.name] = (name, action.parameters)
    return found


def quoted(name: str) -> str:
    """The member of an enumeration as a string."""
    return f'"{plain_name(name)}"'
