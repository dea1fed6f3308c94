"""Tiny systems, one for each corner of the language, and a search of them by the reference engine."""

import warnings
from collections.abc import Callable

import attrs
import pytest
import tree_sitter_tlaplus
from tree_sitter import Language, Parser

from kvspec.models.concrete import Event, Machine, Outcome, State
from kvspec.spec.language import (
    ANY,
    Bool,
    Enum,
    ErrorCode,
    Instance,
    Map,
    Module,
    Natural,
    Open,
    Option,
    System,
    bijective,
    exists,
    forall,
    instance,
    is_some,
    limit,
    member,
    none,
    the,
    where,
)

NO = ErrorCode("NO", "it is not so")
LATE = ErrorCode("LATE", "it is too late")


class Item(Open):
    """Anything that can be counted."""


class Spare(Open):
    """Of this there is none."""


class Level(Natural):
    """A small number."""


class Colour(Enum):
    """Also an index of tables."""

    RED = member()
    GREEN = member()
    BLUE = member()


def anywhere() -> Instance:
    """Cells that start anywhere, cells that are pinned, cells that start apart."""
    module = Module("anywhere", "Initial values of every kind.")
    # Names that Promela, C or TLA+ reads otherwise.
    level = module.variable("len", Item, to=Level, init=ANY, meaning="starts anywhere")
    lit = module.variable("register", Item, to=Bool, init=ANY, meaning="starts anywhere")
    held = module.variable("bool", Item, to=Option[Item], init=ANY, meaning="is pinned to none")
    apart = module.variable(
        "Len", Colour, to=Level, init=lambda c: where(c == Colour.RED, 2, 0), meaning="starts apart"
    )

    @module.action
    def d_step(step, of: Item) -> None:
        """Count up from a lit item, and let it hold itself."""
        step.require(lit[of], NO)
        step.assign(level[of], level[of] + 1)
        step.assign(lit[of], ~lit[of])
        step.assign(held[of], of)

    @module.action
    def mix(step, do: Colour) -> None:
        """Lower what starts apart."""
        step.require(apart[do] > 0, NO)
        step.assign(apart[do], apart[do] - 1)

    system = System.of("active", "Starts in several states.", module)
    return instance("several", system, {Item: 2, Level: 2}, initial={held: None})


def options() -> Instance:
    """Options that are none, compared, followed, and passed on."""
    module = Module("options", "Members and none.")
    following = module.variable(
        "following", Item, to=Option[Item], init=none(Item), meaning="next of a chain"
    )
    best = module.variable("best", to=Option[Item], init=none(Item), meaning="an item or none")
    marked = module.variable("marked", Item, to=Level, init=0, meaning="marks")

    @module.action
    def link(step, a: Item, b: Item) -> None:
        """Put b behind a."""
        step.require(~is_some(following[a]), NO)
        step.require(following[b] != a, LATE)
        step.assign(following[a], b)
        step.assign(best.value, following[the(best.value)])

    @module.action
    def mark(step, a: Item) -> None:
        """Mark what stands behind a, by default the first item."""
        step.require(marked[the(following[a])] < 1, NO)
        step.assign(marked[the(following[a])], marked[the(following[a])] + 1)
        step.assign(best.value, where(following[a] == best.value, a, following[a]))

    @module.action
    def drop(step, a: Item) -> None:
        """Forget what stands behind a."""
        step.assign(following[a], None)

    return instance("two", System.of("options", "Chains.", module), {Item: 2, Level: 1})


