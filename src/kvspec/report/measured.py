"""What a table of measured results must say: all of it that is known without running the checks again.

Times, the cases of claims and the exact number of replays are not known so. Everything else is: instances
with their states and transitions, mutants, obligations, claims, and that every verdict is `holds`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kvspec.counterexamples import find_system
from kvspec.counterexamples.systems import SPECIFICATION, KnownSystem
from kvspec.report.results import within

if TYPE_CHECKING:
    from kvspec.properties.atlas import Group

UNCHECKED = "times, cases of claims, the exact number of replays"
_SECONDS = r"\d[\d,]*\.\d+ s"
_Cells = tuple[str, ...]


def wrong_cells(name: str, text: str) -> list[str]:
    """What differs in the table `summary`, `results` or `claims`, one sentence each."""
    found = _rows(text)
    expected = list({"claims": _claims, "results": _results, "summary": _summary}[name]())
    keys = 1 if name == "claims" else 2
    wrong = [
        f"no row for {' '.join(cells[:keys])}" for cells in expected if not _of(cells, found, keys)
    ]
    for row in found:
        match = _of(row, expected, keys)
        if not match or len(row) != len(match[0]):
            wrong.append(f"a row for {' '.join(row[:keys])}")
        elif len(_of(row, found, keys)) > 1:
            wrong.append(f"two rows for {' '.join(row[:keys])}")
        else:
            wrong.extend(
                f"{' '.join(row[:keys])}: {cell or 'nothing'}"
                for cell, pattern in zip(row[keys:], match[0][keys:], strict=True)
                if not _agrees(cell, pattern)
            )
    return wrong


def _rows(text: str) -> list[_Cells]:
    """The cells of a Markdown table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [tuple(cell.strip() for cell in line.strip("| ").split(" | ")) for line in lines[2:]]


def _of(row: _Cells, rows: Sequence[_Cells], keys: int) -> list[_Cells]:
    return [each for each in rows if each[:keys] == row[:keys]]


def _agrees(cell: str, pattern: str) -> bool:
    """Whether a cell is as told; numbers of replays are compared with their bounds."""
    if pattern.startswith("replays "):
        least, most = (int(number) for number in pattern.split()[1:])
        hit = re.fullmatch(r"(\d+) of \1 replays", cell)
        return hit is not None and least <= int(hit.group(1)) <= most
    return re.fullmatch(pattern, cell) is not None


def _results() -> Iterator[_Cells]:
    """Check and place, then patterns of extent, time and verdict."""
    for name in SPECIFICATION:
        yield from _of_system(find_system(name))
    yield from _others()


def _summary() -> Iterator[_Cells]:
    """The same with one row for each system."""
    for name in SPECIFICATION:
        rows = list(_of_system(find_system(name)))
        extents = {command: [row[2] for row in rows if row[0] == command] for command, *_ in rows}
        quick = [one for one in find_system(name).instances.values() if not one.slow]
        counts = [one.expected.states for one in quick if one.expected]
        states = f"{sum(counts):,}" if len(counts) == len(quick) else r"[\d,]+"
        parts = [f"{len(quick)} instances, {states} states"]
        parts += [
            part for command in ("prove", "mutants", "atlas") for part in extents.get(command, ())
        ]
        yield "system", name, "; ".join(_alone(parts)), _SECONDS, "holds"
    yield from _others()


def _alone(parts: Sequence[str]) -> Iterator[str]:
    """Patterns that stand in one cell: what each refers back to is its own."""
    yield from (part.replace(r"([\d,]+) of \1", r"[\d,]+ of [\d,]+") for part in parts)


def _others() -> Iterator[_Cells]:
    """What is checked of no system alone."""
    yield from _of_library()
    yield "formulas", "all values", _formulas(), _SECONDS, "holds"
    kinds, cases = _cases()
    extent = f"{cases} of {cases} one-field changes fail by their own code"
    yield "documents", f"{kinds} kinds", extent, _SECONDS, "holds"


def _of_system(subject: KnownSystem) -> Iterator[_Cells]:
    """Mutants, proof and searches of a system."""
    from kvspec.properties.atlas import groups
    from kvspec.properties.mutation import mutate

    given = subject.properties().given
    elsewhere = {m.name for m in mutate(given.system).mutants} if given else set()
    names = [m.name for m in mutate(subject.system).mutants if m.name not in elsewhere]
    total, killed = len(names), _killed(subject.name)
    extent = f"{killed} of {total} killed, {total - killed} equivalent"
    yield "mutants", subject.name, extent, _SECONDS, "holds"
    obligations = sum(_obligations(subject.name).values())
    of = f"{obligations:,} of {obligations:,}" if obligations else r"([\d,]+) of \1"
    yield "prove", f"{subject.name}, any sizes", f"{of} obligations", _SECONDS, "holds"
    shown = [group for group in groups().values() if _cases_on(group, subject)]
    if shown:
        number = sum(_cases_on(group, subject) for group in shown)
        extent = (
            f"{number} of {number} cases of {len(shown)} groups shown{_replayed(shown, subject)}"
        )
        yield "atlas", subject.name, extent, _SECONDS, "holds"
    for one in subject.instances.values():
        if one.slow:
            continue
        extent = r"[\d,]+ states, [\d,]+ transitions"
        if one.expected:
            extent = f"{one.expected.states:,} states, {one.expected.transitions:,} transitions"
        yield "explore", f"{subject.name}/{one.name}", extent, _SECONDS, "holds"


