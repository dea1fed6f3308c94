"""Properties: claims about a system, apart from it, each one function of one sentence.

invariant   holds in every reachable state
lemma       an invariant that is there to make others inductive
step        holds of every step: reads are before it, `after(...)` is after it, `fired(...)` names it
witness     some reachable state satisfies it (otherwise what it guards would hold in the void)
end         a state without steps is a proper end, and no deadlock, if it satisfies this
leads_to    whenever the first holds, the second holds then or later, under fairness
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import attrs

from kvspec.spec.language.actions import Action
from kvspec.spec.language.errors import DefinitionError, caller, listing
from kvspec.spec.language.expr import (
    Expr,
    Fired,
    Op,
    Quantifier,
    Read,
    Symbol,
    boolean,
    free_symbols,
    walk,
)
from kvspec.spec.language.modules import System
from kvspec.spec.language.sorts import type_of


@attrs.frozen(repr=False, eq=False)
class Fairness:
    """A step of `action` is taken in the end if it stays possible (weak) or keeps coming back (strong).

    A refusal with an effect is a step of its action. parameters: the parameters of the action for each of
    whose values this is asked apart; the rest is any value.
    """

    action: Action
    parameters: tuple[str, ...]
    strong: bool = False


@attrs.frozen(repr=False, eq=False)
class Property:
    """A named claim of one kind; `body` is the formula, `goal` the second one of a leads_to.

    bound: for a leads_to, the members for each of which it is claimed apart; free in both formulas.
    """

    kind: str
    name: str
    doc: str
    body: Expr
    place: tuple[str, int]
    goal: Expr | None = None
    fairness: tuple[Fairness, ...] = ()
    bound: tuple[Symbol, ...] = ()

    @property
    def antecedent(self) -> Expr | None:
        """What must hold for the claim to say anything: under quantifiers, the left of an implication."""
        expr = self.body
        bound: list[Symbol] = []
        while isinstance(expr, Quantifier) and expr.kind == "forall":
            bound.extend(expr.bound)
            expr = expr.body
        if not (isinstance(expr, Op) and expr.op == "implies"):
            return None
        left = expr.args[0]
        return Quantifier(left.type, "exists", tuple(bound), left) if bound else left

    def __repr__(self) -> str:
        names = ", ".join(f"{symbol.name} in {symbol.type}" for symbol in self.bound)
        bound = f"for all {names}: " if names else ""
        goal = "" if self.goal is None else f" leads to {self.goal!r}"
        return f"{self.kind} {self.name}: {bound}{self.body!r}{goal}"


class Properties:
    """The claims about one system, by name.

    given: the claims of a system whose modules are all part of this one. Its invariants and lemmas hold
    here as well, wherever a step is one of that system, and are proved of every other step.
    """

    def __init__(self, system: System, given: Properties | None = None) -> None:
        self.system = system
        self.given = given
        self.by_name: dict[str, Property] = {}
        for module in () if given is None else given.system.modules:
            if not any(module is own for own in system.modules):
                raise DefinitionError(
                    f"{system.name} is given the claims of a system with {module}, which it lacks: it "
                    f"has {listing(own.name for own in system.modules)}"
                )

    def inherited(self) -> list[Property]:
        """The invariants and lemmas that are given, those given to the given system included."""
        if self.given is None:
            return []
        return [*self.given.inherited(), *self.given.of_kind("invariant", "lemma")]

    def invariant(self, function: Callable[[], Expr]) -> Property:
        """Decorator: the formula holds in every reachable state."""
        return self._add("invariant", function)

    def lemma(self, function: Callable[[], Expr]) -> Property:
        """Decorator: an invariant that others rest on."""
        return self._add("lemma", function)

    def step(self, function: Callable[[], Expr]) -> Property:
        """Decorator: the formula holds of every step."""
        return self._add("step", function)

    def witness(self, function: Callable[[], Expr]) -> Property:
        """Decorator: some reachable state satisfies the formula."""
        return self._add("witness", function)

    def end(self, function: Callable[[], Expr]) -> Property:
        """Decorator: a state without steps is no deadlock if it satisfies the formula."""
        return self._add("end", function)

    def leads_to(
        self, *fairness: Fairness
    ) -> Callable[[Callable[..., tuple[Expr, Expr]]], Property]:
        """Decorator of a function that gives both formulas; fairness is what it assumes.

        The function's parameters, annotated with sorts, are members for each of which it is claimed.
        """

        def add(function: Callable[..., tuple[Expr, Expr]]) -> Property:
            found = inspect.signature(function, eval_str=True).parameters.values()
            bound = tuple(Symbol(type_of(p.annotation), p.name, "bound") for p in found)
            body, goal = function(*bound)
            return self._add("leads_to", lambda: body, goal, fairness, function, bound)

        return add

    def named(self) -> dict[str, Property]:
        """Every claim by its name, those that are given included."""
        return {**{claim.name: claim for claim in self.inherited()}, **self.by_name}

    def of_kind(self, *kinds: str) -> list[Property]:
        """The claims of these kinds, in the order of their definition."""
        return [claim for claim in self.by_name.values() if claim.kind in kinds]

    def __getitem__(self, name: str) -> Property:
        """The claim of that name, or the invariant or lemma that is given."""
        known = self.named()
        if name not in known:
            raise KeyError(f"no property {name!r}; there are {listing(known)}")
        return known[name]

    def _add(
        self,
        kind: str,
        function: Callable[[], Expr],
        goal: Expr | None = None,
        fairness: tuple[Fairness, ...] = (),
        named: Callable[..., object] | None = None,
        bound: tuple[Symbol, ...] = (),
    ) -> Property:
        source = named or function
        name, doc = source.__name__, inspect.getdoc(source)
        place = (source.__code__.co_filename, source.__code__.co_firstlineno)
        if not doc:
            raise DefinitionError(f"{name} has no docstring: say the claim in one sentence", place)
        if name in self.by_name:
            raise DefinitionError(f"two properties are named {name}", place)
        for fair in fairness:
            if self.system.own(fair.action) is None:
                raise DefinitionError(
                    f"{name} assumes fairness of {fair.action.name}, no action of {self.system.name}: "
                    f"it has {listing(self.system.actions)}",
                    place,
                )
        body = boolean(function(), f"the property {name}")
        for expr in (body, *(() if goal is None else (boolean(goal, name),))):
            for node in walk(expr):
                self._check(kind, name, node)
            for found in free_symbols(expr):
                if not any(found is symbol for symbol in bound):
                    raise DefinitionError(
                        f"{name} uses {found!r} in `{expr!r}`, which no quantifier of it binds"
                    )
        self.by_name[name] = Property(kind, name, doc, body, place, goal, fairness, bound)
        return self.by_name[name]

    def _check(self, kind: str, name: str, node: Expr) -> None:
        if isinstance(node, Symbol) and node.role == "top":
            raise DefinitionError(
                f"{name} uses {node!r}: bounds of an instance belong into limits, not claims"
            )
        if (
            isinstance(node, Symbol)
            and node.role == "constant"
            and self.system.constants.get(node.name) is not node
        ):
            raise DefinitionError(
                f"{name} uses {node!r}, no constant of system {self.system.name}: it has "
                f"{listing(self.system.constants)}"
            )
        if isinstance(node, Read):
            if self.system.variables.get(node.variable.name) is not node.variable:
                raise DefinitionError(
                    f"{name} reads {node.variable}, no variable of system {self.system.name}: it has "
                    f"{listing(self.system.variables)}"
                )
            if node.primed and kind != "step":
                raise DefinitionError(f"{name} uses after(), and only step properties may")
        if isinstance(node, Fired):
            if kind != "step":
                raise DefinitionError(f"{name} uses fired(), and only step properties may")
            if node.action not in self.system.actions:
                raise DefinitionError(
                    f"{name} names {node.action}, no action of {self.system.name}: it has "
                    f"{listing(self.system.actions)}"
                )
            codes = [g.code.name for g in self.system.actions[node.action].guards if g.refusal]
            if node.refusal is not None and node.refusal not in codes:
                raise DefinitionError(
                    f"{name} names {node.action} refused with {node.refusal}, which is never a step: "
                    f"its refusals with an effect are {listing(codes)}"
                )


def weak(action: Action, *parameters: str) -> Fairness:
    """Weak fairness of the action, apart for each value of the named parameters."""
    return _fairness(action, parameters, strong=False)


def strong(action: Action, *parameters: str) -> Fairness:
    """Strong fairness of the action, apart for each value of the named parameters."""
    return _fairness(action, parameters, strong=True)


def _fairness(action: Action, parameters: tuple[str, ...], *, strong: bool) -> Fairness:
    known = [p.name for p in action.parameters]
    for name in parameters:
        if name not in known:
            raise DefinitionError(
                f"{action.name} has no parameter {name}: it has {known}", caller()
            )
    return Fairness(action, parameters, strong)
