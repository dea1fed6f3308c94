"""Explore: leads a cache through an instance so that every case of every rule is tried that it lets try.

First only steps are taken that the cache has kept; a break ends the run, and its step is not taken
again. When nothing more is in reach that way, steps are taken that showed a wrong state but had the
right answer: so a cache that shows rows too early is still asked about all that comes after. What is
wrong then is noted as seen past a break. The search goes by the specification's graph, always to the
nearest case that was not tried.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable

import attrs

from kvspec.models.backend import Damage
from kvspec.properties.conformance.book import Book, Spot
from kvspec.properties.conformance.graph import NO_CASE, Graph, Kind
from kvspec.properties.conformance.judge import HARM, IN_STEP, SILENT, Finding, Judge, Judged, Off
from kvspec.properties.conformance.record import Record
from kvspec.properties.conformance.rules import UNDAMAGED, assigned
from kvspec.properties.conformance.subject import CRASHED, Subject

RUN_LENGTH = 100
"""Calls in one run at most; at its end damage is looked for, and after each case that readers can see."""
READERS = frozenset({"k_rows", "v_rows"})
"""What readers find: a release may take away the rows that a step before it had damaged."""
ENOUGH = 20
"""Breaks of a refusal after which it is tried only where it would be nearer than before, or where no other
guard fails and it was not accepted so often."""

Edge = tuple[int, int]


@attrs.frozen
class Clock:
    """When to stop: a number of seconds from now, or never."""

    ends: float = float("inf")

    @property
    def is_over(self) -> bool:
        """The time is up."""
        return time.monotonic() >= self.ends


class Explorer:
    """One cache on one instance. `explore` fills the book.

    quota: how many cases of each kind are tried, near ones first; None for all.
    renew: gives a new subject after a crash. declined, hard and soft: steps that the adapter cannot be
    asked for, whose answer was wrong, and that showed a wrong state.
    """

    def __init__(
        self,
        judge: Judge,
        *,
        quota: int | None = None,
        clock: Clock | None = None,
        wanted: Callable[[str, str | None], bool] = lambda _action, _code: True,
        renew: Callable[[], Subject] | None = None,
    ) -> None:
        self.judge = judge
        self.graph: Graph = judge.graph
        self.book = Book()
        self.record = Record()
        self.quota = quota
        self.clock = clock or Clock()
        self.renew = renew
        self.told: Callable[[str], None] | None = None
        self.is_cut = False
        self.declined: set[Edge] = set()
        self.hard: set[Edge] = set()
        self.soft: set[Edge] = set()
        self.broke: dict[Edge, str] = {}
        self.tried: Counter[Kind] = Counter()
        self._past = False
        self._offered = [
            event.action not in judge.subject.not_offered for event in self.graph.events
        ]
        self._telling = {
            number for number, event in enumerate(self.graph.events)
            if not READERS.isdisjoint(assigned(judge.system.actions[event.action]))
        }  # fmt: skip
        self._moves: dict[int, list[tuple[int, int]]] = {}
        self.todo = [self._cases(place, wanted) for place in range(len(self.graph.states))]
        self.begin_run()

    def _cases(self, place: int, wanted: Callable[[str, str | None], bool]) -> list[int]:
        graph = self.graph
        return [
            number
            for number, outcome in enumerate(graph.outcomes[place])
            if outcome != NO_CASE and self._offered[number]
            and (
                graph.targets[place][number] != place
                or wanted(graph.events[number].action, graph.code(place, number))
            )
        ]  # fmt: skip

    def begin_run(self) -> None:
        """No run: the next one begins with a reset."""
        self.place = -1
        self.off: Off = IN_STEP
        self.run: list[int] = []
        self.past: list[str] = []

    def explore(self) -> Book:
        """Try every case in reach, first without and then past breaks."""
        for past in (False, True):
            self._past = past
            while not self.is_cut and self._run():
                pass
        return self.book

    def _run(self) -> bool:
        """One run from a reset; False if nothing is left in reach. The first is made in any case."""
        way = self._way(0)
        if way is None and self.book.runs:
            return False
        self.begin_run()
        if not self._reset():
            return False
        while way is not None and len(self.run) < RUN_LENGTH:
            if not all(self._take(number) for number in way) or not self._try_here():
                return True
            way = self._way(self.place) if not self.is_cut else None
        self._look_for_damage()
        if self.told is not None:
            self.told(f"{self.book.calls:,} calls on {self.graph.instance.name}")
        return True

    def _reset(self) -> bool:
        self.book.runs += 1
        started = self.judge.start()
        self.book.kept.update(started.kept)
        self.record.begin(started)
        for finding in started.findings:
            self.book.note(Spot(finding, 0, -1, 0, ()))
            self.past.append(finding.rule)
        self.place, self.off = 0, started.off
        return started.goes_on or self._past

    def _try_here(self) -> bool:
        """Try what is left in this state: what leads nowhere first, then one step; False at a break."""
        place = self.place
        left = self._left(place)
        for number in left:
            if self.graph.targets[place][number] == place and not self._take(number):
                return False
        for number in left:
            if self.graph.targets[place][number] != place and number in self.todo[place]:
                return self._take(number)
        return True

    def _left(self, place: int) -> list[int]:
        """What is to be tried in a state; with a quota, not what was tried often enough elsewhere."""
        if self.quota is not None and self.todo[place]:
            quota, kind = self.quota, self.graph.kind
            self.todo[place] = [
                number for number in self.todo[place] if self.tried[kind(place, number)] < quota
            ]
        return list(self.todo[place])

    def _take(self, number: int) -> bool:
        """Ask for one event and note what comes of it; False if the run ends here."""
        place, edge = self.place, (self.place, number)
        if self.clock.is_over:
            self.is_cut = True
            return False
        if self._is_enough(place, number):
            self._done(place, number)
            return True
        if edge not in self.declined and not self.can_try(number):
            self.declined.add(edge)
            self.book.declined[self.graph.events[number].action] += 1
        if edge in self.declined:
            self._drop(place, number)
            return self.graph.targets[place][number] == place
        is_new = number in self.todo[place]
        judged = self.judge.call(place, number, self.off)
        self.run.append(number)
        self.record.add(judged)
        self.book.calls += 1
        self._done(place, number)
        self._note(place, number, judged)
        if not self._may_go_on(edge, judged):
            self.renew_after(judged)
            return False
        self.place, self.off = self.graph.targets[place][number], judged.off
        if is_new and number in self._telling and self.place != place:
            self._look_for_damage()
        return True

    def can_try(self, number: int) -> bool:
        """The adapter can be asked for the event where it is now."""
        return self.judge.subject.can_try(self.graph.events[number])

    def is_offered(self, number: int) -> bool:
        """The cache has the action of the event."""
        return self._offered[number]

    def _done(self, place: int, number: int) -> None:
        if self._drop(place, number):
            self.tried[self.graph.kind(place, number)] += 1

    def _drop(self, place: int, number: int) -> bool:
        """Take a case off the list without counting it: another of its kind is tried in its place."""
        if number not in self.todo[place]:
            return False
        self.todo[place].remove(number)
        return True

    def _is_enough(self, place: int, number: int) -> bool:
        """A refusal that was broken often is not tried farther away."""
        code = self.graph.code(place, number)
        if code is None or self.graph.targets[place][number] != place:
            return False
        rule = f"{self.graph.events[number].action}/{code}"
        silent = self.book.manners.get(rule, Counter())[SILENT]
        is_telling = self.graph.alone[place][number] and silent < ENOUGH
        if self.book.broken[rule] < ENOUGH or is_telling:
            return False
        return self.book.spots[rule][0].depth <= self.graph.depth[place]

    def _note(self, place: int, number: int, judged: Judged) -> None:
        book, past = self.book, tuple(self.past)
        book.kept.update(judged.kept)
        if self.graph.alone[place][number]:
            book.alone[f"{self.graph.events[number].action}/{self.graph.code(place, number)}"] += 1
        if judged.untold:
            action, code = self.graph.events[number].action, self.graph.code(place, number)
            book.untold[f"{action}/{code}"] += 1
        for finding in judged.findings:
            depth, run = self.graph.depth[place], tuple(self.run)
            is_alone = bool(self.graph.alone[place][number])
            book.note(Spot(finding, place, number, depth, run, past, is_alone))
        for finding in judged.follows:
            book.follows.setdefault(finding.rule, past[0])
        for rule in judged.blurred:
            book.blurred.setdefault(rule, past[0])
        if judged.off:  # a wrong code alone leads nowhere
            self.past += [f.rule for f in judged.findings if f.rule not in self.past]

    def _may_go_on(self, edge: Edge, judged: Judged) -> bool:
        """Whether the run goes on; a step that cannot be gone on from is not taken again."""
        if not judged.goes_on:
            self.hard.add(edge)
            self.broke.setdefault(edge, (judged.findings or judged.follows)[0].rule)
            return False
        if judged.off:
            if judged.findings:
                self.soft.add(edge)
                self.broke.setdefault(edge, judged.findings[0].rule)
            return self._past
        return True

    def renew_after(self, judged: Judged) -> None:
        """After a crash the cache is made anew: what it left behind is nobody's business."""
        if judged.answer.kind == CRASHED and self.renew is not None:
            self.judge.subject = self.renew()

    def _look_for_damage(self) -> None:
        subject = self.judge.subject
        if not subject.measures or self.off or self.past:
            return
        harm = subject.damage()
        if not harm:
            self.book.kept[UNDAMAGED] += 1
            return
        finding = Finding(UNDAMAGED, HARM, damage_text(harm), "no damage")
        number = self.run[-1] if self.run else -1
        depth = self.graph.depth[self.place]
        self.book.note(Spot(finding, self.place, number, depth, tuple(self.run)))
        self.past.append(UNDAMAGED)

    def _way(self, start: int) -> list[int] | None:
        """The shortest way from a state to the nearest one with something to try; None: there is none."""
        if self._left(start):
            return []
        came: dict[int, Edge] = {start: (-1, -1)}
        line = deque([start])
        while line:
            place = line.popleft()
            for number, target in self.moves(place):
                if target not in came:
                    came[target] = (place, number)
                    if self._left(target):
                        return path_of(came, target)
                    line.append(target)
        return None

    def moves(self, place: int) -> list[tuple[int, int]]:
        """The steps that can be taken from a state: events by number, with the state after each."""
        if place not in self._moves:
            self._moves[place] = [
                (number, target)
                for number, target in enumerate(self.graph.targets[place])
                if target not in (NO_CASE, place) and self._offered[number]
            ]  # fmt: skip
        past = self._past
        return [move for move in self._moves[place] if self.is_open((place, move[0]), past=past)]

    def is_open(self, edge: Edge, *, past: bool) -> bool:
        """Whether a step may be taken; past: also one that shows a wrong state."""
        if edge in self.hard or edge in self.declined:
            return False
        return past or edge not in self.soft


def path_of(came: dict[int, Edge], place: int) -> list[int]:
    """The events on the way that a search found."""
    way: list[int] = []
    while came[place][0] >= 0:
        place, number = came[place]
        way.append(number)
    return way[::-1]


def damage_text(harm: list[Damage]) -> str:
    """Damage for a reader."""
    return "; ".join(f"{d.kind} at {d.where}: {d.amount:g}, {d.text}" for d in harm)
