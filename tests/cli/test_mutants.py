"""`kvspec mutants`: each mutant is killed, equivalent, or a survivor that fails the run."""

import pytest

from kvspec.counterexamples import read_trace


def test_mutants_of_the_peer_model(kvspec) -> None:
    """Counts add up, each killed mutant names its claim, and a survivor is violated."""
    ran = kvspec("mutants", "peer", "--only", "publish.*", "--instance", "1,1,1,2,2", "--json")
    data = ran.json
    assert {"total", "killed", "equivalent", "survived"} <= set(data)
    parts = [data[name] for name in ("killed", "equivalent", "survived", "unknown")]
    assert data["total"] == sum(parts) == len(data["mutants"]) > 5
    assert data["killed"] > 0
    assert (ran.code == 1) is (data["survived"] > 0)
    for mutant in data["mutants"]:
        assert (mutant["verdict"] == "killed") is (mutant["claim"] is not None)


@pytest.mark.slow
def test_killed_mutants_leave_traces_that_replay(kvspec, tmp_path) -> None:
    """`--traces` writes a file for each killed mutant, which the specification refuses as told."""
    words = ("mutants", "--only", "publish.drop-guard.STALE_SNAPSHOT", "--instance", "RACE")
    ran = kvspec(*words, "--traces", str(tmp_path))
    assert ran.code == 0
    (path,) = tmp_path.glob("*.json")
    assert read_trace(path).mutation.name == "publish.drop-guard.STALE_SNAPSHOT"
    replayed = kvspec("replay", str(path), "--target", "spec", "--json")
    assert replayed.code == 0
    assert replayed.json["outcome"] == "refused_as_specified"


def test_the_library_is_made_from_all_mutants_alone(kvspec) -> None:
    """Some mutants would empty the rest of the library, so that is refused."""
    ran = kvspec("mutants", "--write-library", "--only", "publish.*")
    assert ran.code == 2
    assert "--traces" in ran.err
