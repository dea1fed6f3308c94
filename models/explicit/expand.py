"""Expand: the function that writes all successors of a range of states.

Two forms are generated from the same actions. The fast form writes successors and counts transitions:
guards are hoisted to where their parameters are known, a parameter that a guard fixes by an equality is
computed, small parameter spaces are written out. The full form tries every event in the order of the
contract, counts refusals, and writes the source and the event of every transition.

    expand(st, lo, hi, variant, unlimited, out, dead, tally, src, ev) -> number of successors
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import attrs

from kvspec.models.explicit.folding import Formula, Val, constant, join, negate
from kvspec.models.explicit.packing import Layout, codes
from kvspec.models.explicit.tally import CUT, STUCK, TERMINAL, Tally
from kvspec.models.explicit.terms import Terms, conjuncts
from kvspec.models.explicit.updates import Update
from kvspec.models.explicit.writer import Writer
from kvspec.spec.language.actions import Action, Assignment, Guard
from kvspec.spec.language.expr import (
    Apply,
    Bijective,
    Expr,
    MapSymbol,
    Op,
    Symbol,
    Type,
    walk,
)
from kvspec.spec.language.properties import Property

SIGNATURE = "st, lo, hi, variant, unlimited, out, dead, tally, src, ev"


@attrs.frozen(eq=False)
class Slot:
    """A parameter, or the value of a map parameter at one member of its domain."""

    symbol: Symbol | MapSymbol
    place: int
    type: Type


def slots(action: Action, layout: Layout) -> list[Slot]:
    """The parameters of an action, maps taken apart, in the order in which events are numbered."""
    found: list[Slot] = []
    for parameter in action.parameters:
        if isinstance(parameter, MapSymbol):
            size = layout.instance.members(parameter.domain)
            found.extend(Slot(parameter, place, parameter.codomain) for place in range(size))
        else:
            found.append(Slot(parameter, 0, parameter.type))
    return found


def count_events(action: Action, layout: Layout) -> int:
    """How many events an action has in an instance."""
    return prod(layout.instance.members(slot.type) for slot in slots(action, layout))


class Expander:
    """Writes one form of `expand` for a layout and the step properties it checks."""

    def __init__(
        self, layout: Layout, tally: Tally, steps: tuple[Property, ...], *, full: bool, unroll: int
    ) -> None:
        self.layout = layout
        self.tally = tally
        self.steps = steps
        self.full = full
        self.unroll = 0 if full else unroll
        self.radix = 1 + max(
            (len(a.guards) for a in layout.instance.system.actions.values()), default=0
        )
        self.out = Writer(2)
        self.terms = Terms(layout, self.out)
        self.action: Action | None = None
        self.event: list[tuple[str, int]] = []
        self.first_event = 0

    def source(self) -> str:
        """The source of the function."""
        for action in self.layout.instance.system.actions.values():
            self._action(action)
            self.first_event += count_events(action, self.layout)
        words = self.layout.words
        head = Writer()
        head.put(f"def expand({SIGNATURE}):")
        head.depth = 1
        head.put("k = 0")
        head.put("for i in range(lo, hi):")
        head.depth = 2
        for word in range(words):
            head.put(f"s{word} = st[{_at('i', words, word)}]")
        for name, text in self.terms.used.items():
            head.put(f"{name} = {text}")
        head.put("k0 = k")
        head.put(f"cut0 = tally[{CUT}]")
        return head.text() + self.out.text() + _tail(words)

    def _action(self, action: Action) -> None:
        self.action, self.event = action, []
        left = slots(action, self.layout)
        self.terms.maps.update({p.name: [] for p in action.parameters if isinstance(p, MapSymbol)})
        limits = [
            part for limit in self.layout.instance.limits_on(action) for part in conjuncts(limit)
        ]
        self.out.put(f"# {action.name}")
        if self.full:
            self._enumerate(left, limits, list(action.guards))
            return
        self.out.put("k1 = k")
        early, late = split_guards(action)
        small = count_events(action, self.layout) <= self.unroll
        self._level(left, [*limits, *early], lambda: self._ordered(late), small=small)
        self.out.put(f"tally[{self.tally.actions[action.name]}] += k - k1")

    def _enumerate(self, left: list[Slot], limits: list[Expr], guards: list[Guard]) -> None:
        """The full form: every event, limits first, then guards in order."""
        if left:
            for _ in self._members(left[0], small=False):
                self._enumerate(left[1:], limits, guards)
            return
        allowed = join("&", (self.terms.formula(limit) for limit in limits))
        if allowed is True:
            self._ordered(guards)
            return
        with self.terms.case(join("|", ("(unlimited != 0)", allowed))):
            self._ordered(guards)

    def _level(
        self, left: list[Slot], todo: list[Expr], finish: Callable[[], None], *, small: bool
    ) -> None:
        """The fast form: place what can be decided, then bind the next parameter."""
        unbound = {id(slot.symbol) for slot in left}
        for place, condition in enumerate(todo):
            if not parameters_of(condition) & unbound:
                rest = todo[:place] + todo[place + 1 :]
                with self.terms.case(self.terms.formula(condition)) as possible:
                    if possible:
                        self._level(left, rest, finish, small=small)
                return
        if not left:
            finish()
            return
        for slot in left:
            for place, condition in enumerate(todo):
                other = fixed_by(condition, slot)
                if other is not None and not parameters_of(other) & unbound:
                    others = [found for found in left if found is not slot]
                    conditions = todo[:place] + todo[place + 1 :]
                    with self.terms.case(self._bind_equal(slot, other)) as possible:
                        if possible:
                            self._level(others, conditions, finish, small=small)
                    return
        for _ in self._members(left[0], small=small):
            self._level(left[1:], todo, finish, small=small)

    def _bind_equal(self, slot: Slot, other: Expr) -> Formula:
        """Bind a parameter to a term; gives the condition under which that is one of its values."""
        value = self.terms.values(other)
        top = self.layout.instance.members(slot.type) - 1
        if value.known is None:
            value = Val(self.out.named(value.text), value.low, value.high)
        if other.type.kind == "option" and slot.type.kind != "option":
            self._bind(slot, Val(self.out.named(f"{value.text} >> 1"), 0, top))
            return value.low > 0 or (value.high > 0 and f"({value.text} != 0)")
        if slot.type.kind != "natural":
            self._bind(slot, value)
            return True
        self._bind(slot, Val(value.text, max(0, value.low), min(top, max(0, value.high))))
        low = value.low >= 0 or f"({value.text} >= 0)"
        high = value.high <= top or f"({value.text} <= {top})"
        return join("&", (low, high))

    def _bind(self, slot: Slot, value: Val) -> None:
        if isinstance(slot.symbol, MapSymbol):
            digits = self.terms.maps.setdefault(slot.symbol.name, [])
            del digits[slot.place :]
            digits.append(value)
        else:
            self.terms.env[id(slot.symbol)] = value

    def _members(self, slot: Slot, *, small: bool) -> Iterator[None]:
        """Bind a parameter to each of its values: one after the other, or in a loop."""
        found = codes(slot.type, self.layout.instance)
        if not found:
            return
        if small or len(found) == 1:
            for place, code in enumerate(found):
                self._bind(slot, constant(code))
                self.event.append((str(place), len(found)))
                yield
                self.event.pop()
            return
        name = self.out.fresh("p")
        with self.out.block(f"for {name} in range({len(found)}):"):
            value = Val(name, 0, len(found) - 1)
            if slot.type.kind == "option":
                value = Val(self.out.named(f"max(2 * {name} - 1, 0)"), 0, found[-1])
            self._bind(slot, value)
            self.event.append((name, len(found)))
            yield
            self.event.pop()

    def _ordered(self, guards: list[Guard]) -> None:
        """The guards in order; what a failing one does; the step if all hold."""
        action = self._current()
        if not guards:
            self._step(action.assignments, None)
            return
        guard = guards[0]
        condition = self.terms.formula(guard.condition)
        with self.terms.case(condition) as possible:
            if possible:
                self._ordered(guards[1:])
        if condition is not True and (self.full or guard.refusal):
            if condition is False:
                self._refuse(guard)
                return
            with self.out.block("else:"):
                self._refuse(guard)

    def _refuse(self, guard: Guard) -> None:
        if self.full:
            place = self.tally.guards[self._current().name, guard.code.name]
            self.out.put(f"tally[{place}] += 1")
        if guard.refusal:
            self._step(guard.refusal, guard)

    def _step(self, assignments: tuple[Assignment, ...], refusal: Guard | None) -> None:
        with self.out.scope():
            update = Update(self.terms)
            for done in assignments:
                update.assign(done)
            within = update.write()
            with self.terms.case(within) as possible:
                if possible:
                    self._store(update, refusal)
            if within is False:
                self.out.put(f"tally[{CUT}] += 1")
            elif within is not True:
                with self.out.block("else:"):
                    self.out.put(f"tally[{CUT}] += 1")

    def _store(self, update: Update, refusal: Guard | None) -> None:
        action, words = self._current(), self.layout.words
        for word in range(words):
            self.out.put(f"out[{_at('k', words, word)}] = t{word}")
        if self.full:
            self._record(action, refusal)
        self.terms.after = update.after
        self.terms.fired = (action.name, refusal.code.name if refusal else None)
        for claim in self.steps:
            self._check(claim)
        self.terms.after = self.terms.fired = None
        self.out.put("k += 1")

    def _record(self, action: Action, refusal: Guard | None) -> None:
        self.out.put("src[k] = i")
        stride, texts = 1, []
        for text, size in reversed(self.event):
            texts.append(f"{text} * {stride}" if stride > 1 else text)
            stride *= size
        number = action.guards.index(refusal) + 1 if refusal else 0
        event = " + ".join((str(self.first_event), *texts))
        self.out.put(f"ev[k] = ({event}) * {self.radix} + {number}")
        if refusal:
            place = self.tally.guards[action.name, refusal.code.name]
            self.out.put(f"tally[{place + 1}] += 1")
        self.out.put(f"tally[{self.tally.actions[action.name]}] += 1")

    def _check(self, claim: Property) -> None:
        holds = self.terms.formula(claim.body)
        place = self.tally.breaches[claim.name]
        if holds is not True:
            with self.terms.case(join("&", (f"(tally[{place}] == 0)", negate(holds)))):
                self.out.put(f"tally[{place}] = k + 1")
                self.out.put(f"tally[{place + 1}] = i")
        if self.full and claim.antecedent is not None:
            with self.terms.case(self.terms.formula(claim.antecedent)) as possible:
                if possible:
                    self.out.put(f"tally[{self.tally.antecedents[claim.name]}] += 1")

    def _current(self) -> Action:
        if self.action is None:
            raise RuntimeError("no action is being written: call source()")
        return self.action


def _tail(words: int) -> str:
    """Count the state as terminal if no successor differs from it."""
    same = " and ".join(f"out[{_at('j', words, w)}] == s{w}" for w in range(words))
    return f"""\
        moved = False
        for j in range(k0, k):
            if not ({same}):
                moved = True
                break
        if not moved:
            tally[{TERMINAL}] += 1
            if tally[{CUT}] == cut0:
                dead[tally[{STUCK}]] = i
                tally[{STUCK}] += 1
    return k
