"""Every object of the language has a text that a reader can check against what was meant."""

import pytest
from language_toys import OTHER, Colour, Edge, Node, Size, toy

from kvspec.properties.core import properties
from kvspec.properties.mutation import mutate
from kvspec.properties.refinements import publication_is_atomic
from kvspec.spec import core
from kvspec.spec.append import publish
from kvspec.spec.language import (
    ANY,
    FALSE,
    TRUE,
    Bool,
    Const,
    Map,
    Option,
    Properties,
    Step,
    Symbol,
    System,
    Variant,
    after,
    all_of,
    any_of,
    bijective,
    exists,
    fired,
    forall,
    implies,
    instance,
    is_some,
    limit,
    none,
    one_of,
    the,
    type_of,
    where,
)
from kvspec.spec.lifecycle import fork

PUBLISH = """\
publish(x: Txn)
  | Make all layers visible at once, if the handle still has the captured snapshot.
  when state[x] = PREPARED                         else NOT_PREPARED
       generation[target[x]] = base_generation[x]  else STALE_GENERATION, which assigns
           state'[x] = REJECTED
           target'[x] = none
           base_generation'[x] = 0
           base_version'[x] = 0
           txn_abi'[x] = none
           key'[x] = none
           for all layer_0 in Layer:
             k_end'[x, layer_0] = start[x]
             v_end'[x, layer_0] = start[x]
       version[target[x]] = base_version[x]        else STALE_SNAPSHOT, which assigns the same
       phase[target[x]] = DECODE_READY             else HANDLE_TERMINAL, which assigns the same
  then state'[x] = PUBLISHED
       receipt'[x] = version[target[x]] + 1
       version'[target[x]] = version[target[x]] + 1
       length'[target[x]] = start[x] + count[x]
       for all layer_0 in Layer:
         k_rows'[target[x], layer_0] = k_end[x, layer_0]
         v_rows'[target[x], layer_0] = v_end[x, layer_0]
       for all row_0 in Row:
         row_position'[row_0] = \
(start[x] + count[x] if row_cache[row_0] = target[x] else row_position[row_0])"""

FORK = """\
fork(p: Handle, children: Handle -> Bool, n: Length)
  | Give the first n rows of a ready handle to all children at once; the parent stays as it is.
  when phase[p] = DECODE_READY                                       else HANDLE_TERMINAL
       for some c in Handle: children[c]                             else NO_CHILD
       n <= length[p]                                                else BEYOND_COMMITTED
       for all c in Handle: children[c] => phase[c] = VACANT or phase[c] = RELEASED  else CHILD_IN_USE
  then for all handle_0 in Handle:
         phase'[handle_0] = (DECODE_READY if children[handle_0] else phase[handle_0])
         version'[handle_0] = (0 if children[handle_0] else version[handle_0])
         abi'[handle_0] = (abi[p] if children[handle_0] else abi[handle_0])
         parent'[handle_0] = (p if children[handle_0] else parent[handle_0])
         length'[handle_0] = (n if children[handle_0] else length[handle_0])
       for all handle_0 in Handle, layer_1 in Layer:
         k_rows'[handle_0, layer_1] = (n if children[handle_0] else k_rows[handle_0, layer_1])
         v_rows'[handle_0, layer_1] = (n if children[handle_0] else v_rows[handle_0, layer_1])
       for all handle_0 in Handle, block_1 in Block:
         owner'[block_1, handle_0] = \
(owner[block_1, p] if children[handle_0] else owner[block_1, handle_0])"""


def test_publish_reads_as_on_a_board():
    """Four guards in order, what a stale base assigns, and all layers in one step (A4)."""
    assert repr(publish) == PUBLISH


def test_fork_reads_as_on_a_board():
    """All children in one step, and nothing of the parent is assigned (A6)."""
    assert repr(fork) == FORK


