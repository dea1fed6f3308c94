"""Run: an exploration from its options to its result."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import attrs

from kvspec.models.explicit.results import Coverage, Exploration, Progress, Violation, Witness
from kvspec.models.explicit.search import Breach, Limits, Search
from kvspec.models.explicit.tally import CUT, TERMINAL
from kvspec.models.explicit.traces import Tracer

if TYPE_CHECKING:
    from kvspec.models.explicit.program import Program


@attrs.frozen(kw_only=True)
class Options:
    """What an exploration is asked for; see `explore`."""

    variant: int = 0
    symmetry: bool | Iterable[object] = False
    coverage: bool = True
    threads: int | None = None
    max_states: int | None = None
    max_depth: int | None = None
    max_bytes: int | None = None
    max_seconds: float | None = None
    progress: Callable[[Progress], None] | None = None
    stop_at_first: bool = True
    deadlock: bool | None = None
    max_graph: int = 1_000_000


def explore_program(program: Program, options: Options) -> Exploration:
    """Search the program and put the result together."""
    deadlock = bool(program.claims("end")) if options.deadlock is None else options.deadlock
    swaps = program.swaps(options.symmetry)
    search = Search(
        program,
        variant=options.variant,
        coverage=options.coverage,
        swaps=swaps,
        limits=Limits(options.max_states, options.max_bytes, options.max_seconds),
        progress=options.progress,
        stop_at_first=options.stop_at_first,
        stop_at_deadlock=deadlock,
        threads=options.threads or usable_cores(),
        last_depth=options.max_depth,
    )
    compile_seconds = program.compile(coverage=options.coverage)
    wall, cpu = time.perf_counter(), time.process_time()
    search.run()
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    stopped = search.found and options.stop_at_first
    complete = not search.reason and not stopped and not search.tally[CUT]
    found = violations(search, deadlock=deadlock)
    if complete and not options.variant:
        found.extend(count_differences(search))
    open_claims = "" if stopped else leads_to(search, options, found)
    reason = search.reason or (
        f"{search.tally[CUT]:,} steps were cut because they leave the bounds of the instance: "
        "raise the bounds or limit the actions"
        if search.tally[CUT]
        else open_claims
    )
    verdict = "violated" if found else "holds" if complete and not open_claims else "unknown"
    states = search.states
    return Exploration(
        system=program.instance.system.name,
        instance=program.instance.name,
        variant=options.variant,
        states=states,
        represented=search.represented if swaps else states,
        transitions=search.transitions,
        depth=search.depth,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        compile_seconds=compile_seconds,
        complete=complete,
        verdict=verdict,
        reason=reason if verdict == "unknown" else "",
        violations=tuple(found),
        witnesses=witnesses(search),
        deadlocks=search.deadlocks,
        terminal=int(search.tally[TERMINAL]),
        cut=int(search.tally[CUT]),
        by_action={n: int(search.tally[at]) for n, at in program.tally.actions.items()},
        coverage=coverage_of(search) if options.coverage else None,
        bytes_per_state=search.largest / max(1, states),
        symmetric=swaps.names if swaps else (),
        threads=search.threads if search.parallel else 1,
    )


def usable_cores() -> int:
    """How many cores this process may use, at most eight."""
    if hasattr(os, "sched_getaffinity"):
        return min(8, len(os.sched_getaffinity(0)))
    return min(8, os.cpu_count() or 1)


def violations(search: Search, *, deadlock: bool) -> list[Violation]:
    """What failed, in the order of the claims, with traces."""
    tracer = Tracer(search)
    found = []
    for claim in search.program.properties:
        breach = search.breaches.get(claim.name)
        if breach is not None:
            found.append(Violation(claim.name, claim.kind, claim.doc, tracer.trace(breach)))
    if deadlock and search.deadlock is not None:
        message = "a state that is no proper end has no transition"
        found.append(Violation("deadlock", "deadlock", message, tracer.trace(search.deadlock)))
    return found


def leads_to(search: Search, options: Options, found: list[Violation]) -> str:
    """Check the leads_to claims, adding violations; gives why some are unknown."""
    claims = search.program.claims("leads_to")
    if not claims:
        return ""
    if search.represented > options.max_graph or search.states > options.max_graph:
        return (
            f"the leads_to claims need the whole graph, and the instance has more than "
            f"{options.max_graph:,} states: raise max_graph or choose a smaller instance"
        )
    from kvspec.models.explicit.liveness import check_leads_to

    limit = min(options.max_graph, options.max_states or options.max_graph)
    graph = search.program.graph(variant=options.variant, max_states=limit)
    unknown = ""
    for claim in claims:
        verdict, violation, reason = check_leads_to(graph, claim)
        if violation is not None:
            found.append(violation)
        if verdict == "unknown":
            unknown = unknown or reason
    return unknown


def witnesses(search: Search) -> tuple[Witness, ...]:
    """The witnesses reached; their traces are made when asked for."""

    def make(breach: Breach) -> Witness:
        return Witness(breach.name, breach.depth, lambda: Tracer(search).trace(breach))

    return tuple(make(breach) for breach in search.reached.values())


def count_differences(search: Search) -> list[Violation]:
    """Counts that the instance says a complete search must give, and that differ."""
    expected = search.program.instance.expected
    if expected is None:
        return []
    pairs = [("depth", expected.depth, search.depth)]
    if search.swaps is None:
        pairs += [
            ("states", expected.states, search.states),
            ("transitions", expected.transitions, search.transitions),
            ("terminal", expected.terminal, int(search.tally[TERMINAL])),
        ]
    else:
        pairs.append(("states represented", expected.states, search.represented))
        if expected.symmetric is not None and search.swaps.counted(expected):
            pairs.append(("symmetric", expected.symmetric, search.states))
    wrong = [f"{what} {got:,}, expected {n:,}" for what, n, got in pairs if n not in (None, got)]
    if not wrong:
        return []
    message = (
        f"found {'; '.join(wrong)} in {search.program.instance!r}: if the specification was meant to "
        "change, correct the instance's Counts"
    )
    return [Violation("counts differ", "counts", message)]


def coverage_of(search: Search) -> Coverage:
    """The counters of a search by name."""
    program, tally = search.program, search.tally
    actions = dict.fromkeys(program.instance.system.actions, 0)
    guards: dict[str, dict[str, int]] = {name: {} for name in actions}
    effects: dict[str, dict[str, int]] = {name: {} for name in actions}
    for (action, code), place in program.tally.guards.items():
        guards[action][code] = int(tally[place])
        effects[action][code] = int(tally[place + 1])
    for name in actions:
        actions[name] = int(tally[program.tally.actions[name]]) - sum(effects[name].values())
    antecedents = {
        claim.name: int(tally[program.tally.antecedents[claim.name]])
        for claim in program.claims("invariant", "lemma", "step")
        if claim.antecedent is not None
    }
    members = {}
    for name, place in program.tally.members.items():
        names = program.instance.system.variables[name].type.members
        members[name] = {m: bool(tally[place + n]) for n, m in enumerate(names)}
    return Coverage(actions, guards, effects, antecedents, members)
