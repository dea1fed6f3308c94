"""The acceptor: events in their order of arrival, each held to its form, its place, its cause, its step.

Memory is bounded. The ids of the last events are remembered (`Limits.window`, at least so many and at
most twice), to tell duplicates and to find causes; what is older is told as beyond the window. Of a live
handle its window is kept, of a released one its generation, among the last `Limits.tombstones`; a late
event of one that is forgotten is told as one of an unknown handle, and its next generation is taken from
the log. Events that come early and observations without a cause wait, so many of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import attrs

from kvspec.properties.audit.delivery import Source
from kvspec.properties.audit.findings import LOSS, Finding, Problem, finding, order
from kvspec.properties.audit.form import FORMS, Form
from kvspec.properties.audit.memory import Recent
from kvspec.properties.audit.observe import allocator_problem, cause_problem, observation_problem
from kvspec.properties.audit.replay import UNJUDGED, Replay
from kvspec.properties.audit.rules import ALWAYS_VIOLATED, NEVER_VIOLATED
from kvspec.spec.documents.event import TYPES, Event
from kvspec.spec.documents.log import Conversion, HandleEnd, LogHeader
from kvspec.spec.documents.log_header import conversion

UNKNOWN_TYPE: Final = Problem("EVENT_TYPE", "event_type", "one of " + ", ".join(TYPES), "")
Handler = Callable[[Event], Problem | None]


@attrs.frozen
class Limits:
    """How much is remembered. window: event ids. reorder: early events of a source.

    waiting: observations whose cause has not come. tombstones: released handles. findings: those that
    are told; all are counted.
    """

    window: int = 16_384
    reorder: int = 64
    waiting: int = 1_024
    tombstones: int = 65_536
    findings: int = 100


@attrs.frozen
class Summary:
    """What came of a log. lost: events missing. unjudged: events of handles no longer followed.

    taken: generations that were taken from the log. types: events of each type that were looked at.
    """

    verdict: str
    reason: str
    events: int
    types: dict[str, int]
    duplicates: int
    lost: int
    unjudged: int
    taken: int
    sources: int
    live: int
    codes: dict[str, int]
    findings: tuple[Finding, ...]


def _model(header: LogHeader) -> Conversion:
    """How planes are compared: not at all by a model that is broken, which is told of the header."""
    if any(conversion(header)):
        return attrs.evolve(header.conversion, used_slots="unrelated", resident_bytes="unrelated")
    return header.conversion


class Acceptor:
    """Takes the events of one log. closed: if given, gets the end of each released generation.

    unit: of what the numbers are that events come with, as findings tell of other places.
    """

    def __init__(
        self,
        header: LogHeader,
        limits: Limits = Limits(),
        closed: list[HandleEnd] | None = None,
        unit: str = "line ",
    ) -> None:
        self.header = header
        self.limits = limits
        self.replay = Replay(limits.tombstones, closed, unit)
        self.ids: Recent[str, Event] = Recent(limits.window)
        # Events that were found false or not judged; twice the size, so that none is forgotten before its id.
        self.unproven: Recent[str, bool] = Recent(2 * limits.window)
        self.sources: dict[str, Source] = {}
        self.waiting: dict[str, list[tuple[int, Event]]] = {}
        self.parked = 0
        self.events = 0
        self.duplicates = 0
        self.unjudged = 0
        self.types: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.verdicts: set[str] = set()
        self.findings: list[Finding] = []
        self.model = _model(header)
        self.is_sampled = header.completeness != "complete"
        self._kinds: dict[str, tuple[Form, Handler | None]] = {
            name: (form, getattr(self.replay, name, None)) for name, form in FORMS.items()
        }

    def feed(self, line: int, event: Event) -> None:
        """Take the next event; line: where it stands in the log."""
        self.events += 1
        ids, name = self.ids, event.event_id
        known = ids.new.get(name) or ids.old.get(name)
        if known is not None and name:
            self._again(line, event, known)
            return
        if ids.put(name, event):
            for each in self.sources.values():
                each.age()
        source = self.sources.get(event.source_instance)
        if source is None:
            source = self.sources[event.source_instance] = Source(event.source_component)
        if event.local_sequence == source.next and not source.held:
            source.next += 1
            self._apply(line, event, source)
        else:
            self._out_of_turn(line, event, source)
        if self.waiting:
            self._settle(name)

    def _settle(self, name: str) -> None:
        """Look at observations that have waited for the event of this id."""
        for at, observation in self.waiting.pop(name, ()):
            self.parked -= 1
            self._observe(at, observation)

    def _go_on(self, source: Source) -> None:
        """Look at early events whose turn has come."""
        for at, early in source.ready():
            self._apply(at, early, source)
            self._settle(early.event_id)

    def _again(self, line: int, event: Event, known: Event) -> None:
        if event == known:
            self.duplicates += 1
            return
        fields = [
            f.name for f in attrs.fields(Event) if getattr(event, f.name) != getattr(known, f.name)
        ]
        told = [f"{name} {getattr(each, name)!r}" for each in (known, event) for name in fields[:1]]
        self._tell(line, event, Problem("EVENT_ID_REUSED", fields[0], *told))

    def _out_of_turn(self, line: int, event: Event, source: Source) -> None:
        if event.local_sequence < 0:
            self._apply(line, event, source)  # its form is told; it has no place among the others
            return
        if self.is_sampled and event.local_sequence > source.next:
            source.lost += event.local_sequence - source.next
            source.next = event.local_sequence + 1
            self._apply(line, event, source)
            return
        if self.is_sampled:
            told = f"{source.next} or a later one", event.local_sequence
            self._tell(line, event, Problem("REORDERED", "local_sequence", *told))
            return
        problem = source.arrive(line, event)
        if problem is not None:
            self._tell(line, event, problem)
        self._go_on(source)
        if len(source.held) > self.limits.reorder:
            self._give_up(source)

    def _give_up(self, source: Source) -> None:
        before = source.lost
        line, event, problem = source.give_up()
        if source.component == "cache":
            self.replay.losses += source.lost - before
        self._tell(line, event, problem)
        self._go_on(source)

    def _apply(self, line: int, event: Event, source: Source) -> None:
        """Look at an event whose turn it is."""
        kind = self._kinds.get(event.event_type)
        if kind is None:
            self._disbelieve(line, event, [UNKNOWN_TYPE._replace(found=event.event_type)])
            return
        form, handler = kind
        self.types[event.event_type] += 1
        if not form.is_kept(event):
            self._disbelieve(line, event, form.problems(event))
            return
        if event.source_component != source.component:
            told = source.component, event.source_component
            self._tell(line, event, Problem("SOURCE_COMPONENT", "source_component", *told))
        if event.monotonic_ns < source.clock:
            told = f"{source.clock} or later", str(event.monotonic_ns)
            self._tell(line, event, Problem("CLOCK_REGRESSION", "monotonic_ns", *told))
        else:
            source.clock = event.monotonic_ns
        if handler is None:
            self._observe(line, event)
            return
        self.replay.line = line
        found = handler(event)
        if found is UNJUDGED:
            self.unjudged += 1
            self.unproven.put(event.event_id, entry=True)
            if event.child_request_id is not None:
                self.replay.lose(event)
            return
        if event.caused_by_event_id is not None:
            self._check_cause(line, event)
        if found is not None:
            self._disbelieve(line, event, [found])

    def _disbelieve(self, line: int, event: Event, problems: Iterable[Problem]) -> None:
        """What an event tells is false: its handle is followed no longer, and nothing is held against it."""
        for problem in problems:
            self._tell(line, event, problem)
        self.unproven.put(event.event_id, entry=True)
        self.replay.lose(event)

    def _check_cause(self, line: int, event: Event, *, full: bool = False) -> Event | None:
        """The cause of an observation; full: there was no room to wait for it."""
        cause = self.ids.get(str(event.caused_by_event_id))
        problem = cause_problem(event, cause, forgot=self.ids.forgot or full)
        if problem is not None:
            self._tell(line, event, problem)
            return None
        return cause

    def _observe(self, line: int, event: Event) -> None:
        """Look at an observation, or let it wait for its cause."""
        name = event.caused_by_event_id
        if name is None:
            expected = "the event that it follows"
            self._tell(
                line, event, Problem("CAUSE_MISSING", "caused_by_event_id", expected, "null")
            )
            return
        cause = self.ids.get(name)
        is_early = cause is None or cause.local_sequence in self.sources[cause.source_instance].held
        if is_early and self.parked < self.limits.waiting:
            self.waiting.setdefault(name, []).append((line, event))
            self.parked += 1
            return
        if self.unproven.get(name):
            self.unjudged += 1
            problem = allocator_problem(event)
        else:
            cause = self._check_cause(line, event, full=is_early)
            problem = observation_problem(event, cause, self.model) if cause else None
        if problem is not None:
            self._tell(line, event, problem)

    def _tell(self, line: int, event: Event, problem: Problem) -> None:
        verdict, note = self._weight(event, problem.code)
        self.verdicts.add(verdict)
        self.codes[problem.code] += 1
        if len(self.findings) < self.limits.findings:
            self.findings.append(finding(line, event, problem, verdict, note))

    def _weight(self, event: Event, code: str) -> tuple[str, str]:
        """Whether a finding proves that something is wrong, and if not, why."""
        if code in NEVER_VIOLATED:
            return "unknown", "a limit of the audit"
        if code in ALWAYS_VIOLATED:
            return "violated", ""
        if self.is_sampled:
            return "unknown", "the log is sampled, so that what explains this may be missing"
        if not self.replay.is_proof(event.request_id):
            return "unknown", LOSS
        return "violated", ""

    def close(self) -> Summary:
        """There are no more events: give for lost what did not come, and sum up."""
        for source in self.sources.values():
            while source.held:
                self._give_up(source)
        for parked in self.waiting.values():
            for line, event in parked:
                self._check_cause(line, event)
        self.waiting.clear()
        verdict, reason = self._verdict()
        return Summary(
            verdict,
            reason,
            self.events,
            dict(self.types),
            self.duplicates,
            sum(source.lost for source in self.sources.values()),
            self.unjudged,
            self.replay.taken,
            len(self.sources),
            len(self.replay.live),
            dict(self.codes),
            tuple(sorted(self.findings, key=order)),
        )

    def _verdict(self) -> tuple[str, str]:
        if "violated" in self.verdicts:
            return "violated", ""
        if not self.events:
            return "unknown", "the log has no event"
        if not any(TYPES[name].component == "cache" for name in self.types):
            return "unknown", "no event of the log tells a step of the cache"
        if self.is_sampled:
            return "unknown", "the log is sampled: what it does not tell may have happened"
        if self.verdicts:
            return "unknown", "what was found is no proof"
        return "holds", ""
