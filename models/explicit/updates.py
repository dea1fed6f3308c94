"""Updates: simultaneous assignments as bit operations on the words of a state.

All values are read from the words before (`s0`, `s1`, ...); the words after are `t0`, `t1`, ...
Elements at known places are cleared by one mask and set by one constant for each word.
"""

from __future__ import annotations

from itertools import product

from kvspec.models.explicit.folding import Formula, Val, constant, join
from kvspec.models.explicit.packing import WORD_BITS, Field, codes
from kvspec.models.explicit.terms import After, Terms, scaled, split
from kvspec.spec.language.actions import Assignment

_ALL = (1 << (WORD_BITS + 1)) - 1


class Update:
    """Collects assignments and writes the words after them."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.out = terms.out
        self.within: list[Formula] = []
        self.after = After()
        words = range(terms.layout.words)
        self._clear = [0 for _ in words]
        self._set = [0 for _ in words]
        self._terms: list[list[str]] = [[] for _ in words]
        self._later: list[tuple[Field, Val, Val]] = []

    def assign(self, done: Assignment) -> None:
        """Add an assignment, for all members of its binders."""
        ranges = [codes(binder.type, self.terms.instance) for binder in done.binders]
        for members in product(*ranges):
            for binder, member in zip(done.binders, members, strict=True):
                self.terms.env[id(binder)] = constant(member)
            self._one(done)

    def _one(self, done: Assignment) -> None:
        field = self.terms.layout.fields[done.variable.name]
        value = self.terms.values(done.value)
        if done.variable.type.kind == "natural" and (value.low < 0 or value.high > field.top):
            value = Val(self.out.named(value.text), value.low, value.high)
            low = True if value.low >= 0 else f"({value.text} >= 0)"
            high = True if value.high <= field.top else f"({value.text} <= {field.top})"
            if value.low > field.top or value.high < 0:
                high = False
            self.within.extend((low, high))
            value = Val(value.text, max(0, value.low), max(0, min(field.top, value.high)))
        if field.count == 0:
            return
        element = self.terms.element(field, done.index)
        name = field.variable.name
        known = self.after.values.setdefault(name, {})
        if element.known is None or known is None:
            self.after.values[name] = None
        else:
            known[element.known] = value
        if field.width:
            self._place(field, element, value)

    def _place(self, field: Field, element: Val, value: Val) -> None:
        if element.known is None:
            self._later.append((field, element, value))
            return
        word, shift = field.place(element.known)
        self._clear[word] |= field.mask << shift
        if value.known is not None:
            self._set[word] |= value.known << shift
        else:
            self._terms[word].append(f"({value.text} << {shift})")

    def write(self) -> Formula:
        """Write the words after; gives the condition under which no value leaves its bound."""
        for word in range(self.terms.layout.words):
            text = f"s{word}"
            if self._clear[word]:
                text = f"({text} & {_ALL & ~self._clear[word]})"
            if self._set[word]:
                self._terms[word].append(str(self._set[word]))
            self.out.put(f"t{word} = {' | '.join((text, *self._terms[word]))}")
        for field, element, value in self._later:
            self._write_later(field, element, value)
        return join("&", self.within)

    def _write_later(self, field: Field, element: Val, value: Val) -> None:
        if field.per_word >= field.count:
            shift = self.out.named(scaled(element.text, field.width, field.shift))
            word = f"t{field.word}"
            self.out.put(
                f"{word} = ({word} & ~({field.mask} << {shift})) | ({value.text} << {shift})"
            )
            return
        row, rest = split(self.out, element.text, field.per_word)
        shift = self.out.named(scaled(rest, field.width, field.shift))
        for number in range((field.count - 1) // field.per_word + 1):
            word = f"t{field.word + number}"
            self.out.put(f"if {row} == {number}:")
            self.out.put(
                f"    {word} = ({word} & ~({field.mask} << {shift})) | ({value.text} << {shift})"
            )
