"""The TLA+ text, read back by a parser from outside. TLC itself is not run here.

It is well formed, its names are in order, and each formula has the form of the tree that it was
written from.
"""

import re
import warnings

import attrs
import pytest
import tree_sitter_tlaplus
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_sitter import Language, Parser

from kvspec.models.export import to_tla
from kvspec.models.export.names import TLA_WORDS
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
    Properties,
    Quantifier,
    Read,
    Symbol,
    System,
    Variant,
    after,
    exists,
    fired,
    forall,
    implies,
    is_some,
    member,
    none,
    strong,
    the,
    walk,
    where,
)
from kvspec.spec.language.actions import expressions

with (
    warnings.catch_warnings()
):  # tree_sitter 0.26 deprecates the way in which the grammar is handed over
    warnings.simplefilter("ignore", DeprecationWarning)
    PARSER = Parser(Language(tree_sitter_tlaplus.language()))

EVERY_CLAIM = tuple(peer.properties.by_name.values())
CORE_CLAIMS = tuple(claimed.by_name.values())


def parse(text: str):
    """The module's syntax tree; a part that is no TLA+ fails the test."""
    tree = PARSER.parse(text.encode())
    stack, wrong = [tree.root_node], []
    while stack:
        node = stack.pop()
        if node.type == "ERROR" or node.is_missing:
            wrong.append((node.start_point, node.text))
        stack.extend(node.children)
    assert not wrong, wrong
    return tree.root_node


def nodes(root, *kinds: str):
    """The nodes of some kinds, in the order of the text."""
    if root.type in kinds:
        yield root
    for child in root.children:
        yield from nodes(child, *kinds)


def names(root) -> list[str]:
    """The names that a node's own children introduce."""
    return [child.text.decode() for child in root.named_children if child.type == "identifier"]


def assert_names_in_order(root) -> set[str]:
    """Every name that is used is defined, and none is defined while another of it is in sight."""
    known = set(TLA_WORDS)
    own: set[str] = set()
    for unit in root.named_children[0].named_children:
        if unit.type in ("constant_declaration", "variable_declaration", "operator_definition"):
            found = names(unit) if unit.type != "operator_definition" else names(unit)[:1]
            assert not known & set(found), (known & set(found), unit.text)
            known |= set(found)
            own |= set(found)
    for unit in root.named_children[0].named_children:
        if unit.type == "operator_definition":
            parameters = names(unit)[1:]
            assert len(set(parameters)) == len(parameters)
            assert not known & set(parameters), unit.text
            walk_scopes(unit, known | set(parameters))
    return own


def walk_scopes(node, known: set[str]) -> None:
    """Quantifiers, function constructors, CHOOSE and set maps open a scope each."""
    bound: list[str] = []
    for child in node.named_children:
        if child.type == "quantifier_bound":
            bound += names(child)
    if node.type == "choose":
        bound += names(node)
    assert len(set(bound)) == len(bound), node.text
    assert not known & set(bound), (known & set(bound), node.text)
    inner = known | set(bound)
    for child in node.named_children:
        if child.type == "identifier_ref":
            assert child.text.decode() in inner, (child.text, node.text)
        walk_scopes(child, inner)


def assert_configured(root, configuration: str, own: set[str]) -> None:
    """The configuration gives each constant a value, and asks for what is defined."""
    declared = {n for unit in nodes(root, "constant_declaration") for n in names(unit)}
    assert set(re.findall(r"^  (\w+) = ", configuration, re.MULTILINE)) == declared
    asked = configuration.split("SPECIFICATION", 1)[1]
    used = re.findall(
        r"^(?:  |SPECIFICATION |SYMMETRY |\\\* (?:INVARIANT|SYMMETRY) )(\w+)$", asked, re.MULTILINE
    )
    assert "TypeOK" in used
    assert set(used) <= own


@pytest.mark.parametrize(
    ("source", "claims"),
    [
        (peer.ROWS["2,2,2,3,4"], EVERY_CLAIM),
        (peer.system, EVERY_CLAIM),
        (core.TINY, CORE_CLAIMS),
        (core.system, CORE_CLAIMS),
    ],
    ids=["peer row", "peer", "core TINY", "core"],
)
def test_real_systems_are_well_formed(source, claims):
    """The module parses, names are in order, and the configuration fits."""
    module, configuration = to_tla(source, claims)
    root = parse(module)
    assert_configured(root, configuration, assert_names_in_order(root))
    assert max(map(len, module.splitlines())) < 200


def test_every_corner_of_the_language_is_well_formed(tiny):
    """So are the tiny systems, as instances and as systems."""
    for source in (tiny, tiny.system):
        module, configuration = to_tla(source)
        root = parse(module)
        assert_configured(root, configuration, assert_names_in_order(root))


# -- each formula has the form of its tree ---------------------------------------------------------


def flattened(op: str, parts):
    """A conjunction or disjunction without nesting."""
    found = []
    for part in parts:
        found += part[1:] if isinstance(part, tuple) and part[0] == op else [part]
    return (op, *found)


