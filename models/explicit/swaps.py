"""Swaps: symmetry reduction over the members of open sorts.

A system speaks of members by equality alone, so two states that differ by a permutation of a sort's
members have the same futures up to that permutation. Of each such class the state with the smallest
packing is kept. Permutations are gone through by swaps of neighbours (Steinhaus, Johnson, Trotter), each
a few operations on the packed words.

A sort of which some constant names a member (an initial value, a mutation, a claim) is left alone. The
one member that the language itself names, `the(none)`, must not matter to a step: guards that ask for a
member first, as they should, ensure that. `represented` in the result counts the states of all classes,
which must be the count without reduction.

    canonical(out, lo, hi, bound)   replace states by their representatives
    orbits(out, lo, hi, bound)      how many states the representatives stand for
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from math import factorial, prod

import numpy as np

from kvspec.models.explicit.cache import load
from kvspec.models.explicit.packing import Field, Layout
from kvspec.models.explicit.visited import Words
from kvspec.models.explicit.writer import Writer
from kvspec.spec.language.actions import expressions
from kvspec.spec.language.expr import Const, Expr, Type, walk
from kvspec.spec.language.instances import Counts
from kvspec.spec.language.properties import Property
from kvspec.spec.language.sorts import type_of

MOST_PERMUTATIONS = 5_040


class Swaps:
    """The reduction over some sorts of an instance."""

    def __init__(self, layout: Layout, names: tuple[str, ...]) -> None:
        self.layout = layout
        self.names = names
        self.sizes = [layout.instance.sizes[name] for name in names]
        steps = [step for size in self.sizes for step in neighbour_swaps(size)]
        self._steps = np.array(steps, np.int64)

    def canonical(self, states: Words, count: int) -> None:
        """Replace the first `count` states by the representatives of their classes."""
        self._canonical(states, 0, count, self._steps)

    def orbits(self, states: Words, low: int, high: int) -> int:
        """How many states the representatives from `low` to `high` stand for."""
        return self._orbits(states, low, high, self._steps)

    def counted(self, expected: Counts) -> bool:
        """Whether the instance's count of classes is of these sorts."""
        sizes = self.layout.instance.sizes
        of = expected.swapped or tuple(sizes)
        return {name for name in of if sizes[name] > 1} == set(self.names)

    @cached_property
    def _canonical(self) -> Callable[..., int]:
        return load(self._source("canonical"))

    @cached_property
    def _orbits(self) -> Callable[..., int]:
        return load(self._source("orbits"))

    def _source(self, name: str) -> str:
        words = range(self.layout.words)
        out = Writer()
        with out.block(f"def {name}(out, lo, hi, bound):"):
            out.put("total = 0")
            with out.block("for i in range(lo, hi):"):
                for word in words:
                    out.put(f"s{word} = out[i * {self.layout.words} + {word}]")
                    out.put(f"b{word} = s{word}")
                out.put("fixed = 0")
                self._permute(out, 0, 0, keep=name == "canonical")
                if name == "canonical":
                    for word in words:
                        out.put(f"out[i * {self.layout.words} + {word}] = b{word}")
                else:
                    out.put(f"total += {prod(factorial(n) for n in self.sizes)} // fixed")
            out.put("return total")
        return out.text()

    def _permute(self, out: Writer, depth: int, offset: int, *, keep: bool) -> None:
        """Loops over the permutations of the sorts from `depth` on; each ends where it began."""
        words = range(self.layout.words)
        if depth == len(self.names):
            if not keep:
                out.put(f"if {' and '.join(f's{w} == b{w}' for w in words)}:")
                out.put("    fixed += 1")
                return
            with out.block(f"if {_less(self.layout.words)}:"):
                for word in words:
                    out.put(f"b{word} = s{word}")
            return
        steps = factorial(self.sizes[depth])
        with out.block(f"for j{depth} in range({steps}):"):
            self._permute(out, depth + 1, offset + steps, keep=keep)
            swaps = range(self.sizes[depth] - 1)
            out.put(f"w = bound[{offset} + j{depth}]")
            for swap in swaps:
                if len(swaps) == 1:
                    self._swap(out, self.names[depth], swap)
                    continue
                with out.block(f"if w == {swap}:"):
                    self._swap(out, self.names[depth], swap)

    def _swap(self, out: Writer, name: str, first: int) -> None:
        """Swap two neighbouring members: in the indices of tables, then in their values."""
        together: dict[tuple[int, int], int] = {}
        for field in self.layout.fields.values():
            if field.count and field.width:
                for axis, kind in enumerate(field.variable.domain):
                    if kind.kind == "open" and kind.name == name:
                        self._swap_places(out, field, axis, first, together)
        for (word, delta), mask in together.items():
            out.put(f"x = ((s{word} >> {delta}) ^ s{word}) & {mask}")
            out.put(f"s{word} = s{word} ^ (x | (x << {delta}))")
        for field in self.layout.fields.values():
            if field.count and field.width:
                self._swap_values(out, field, name, first)

    def _swap_places(
        self,
        out: Writer,
        field: Field,
        axis: int,
        first: int,
        together: dict[tuple[int, int], int],
    ) -> None:
        twice = sum(kind == field.variable.domain[axis] for kind in field.variable.domain) > 1
        for index in self.layout.indices(field):
            if index[axis] != first:
                continue
            element = sum(i * stride for i, stride in zip(index, field.strides, strict=True))
            word, shift = field.place(element)
            other, place = field.place(element + field.strides[axis])
            if word == other and not twice:
                key = word, place - shift
                together[key] = together.get(key, 0) | (field.mask << shift)
                continue
            out.put(f"x = ((s{word} >> {shift}) ^ (s{other} >> {place})) & {field.mask}")
            out.put(f"s{word} = s{word} ^ (x << {shift})")
            out.put(f"s{other} = s{other} ^ (x << {place})")

    def _swap_values(self, out: Writer, field: Field, name: str, first: int) -> None:
        codes = _codes(field.variable.type, name, first)
        if codes is None:
            return
        one, two = codes
        if self.layout.instance.sizes[name] == 2 and field.per_word >= field.count:
            ones = sum(1 << (field.shift + field.width * e) for e in range(field.count))
            word = f"s{field.word}"
            flipped = f"(({word} & {ones}) << 1)" if one else str(ones)
            out.put(f"{word} = {word} ^ {flipped}")
            return
        for element in range(field.count):
            number, shift = field.place(element)
            word = f"s{number}"
            out.put(f"x = ({word} >> {shift}) & {field.mask}")
            changed = f"{word} ^ {(one ^ two) << shift}"
            out.put(f"{word} = ({changed}) if ((x == {one}) | (x == {two})) else {word}")