def maps() -> Instance:
    """A bijection that moves all items at once, a set of items, and a map to colours."""
    module = Module("maps", "Parameters that are functions.")
    colour = module.variable("colour", Item, to=Colour, init=Colour.RED, meaning="colour")
    rank = module.variable("rank", Item, to=Level, init=0, meaning="place in a row")

    @module.action
    def reorder(step, source: Map[Item, Item]) -> None:
        """Move every item at once."""
        step.require(bijective(source), NO)
        for item in step.every(Item):
            step.assign(colour[item], colour[source[item]])
            step.assign(rank[item], rank[source[item]])

    @module.action
    def raise_all(step, chosen: Map[Item, Bool]) -> None:
        """Raise every chosen item."""
        step.require(exists(Item, lambda i: chosen[i]), NO)
        step.require(forall(Item, lambda i: ~chosen[i] | (rank[i] < 1)), LATE)
        for item in step.every(Item):
            step.assign(rank[item], where(chosen[item], rank[item] + 1, rank[item]))

    @module.action
    def paint(step, scheme: Map[Item, Colour]) -> None:
        """Paint every item, once none is red."""
        step.require(forall(Item, lambda i: rank[i] == 1), NO)
        for item in step.every(Item):
            step.assign(colour[item], scheme[item])

    return instance("three", System.of("maps", "Functions.", module), {Item: 3, Level: 1})


def refusals() -> Instance:
    """Refusals with an effect: one cell, all members of a sort, nothing new, and out of bounds."""
    module = Module("refusals", "Steps that are refused and yet do something.")
    left = module.variable("left", Item, to=Level, init=2, meaning="tries that are left")
    shut = module.variable("shut", Item, Colour, to=Bool, init=False, meaning="shut for a colour")
    seen = module.variable("seen", to=Level, init=0, meaning="refusals seen, never read")

    def shut_all(step) -> None:
        for item in step.every(Item):
            step.assign(shut[item, Colour.RED], True)

    @module.action
    def attempt(step, i: Item, c: Colour) -> None:
        """Use up a try."""
        step.require(~shut[i, c], NO, {seen.value: 1})
        step.require(left[i] > 0, LATE, shut_all)
        step.require(left[i] != 1, ErrorCode("LAST", "one try is left"), {left[i]: left[i] - 1})
        step.assign(left[i], left[i] - 1)

    @module.action
    def give(step, i: Item) -> None:
        """Hand out tries again, or none: beyond the bound the step is cut."""
        step.require(forall(Colour, lambda c: ~shut[i, c]), NO)
        step.assign(left[i], left[i] + 2)

    @module.action
    def take(step, i: Item) -> None:
        """Take tries away: below 0 the step is cut."""
        step.assign(left[i], left[i] - 2)

    return instance("one", System.of("refusals", "Refused.", module), {Item: 2, Level: 2})


def limited() -> Instance:
    """Limits by parameter and by the largest value, natural parameters, values moved in a circle."""
    module = Module("limited", "Limits of an instance.")
    most = module.constant("most", Level, meaning="the largest step")
    one = module.variable("one", to=Level, init=0, meaning="first of three")
    two = module.variable("two", to=Level, init=1, meaning="second of three")
    three = module.variable("three", to=Level, init=0, meaning="third of three")

    @module.action
    def turn(step) -> None:
        """Move the values in a circle."""
        step.assign(one.value, two.value)
        step.assign(two.value, three.value)
        step.assign(three.value, one.value)

    @module.action
    def add(step, n: Level) -> None:
        """Add up to the largest step, and keep the difference."""
        step.require(n <= most, NO)
        step.require(n - two.value >= 0 - 1, LATE)
        step.assign(one.value, one.value + n)
        step.assign(three.value, where(one.value < two.value, two.value - one.value, 0))

    @limit(add)
    def adds_below_the_top(n):
        """Never up to the top, and never nothing."""
        return (one.value + n < Level.top) & (n > 0)

    system = System.of("limited", "Limited.", module)
    return instance("few", system, {Level: 5}, constants={most: 2}, limits=(adds_below_the_top,))


