"""A small system with every construct, for the reference engine."""

from kvspec.models.concrete import Event, Machine, State
from kvspec.spec.language import (
    ANY,
    Bool,
    Enum,
    ErrorCode,
    Map,
    Module,
    Natural,
    Open,
    Option,
    Step,
    System,
    bijective,
    exists,
    forall,
    implies,
    instance,
    is_some,
    member,
    none,
    the,
    where,
)


class Node(Open):
    """A node."""


class Size(Natural):
    """A size."""


class Colour(Enum):
    """A colour."""

    RED = member()
    BLUE = member()


garden = Module("garden", "One of each construct.")
most = garden.constant("most", Size, meaning="the most there is")
colour = garden.variable("colour", Node, to=Colour, init=Colour.RED, meaning="colour of a node")
size = garden.variable("size", Node, to=Size, init=0, meaning="size of a node")
link = garden.variable("link", Node, to=Option[Node], init=none(Node), meaning="next node")
mark = garden.variable("mark", Node, Colour, to=Bool, init=False, meaning="marks")
flag = garden.variable("flag", to=Bool, init=ANY, meaning="a flag")

LINKED = ErrorCode("LINKED", "the node has a link")
TOO_LARGE = ErrorCode("TOO_LARGE", "larger than the most")
NOT_ALL_RED = ErrorCode("NOT_ALL_RED", "some node of the set is not red")
NO_BIJECTION = ErrorCode("NO_BIJECTION", "some node is taken twice")
UNLIT = ErrorCode("UNLIT", "the flag is down")


@garden.action
def grow(step: Step, n: Node, k: Size) -> None:
    """Make a node larger by k."""
    step.require(~is_some(link[n]), LINKED)
    step.require(size[n] + k <= most, TOO_LARGE, refused={flag.value: True})
    step.assign(size[n], size[n] + k)


@garden.action
def connect(step: Step, n: Node, o: Option[Node]) -> None:
    """Link a node, and paint what it was linked to."""
    step.require(flag.value, UNLIT)
    step.assign(link[n], o)
    step.assign(colour[the(link[n])], Colour.BLUE)


@garden.action
def shuffle(step: Step, f: Map[Node, Node], s: Map[Node, Bool]) -> None:
    """Permute sizes; all of the set are red."""
    step.require(bijective(f), NO_BIJECTION)
    step.require(forall(Node, lambda n: implies(s[n], colour[n] == Colour.RED)), NOT_ALL_RED)
    for n in step.every(Node):
        step.assign(size[n], size[f[n]])
        for c in step.every(Colour):
            step.assign(mark[n, c], where(s[n], colour[n] == c, mark[n, c]))


@garden.action
def jump(step: Step, n: Node) -> None:
    """Make a node larger than all others, past any bound."""
    step.require(exists(Node, lambda m: (m != n) & (size[m] >= size[n])), UNLIT)
    step.assign(size[n], size[n] + 3)


system = System.of("garden", "One of each construct.", garden)


def make(nodes=3, largest=3, **more):
    """An instance by its sizes."""
    return instance("plot", system, {Node: nodes, Size: largest}, constants={most: 2}, **more)


def state(colours="RRR", sizes=(0, 0, 0), links=(None, None, None), marks=(), lit=False):
    """A state of the garden with three nodes; marks as (node, colour)."""
    names = {"R": "RED", "B": "BLUE"}
    table = tuple((n, c) in marks for n in range(3) for c in ("RED", "BLUE"))
    return State((tuple(names[c] for c in colours), tuple(sizes), tuple(links), table, (lit,)))


def event(action, **values):
    """An event of the garden."""
    return Event(action, tuple(values.items()))


MACHINE = Machine(make())
