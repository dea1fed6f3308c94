"""The library: one shortest trace for each killed mutant, kept as files and made anew from a report."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import attrs

from kvspec.counterexamples.files import dump_trace, write_trace
from kvspec.counterexamples.format import DEADLOCK, Broken, Mutation, Trace
from kvspec.counterexamples.record import trace_of
from kvspec.models.concrete import Machine
from kvspec.properties.mutants import MutantResult, MutationReport
from kvspec.properties.mutation import Mutated, mutate
from kvspec.spec.language import Properties, Property

PROVENANCE = "kvspec mutants --write-library: breadth-first search of the instance with this mutant"


def trace_of_mutant(result: MutantResult, mutated: Mutated, properties: Properties) -> Trace:
    """The trace of a killed mutant, confirmed step by step in plain Python."""
    if result.instance is None or result.claim is None:
        raise ValueError(
            f"{result.mutant.name} is {result.verdict}: only a killed mutant has a trace"
        )
    machine = Machine(
        attrs.evolve(result.instance, system=mutated.select(result.mutant), expected=None)
    )
    return trace_of(
        machine,
        result.trace,
        _broken(result, properties),
        loop=result.loop,
        mutation=Mutation(name=result.mutant.name, description=result.mutant.description),
        sound=mutated.original,
        provenance=PROVENANCE,
    )


def _broken(result: MutantResult, properties: Properties) -> Property | Broken:
    """What the mutant breaks; a deadlock is no claim of its own."""
    if result.kind == "deadlock":
        return DEADLOCK
    return properties[result.claim or ""]


def file_name(mutant: str) -> str:
    """The name of a mutant's file."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", mutant) + ".json"


def library_traces(report: MutationReport, properties: Properties) -> dict[str, Trace]:
    """The traces of all killed mutants, by file name."""
    mutated = mutate(properties.system)
    return {
        file_name(result.mutant.name): trace_of_mutant(result, mutated, properties)
        for result in report.results
        if result.verdict == "killed"
    }


def write_library(report: MutationReport, properties: Properties, folder: Path) -> list[Path]:
    """Write the library; a file of a mutant that is no longer killed is removed."""
    traces = library_traces(report, properties)
    folder.mkdir(parents=True, exist_ok=True)
    for name, trace in traces.items():
        write_trace(trace, folder / name)
    for path in folder.glob("*.json"):
        if path.name not in traces:
            path.unlink()
    return [folder / name for name in traces]


def differences(traces: dict[str, Trace], folder: Path) -> list[str]:
    """Where the files of a folder are not these traces: missing, left over or changed."""
    found = [f"{path.name}: of no killed mutant" for path in _extra(traces, folder)]
    for name, trace in traces.items():
        path = folder / name
        if not path.is_file():
            found.append(f"{name}: missing")
        elif path.read_text(encoding="utf-8") != dump_trace(trace):
            found.append(f"{name}: not the trace that the search finds")
    return found


def _extra(traces: dict[str, Trace], folder: Path) -> Iterable[Path]:
    return (path for path in sorted(folder.glob("*.json")) if path.name not in traces)
