"""A small module with one of each sort, made anew for each test, and a check of where an error points."""

import inspect

import attrs
import pytest

from kvspec.spec.language import (
    Bool,
    DefinitionError,
    Enum,
    ErrorCode,
    Module,
    Natural,
    Open,
    Option,
    Step,
    System,
    member,
    none,
)


class Node(Open):
    """A node."""


class Edge(Open):
    """An edge."""


class Size(Natural):
    """A size."""


class Colour(Enum):
    """A colour."""

    RED = member()
    BLUE = member()


class Taste(Enum):
    """A taste."""

    SWEET = member()
    SOUR = member()


EARLY = ErrorCode("EARLY", "of the first class", 1)
LATE = ErrorCode("LATE", "of the second class", 2)
OTHER = ErrorCode("OTHER", "of no class")


@attrs.frozen(eq=False)
class Toy:
    """A module and its variables."""

    module: Module
    colour: object
    size: object
    link: object
    mark: object
    flag: object
    most: object


def toy(name="toy"):
    """A module with a variable of each type and a constant."""
    module = Module(name, "A toy.")
    return Toy(
        module,
        module.variable("colour", Node, to=Colour, init=Colour.RED, meaning="colour of a node"),
        module.variable("size", Node, to=Size, init=0, meaning="size of a node"),
        module.variable("link", Node, to=Option[Node], init=none(Node), meaning="next node"),
        module.variable("mark", Node, Edge, to=Bool, init=False, meaning="marks"),
        module.variable("flag", to=Bool, init=False, meaning="a flag"),
        module.constant("most", Size, meaning="the most there is"),
    )


def grown(t):
    """The toy with one action, as a system."""

    @t.module.action
    def grow(step: Step, n: Node, k: Size) -> None:
        """Make a node larger."""
        step.require(t.size[n] + k <= t.most, OTHER)
        step.assign(t.size[n], t.size[n] + k)

    return System.of(t.module.name, "A toy.", t.module)


def fault_line(function):
    """The line of a function's source that is marked as the fault."""
    lines, first = inspect.getsourcelines(function)
    (found,) = [first + n for n, line in enumerate(lines) if line.rstrip().endswith("# fault")]
    return found


def refuses(function, *parts):
    """The function raises a DefinitionError that names its own marked line and has these parts."""
    with pytest.raises(DefinitionError) as caught:
        function()
    assert (caught.value.file, caught.value.line) == (
        function.__code__.co_filename,
        fault_line(function),
    )
    message = str(caught.value)
    assert message.startswith(f"{caught.value.file}:{caught.value.line}: ")
    for part in parts:
        assert part in message
