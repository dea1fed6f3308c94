"""Terms: expressions of the language as Python source over packed words, folded where they are known.

Every value is an int64 with the range it may take; every formula is a Python boolean. What is constant
at generation time (a bound parameter, a sum of constants, an equality of disjoint ranges) is folded, so
that a step property that an action cannot break leaves no code behind. Terms are total: reading a table
without elements gives 0, and nothing can fail at run time, so order of evaluation is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product

import attrs

from kvspec.models.explicit.folding import (
    Formula,
    Val,
    arithmetic,
    compare,
    constant,
    join,
    negate,
)
from kvspec.models.explicit.packing import Field, Layout, codes, encode
from kvspec.models.explicit.writer import Writer
from kvspec.spec.language.expr import (
    Apply,
    Bijective,
    Const,
    Expr,
    Fired,
    Op,
    Quantifier,
    Read,
    Symbol,
    Type,
    Variant,
)


@attrs.define(eq=False)
class After:
    """What a step assigns: for each variable the values at known elements, or None if not known."""

    values: dict[str, dict[int, Val] | None] = attrs.Factory(dict)


class Terms:
    """Generates terms into a writer, in an environment of symbols.

    unroll: quantifiers of at most so many cases are written out; larger ones become loops.
    """

    def __init__(self, layout: Layout, writer: Writer, unroll: int = 4) -> None:
        self.layout = layout
        self.instance = layout.instance
        self.out = writer
        self.unroll = unroll
        self.env: dict[int, Val] = {}
        self.maps: dict[str, list[Val]] = {}
        self.after: After | None = None
        self.fired: tuple[str, str | None] | None = None
        self.used: dict[str, str] = {}
        self.facts: set[str] = set()

    @contextmanager
    def case(self, condition: Formula) -> Iterator[bool]:
        """Write what follows where the condition holds; False if it never does.

        What stands behind the block may be reached with the condition true as well, unless the block
        returns.
        """
        if isinstance(condition, bool):
            yield condition
            return
        with self.out.block(f"if {condition}:"):
            self.facts.add(condition)
            yield True
            self.facts.discard(condition)

    def values(self, expr: Expr) -> Val:
        """The expression as an integer."""
        match expr:
            case Const():
                return self._const(expr)
            case Symbol():
                return self._symbol(expr)
            case Read():
                return self._read(expr)
            case Apply(function=function, argument=argument):
                return self._apply(self.maps[function.name], self.values(argument))
            case Op(op="add" | "sub" | "mul" | "div", args=(one, two)):
                return arithmetic(expr.op, self.values(one), self.values(two))
            case Op(op="some", args=(one,)):
                inner = self.values(one)
                if inner.known is not None:
                    return constant(2 * inner.known + 1)
                return Val(f"(2 * {inner.text} + 1)", 2 * inner.low + 1, 2 * inner.high + 1)
            case Op(op="the", args=(one,)):
                inner = self.values(one)
                if inner.known is not None:
                    return constant(inner.known >> 1)
                return Val(self.out.named(f"{inner.text} >> 1"), inner.low >> 1, inner.high >> 1)
            case Op(op="ite", args=(condition, one, two)) if expr.type.kind != "bool":
                return self._choose(self.formula(condition), one, two)
            case Variant(number=number, plain=plain, altered=altered) if expr.type.kind != "bool":
                return self._choose(f"(variant == {number})", altered, plain)
        formula = self.formula(expr)
        if isinstance(formula, bool):
            return constant(int(formula))
        return Val(self.out.named(f"1 if {formula} else 0"), 0, 1)

    def formula(self, expr: Expr) -> Formula:
        """The expression as a truth value."""
        found = self._formula(expr)
        if isinstance(found, str):
            if found in self.facts:
                return True
            if negate(found) in self.facts:
                return False
        return found

    def _formula(self, expr: Expr) -> Formula:
        match expr:
            case Op(op="not", args=(one,)):
                return negate(self.formula(one))
            case Op(op="and" | "or" | "implies"):
                return self._connective(expr)
            case Op(op="eq", args=(one, two)) if one.type.kind == "bool":
                return self._same_truth(self.formula(one), self.formula(two))
            case Op(op="eq" | "lt" | "le", args=(one, two)):
                return compare(expr.op, self.values(one), self.values(two))
            case Op(op="ite", args=(condition, one, two)):
                return self._choose_truth(self.formula(condition), one, two)
            case Variant(number=number, plain=plain, altered=altered):
                return self._choose_truth(f"(variant == {number})", altered, plain)
            case Quantifier():
                return self._quantifier(expr)
            case Bijective(function=function):
                return self._bijective(self.maps[function.name], function.domain)
            case Fired(action=action, refusal=refusal):
                return self.fired == (action, refusal)
        value = self.values(expr)
        return bool(value.known) if value.known is not None else f"({value.text} != 0)"

    def _const(self, expr: Const) -> Val:
        kind = expr.type
        code = encode(kind, expr.value)
        if kind.kind in ("open", "option") and code not in codes(kind, self.instance):
            raise ValueError(
                f"found member {expr.value} of {kind} in {self.instance!r}, which has "
                f"{self.instance.members(kind)} values of it: use an instance with that member"
            )
        return constant(code)

    def _symbol(self, expr: Symbol) -> Val:
        if expr.role == "constant":
            return constant(self.instance.constants[expr.name])
        if expr.role == "top":
            return constant(self.instance.bounds[expr.type.name])
        return self.env[id(expr)]

    def element(self, field: Field, index: Iterable[Expr]) -> Val:
        """The place of an index in a table."""
        known, texts = 0, []
        for part, stride in zip(index, field.strides, strict=True):
            value = self.values(part)
            if value.known is not None:
                known += value.known * stride
            else:
                texts.append(value.text if stride == 1 else f"{stride} * {value.text}")
        if not texts:
            return constant(known)
        if known:
            texts.append(str(known))
        text = texts[0] if len(texts) == 1 else f"({' + '.join(texts)})"
        return Val(text, 0, max(0, field.count - 1))

    def _read(self, expr: Read) -> Val:
        field = self.layout.fields[expr.variable.name]
        if field.count == 0 or field.width == 0:
            return constant(0)
        element = self.element(field, expr.index)
        if expr.primed and self.after is not None and field.variable.name in self.after.values:
            done = self.after.values[field.variable.name]
            if done is None or element.known is None:
                return self._fetch("t", field, element)
            if element.known in done:
                return done[element.known]
        return self._fetch("s", field, element)

    def _fetch(self, words: str, field: Field, element: Val) -> Val:
        if element.known is not None:
            word, shift = field.place(element.known)
            text = f"({words}{word} >> {shift}) & {field.mask}"
            if words == "t":
                return Val(self.out.named(text), 0, field.top)
            name = f"r_{field.variable.name}_{element.known}"
            self.used[name] = text
            return Val(name, 0, field.top)
        if field.per_word >= field.count:
            amount = scaled(element.text, field.width, field.shift)
            text = f"({words}{field.word} >> {amount}) & {field.mask}"
            return Val(self.out.named(text), 0, field.top)
        row, rest = split(self.out, element.text, field.per_word)
        last = (field.count - 1) // field.per_word
        chosen = f"{words}{field.word + last}"
        for number in reversed(range(last)):
            chosen = f"({words}{field.word + number} if {row} == {number} else {chosen})"
        text = f"({chosen} >> {scaled(rest, field.width, field.shift)}) & {field.mask}"
        return Val(self.out.named(text), 0, field.top)

    def _apply(self, digits: list[Val], argument: Val) -> Val:
        if argument.known is not None:
            return digits[argument.known] if digits else constant(0)
        text = digits[-1].text
        for place in reversed(range(len(digits) - 1)):
            text = f"({digits[place].text} if {argument.text} == {place} else {text})"
        low, high = min(d.low for d in digits), max(d.high for d in digits)
        return Val(self.out.named(text), low, high)

    def _choose(self, condition: Formula, one: Expr, two: Expr) -> Val:
        if isinstance(condition, bool):
            return self.values(one if condition else two)
        first, second = self.values(one), self.values(two)
        if first == second:
            return first
        text = f"{first.text} if {condition} else {second.text}"
        low, high = min(first.low, second.low), max(first.high, second.high)
        return Val(self.out.named(text), low, high)

    def _choose_truth(self, condition: Formula, one: Expr, two: Expr) -> Formula:
        if isinstance(condition, bool):
            return self.formula(one if condition else two)
        first, second = self.formula(one), self.formula(two)
        if first == second:
            return first
        return join("|", (join("&", (condition, first)), join("&", (negate(condition), second))))

    def _same_truth(self, one: Formula, two: Formula) -> Formula:
        if isinstance(one, bool):
            return two if one else negate(two)
        if isinstance(two, bool):
            return one if two else negate(one)
        return True if one == two else f"({one} == {two})"

    def _connective(self, expr: Op) -> Formula:
        if expr.op == "implies":
            left, right = expr.args
            return self._sequence("|", [(left, True), (right, False)])
        op = "&" if expr.op == "and" else "|"
        return self._sequence(op, [(arg, False) for arg in expr.args])

    def _sequence(self, op: str, parts: list[tuple[Expr, bool]]) -> Formula:
        """Join parts (negated if so marked); a part that needs a loop runs only where it matters."""
        unit = op == "&"
        done: Formula = unit
        for part, negated in parts:
            with self.out.aside() as lines:
                found = self.formula(part)
            found = negate(found) if negated else found
            if isinstance(found, bool):
                if found is not unit:
                    return found
                continue
            loops = any(line.lstrip().startswith("for ") for line in lines)
            if not loops or isinstance(done, bool):
                self.out.adopt(lines)
                done = join(op, (done, found))
                continue
            name = self.out.fresh("q")
            self.out.put(f"{name} = {done}")
            self.out.put(f"if {name if unit else f'not {name}'}:")
            self.out.keep(lines, 1)
            self.out.put(f"    {name} = {found}")
            done = name
        return done

    def _quantifier(self, expr: Quantifier) -> Formula:
        ranges = [codes(symbol.type, self.instance) for symbol in expr.bound]
        op = "&" if expr.kind == "forall" else "|"
        cases = 1
        for found in ranges:
            cases *= len(found)
        if cases <= self.unroll:
            return self._written_out(op, expr, ranges)
        holds = op == "&"
        with self.out.aside() as lines:
            name = self.out.fresh("q")
            self.out.put(f"{name} = {holds}")
            constant_body = self._loop(name, holds, expr, 0)
        if constant_body is not None:
            return constant_body
        self.out.adopt(lines)
        return name

    def _written_out(self, op: str, expr: Quantifier, ranges: list[Sequence[int]]) -> Formula:
        parts: list[Formula] = []
        for members in product(*ranges):
            for symbol, member in zip(expr.bound, members, strict=True):
                self.env[id(symbol)] = constant(member)
            found = self.formula(expr.body)
            if found is (op == "|"):
                return found
            parts.append(found)
        return join(op, parts)

    def _loop(self, name: str, holds: bool, expr: Quantifier, depth: int) -> bool | None:
        """Loops over the bound symbols; gives the value of the body if it is the same for all."""
        if depth == len(expr.bound):
            body = self.formula(expr.body)
            if isinstance(body, bool):
                return body
            self.out.put(f"if {negate(body) if holds else body}:")
            self.out.put(f"    {name} = {not holds}")
            self.out.put("    break")
            return None
        symbol = expr.bound[depth]
        variable = self.out.fresh("b")
        size = self.instance.members(symbol.type)
        self.env[id(symbol)] = Val(variable, 0, size - 1) if size > 1 else constant(0)
        with self.out.block(f"for {variable} in range({size}):"):
            found = self._loop(name, holds, expr, depth + 1)
            if depth + 1 < len(expr.bound):
                self.out.put(f"if {f'not {name}' if holds else name}:")
                self.out.put("    break")
        return found

    def _bijective(self, digits: list[Val], kind: Type) -> Formula:
        size = self.instance.members(kind)
        pairs = ((a, b) for a in range(size) for b in range(a))
        return join("&", (negate(compare("eq", digits[a], digits[b])) for a, b in pairs))


def conjuncts(expr: Expr) -> Iterator[Expr]:
    """The parts of a conjunction."""
    if isinstance(expr, Op) and expr.op == "and":
        for arg in expr.args:
            yield from conjuncts(arg)
    else:
        yield expr


def scaled(text: str, factor: int, offset: int) -> str:
    """`offset + factor * text` as source."""
    product_text = text if factor == 1 else f"{factor} * {text}"
    return f"({product_text} + {offset})" if offset else f"({product_text})"


def split(out: Writer, element: str, per_word: int) -> tuple[str, str]:
    """Names for the word and the place in it of an element of a table of several words."""
    row = out.named(f"({element}) // {per_word}")
    return row, out.named(f"({element}) - {per_word} * {row}")
