"""The TLA+ text, read back by a parser from outside. TLC itself is not run here.

Modules are well formed, their names are in order, and they say what the specification says.
"""

import re

import attrs
import pytest

from kvspec.models.export import to_tla
from kvspec.models.export.names import TLA_WORDS
from kvspec.properties.core import properties as claimed
from kvspec.spec import core
from kvspec.spec.examples import peer
from kvspec.spec.language import (
    Const,
    Expr,
    Properties,
    Variant,
    after,
    exists,
    fired,
    forall,
    implies,
    strong,
)

EVERY_CLAIM = tuple(peer.properties.by_name.values())
CORE_CLAIMS = tuple(claimed.by_name.values())


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


def assert_configured(tla, root, configuration: str, own: set[str]) -> None:
    """The configuration gives each constant a value, and asks for what is defined."""
    declared = {n for unit in tla.nodes(root, "constant_declaration") for n in names(unit)}
    assert set(re.findall(r"^  (\w+) = ", configuration, re.MULTILINE)) == declared
    asked = configuration.split("SPECIFICATION", 1)[1]
    used = re.findall(
        r"^(?:  |SPECIFICATION |SYMMETRY |\\\* (?:INVARIANT|SYMMETRY) )(\w+)$", asked, re.MULTILINE
    )
    assert "TypeOK" in used
    assert set(used) <= own


def operator(module: str, name: str) -> list[str]:
    """The lines of a definition behind its head."""
    found = re.search(rf"^{name}(?:\([^)]*\))? ==(.*?)\n\n", module, re.MULTILINE | re.DOTALL)
    assert found, f"no {name}"
    return [line.strip() for line in found.group(1).splitlines() if line.strip()]


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
def test_real_systems_are_well_formed(source, claims, tla):
    """The module parses, names are in order, and the configuration fits."""
    module, configuration = to_tla(source, claims)
    root = tla.parse(module)
    assert_configured(tla, root, configuration, assert_names_in_order(root))
    assert max(map(len, module.splitlines())) < 200


def test_every_corner_of_the_language_is_well_formed(tiny, tla):
    """So are the tiny systems, as instances and as systems."""
    for source in (tiny, tiny.system):
        module, configuration = to_tla(source)
        root = tla.parse(module)
        assert_configured(tla, root, configuration, assert_names_in_order(root))


def test_a_name_bound_within_itself_is_renamed(tla):
    """TLA+ lets no name hide another: neither a bound one nor a variable of the system."""
    claims = Properties(peer.system)

    @claims.invariant
    def hidden() -> Expr:
        """Two handles called h, and one called like a variable."""
        inner = exists(peer.Handle, peer.Handle, lambda h, gen: peer.gen[h] == peer.gen[gen])
        return forall(peer.Handle, lambda h: implies(peer.gen[h] > 0, inner))

    module, _ = to_tla(peer.system, [hidden])
    assert_names_in_order(tla.parse(module))
    text = " ".join(operator(module, "hidden"))
    assert text == (
        r"\A h \in Handle : "
        r"0 < gen[h] => (\E h_ \in Handle, gen_ \in Handle : gen[h_] = gen[gen_])"
    )


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


def test_step_claims_name_the_step(tla):
    """fired() is the existence of parameters."""
    claims = Properties(peer.system)

    @claims.step
    def publication_moves_on() -> Expr:
        """A publication makes some generation larger."""
        moved = exists(peer.Handle, lambda h: after(peer.gen[h]) > peer.gen[h])
        return implies(fired("publish"), moved)

    module, configuration = to_tla(peer.system, [publication_moves_on])
    assert_names_in_order(tla.parse(module))
    text = " ".join(operator(module, "publication_moves_on"))
    assert r"(\E t \in Txn : publish(t)) => (\E h \in Handle : gen[h] < gen'[h])" in text
    assert text.startswith("[][")
    assert text.endswith("]_vars")
    assert "PROPERTIES\n  publication_moves_on\n" in configuration


def test_leads_to_is_claimed_under_its_fairness(zoo, tla):
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
    assert_names_in_order(tla.parse(module))
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


def test_a_named_member_is_a_constant(tla):
    """A mutant may name a member; then the module does, and that sort has no symmetry."""
    publish = peer.system.action("publish")
    only = publish.parameters[0] == Const(publish.parameters[0].type, 1)
    guard = attrs.evolve(
        publish.guards[0], condition=Variant(only.type, 3, publish.guards[0].condition, only)
    )
    actions = peer.system.actions | {"publish": attrs.evolve(publish, guards=(guard,))}
    system = attrs.evolve(peer.system, actions=actions)
    module, configuration = to_tla(system, variant=3)
    root = tla.parse(module)
    assert_configured(tla, root, configuration, assert_names_in_order(root))
    assert r"/\ t = txn1  \* else NOT_PREPARED" in operator(module, "publish")
    assert "Symmetry == UNION {Permutations(Handle), Permutations(Layer)}" in module
    assert "  txn1 = txn1\n" in configuration
    with pytest.raises(ValueError, match=r"members that are named .Txn1"):
        to_tla(system, symmetry=True)