T = toy()
N, K = (Symbol(type_of(kind), name, "parameter") for kind, name in ((Node, "n"), (Size, "k")))
COLOUR, SIZE, FLAG = T.colour[N], T.size[N], T.flag.value


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (TRUE, "true"),
        (FALSE, "false"),
        (none(Node), "none"),
        (Const(type_of(Node), 2), "#2"),
        (Colour.RED, "RED"),
        (T.most, "most"),
        (Size.top, "Size.top"),
        (FLAG, "flag"),
        (T.mark[N, Symbol(type_of(Edge), "e", "bound")], "mark[n, e]"),
        (after(T.size[the(T.link[N])]), "size'[link'[n]]"),
        (the(none(Node)), "the(none)"),
        (T.link[N] == N, "link[n] = n"),
        (is_some(T.link[N]), "link[n] != none"),
        (COLOUR != Colour.RED, "colour[n] != RED"),
        (~~FLAG, "flag"),
        (~(FLAG & (SIZE == 1)), "not (flag and size[n] = 1)"),
        (~FLAG & (SIZE > K), "not flag and k < size[n]"),
        ((FLAG | (SIZE >= 2)) & FLAG, "(flag or 2 <= size[n]) and flag"),
        (FLAG | FLAG & FLAG, "flag or flag and flag"),
        (implies(FLAG, implies(FLAG, FLAG)), "flag => (flag => flag)"),
        (implies(implies(FLAG, FLAG), FLAG), "(flag => flag) => flag"),
        ((SIZE == 1) == FLAG, "(size[n] = 1) = flag"),
        (K - (SIZE - 1) <= 3, "k - (size[n] - 1) <= 3"),
        (K - SIZE - 1 < 3 + K, "k - size[n] - 1 < 3 + k"),
        (1 - (K + 1) == 0, "1 - (k + 1) = 0"),
        (where(FLAG, K, 0) + 1 == 1, "(k if flag else 0) + 1 = 1"),
        (one_of(COLOUR, Colour.RED, Colour.BLUE), "colour[n] = RED or colour[n] = BLUE"),
        (all_of(), "true"),
        (any_of(), "false"),
        (all_of(FLAG, FLAG, FLAG), "flag and flag and flag"),
        (forall(Node, Edge, lambda a, e: T.mark[a, e]), "for all a in Node, e in Edge: mark[a, e]"),
        (
            FLAG & exists(Node, lambda a: T.size[a] == 0),
            "flag and (for some a in Node: size[a] = 0)",
        ),
        (fired("grow"), "step is grow"),
        (fired("grow", OTHER), "grow refused with OTHER"),
        (Variant(FLAG.type, 3, FLAG, TRUE), "<3: flag | true>"),
    ],
)
def test_formulas_have_the_brackets_they_need(formula, text):
    """The text of a formula has the brackets without which it could be read in two ways."""
    assert repr(formula) == text


def moved():
    """A system with a function-valued parameter, a refusal with an effect, and an open start."""
    t = toy()
    t.module.variable("place", Node, to=Bool, init=ANY, meaning="somewhere")

    @t.module.action
    def move(step: Step, f: Map[Node, Node], o: Option[Node], k: Size) -> None:
        """Move nodes.

        Two lines of text.
        """
        step.require(bijective(f), OTHER, refused={t.flag.value: True})
        step.require((k <= t.most) & (t.link[the(o)] == o), OTHER_TWO)
        for n in step.every(Node):
            step.assign(t.size[n], t.size[f[n]])

    return t, System.of("toy", "A toy.", t.module)


OTHER_TWO = type(OTHER)("OTHER_TWO", "another")


def test_a_system_reads_from_its_sorts_to_its_actions():
    """The text of a system lists sorts, constants, variables with their start and meaning, and actions."""
    _, system = moved()
    text = repr(system)
    assert text.startswith("system toy\n  A toy.\n\nsort Node: any number of members\n")
    for line in (
        "sort Colour: RED, BLUE",
        "sort Size: naturals",
        "constant most: Size",
        "variable colour: Node -> Colour = RED  # colour of a node",
        "variable mark: Node x Edge -> Bool = false  # marks",
        "variable flag: Bool = false  # a flag",
        "variable link: Node -> Option[Node] = none  # next node",
        "variable place: Node -> Bool = ANY  # somewhere",
        "move(f: Node -> Node, o: Option[Node], k: Size)",
        "  | Two lines of text.",
        "  when f is a bijection                    else OTHER, which assigns",
        "           flag' = true",
        "       k <= most and link[the(o)] = o  else OTHER_TWO",
        "         size'[node_0] = size[f[node_0]]",
    ):
        assert " ".join(line.split()) in [" ".join(found.split()) for found in text.splitlines()]


def test_instances_limits_and_claims_have_texts():
    """An instance shows its sizes, a limit its condition, a claim its kind, name and formulas."""
    t, system = moved()
    restriction = limit(system.action("move"))(lambda k: k < Size.top)
    small = instance(
        "small", system, {Node: 2, Edge: 0, Size: 3}, constants={T.most: 2}, limits=(restriction,)
    )
    assert repr(small) == "toy/small (Node=2 Edge=0 Size=3)"
    assert repr(restriction) == "move only if k < Size.top"
    claims = Properties(system)

    @claims.lemma
    def flagged():
        """The flag is set."""
        return t.flag.value

    @claims.leads_to()
    def grows(n: Node):
        """A node grows."""
        return t.size[n] == 0, t.size[n] == 1

    assert repr(flagged) == "lemma flagged: flag"
    assert repr(grows) == "leads_to grows: for all n in Node: size[n] = 0 leads to size[n] = 1"


def test_small_objects_have_texts():
    """Modules, variables, codes, sorts, types, maps and refinements show their names."""
    t, system = moved()
    assert repr(t.module) == "Module(toy)"
    assert repr(t.size) == "size"
    assert repr(OTHER) == "OTHER"
    assert repr(Node) == "Node"
    assert repr(ANY) == "ANY"
    assert str(type_of(Option[Node])) == "Option[Node]"
    assert repr(system.action("move").parameters[0]) == "f"
    assert repr(publication_is_atomic) == "publication_is_atomic: core refines atomic"


def test_no_text_of_the_core_shows_an_address():
    """No object of the core system, of its claims, or of a mutant falls back on Python's own text."""
    texts = [repr(core.system), repr(mutate(core.system).system), *map(repr, core.INSTANCES)]
    texts += [*map(repr, properties.by_name.values()), *map(repr, core.LIMITS)]
    for text in texts:
        assert " object at 0x" not in text
        assert text
