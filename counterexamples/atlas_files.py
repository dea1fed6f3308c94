"""The stored traces of the atlas: one for each case, made from a search and confirmed in plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from kvspec.counterexamples.errors import ReplayError
from kvspec.counterexamples.files import dump_trace, write_trace
from kvspec.counterexamples.format import DEADLOCK, Mutation, Trace
from kvspec.counterexamples.record import trace_of
from kvspec.models.concrete import Machine
from kvspec.properties.atlas import Group
from kvspec.properties.atlas.run import CaseResult

PROVENANCE = "kvspec atlas --write: breadth-first search of the instance with this fault"


def folder() -> Path:
    """Where the stored traces are."""
    from kvspec.counterexamples import atlas

    return Path(str(files(atlas.__name__)))


def file_name(group: Group, number: int) -> str:
    """The file of a group's case: cases are numbered from 1, and the first has the group's own name."""
    return f"{group.name}.json" if number == 1 else f"{group.name}-{number}.json"


def file_names(groups: Iterable[Group]) -> list[str]:
    """The files of all cases of these groups."""
    return [file_name(g, n) for g in groups for n in range(1, len(g.cases) + 1)]


def trace_of_case(result: CaseResult) -> Trace:
    """The trace of a case whose fault was found to break its claim."""
    case, broken = result.case, result.broken
    if broken is None:
        raise ReplayError(
            f"{case.fault.name} broke no claim: only a case that is shown has a trace"
        )
    claim = case.property
    return trace_of(
        Machine(case.fault.on(case.instance)),
        broken.trace,
        DEADLOCK if claim.kind == "end" else claim,
        mutation=Mutation(name=case.fault.name, description=case.fault.description),
        loop=broken.loop,
        provenance=PROVENANCE,
    )


def write(traces: dict[str, Trace], where: Path | None = None) -> None:
    """Write these traces, each under its file's name."""
    for name, trace in traces.items():
        write_trace(trace, (where or folder()) / name)


def remove_others(names: Iterable[str], where: Path | None = None) -> None:
    """Remove every trace that is not one of these."""
    kept = set(names)
    for path in (where or folder()).glob("*.json"):
        if path.name not in kept:
            path.unlink()


def difference(name: str, trace: Trace, where: Path | None = None) -> str | None:
    """How the stored file differs from the trace that a search finds; None if it is the same."""
    path = (where or folder()) / name
    if not path.is_file():
        return f"{name} is missing: write it with `kvspec atlas --write`"
    if path.read_bytes() != dump_trace(trace).encode():
        return (
            f"{name} is not the trace that the search finds: renew it with `kvspec atlas --write`"
        )
    return None
