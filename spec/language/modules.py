"""Modules and systems: what is declared together, who may write what, and the union of all.

A module declares variables, constants and actions. A module that uses others reads their variables;
it writes those alone that it names in `writes`. A system is the union of modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from kvspec.spec.language.actions import Action, expressions, record_action
from kvspec.spec.language.errors import DefinitionError, listing
from kvspec.spec.language.expr import Expr, MapSymbol, Read, Symbol, Type, walk
from kvspec.spec.language.extensions import Extension, join, record_extension
from kvspec.spec.language.sorts import type_of
from kvspec.spec.language.variables import Variable, make_variable


class Module:
    """A named part of a specification: its variables, constants and actions.

    uses: modules whose variables it may read. writes: variables of those that it may assign.
    """

    def __init__(
        self,
        name: str,
        doc: str,
        uses: tuple[Module, ...] = (),
        writes: tuple[Variable, ...] = (),
    ) -> None:
        self.name = name
        self.doc = doc
        self.uses = uses
        self.writes = writes
        self.variables: dict[str, Variable] = {}
        self.constants: dict[str, Symbol] = {}
        self.actions: dict[str, Action] = {}
        self.extensions: list[Extension] = []
        for variable in writes:
            if not any(variable is found for found in self._readable()):
                raise DefinitionError(
                    f"module {name} declares writes to {variable}, which none of the modules it "
                    f"uses has: it uses {listing(m.name for m in uses)}"
                )

    def variable(self, name: str, *domain: Any, to: Any, init: Any, meaning: str) -> Variable:
        """Declare `name: domain -> to`; `init` is a value, a function of the indices, or ANY."""
        if any(name == found.name for found in self._readable()):
            raise DefinitionError(f"a variable {name} exists already: choose another name")
        variable = make_variable(name, domain, to, init, self.name, meaning)
        self.variables[name] = variable
        return variable

    def constant(self, name: str, sort: Any, meaning: str) -> Expr:
        """Declare a rigid number of the system that an instance fixes and a proof leaves open."""
        kind = type_of(sort)
        if kind.kind != "natural":
            raise DefinitionError(f"constant {name} is of {kind}: constants are naturals")
        if not meaning.strip():
            raise DefinitionError(f"constant {name} has no meaning: give one line")
        if name in self.constants:
            raise DefinitionError(f"a constant {name} exists already: choose another name")
        self.constants[name] = Symbol(kind, name, "constant")
        return self.constants[name]

    def share(self, constant: Expr) -> None:
        """Use a constant that another module declared, as the same number."""
        if not isinstance(constant, Symbol) or constant.role != "constant":
            raise DefinitionError(f"{self} shares {constant!r}, which is no constant of a module")
        self.constants[constant.name] = constant

    def action(self, function: Callable[..., None]) -> Action:
        """Decorator: record the function as an action of this module."""
        action = record_action(function, self.name, self._refuse_write)
        if action.name in self.actions:
            raise DefinitionError(f"module {self.name} has two actions {action.name}", action.place)
        self._check_reads(action.name, expressions(action), action.place)
        self.actions[action.name] = action
        return action

    def extend(self, base: Action) -> Callable[[Callable[..., None]], Extension]:
        """Decorator: the function adds parameters, guards and assignments to an action of another module."""
        return self._extend(base, observe=False)

    def observe(self, base: Action) -> Callable[[Callable[..., None]], Extension]:
        """Decorator: as `extend`, but without guards and into variables of this module alone.

        Whatever it does, the steps of the action stay the same.
        """
        return self._extend(base, observe=True)

    def _extend(self, base: Action, *, observe: bool) -> Callable[[Callable[..., None]], Extension]:
        def add(function: Callable[..., None]) -> Extension:
            made = record_extension(function, self.name, base, self._refuse_write)
            if not any(base is own for module in self._others() for own in module.actions.values()):
                raise DefinitionError(
                    f"{made.name} extends {base.name} of module {base.module}, which {self} does not "
                    f"use: it uses {listing(m.name for m in self.uses)}",
                    made.place,
                )
            if observe:
                _check_observes(made, self)
            self._check_reads(made.name, made.expressions(), made.place)
            self.extensions.append(made)
            return made

        return add

    def _others(self) -> Iterator[Module]:
        return (module for module in self._known() if module is not self)

    def _check_reads(self, name: str, exprs: Iterator[Expr], place: tuple[str, int]) -> None:
        """Refuse variables and constants of modules that this one does not use."""
        readable = list(self._readable())
        constants = [c for module in self._known() for c in module.constants.values()]
        for expr in exprs:
            for node in walk(expr):
                if (
                    isinstance(node, Symbol)
                    and node.role == "constant"
                    and not any(node is known for known in constants)
                ):
                    raise DefinitionError(
                        f"{name} uses the constant {node!r}, which neither {self.name} nor a "
                        f"module it uses declares: share() it; it knows {listing(constants)}",
                        place,
                    )
                if isinstance(node, Read) and not any(node.variable is v for v in readable):
                    raise DefinitionError(
                        f"{name} reads {node.variable}, a variable of module "
                        f"{node.variable.module}, which {self.name} does not use: it knows "
                        f"{listing(v.name for v in readable)}",
                        place,
                    )

    def _readable(self) -> Iterator[Variable]:
        for module in self._known():
            yield from module.variables.values()

    def _known(self) -> Iterator[Module]:
        """This module and those that it uses, also through others."""
        seen: set[int] = set()
        stack = [self]
        while stack:
            module = stack.pop()
            if id(module) not in seen:
                seen.add(id(module))
                yield module
                stack.extend(module.uses)

    def _refuse_write(self, variable: Variable) -> str | None:
        if any(variable is found for found in (*self.variables.values(), *self.writes)):
            return None
        return (
            f"assigned to {variable.name} of module {variable.module}, which {self.name} does not "
            f"declare to write: add it to writes=(...); declared are {listing(self.writes)}"
        )

    def __repr__(self) -> str:
        return f"Module({self.name})"


def _check_observes(extension: Extension, module: Module) -> None:
    """Refuse an observer that hinders a step or writes into another module."""
    if extension.guards or extension.parameters:
        found = extension.guards[0].code if extension.guards else extension.parameters[0].name
        raise DefinitionError(
            f"{extension.name} observes {extension.base.name} and has {found}: an observer has neither "
            "guards nor parameters of its own; extend() may",
            extension.place,
        )
    for done in (*extension.assignments, *extension.refusal):
        if not any(done.variable is own for own in module.variables.values()):
            raise DefinitionError(
                f"{extension.name} observes {extension.base.name} and assigns {done.variable} of another "
                "module: an observer writes into its own",
                done.place,
            )


@attrs.frozen(repr=False, eq=False)
class System:
    """A transition system: the union of modules that share sorts and variables."""

    name: str
    doc: str
    variables: dict[str, Variable]
    constants: dict[str, Symbol]
    actions: dict[str, Action]
    modules: tuple[Module, ...] = ()

    @staticmethod
    def of(name: str, doc: str, *modules: Module) -> System:
        """Compose modules; names must be unique, and every module used must be among them."""
        variables: dict[str, Variable] = {}
        constants: dict[str, Symbol] = {}
        actions: dict[str, Action] = {}
        for module in modules:
            for used in module.uses:
                if not any(used is other for other in modules):
                    raise DefinitionError(
                        f"{module} uses {used}, which system {name} lacks: add it"
                    )
            for key in (*module.variables, *module.constants, *module.actions):
                if key in variables or key in constants or key in actions:
                    raise DefinitionError(f"system {name}: the name {key} is declared twice")
            variables.update(module.variables)
            constants.update(module.constants)
            actions.update(module.actions)
        for name_, action in actions.items():
            added = [e for module in modules for e in module.extensions if e.base is action]
            actions[name_] = join(action, added) if added else action
        made = System(name, doc, variables, constants, actions, modules)
        made._check_sorts()
        return made

    def _check_sorts(self) -> None:
        """Sorts are told apart by name, so that one name must not be given to two kinds of them."""
        seen: dict[str, Type] = {}
        for kind in self._types():
            if seen.setdefault(kind.name, kind) != kind:
                raise DefinitionError(
                    f"system {self.name}: the name {kind.name} is given to two sorts, one "
                    f"{seen[kind.name].kind} and one {kind.kind}: rename one"
                )

    def sorts(self) -> dict[str, Type]:
        """Every open sort, enumeration and sort of naturals that the system speaks of, by name."""
        found: dict[str, Type] = {}
        for kind in self._types():
            found.setdefault(kind.name, kind)
        return found

    def _types(self) -> Iterator[Type]:
        """The type of everything declared but for truth values; for an option that of its members."""
        listed: list[Type] = []
        for variable in self.variables.values():
            listed.extend((*variable.domain, variable.type))
        listed.extend(symbol.type for symbol in self.constants.values())
        for action in self.actions.values():
            for parameter in action.parameters:
                if isinstance(parameter, MapSymbol):
                    listed.extend((parameter.domain, parameter.codomain))
                else:
                    listed.append(parameter.type)
        for kind in listed:
            if kind.kind != "bool":
                yield kind.of or kind

    def own(self, action: Action) -> Action | None:
        """The action as this system has it: itself, or with what modules add to it; None if it has not."""
        found = self.actions.get(action.name)
        same = found is not None and (found.extends or found) is (action.extends or action)
        return found if same else None

    def action(self, name: str) -> Action:
        """The action of that name, or an error that lists what exists."""
        if name not in self.actions:
            raise KeyError(
                f"system {self.name} has no action {name!r}; it has {listing(self.actions)}"
            )
        return self.actions[name]

    def __repr__(self) -> str:
        from kvspec.spec.language.show import show_system

        return show_system(self)
