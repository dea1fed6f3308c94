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

if TYPE_CHECKING:
    from kvspec.counterexamples import Trace

UNCHECKED = "times, cases of claims, the exact number of replays"
_SECONDS = r"\d[\d,]*\.\d+ s"
_Cells = tuple[str, ...]


def wrong_cells(name: str, text: str) -> list[str]:
    """What differs in the table `results` or `claims`, one sentence each."""
    found = _rows(text)
    expected = list(_claims() if name == "claims" else _results())
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
    from kvspec.properties.mutation import mutate

    core = find_system("core")
    total, killed = len(mutate(core.system).mutants), _killed()
    extent = f"{killed} of {total} killed, {total - killed} equivalent"
    yield "mutants", "core", extent, _SECONDS, "holds"
    obligations = sum(_obligations().values())
    of = f"{obligations:,} of {obligations:,}" if obligations else r"([\d,]+) of \1"
    yield "prove", "core, any sizes", f"{of} obligations", _SECONDS, "holds"
    yield "replay", "the library", _replays(), _SECONDS, "holds"
    quick = [one for one in core.instances.values() if not one.slow]
    first = quick[0].expected
    count = f"{first.transitions:,}" if first else r"[\d,]+"
    layers = core.instances["LAYERS"].expected
    part = rf"[\d,]+ of {layers.transitions:,}" if layers else r"[\d,]+ of [\d,]+"
    where = "static_cache, core/LAYERS"
    yield "test", where, f"{part} transitions taken", _SECONDS, "holds"
    where = f"DecodeBackend, core/{quick[0].name}"
    yield "test", where, f"{count} of {count} transitions taken", _SECONDS, "holds"
    for one in quick:
        extent = r"[\d,]+ states, [\d,]+ transitions"
        if one.expected:
            extent = f"{one.expected.states:,} states, {one.expected.transitions:,} transitions"
        yield "explore", f"core/{one.name}", extent, _SECONDS, "holds"


def _claims() -> Iterator[_Cells]:
    """Name, then patterns of the other cells, for each claim about the core system."""
    counts = _obligations()
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
def _obligations() -> Counter[str]:
    """How many obligations each claim has, those of the system under its name; empty without a solver."""
    if find_spec("z3") is None:
        return Counter()
    from kvspec.models.symbolic.prove import Prover
    from kvspec.properties import refinements
    from kvspec.spec.language.refinement import Refinement

    core = find_system("core")
    kept = [r for r in vars(refinements).values() if isinstance(r, Refinement)]
    kept = [r for r in kept if r.concrete is core.system]
    properties = core.properties()
    counts: Counter[str] = Counter()
    for each in Prover(core.system, properties, kept).obligations():
        claim = each.name.split(":")[1]
        is_claim = each.kind in ("initial", "inductive", "step") and claim in properties.by_name
        counts[claim if is_claim else core.name] += 1
    return counts


@cache
def _traces() -> list[Trace]:
    """The traces of the library."""
    from kvspec.counterexamples.files import read_trace
    from kvspec.counterexamples.library import library

    return [read_trace(path) for path in library()]


def _killed() -> int:
    """How many mutants of the core have their trace in the library."""
    return sum(trace.system == "core" and trace.mutation is not None for trace in _traces())


def _replays() -> str:
    """The least and the largest number of replays: not every fault of a trace can be given to a cache."""
    from kvspec.counterexamples.targets import SOUND

    traces = _traces()
    cached = [trace for trace in traces if trace.system in SOUND]
    faulty = sum(trace.mutation is not None for trace in cached)
    return f"replays {len(traces) + len(cached)} {len(traces) + len(cached) + faulty}"
