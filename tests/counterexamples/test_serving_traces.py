from importlib.resources import files
from pathlib import Path

from kvspec.counterexamples.mutants import differences, library_traces
from kvspec.counterexamples.systems import known_systems
from kvspec.properties.mutants import run_mutants

FOLDER = Path(str(files("kvspec.counterexamples.library"))) / "serving"
KEPT = {path.stem for path in FOLDER.glob("*.json")}


def test_traces_of_the_serving_system_are_those_that_the_search_finds():
    """Each is the shortest trace of its mutant (`kvspec mutants serving --only NAME --traces FOLDER`)."""
    subject = known_systems()["serving"]
    instances = [one for one in subject.instances.values() if not one.slow]
    report = run_mutants(subject.properties(), instances, only=lambda m: m.name in KEPT)
    traces = library_traces(report, subject.properties())
    assert {name.removesuffix(".json") for name in traces} == KEPT
    assert differences(traces, FOLDER) == []
