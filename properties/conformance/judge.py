"""Judge: one call to the cache, held against the specification's step, rule by rule.

What the cache shows is compared cell by cell. A cell that was wrong before the step is left out of it:
the rule that it broke was told there. Claims are looked at where something new differs; a variable that
the cache does not show is filled in from the specification's state, which is what the calls so far
amount to, and never where the cache accepted what it must refuse: nothing can be said of the rest then.
A state that agrees in all that is shown can thus break no claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from kvspec.models.concrete import Event, Outcome, State
from kvspec.models.concrete.state import indices
from kvspec.models.concrete.text import show_value
from kvspec.properties.conformance.asking import told
from kvspec.properties.conformance.errors import AdapterError
from kvspec.properties.conformance.graph import Graph
from kvspec.properties.conformance.observing import Shown
from kvspec.properties.conformance.rules import CLAIM, STARTS, Rule, assigned, rests_on
from kvspec.properties.conformance.subject import ACCEPTED, CRASHED, REFUSED, Answer, Subject

REFUSES, CRASHES, SILENT, WRONG_CODE, STATE, CLAIMED, HARM = (
    "refuses what is allowed",
    "crashes",
    "accepts in silence",
    "tells a wrong code",
    "shows a wrong state",
    "breaks the claim",
    "is damaged",
)
CELLS_SHOWN = 8

Cell = tuple[str, int]
Off = frozenset[Cell]
"""Cells in which what is shown differs from the specification."""

IN_STEP: Off = frozenset()


@attrs.frozen
class Difference:
    """A cell as the cache shows it and as it should: `length[handle0]`, 1, 0."""

    cell: str
    found: str
    expected: str


@attrs.frozen
class Finding:
    """A rule broken at one step: how, what the cache did, what it should have, and cells that differ."""

    rule: str
    manner: str
    did: str
    should: str
    cells: tuple[Difference, ...] = ()

    @property
    def found(self) -> str:
        """What was found, in one line."""
        return _line(self.did, [f"{c.cell} = {c.found}" for c in self.cells])

    @property
    def expected(self) -> str:
        """What was expected, in one line."""
        return _line(self.should, [f"{c.cell} = {c.expected}" for c in self.cells])


def _line(said: str, cells: list[str]) -> str:
    more = [f"and {len(cells) - CELLS_SHOWN} more"] if len(cells) > CELLS_SHOWN else []
    shown = ", ".join([*cells[:CELLS_SHOWN], *more])
    return f"{said}; shown: {shown}" if shown else said


@attrs.frozen
class Judged:
    """What came of one call.

    kept: the rules that it was a successful try of. off: the cells that differ after it. goes_on: the
    answer is the specified one, so that the run can go on. untold: a refusal without a code. follows:
    what else is wrong, where it may come of a cell that was wrong before. blurred: rules that rest on such
    a cell, of which nothing can be said.
    """

    number: int
    answer: Answer
    findings: tuple[Finding, ...]
    kept: tuple[str, ...]
    off: Off
    goes_on: bool
    untold: bool = False
    shown: Shown | None = None
    follows: tuple[Finding, ...] = ()
    blurred: tuple[str, ...] = ()


class Judge:
    """The specification of an instance beside a cache, whose answers it judges."""

    def __init__(
        self,
        graph: Graph,
        rules: dict[str, Rule],
        subject: Subject,
        names: tuple[str, ...] | None = None,
    ) -> None:
        self.graph = graph
        self.rules = rules
        self.subject = subject
        self.system = graph.instance.system
        self.names: tuple[str, ...] = names or ()
        self._is_known = names is not None
        self._expected: dict[int, Shown] = {}
        self._rests: dict[str, frozenset[str]] = {}
        self._kept: dict[tuple[str, str | None], tuple[str, ...]] = {}

    def start(self) -> Judged:
        """Reset the cache; it must show what the specification begins with."""
        shown = self._reset()
        self._compare_names(tuple(name for name in self.system.variables if name in shown))
        off = self._off(0, shown)
        answer = Answer(ACCEPTED)
        if not off:
            kept = (STARTS,) if self.names else ()
            return Judged(-1, answer, (), kept, IN_STEP, goes_on=True, shown=shown)
        cells = self._cells(off, shown, 0)
        finding = Finding(STARTS, STATE, "reset", "reset, and as at the beginning", cells)
        return Judged(-1, answer, (finding,), (), off, goes_on=False, shown=shown)

    def _compare_names(self, names: tuple[str, ...]) -> None:
        """The cache shows the same variables at each beginning, on every instance."""
        if self._is_known and names != self.names:
            differ = ", ".join(sorted(set(names) ^ set(self.names)))
            raise AdapterError(
                f"{self.subject.name} does not show the same variables on every instance",
                found=f"on {self.graph.instance.name} another set than before: {differ} came or went",
                expected="the same variables on every instance",
                where=f"observe() for {self.graph.instance!r}",
                do="show a variable always or never; one without an index is shown as ()",
            )
        self.names, self._is_known = names, True

    def _reset(self) -> Shown:
        try:
            self.subject.reset(self.graph.instance)
            return self.subject.observe()
        except AdapterError:
            raise
        except Exception as error:
            raise AdapterError(
                f"{self.subject.name} cannot begin",
                found=told(error),
                expected="that reset(instance) and then observe() return",
                where=f"reset() or observe() for {self.graph.instance!r}",
                do="repair it: without a beginning there is no verdict",
            ) from error

    def call(self, place: int, number: int, off: Off = IN_STEP) -> Judged:
        """Ask for an event where the specification is in the state, and judge what comes of it."""
        event = self.graph.events[number]
        code, target = self.graph.code(place, number), self.graph.targets[place][number]
        answer = self.subject.perform(event)
        if answer.kind == CRASHED:
            return self._crashed(place, number, answer, off)
        try:
            shown = self.subject.observe()
        except AdapterError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever is raised is a crash
            said = f"in observe(): {told(error)}"
            return self._crashed(place, number, Answer(CRASHED, None, said), off)
        kind = ACCEPTED if code is None else REFUSED
        agrees = answer.kind == kind
        told_code = answer.code in (code, None)
        after = self._off(target, shown)
        if agrees and told_code and not after and not off:
            untold = code is not None and answer.code is None
            kept = self.tried(event.action, code)
            return Judged(number, answer, (), kept, IN_STEP, True, untold, shown)
        found = list(self._findings(place, number, answer, shown, off))
        follows = [f for f in found if self._is_blurred(f.rule, off)]
        findings = [f for f in found if f not in follows]
        broken = {finding.rule for finding in found}
        kept = () if not agrees else tuple(
            rule for rule in self.tried(event.action, code)
            if rule not in broken and not self._is_blurred(rule, off)
        )  # fmt: skip
        untold = agrees and code is not None and answer.code is None
        blurred = tuple(
            rule for rule in self.tried(event.action, code) if self._is_blurred(rule, off)
        )
        return Judged(
            number,
            answer,
            tuple(findings),
            kept,
            after,
            agrees,
            untold,
            shown,
            tuple(follows),
            blurred,
        )

    def tried(self, action: str, code: str | None) -> tuple[str, ...]:
        """The rules that an event with this outcome is a try of."""
        key = (action, code)
        if key not in self._kept:
            self._kept[key] = tuple(self._tried(action, code))
        return self._kept[key]

    def _tried(self, action: str, code: str | None) -> Iterator[str]:
        if code is not None:
            yield f"{action}/{code}"
        else:
            yield f"{action}/accepted"
            puts = assigned(self.system.actions[action])
            yield from (f"{action}/{name}" for name in puts if name in self.names)
            if any(name not in puts for name in self.names):
                yield f"{action}/keeps-the-rest"
        yield from (rule.id for rule in self.claims())

    def claims(self) -> list[Rule]:
        """The rules of claims that speak of something that the cache shows."""
        return [
            rule for rule in self.rules.values()
            if rule.kind == CLAIM and not rule.reads.isdisjoint(self.names)
        ]  # fmt: skip

    def expected(self, place: int) -> Shown:
        """What the cache must show in a state."""
        if place not in self._expected:
            tables = dict(zip(self.system.variables, self.graph.state(place).tables, strict=True))
            self._expected[place] = {name: tables[name] for name in self.names}
        return self._expected[place]

    def _off(self, place: int, shown: Shown) -> Off:
        expected = self.expected(place)
        if shown == expected:
            return IN_STEP
        return frozenset(
            (name, i)
            for name in self.names
            for i, (wanted, got) in enumerate(zip(expected[name], shown[name], strict=True))
            if wanted != got
        )

    def _is_blurred(self, rule: str, off: Off) -> bool:
        """Whether a cell was wrong before that the rule rests on: then nothing can be said of it."""
        return bool(off) and not self._rests_on(rule).isdisjoint(name for name, _ in off)

    def _rests_on(self, rule: str) -> frozenset[str]:
        if rule not in self._rests:
            self._rests[rule] = rests_on(self.rules[rule])
        return self._rests[rule]

    def _crashed(self, place: int, number: int, answer: Answer, off: Off) -> Judged:
        action, code = self.graph.events[number].action, self.graph.code(place, number)
        rule = f"{action}/{'accepted' if code is None else code}"
        finding = Finding(rule, CRASHES, f"raised {answer.detail}", _should(code))
        if off:
            return Judged(number, answer, (), (), off, goes_on=False, follows=(finding,))
        return Judged(number, answer, (finding,), (), off, goes_on=False)

    def _findings(
        self, place: int, number: int, answer: Answer, shown: Shown, off: Off
    ) -> Iterator[Finding]:
        code, target = self.graph.code(place, number), self.graph.targets[place][number]
        event = self.graph.events[number]
        new = self._off(target, shown) - off
        if code is None and answer.kind == REFUSED:
            yield Finding(f"{event.action}/accepted", REFUSES, str(answer), "accepted")
            return
        if code is None:
            yield from self._effects(event.action, target, shown, new)
        else:
            rule = f"{event.action}/{code}"
            yield from self._refusal(rule, answer, self._cells(new, shown, target), off)
        if new:
            yield from self._claims(place, number, answer, shown, off)

    def _effects(self, action: str, target: int, shown: Shown, new: Off) -> Iterator[Finding]:
        """An accepted action led to values that differ: by variable, and all that must stay in one."""
        puts = assigned(self.system.actions[action])
        for name in dict.fromkeys(name for name, _ in sorted(new)):
            if name in puts:
                cells = frozenset(cell for cell in new if cell[0] == name)
                differ = self._cells(cells, shown, target)
                yield Finding(f"{action}/{name}", STATE, "accepted", "accepted", differ)
        rest = frozenset(cell for cell in new if cell[0] not in puts)
        if rest:
            differ = self._cells(rest, shown, target)
            yield Finding(f"{action}/keeps-the-rest", STATE, "accepted", "accepted", differ)

    def _refusal(
        self, rule: str, answer: Answer, cells: tuple[Difference, ...], off: Off
    ) -> Iterator[Finding]:
        """A call that must be refused was accepted, had a wrong code, or changed what it must not."""
        code = rule.partition("/")[2]
        if answer.kind == ACCEPTED:
            unseen = "" if cells or off else ", and nothing changed that can be seen"
            yield Finding(rule, SILENT, f"accepted{unseen}", f"refused with {code}", cells)
        elif cells:
            yield Finding(rule, STATE, str(answer), f"refused with {code}", cells)
        elif answer.code not in (code, None):
            yield Finding(rule, WRONG_CODE, str(answer), f"refused with {code}")

    def _claims(
        self, place: int, number: int, answer: Answer, shown: Shown, off: Off
    ) -> Iterator[Finding]:
        """The claims that what is shown breaks, and what was shown before does not."""
        target, event = self.graph.targets[place][number], self.graph.events[number]
        code = self.graph.code(place, number)
        agrees = answer.kind == (ACCEPTED if code is None else REFUSED)
        before, after = self.graph.state(place), self.filled(target, shown)
        outcome = Outcome("accepted" if code is None else "refused", after)
        for rule in self.claims():
            if rule.claim is None or (not agrees and not rule.reads <= set(self.names)):
                continue
            if off and (rule.claim.kind == "step" or self._is_blurred(rule.id, off)):
                continue
            if self._fails(rule, before, event, outcome):
                cells = self._cells(self._off(target, shown), shown, target)
                yield Finding(rule.id, CLAIMED, str(answer), _should(code), cells)

    def _fails(self, rule: Rule, before: State, event: Event, outcome: Outcome) -> bool:
        machine, claim = self.graph.compiled.machine, rule.claim
        if claim is None:
            return False
        try:
            if claim.kind == "step":
                return not machine.holds(claim, before, event, outcome)
            return not machine.holds(claim, outcome.state)
        except (IndexError, ValueError, KeyError):
            return False  # a value beyond the instance, of which its claims say nothing

    def filled(self, place: int, shown: Shown) -> State:
        """What is shown, with the specification's values for what is not."""
        tables = zip(self.system.variables, self.graph.state(place).tables, strict=True)
        return State(tuple(tuple(shown.get(name, table)) for name, table in tables))

    def _cells(self, cells: Iterable[Cell], shown: Shown, place: int) -> tuple[Difference, ...]:
        """Cells as the cache shows them, and as they should be, in the order of the specification."""
        expected, order = self.expected(place), list(self.system.variables)
        listed = sorted(cells, key=lambda cell: (order.index(cell[0]), cell[1]))
        return tuple(self._cell(name, i, shown[name][i], expected[name][i]) for name, i in listed)

    def _cell(self, name: str, i: int, found: Any, expected: Any) -> Difference:
        variable = self.system.variables[name]
        index = list(indices(variable, self.graph.instance))[i]
        pairs = zip(variable.domain, index, strict=True)
        at = ", ".join(show_value(kind, part) for kind, part in pairs)
        told = [show_value(variable.type, value) for value in (found, expected)]
        return Difference(f"{name}[{at}]", *told)


def _should(code: str | None) -> str:
    return "accepted" if code is None else f"refused with {code}"
