"""The library of killed mutants is what the search finds, file for file (C3, E2)."""

from collections import Counter
from importlib.resources import files
from pathlib import Path

import attrs
import pytest

from kvspec.counterexamples.files import read_trace
from kvspec.counterexamples.mutants import (
    PROVENANCE,
    differences,
    file_name,
    library_traces,
    trace_of_mutant,
    write_library,
)
from kvspec.counterexamples.replay import replay
from kvspec.properties.core import properties
from kvspec.properties.mutants import MutantResult, run_mutants
from kvspec.properties.mutation import mutate
from kvspec.spec import core

LIBRARY = Path(str(files("kvspec.counterexamples.library")))
CHOSEN = (
    "evict.drop-guard.STILL_OWNED",
    "prepare.drop-guard.K_INCOMPLETE",
    "publish.drop-guard.HANDLE_TERMINAL",
)


@pytest.fixture(scope="module")
def report():
    """Three mutants of the core, on its smallest instance."""
    return run_mutants(properties, [core.TINY], only=lambda mutant: mutant.name in CHOSEN)


def test_each_killed_mutant_has_a_file_of_its_name(report):
    """The traces of a report are named after the mutants, and say how they were found."""
    traces = library_traces(report, properties)
    assert set(traces) == {f"{name}.json" for name in CHOSEN}
    for name, trace in traces.items():
        assert trace.mutation.name == name.removesuffix(".json")
        assert trace.provenance == PROVENANCE
        assert "does not check" in trace.mutation.description


def test_the_names_of_all_mutants_are_names_of_files():
    """No two mutants share a file, and no file needs a name that a system would refuse."""
    names = [file_name(mutant.name) for mutant in mutate(core.system).mutants]
    assert len(set(names)) == len(names)
    assert all(name.replace(".", "").replace("-", "").replace("_", "").isalnum() for name in names)
    assert file_name("a b/c.drop-guard.X") == "a_b_c.drop-guard.X.json"


def test_a_library_is_written_and_read(report, tmp_path):
    """Files are written once, replay on specification and mutant, and what is left over goes."""
    (tmp_path / "gone.drop-guard.GONE.json").write_text("{}")
    written = write_library(report, properties, tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*")) == sorted(p.name for p in written)
    for path in written:
        found = replay(read_trace(path), where=path.name)
        assert found.passed, found.show()
    assert differences(library_traces(report, properties), tmp_path) == []


def test_a_library_that_differs_is_told_file_by_file(report, tmp_path):
    """Missing, changed and left-over files are named each with what is wrong."""
    traces = library_traces(report, properties)
    one, two, three = (path.name for path in write_library(report, properties, tmp_path))
    (tmp_path / one).unlink()
    (tmp_path / two).write_text((tmp_path / two).read_text() + "\n")
    (tmp_path / "extra.json").write_text("{}")
    assert differences(traces, tmp_path) == [
        "extra.json: of no killed mutant",
        f"{one}: missing",
        f"{two}: not the trace that the search finds",
    ]
    assert (tmp_path / three).is_file()


def test_what_is_not_killed_has_no_trace(report):
    """An equivalent mutant, or one that survived, is refused by name."""
    mutated = mutate(core.system)
    mutant = mutated.named(CHOSEN[0])
    for verdict in ("survived", "equivalent", "unknown"):
        with pytest.raises(ValueError, match=f"{CHOSEN[0]} is {verdict}: only a killed mutant"):
            trace_of_mutant(MutantResult(mutant, verdict), mutated, properties)
    changed = attrs.evolve(report, results=(MutantResult(mutant, "survived"),))
    assert library_traces(changed, properties) == {}


def test_the_library_has_a_file_for_every_mutant():
    """Every mutant of the core has its trace in the library, and no file is of another (C3, E2)."""
    names = {file_name(mutant.name) for mutant in mutate(core.system).mutants}
    assert {path.name for path in LIBRARY.glob("*.json")} == names


@pytest.mark.slow
def test_the_whole_library_is_what_the_search_finds():
    """All mutants on all instances: each is killed, and its shortest trace is the file's (C3, E2)."""
    report = run_mutants(properties, core.INSTANCES)
    assert report.verdict == "holds"
    survivors = [r.mutant.name for r in report.results if r.verdict != "killed"]
    assert survivors == []
    assert report.score == 1.0
    assert Counter(r.kind for r in report.results).keys() == {"invariant", "step"}
    assert differences(library_traces(report, properties), LIBRARY) == []
