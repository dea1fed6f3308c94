from importlib.resources import files
from pathlib import Path

import pytest

from kvspec.counterexamples.mutants import differences, library_traces
from kvspec.counterexamples.systems import known_systems
from kvspec.properties.mutants import run_mutants

LIBRARY = Path(str(files("kvspec.counterexamples.library")))
SYSTEMS = sorted({path.parent.name for path in LIBRARY.glob("*/*.json")})


def test_a_folder_of_the_library_is_of_a_system():
    """Traces of a system beside the core are in the folder of its name."""
    assert "serving" in SYSTEMS
    assert set(SYSTEMS) <= set(known_systems())


@pytest.mark.slow
@pytest.mark.parametrize("name", SYSTEMS)
def test_traces_of_a_system_are_those_that_the_search_finds(name):
    """Each is the shortest trace of its mutant (`kvspec mutants SYSTEM --only MUTANT --traces FOLDER`)."""
    subject, folder = known_systems()[name], LIBRARY / name
    kept = {path.stem for path in folder.glob("*.json")}
    instances = [one for one in subject.instances.values() if not one.slow]
    report = run_mutants(subject.properties(), instances, only=lambda mutant: mutant.name in kept)
    traces = library_traces(report, subject.properties())
    assert {file.removesuffix(".json") for file in traces} == kept
    assert differences(traces, folder) == []