INFIX = {
    "land": "and", "lor": "or", "implies": "implies", "eq": "eq", "neq": "ne", "lt": "lt", "leq": "le",
    "plus": "add", "minus": "sub",
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


def definition(text: str):
    """The expression of a definition, parsed."""
    root = parse(f"---- MODULE M ----\nX ==\n{text}\n====\n")
    (found,) = nodes(root, "operator_definition")
    return [child for child in found.named_children if child.type != "comment"][2]


def assert_read_back(scope: Scope, expr: Expr) -> None:
    """On one line, and laid out for lines that are much too short."""
    for lines in ([scope.flat(expr)], scope.lines(expr, 60), scope.lines(expr, 20)):
        assert read_back(definition("\n".join(f"  {line}" for line in lines))) == form(expr), lines


@pytest.mark.parametrize("system", [peer.system, core.system], ids=lambda s: s.name)
def test_formulas_of_real_systems_are_read_back(system):
    """Every guard and every assigned value has the form of its tree."""
    words = vocabulary(Source(system, None, ()))
    count = 0
    for action in system.actions.values():
        scope, _, _ = Scope.of(words).parameters(action.parameters)
        for done in (*action.assignments, *(d for g in action.guards for d in g.refusal)):
            inner, _ = scope.bind(b.name for b in done.binders)
            assert_read_back(inner, done.value)
            count += 1
        for guard in action.guards:
            assert_read_back(scope, guard.condition)
            count += 1
    assert count > 50
    assert count <= sum(1 for a in system.actions.values() for _ in expressions(a))


@pytest.mark.parametrize(
    ("system", "claims"),
    [(peer.system, EVERY_CLAIM), (core.system, CORE_CLAIMS)],
    ids=["peer", "core"],
)
def test_claims_are_read_back(system, claims):
    """Claims likewise, with what is after the step; fired() is looked at below."""
    words = vocabulary(Source(system, None, ()))
    for claim in claims:
        scope, _ = Scope.of(words).bind(b.name for b in claim.bound)
        if not any(isinstance(node, Fired) for node in walk(claim.body)):
            assert_read_back(scope, claim.body)


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
def test_random_formulas_are_read_back(formula):
    """No bracket is missing and no layout changes what a formula says."""
    assert_read_back(Scope.of(vocabulary(Source(THINGS, None, ()))), formula)


@given(formulas())
def test_names_of_random_formulas_are_in_order(formula):
    """Also where a name is bound within itself."""
    claims = Properties(THINGS)

    @claims.invariant
    def random() -> Expr:
        """Any formula."""
        return formula

    assert_names_in_order(parse(to_tla(THINGS, [random])[0]))


# -- what the text says ----------------------------------------------------------------------------


def operator(module: str, name: str) -> list[str]:
    """The lines of a definition behind its head."""
    found = re.search(rf"^{name}(?:\([^)]*\))? ==(.*?)\n\n", module, re.MULTILINE | re.DOTALL)
    assert found, f"no {name}"
    return [line.strip() for line in found.group(1).splitlines() if line.strip()]


def test_an_action_reads_as_in_the_specification():
    """Guards in order with their codes, then what is assigned, then what stays."""
    module, _ = to_tla(peer.system)
    assert operator(module, "publish") == [
        r'/\ status[t] = "PREPARED"  \* else NOT_PREPARED',
        r'/\ phase[TheHandle(base[t])] = "READY"  \* else HANDLE_TERMINAL',
        r"/\ gen[TheHandle(base[t])] = base_gen[t]  \* else STALE_GENERATION",
        r"""/\ status' = [status EXCEPT ![t] = "PUBLISHED"]""",
        r"/\ gen' = [gen EXCEPT ![TheHandle(base[t])] = gen[TheHandle(base[t])] + 1]",
        r"/\ len' = [len EXCEPT ![TheHandle(base[t])] = len[TheHandle(base[t])] + 1]",
        r"/\ UNCHANGED <<phase, base, base_gen, staged_k, staged_v>>",
    ]


def test_a_refusal_with_an_effect_is_an_operator(zoo):
    """Earlier guards hold, its own is denied, and all members are assigned by a function."""
    module, _ = to_tla(zoo["refusals"]())
    assert operator(module, "attempt_LATE") == [
        r"/\ ~shut[i, c]  \* else NO",
        r"/\ ~(0 < left[i])  \* LATE: it is too late",
        r"/\ shut' =",
        r"[item_0 \in Item, colour_at_1 \in Colour |->",
        r"""IF colour_at_1 = "RED" THEN TRUE ELSE shut[item_0, colour_at_1]]""",
        r"/\ UNCHANGED <<left, seen>>",
    ]
    assert r"\/ \E i \in Item, c \in Colour : attempt_LATE(i, c)" in operator(module, "Event")
    assert "\nNext == Event /\\ InBounds'\n" in module


def test_limits_are_in_next_and_not_in_actions(zoo):
    """An instance restricts Next; the system's own text knows no limits."""
    module, configuration = to_tla(zoo["limited"]())
    wanted = r"\/ \E n \in 0..LevelTop : one + n < LevelTop /\ 0 < n /\ add(n)"
    assert any(wanted in line for line in operator(module, "Next"))
    assert "LevelTop" not in "".join(operator(module, "add"))
    assert "  most = 2\n" in configuration
    assert "  LevelTop = 5\n" in configuration
    assert wanted not in to_tla(zoo["limited"]().system)[0]


def test_initial_values(zoo):
    """ANY is any function, a pinned variable is constant, the rest is by index."""
    init = operator(to_tla(zoo["anywhere"]())[0], "Init")
    assert init == [
        r"/\ len \in [Item -> 0..LevelTop]",
        r"/\ register \in [Item -> BOOLEAN]",
        r"/\ bool = [i0 \in Item |-> NoItem]",
        r'/\ Len_ = [i0 \in Colour |-> IF i0 = "RED" THEN 2 ELSE 0]',
    ]
    free = operator(to_tla(zoo["anywhere"]().system)[0], "Init")
    assert r"/\ bool \in [Item -> Item \cup {NoItem}]" in free


def test_step_claims_name_the_step():
    """fired() is the existence of parameters; a refusal without effect is no step."""
    claims = Properties(peer.system)

    @claims.step
    def publication_moves_on() -> Expr:
        """A publication makes some generation larger, and no refusal of it does anything."""
        moved = exists(peer.Handle, lambda h: after(peer.gen[h]) > peer.gen[h])
        return implies(fired("publish"), moved) & ~fired("publish", "STALE_GENERATION")

    module, configuration = to_tla(peer.system, [publication_moves_on])
    assert_names_in_order(parse(module))
    text = " ".join(operator(module, "publication_moves_on"))
    assert r"(\E t \in Txn : publish(t)) => (\E h \in Handle : gen[h] < gen'[h])" in text
    assert "~FALSE" in text
    assert text.startswith("[][")
    assert text.endswith("]_vars")
    assert "PROPERTIES\n  publication_moves_on\n" in configuration


def test_leads_to_is_claimed_under_its_fairness(zoo):
    """Fairness is for each value of the named parameters and some value of the rest, within limits."""
    module, configuration = to_tla(peer.system, EVERY_CLAIM)
    fair = operator(module, "every_begun_append_ends_fairness")
    assert fair[0] == r"/\ \A t \in Txn, l \in Layer : WF_vars(stage_k(t, l))"
    assert r"/\ \A t \in Txn : WF_vars(publish(t) /\ InBounds')" in fair
    text = " ".join(operator(module, "every_begun_append_ends"))
    assert text.startswith(r"every_begun_append_ends_fairness => \A t \in Txn :")
    assert "~>" in text
    assert "  every_begun_append_ends\n" in configuration
    assert "NoDeadlock" in configuration
    instance = zoo["limited"]()
    claims = Properties(instance.system)
    one = instance.system.variables["one"].value

    @claims.leads_to(strong(instance.system.action("add")))
    def it_grows() -> tuple[Expr, Expr]:
        """It is larger in the end."""
        return one == 0, one > 0

    module, _ = to_tla(instance, [it_grows])
    assert_names_in_order(parse(module))
    (fair,) = operator(module, "it_grows_fairness")
    limits = r"one + n < LevelTop /\ 0 < n"
    assert fair == rf"/\ SF_vars(\E n \in 0..LevelTop : {limits} /\ add(n) /\ InBounds')"


def test_symmetry_is_asked_for_and_refused():
    """The configuration names the swaps; beside leads_to it does not merge states."""
    module, configuration = to_tla(peer.ROWS["2,2,2,3,4"], symmetry=True)
    assert "\nSYMMETRY Symmetry\n" in configuration
    assert "\n\\* SYMMETRY Symmetry\n" in to_tla(peer.ROWS["2,2,2,3,4"])[1]
    swaps = "Symmetry == UNION {Permutations(Handle), Permutations(Txn), Permutations(Layer)}"
    assert swaps in module
    with pytest.raises(
        ValueError, match=r"symmetry with leads_to properties .every_begun_append_ends"
    ):
        to_tla(peer.system, EVERY_CLAIM, symmetry=True)


def test_a_named_member_is_a_constant():
    """A mutant may name a member; then the module does, and that sort has no symmetry."""
    publish = peer.system.action("publish")
    only = publish.parameters[0] == Const(publish.parameters[0].type, 1)
    guard = attrs.evolve(
        publish.guards[0], condition=Variant(only.type, 3, publish.guards[0].condition, only)
    )
    actions = peer.system.actions | {"publish": attrs.evolve(publish, guards=(guard,))}
    system = attrs.evolve(peer.system, actions=actions)
    module, configuration = to_tla(system, variant=3)
    root = parse(module)
    assert_configured(root, configuration, assert_names_in_order(root))
    assert r"/\ t = txn1  \* else NOT_PREPARED" in operator(module, "publish")
    assert "Symmetry == UNION {Permutations(Handle), Permutations(Layer)}" in module
    assert "  txn1 = txn1\n" in configuration
    with pytest.raises(ValueError, match=r"members that are named .Txn1"):
        to_tla(system, symmetry=True)
