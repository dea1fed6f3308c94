"""Each formula in TLA+ has the form of the tree that it was written from, on one line or on many.

The text is read back by a parser from outside, so no bracket is missing and no layout misleads.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvspec.models.export.tla_text import Scope
from kvspec.models.export.tla_words import Source, vocabulary
from kvspec.properties.core import properties as claimed
from kvspec.spec import core
from kvspec.spec.examples import peer
from kvspec.spec.language import Apply as MapApply
from kvspec.spec.language import (
    Bijective,
    Bool,
    Const,
    Enum,
    Expr,
    Fired,
    Module,
    Natural,
    Open,
    Option,
    Quantifier,
    Read,
    Symbol,
    System,
    exists,
    forall,
    implies,
    is_some,
    member,
    none,
    the,
    walk,
    where,
)
from kvspec.spec.language.actions import expressions

EVERY_CLAIM = tuple(peer.properties.by_name.values())
CORE_CLAIMS = tuple(claimed.by_name.values())


def flattened(op: str, parts):
    """A conjunction or disjunction without nesting."""
    found = []
    for part in parts:
        found += part[1:] if isinstance(part, tuple) and part[0] == op else [part]
    return (op, *found)


INFIX = {
    "land": "and", "lor": "or", "implies": "implies", "eq": "eq", "neq": "ne", "lt": "lt", "leq": "le",
    "plus": "add", "minus": "sub",
    "mul": "mul", "div": "div",
}  # fmt: skip


def read_back(node):
    """The form of a parsed expression."""
    parts = [child for child in node.named_children if child.type != "comment"]
    match node.type:
        case "parentheses":
            return read_back(parts[0])
        case "conj_list" | "disj_list":
            items = [read_back(item.named_children[1]) for item in parts]
            return flattened("and" if node.type == "conj_list" else "or", items)
        case "bound_infix_op":
            op, sides = INFIX[parts[1].type], (read_back(parts[0]), read_back(parts[2]))
            if op == "ne":
                return ("not", ("eq", *sides))
            return flattened(op, sides) if op in ("and", "or") else (op, *sides)
        case "bound_prefix_op" if parts[0].type == "lnot":
            return ("not", read_back(parts[1]))
        case "bounded_quantification":
            kind = "forall" if parts[0].type == "forall" else "exists"
            bound = [
                (b.named_children[0].text.decode(), b.named_children[2].text.decode())
                for b in parts[1:-1]
            ]
            return (kind, tuple(bound), read_back(parts[-1]))
        case "if_then_else":
            return ("ite", *map(read_back, parts))
        case "function_evaluation" | "bound_op":
            return ("at", *map(read_back, parts))
        case "bound_postfix_op":
            return f"{parts[0].text.decode()}'"
    return node.text.decode()


def form(expr: Expr):
    """The form that the text of a tree must have, where no name is in the way."""
    match expr:
        case Const(type=kind, value=value):
            if value is None:
                return f"No{kind.of.name}"
            text = {"enum": f'"{value}"', "bool": str(value).upper()}
            return text.get(kind.kind, str(value))
        case Symbol(name=name):
            return name
        case Read(variable=variable, index=index, primed=primed):
            name = f"{variable.name}'" if primed else variable.name
            return ("at", name, *map(form, index)) if index else name
        case MapApply(function=function, argument=argument):
            return ("at", function.name, form(argument))
        case Bijective(function=function):
            return ("at", "Bijective", function.name, function.domain.name)
        case Quantifier(kind=kind, bound=bound, body=body):
            return (kind, tuple((b.name, b.type.name) for b in bound), form(body))
    parts = tuple(map(form, expr.args))
    match expr.op:
        case "and" | "or":
            return flattened(expr.op, parts)
        case "some":
            return parts[0]
        case "the":
            return ("at", f"The{expr.type.name}", *parts)
    return (expr.op, *parts)


def definition(tla, text: str):
    """The expression of a definition, parsed."""
    root = tla.parse(f"---- MODULE M ----\nX ==\n{text}\n====\n")
    (found,) = tla.nodes(root, "operator_definition")
    return [child for child in found.named_children if child.type != "comment"][2]


def assert_read_back(tla, scope: Scope, expr: Expr) -> None:
    """On one line, and laid out for lines that are much too short."""
    for lines in ([scope.flat(expr)], scope.lines(expr, 60), scope.lines(expr, 20)):
        assert read_back(definition(tla, "\n".join(f"  {line}" for line in lines))) == form(expr), (
            lines
        )


@pytest.mark.parametrize("system", [peer.system, core.system], ids=lambda s: s.name)
def test_formulas_of_real_systems_are_read_back(system, tla):
    """Every guard and every assigned value has the form of its tree."""
    words = vocabulary(Source(system, None, ()))
    count = 0
    for action in system.actions.values():
        scope, _, _ = Scope.of(words).parameters(action.parameters)
        for done in (*action.assignments, *(d for g in action.guards for d in g.refusal)):
            inner, _ = scope.bind(b.name for b in done.binders)
            assert_read_back(tla, inner, done.value)
            count += 1
        for guard in action.guards:
            assert_read_back(tla, scope, guard.condition)
            count += 1
    assert count > 50
    assert count <= sum(1 for a in system.actions.values() for _ in expressions(a))


@pytest.mark.parametrize(
    ("system", "claims"),
    [(peer.system, EVERY_CLAIM), (core.system, CORE_CLAIMS)],
    ids=["peer", "core"],
)
def test_claims_are_read_back(system, claims, tla):
    """Claims likewise, with what is after the step; fired() is looked at below."""
    words = vocabulary(Source(system, None, ()))
    for claim in claims:
        scope, _ = Scope.of(words).bind(b.name for b in claim.bound)
        if not any(isinstance(node, Fired) for node in walk(claim.body)):
            assert_read_back(tla, scope, claim.body)


class Thing(Open):
    """A thing."""


class Size(Natural):
    """A size."""


class Shade(Enum):
    """A shade."""

    LIGHT = member()
    DARK = member()


MODULE = Module("things", "Variables for random formulas.")
SIZE = MODULE.variable("size", Thing, to=Size, init=0, meaning="size")
TOTAL = MODULE.variable("total", to=Size, init=0, meaning="a number")
HELD = MODULE.variable("held", to=Option[Thing], init=none(Thing), meaning="a thing or none")
SHADE = MODULE.variable("shade", Thing, to=Shade, init=Shade.DARK, meaning="shade")
OPEN = MODULE.variable("is_open", to=Bool, init=False, meaning="a truth value")


@MODULE.action
def nothing(step) -> None:
    """Change nothing."""
    step.assign(TOTAL.value, TOTAL.value)


THINGS = System.of("things", "For random formulas.", MODULE)


def numbers(inner):
    """Numbers made of formulas and numbers."""
    leaf = st.sampled_from([TOTAL.value, SIZE[the(HELD.value)]]) | st.integers(0, 9).map(
        lambda n: Const(TOTAL.type, n)
    )
    return st.recursive(
        leaf,
        lambda part: st.one_of(
            st.tuples(part, part).map(lambda p: p[0] + p[1]),
            st.tuples(part, part).map(lambda p: p[0] - p[1]),
            st.tuples(part, part).map(lambda p: p[0] * p[1]),
            st.tuples(part, st.integers(1, 9)).map(lambda p: p[0] // p[1]),
            st.tuples(inner, part, part).map(lambda p: where(*p)),
        ),
        max_leaves=4,
    )


def formulas():
    """Formulas of every operator, nested in every way."""
    leaf = st.sampled_from([OPEN.value, is_some(HELD.value), SHADE[the(HELD.value)] == Shade.DARK])

    def more(part):
        number = numbers(part)
        return st.one_of(
            st.tuples(part, part).map(lambda p: p[0] & p[1]),
            st.tuples(part, part).map(lambda p: p[0] | p[1]),
            st.tuples(part, part).map(lambda p: implies(*p)),
            st.tuples(part, part).map(lambda p: p[0] == p[1]),
            st.tuples(part, part, part).map(lambda p: where(*p)),
            part.map(lambda p: ~p),
            st.tuples(number, number).map(lambda p: p[0] < p[1]),
            st.tuples(number, number).map(lambda p: p[0] <= p[1]),
            st.tuples(number, number).map(lambda p: p[0] == p[1]),
            part.map(lambda p: forall(Thing, lambda t: p & (SIZE[t] == 0))),
            part.map(lambda p: exists(Thing, Shade, lambda x, s: implies(p, SHADE[x] == s))),
        )

    return st.recursive(leaf, more, max_leaves=12)


def nested_twice(expr: Expr, above: frozenset[str] = frozenset()) -> bool:
    """Whether a name is bound within itself, so that the text renames it and the forms differ."""
    from kvspec.spec.language.expr import children

    bound = {b.name for b in expr.bound} if isinstance(expr, Quantifier) else set()
    return bool(bound & above) or any(nested_twice(c, above | bound) for c in children(expr))


@settings(max_examples=300)
@given(formulas().filter(lambda f: not nested_twice(f)))
def test_random_formulas_are_read_back(tla, formula):
    """No bracket is missing and no layout changes what a formula says."""
    assert_read_back(tla, Scope.of(vocabulary(Source(THINGS, None, ()))), formula)