def empty() -> Instance:
    """A sort of size 0: no parameters, no cells, true of all and of none."""
    module = Module("empty", "Nothing of a kind.")
    spare = module.variable("spare", Spare, to=Bool, init=ANY, meaning="has no cells")
    wanted = module.variable("wanted", to=Option[Spare], init=none(Spare), meaning="stays none")
    done = module.variable("done", Item, to=Bool, init=False, meaning="is done")

    @module.action
    def use(step, s: Spare) -> None:
        """Never possible."""
        step.assign(spare[s], True)
        step.assign(wanted.value, s)

    @module.action
    def finish(step, i: Item) -> None:
        """Possible since all spares are in use; the set of spares has one value, the empty one."""
        step.require(forall(Spare, lambda s: spare[s]) & ~exists(Spare, lambda s: spare[s]), NO)
        step.require(~done[i], LATE)
        step.assign(done[i], True)

    @module.action
    def choose(step, of: Map[Spare, Bool]) -> None:
        """The only map from nothing."""
        step.require(~exists(Spare, lambda s: of[s]) & ~is_some(wanted.value), NO)
        step.assign(wanted.value, None)

    return instance("none", System.of("empty", "Nothing.", module), {Item: 2, Spare: 0})


def nowhere() -> Instance:
    """No member to start with, so no state at all."""
    module = Module("nowhere", "No initial state.")
    module.variable("at", Item, to=Spare, init=ANY, meaning="has no value")

    @module.action
    def stay(step, i: Item) -> None:
        """Never reached."""
        step.require(forall(Item, lambda j: j == i), NO)

    return instance("none", System.of("nowhere", "Nowhere.", module), {Item: 1, Spare: 0})


ZOO = {make.__name__: make for make in (anywhere, options, maps, refusals, limited, empty, nowhere)}


@pytest.fixture(params=ZOO)
def tiny(request: pytest.FixtureRequest) -> Instance:
    """Each of the tiny systems in turn."""
    return ZOO[request.param]()


@pytest.fixture
def zoo() -> dict[str, Callable[[], Instance]]:
    """All tiny systems by name."""
    return ZOO


@attrs.frozen
class Found:
    """What a search by the reference engine found."""

    states: int
    transitions: int
    depth: int
    initial: int
    cuts: int
    steps: list[tuple[State, list[tuple[Event, Outcome]]]]


@pytest.fixture
def explore() -> Callable[[Instance], Found]:
    """A breadth-first search by the reference engine, one step after the other."""

    def search(of: Instance) -> Found:
        machine = Machine(of)
        level = machine.initial_states()
        seen, steps, depth = set(level), [], -1
        initial, cuts = len(level), 0
        while level:
            depth, after = depth + 1, []
            for state in level:
                taken = machine.transitions(state)
                cuts += sum(
                    machine.step(state, event).kind == "cut"
                    for event in machine.events()
                    if machine.within_limits(state, event)
                )
                steps.append((state, taken))
                for _, outcome in taken:
                    if outcome.state not in seen:
                        seen.add(outcome.state)
                        after.append(outcome.state)
            level = after
        taken_in_all = sum(len(taken) for _, taken in steps)
        return Found(len(seen), taken_in_all, max(depth, 0), initial, cuts, steps)

    return search


class Tla:
    """A parser of TLA+ from outside."""

    def __init__(self) -> None:
        with warnings.catch_warnings():  # tree_sitter deprecates the way the grammar is handed over
            warnings.simplefilter("ignore", DeprecationWarning)
            self.parser = Parser(Language(tree_sitter_tlaplus.language()))

    def parse(self, text: str):
        """The module's syntax tree; a part that is no TLA+ fails the test."""
        root = self.parser.parse(text.encode()).root_node
        wrong = [
            (n.start_point, n.text) for n in self.all(root) if n.type == "ERROR" or n.is_missing
        ]
        assert not wrong, wrong
        return root

    def all(self, root):
        """Every node, in the order of the text."""
        yield root
        for child in root.children:
            yield from self.all(child)

    def nodes(self, root, *kinds: str):
        """The nodes of some kinds, in the order of the text."""
        return [node for node in self.all(root) if node.type in kinds]


@pytest.fixture(scope="session")
def tla() -> Tla:
    """The parser, for all tests."""
    return Tla()