def _cases_on(group: Group, subject: KnownSystem) -> int:
    """How many cases of a group of the atlas are shown on the system."""
    return sum(case.fault.system is subject.system for case in group.cases)


def _replayed(shown: Sequence[Group], subject: KnownSystem) -> str:
    """How many of these cases the torch cache has a fault for; anything where torch is not there."""
    from kvspec.counterexamples.targets import has_fault

    if find_spec("torch") is None:
        return r"(, \d+ on the torch cache)?"
    cases = [c for group in shown for c in group.cases if c.fault.system is subject.system]
    number = sum(has_fault(subject.name, case.fault.name) for case in cases)
    return f", {number} on the torch cache" if number else ""


def _of_library() -> Iterator[_Cells]:
    """Replays of the library, tests of the torch caches, and what is stored of concurrent clients."""
    from kvspec.cli.plan import OTHERS, PREEMPTIONS
    from kvspec.counterexamples.history_files import FOLDER
    from kvspec.counterexamples.interleavings import interleavings

    core = find_system("core")
    yield "replay", "the library", _replays(), _SECONDS, "holds"
    tiny, layers = core.instances["TINY"].expected, core.instances["LAYERS"].expected
    count = f"{tiny.transitions:,}" if tiny else r"[\d,]+"
    part = rf"[\d,]+ of {layers.transitions:,}" if layers else r"[\d,]+ of [\d,]+"
    where = "static_cache, core/LAYERS"
    yield "test", where, f"{part} transitions taken", _SECONDS, "holds"
    for which in ("DecodeBackend", *(other.rpartition(":")[2] for other in OTHERS)):
        extent = f"{count} of {count} transitions taken"
        yield "test", f"{which}, core/TINY", extent, _SECONDS, "holds"
    histories, replays = len(list(FOLDER.glob("*.json"))), 2 * len(interleavings())
    extent = f"{histories} of {histories} verdicts as they must be"
    yield "histories", "stored", extent, _SECONDS, "holds"
    yield "interleavings", "stored", f"{replays} of {replays} replays", _SECONDS, "holds"
    orders = r"[1-9][\d,]* orders of \d+ scenarios"
    yield "interleavings", within(PREEMPTIONS), orders, _SECONDS, "holds"


def _formulas() -> str:
    from kvspec.spec.formulas.identities import IDENTITIES

    number = len(IDENTITIES.by_name)
    return f"{number} of {number} identities"


def _cases() -> tuple[int, int]:
    """The kinds of document with stored cases, and how many cases they have."""
    from kvspec.counterexamples.negative_cases import kinds_with_cases, load_set

    kinds = kinds_with_cases()
    return len(kinds), sum(len(load_set(kind).cases) for kind in kinds)


def _claims() -> Iterator[_Cells]:
    """Name, then patterns of the other cells, for each claim about the core system."""
    counts = _obligations("core")
    for claim in find_system("core").properties().of_kind("invariant", "lemma", "step", "leads_to"):
        number = counts[claim.name]
        proved = f"{number} of {number}" if counts else r"(\d+) of \1"
        searched = claim.kind == "leads_to"
        yield (
            f"`{claim.name}`",
            re.escape(claim.doc.replace("|", "&#124;")),
            claim.kind.replace("_", " "),
            r"[1-9][\d,]*",
            "searched only" if searched else proved,
            "" if searched else _SECONDS,
            "holds",
        )


@cache
def _obligations(name: str) -> Counter[str]:
    """How many obligations each claim has, those of the system under its name; empty without a solver."""
    if find_spec("z3") is None:
        return Counter()
    from kvspec.cli.lookup import refinements_of
    from kvspec.models.symbolic.prove import Prover

    subject = find_system(name)
    properties = subject.properties()
    counts: Counter[str] = Counter()
    for each in Prover(subject.system, properties, refinements_of(subject)).obligations():
        claim = each.name.split(":")[1]
        is_claim = each.kind in ("initial", "inductive", "step") and claim in properties.by_name
        counts[claim if is_claim else name] += 1
    return counts


def _killed(system: str) -> int:
    """How many mutants of a system have their trace in the library."""
    from kvspec.counterexamples.library import library_traces

    return sum(t.system == system and t.mutation is not None for t in library_traces().values())


def _replays() -> str:
    """The least and the largest number of replays: not every fault of a trace can be given to a cache."""
    from kvspec.counterexamples.library import library_traces

    traces = library_traces().values()
    cached = [trace for trace in traces if trace.system == "core"]
    faulty = sum(trace.mutation is not None for trace in cached)
    return f"replays {len(traces) + len(cached)} {len(traces) + len(cached) + faulty}"