"""


def _at(index: str, words: int, word: int) -> str:
    if words == 1:
        return index
    return f"{index} * {words} + {word}" if word else f"{index} * {words}"


def split_guards(action: Action) -> tuple[list[Expr], list[Guard]]:
    """The conditions before the first refusal with an effect, and the guards from there on."""
    for place, guard in enumerate(action.guards):
        if guard.refusal:
            early = action.guards[:place]
            return [p for g in early for p in conjuncts(g.condition)], list(action.guards[place:])
    return [p for g in action.guards for p in conjuncts(g.condition)], []


def parameters_of(expr: Expr) -> set[int]:
    """The parameters that an expression speaks of, by identity."""
    found: set[int] = set()
    for node in walk(expr):
        if isinstance(node, (Apply, Bijective)):
            found.add(id(node.function))
        elif isinstance(node, Symbol) and node.role == "parameter":
            found.add(id(node))
    return found


def fixed_by(condition: Expr, slot: Slot) -> Expr | None:
    """The term that a condition makes a parameter equal to, if it does."""
    if not (isinstance(condition, Op) and condition.op == "eq"):
        return None
    for one, two in (condition.args, condition.args[::-1]):
        inner = one.args[0] if isinstance(one, Op) and one.op == "some" else one
        if inner is slot.symbol and inner.type.kind != "bool":
            return two
    return None