def make_swaps(
    layout: Layout, properties: tuple[Property, ...], symmetry: bool | Iterable[object]
) -> Swaps | None:
    """The reduction over the sorts asked for, or None if there is nothing to reduce."""
    if symmetry is False:
        return None
    instance = layout.instance
    named = set(named_sorts(layout, properties))
    if symmetry is True:
        wanted = [name for name in instance.sizes if name not in named]
    else:
        wanted = [s if isinstance(s, str) else type_of(s).name for s in symmetry]
        for name in wanted:
            if name not in instance.sizes:
                raise ValueError(f"{name} is no open sort of {instance!r}: it has {instance.sizes}")
            if name in named:
                raise ValueError(
                    f"symmetry over {name} is not sound in {instance!r}: an initial value, an action "
                    "or a claim names a member of it"
                )
    chosen: list[str] = []
    for name in wanted:
        permutations = prod(factorial(instance.sizes[n]) for n in (*chosen, name))
        if instance.sizes[name] > 1 and permutations <= MOST_PERMUTATIONS:
            chosen.append(name)
    return Swaps(layout, tuple(chosen)) if chosen else None


def named_sorts(layout: Layout, properties: tuple[Property, ...]) -> Iterator[str]:
    """The open sorts of which some constant names a member."""
    for expr in _everything(layout, properties):
        for node in walk(expr):
            if isinstance(node, Const) and node.value is not None:
                if node.type.kind == "open":
                    yield node.type.name
                elif node.type.of is not None:
                    yield node.type.of.name


def _everything(layout: Layout, properties: tuple[Property, ...]) -> Iterator[Expr]:
    instance = layout.instance
    for action in instance.system.actions.values():
        yield from expressions(action)
    for variable in instance.system.variables.values():
        if isinstance(variable.initial, Expr):
            yield variable.initial
    yield from instance.initial.values()
    yield from (limit.condition for limit in instance.limits)
    for claim in properties:
        yield claim.body
        if claim.goal is not None:
            yield claim.goal


def neighbour_swaps(size: int) -> list[int]:
    """Swaps of places n and n + 1 that go through all permutations and back to the first."""
    order, ways = list(range(size)), [-1] * size
    steps: list[int] = []
    while len(steps) + 1 < factorial(size):
        for member in reversed(range(size)):
            place = order.index(member)
            other = place + ways[member]
            if 0 <= other < size and order[other] < member:
                break
        steps.append(min(place, other))
        order[place], order[other] = order[other], order[place]
        for larger in range(member + 1, size):
            ways[larger] = -ways[larger]
    return [*steps, 0]


def _codes(kind: Type, name: str, first: int) -> tuple[int, int] | None:
    """The codes of two neighbouring members in a variable of a type, if it holds such members."""
    if kind.kind == "open" and kind.name == name:
        return first, first + 1
    if kind.of is not None and kind.of.name == name:
        return 2 * first + 1, 2 * first + 3
    return None


def _less(words: int) -> str:
    text = f"(s{words - 1} < b{words - 1})"
    for word in reversed(range(words - 1)):
        text = f"((s{word} < b{word}) | ((s{word} == b{word}) & {text}))"
    return text
