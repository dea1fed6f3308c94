"""`kvspec replay`: traces against the specification, as tests, and in ITF."""

import json

import pytest


def test_a_violation_can_be_replayed(kvspec, broken_trace) -> None:
    """What explore wrote is taken by the specification, and the claim fails where it did."""
    ran = kvspec("replay", str(broken_trace), "--json")
    data = ran.json
    assert ran.code == 0
    assert {"trace", "target", "outcome", "steps"} <= set(data)
    assert (data["trace"], data["target"], data["outcome"]) == ("broken.json", "spec", "agrees")
    assert len(data["steps"]) == 6
    text = kvspec("replay", str(broken_trace)).out
    assert "at_most_one_is_inside fails in state 6" in text


def test_several_traces_are_listed(kvspec, broken_trace) -> None:
    """With more than one the objects stand in a list, and a table sums up."""
    ran = kvspec("replay", str(broken_trace), str(broken_trace), "--json")
    assert [each["outcome"] for each in ran.json["replays"]] == ["agrees", "agrees"]
    assert "2 of 2 replays" in kvspec("replay", str(broken_trace), str(broken_trace)).out


def test_a_trace_that_the_specification_contradicts_is_violated(kvspec, broken_trace) -> None:
    """A step that has another effect than told ends with 1 and says what differs."""
    document = json.loads(broken_trace.read_text())
    document["steps"][0]["state"]["held"] = True
    broken_trace.write_text(json.dumps(document))
    ran = kvspec("replay", str(broken_trace))
    assert ran.code == 1
    assert "expected true, found false" in ran.out


def test_a_trace_becomes_a_test(kvspec_process, kvspec, broken_trace, tmp_path) -> None:
    """`--as-test` prints a file that pytest runs."""
    import subprocess
    import sys

    path = tmp_path / "test_it.py"
    path.write_text(kvspec("replay", str(broken_trace), "--as-test").out)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    run = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stdout
    assert "1 passed" in run.stdout


def test_a_trace_is_written_as_itf_and_read_back(kvspec, broken_trace, tmp_path) -> None:
    """`--itf` prints a document that replay takes."""
    path = tmp_path / "broken.itf.json"
    path.write_text(kvspec("replay", str(broken_trace), "--itf").out)
    assert json.loads(path.read_text())["#meta"]["format"] == "ITF"
    assert kvspec("replay", str(path)).code == 0


@pytest.mark.parametrize(
    ("form", "line"), [("text", "publication"), ("mermaid", "sequenceDiagram"), ("dot", "digraph")]
)
def test_a_trace_is_drawn(kvspec, form: str, line: str) -> None:
    """A trace of the library, by its name, as a space-time diagram."""
    ran = kvspec("replay", "publish.drop-guard.STALE_SNAPSHOT", "--picture", form)
    assert ran.code == 0
    assert line in ran.out


def test_a_mutant_of_the_library_is_refused_by_the_sound_and_taken_by_the_faulty(kvspec) -> None:
    """All three targets, on the trace that drops the check of the snapshot."""
    pytest.importorskip("torch")
    data = kvspec("replay", "publish.drop-guard.STALE_SNAPSHOT", "--json").json
    outcomes = {each["target"]: each["outcome"] for each in data["replays"]}
    assert outcomes["spec"] == outcomes["sound"] == "refused_as_specified"
    assert outcomes["faulty"] in ("damage_shown", "no_damage")
    assert data["verdict"] == "holds"


def test_without_torch_only_the_specification_is_at_hand(kvspec, monkeypatch) -> None:
    """By default what cannot be had is told and left out; asked for by name it is an error."""
    monkeypatch.setattr("kvspec.cli.replay.torch_absent", lambda: "torch is not installed: get it")
    name = "publish.drop-guard.STALE_SNAPSHOT"
    data = kvspec("replay", name, "--json").json
    assert data["verdict"] == "holds"
    assert [each["outcome"] for each in data["replays"]][1:] == ["not_run", "not_run"]
    assert kvspec("replay", name, "--target", "sound").code == 2


def test_a_trace_is_printed_in_one_form(kvspec) -> None:
    """More than one is an error of usage."""
    name = "publish.drop-guard.STALE_SNAPSHOT"
    ran = kvspec("replay", name, "--as-test", "--itf", "--picture", "text")
    assert ran.code == 2
    assert "one form at a time" in ran.err


def test_a_replay_that_is_left_out_is_told() -> None:
    """A stand-in fault that cannot show itself is counted and named, in JSON too."""
    from kvspec.cli.replay import Run, answer

    data = {"trace": "a.json", "target": "faulty", "outcome": "agrees", "reason": "so"}
    held = Run("a.json", "spec", "holds", data, "", "")
    gone = Run("a.json", "faulty", "holds", data, "", "", left_out="so")
    found = answer([held, gone])
    assert "left out: 1, since so\n  a.json (faulty)" in found.text
    assert "1 of 1 replays" in found.text
    assert found.data["left_out"] == [data]
    assert len(found.checks) == 1
