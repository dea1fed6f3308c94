"""Packing: every state of an instance as a few machine words, every value as a small code.

Codes. Bool: 0 or 1. Natural: itself. Enumeration: the place of the member. Member of an open sort: its
index. Option: none is 0 and member i is 2i + 1, so that `the` is a shift and `the(none)` is member 0.

A variable's table lies in one word if it fits, so that reading at an index is one shift. Word 0 has a
mark bit above all fields: no state packs to 0, which is the empty slot of the visited set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

import attrs

from kvspec.spec.language.expr import Type, Value
from kvspec.spec.language.instances import Instance
from kvspec.spec.language.variables import Variable

WORD_BITS = 62
MARK = 1 << WORD_BITS


def codes(kind: Type, instance: Instance) -> Sequence[int]:
    """The codes of all values of a type, in order."""
    count = instance.members(kind)
    if kind.kind == "option":
        return [0, *range(1, 2 * count - 2, 2)]
    return range(count)


def top_code(kind: Type, instance: Instance) -> int:
    """The largest code of a type; 0 for a type without values."""
    return max(codes(kind, instance), default=0)


def encode(kind: Type, value: Value) -> int:
    """The code of a concrete value."""
    if kind.kind == "option":
        return 0 if value is None else 2 * int(value) + 1
    if kind.kind == "enum":
        return kind.members.index(str(value))
    if value is None:
        raise ValueError(f"found none where a value of {kind} is expected: only an option has none")
    return int(value)


def decode(kind: Type, code: int) -> Value:
    """The concrete value of a code."""
    if kind.kind == "option":
        return None if code == 0 else code >> 1
    if kind.kind == "enum":
        return kind.members[code]
    return bool(code) if kind.kind == "bool" else code


@attrs.frozen(eq=False)
class Field:
    """Where the table of a variable lies.

    Element e is in word `word + e // per_word`, `width` bits from `shift + width * (e % per_word)`.
    """

    variable: Variable
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    count: int
    width: int
    top: int
    word: int
    shift: int
    per_word: int

    @property
    def mask(self) -> int:
        """The bits of one element, not shifted."""
        return (1 << self.width) - 1

    def place(self, element: int) -> tuple[int, int]:
        """Word and shift of an element."""
        word, rest = divmod(element, self.per_word)
        return self.word + word, self.shift + self.width * rest


@attrs.frozen(eq=False)
class Layout:
    """The packing of the states of one instance into `words` words."""

    instance: Instance
    fields: dict[str, Field]
    words: int
    bits: int

    def pack(self, table: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
        """The words of a state given by the codes of each variable's elements."""
        words = [0] * self.words
        words[0] = MARK
        for name, field in self.fields.items():
            for element, code in enumerate(table[name]):
                word, shift = field.place(element)
                words[word] |= code << shift
        return tuple(words)

    def unpack(self, words: Sequence[int]) -> dict[str, list[int]]:
        """The codes of each variable's elements in a packed state."""
        table: dict[str, list[int]] = {}
        for name, field in self.fields.items():
            places = [field.place(element) for element in range(field.count)]
            table[name] = [(int(words[word]) >> shift) & field.mask for word, shift in places]
        return table

    def indices(self, field: Field) -> list[tuple[int, ...]]:
        """The index of each element of a table, in order."""
        return list(product(*(range(size) for size in field.sizes)))


def make_layout(instance: Instance, word_bits: int = WORD_BITS) -> Layout:
    """The layout of an instance; `word_bits` (at most 62) may be lowered to force several words."""
    shapes = [_shape(variable, instance) for variable in instance.system.variables.values()]
    widest = max((width for *_, width, _ in shapes), default=1)
    if not widest <= word_bits <= WORD_BITS:
        raise ValueError(
            f"words of {word_bits} bits for {instance!r}: give between {widest} (its widest value) "
            f"and {WORD_BITS}"
        )
    free: list[int] = []
    placed: dict[str, Field] = {}
    order = sorted(range(len(shapes)), key=lambda n: -shapes[n][2] * shapes[n][3])
    for number in order:
        variable, sizes, count, width, top = shapes[number]
        strides = tuple(prod(sizes[n + 1 :]) for n in range(len(sizes)))
        word, shift, per_word = _find_room(free, count, width, word_bits)
        placed[variable.name] = Field(
            variable, sizes, strides, count, width, top, word, shift, per_word
        )
    fields = {name: placed[name] for name in instance.system.variables}
    bits = sum(field.count * field.width for field in fields.values())
    return Layout(instance, fields, max(1, len(free)), bits)


def _shape(
    variable: Variable, instance: Instance
) -> tuple[Variable, tuple[int, ...], int, int, int]:
    sizes = tuple(instance.members(kind) for kind in variable.domain)
    top = top_code(variable.type, instance)
    return variable, sizes, prod(sizes), top.bit_length(), top


def _find_room(free: list[int], count: int, width: int, word_bits: int) -> tuple[int, int, int]:
    """Word, shift and elements a word of a table; `free` is the number of bits used in each word."""
    if count == 0 or width == 0:
        return 0, 0, max(1, count)
    for word, used in enumerate(free):
        if used + count * width <= word_bits:
            free[word] += count * width
            return word, used, count
    per_word = min(count, word_bits // width)
    first = len(free)
    whole, rest = divmod(count, per_word)
    free.extend([per_word * width] * whole)
    if rest:
        free.append(rest * width)
    return first, 0, per_word
