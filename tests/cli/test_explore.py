"""`kvspec explore`: counts, verdicts, violations, coverage."""

import json

import pytest

KEYS = {
    "system",
    "instance",
    "states",
    "transitions",
    "depth",
    "seconds",
    "complete",
    "verdict",
    "violations",
    "deadlocks",
    "coverage",
}


def test_what_holds_ends_with_0(kvspec) -> None:
    """A complete search without a violation holds, and tells its counts."""
    ran = kvspec("explore", "peer", "1,1,2,3,4")
    assert ran.code == 0
    assert "828 states, 3,188 transitions, depth 27" in ran.out
    assert "holds:" in ran.out


def test_what_is_violated_ends_with_1_and_the_shortest_trace(kvspec) -> None:
    """A violation names the claim and shows each step with what it changed."""
    ran = kvspec("explore", "broken_lock")
    assert ran.code == 1
    assert "violated at_most_one_is_inside" in ran.out
    assert "6  enter(p=process1)\n" in ran.out
    assert "place[process1]: ENTERING -> INSIDE" in ran.out


def test_a_run_cut_short_ends_with_3(kvspec) -> None:
    """A limit on states is never a pass, and the reason is told."""
    ran = kvspec("explore", "peer", "1,1,2,3,4", "--max-states", "100", "--json")
    assert ran.code == 3
    assert ran.json["verdict"] == "unknown"
    assert not ran.json["complete"]
    assert ran.json["reason"]


def test_a_lasso_is_told(kvspec) -> None:
    """A leads-to that fails shows where the run repeats."""
    ran = kvspec("explore", "livelock")
    assert ran.code == 1
    assert "repeated for ever" in ran.out


def test_the_json_has_the_promised_shape(kvspec) -> None:
    """One object, with the keys and kinds that others rely on."""
    data = kvspec("explore", "peer", "1,1,1,2,2", "--json").json
    assert set(data) >= KEYS
    assert (data["states"], data["transitions"], data["depth"]) == (109, 284, 14)
    assert data["violations"] == []
    assert data["coverage"]["guards"]["begin"]["TXN_BUSY"] > 0
    assert data["witnesses"]["reaches_a_publication"] > 0


def test_a_violation_in_json_has_its_trace(kvspec) -> None:
    """Each step has its action, parameters, outcome and state."""
    (found,) = kvspec("explore", "broken_lock", "--json").json["violations"]
    assert found["property"] == "at_most_one_is_inside"
    first, second, *_ = found["trace"]
    assert first["outcome"] == "initial"
    assert (second["action"], second["outcome"]) == ("ask", "accepted")
    assert second["parameters"] == {"p": "process0"}
    assert second["state"]["place"]["process0"] == "WAITING"


def test_coverage_is_printed_when_asked_for(kvspec) -> None:
    """`--coverage` lists refusals; `--no-coverage` does not count them."""
    assert "refused: TXN_BUSY" in kvspec("explore", "peer", "1,1,1,2,2", "--coverage").out
    plain = kvspec("explore", "peer", "1,1,1,2,2")
    assert "refused: TXN_BUSY" not in plain.out
    bare = kvspec("explore", "peer", "1,1,1,2,2", "--no-coverage", "--json")
    assert bare.json["coverage"] is None


def test_symmetry_gives_the_same_verdict_on_fewer_states(kvspec) -> None:
    """The quotient stands for all states."""
    data = kvspec("explore", "peer", "2,2,1,2,2", "--symmetry", "--json").json
    assert data["verdict"] == "holds"
    assert data["states"] < data["represented"] == 86_725


def test_a_trace_is_written_only_where_one_is(kvspec, tmp_path) -> None:
    """`--trace-out` writes the violation, and nothing if all holds."""
    path = tmp_path / "trace.json"
    kvspec("explore", "peer", "1,1,1,2,2", "--trace-out", str(path))
    assert not path.exists()
    kvspec("explore", "broken_lock", "--trace-out", str(path))
    assert json.loads(path.read_text())["property"]["name"] == "at_most_one_is_inside"


@pytest.mark.slow
def test_the_first_instance_of_the_core_system_is_the_default(kvspec) -> None:
    """`kvspec explore` alone searches core/TINY."""
    data = kvspec("explore", "--json").json
    assert (data["system"], data["instance"], data["states"]) == ("core", "TINY", 129)


def test_a_claim_whose_case_never_came_up_is_told(kvspec) -> None:
    """It holds, but in this instance it says nothing; a search cut short tells no such thing."""
    ran = kvspec("explore", "core", "TINY")
    data = kvspec("explore", "core", "TINY", "--json").json
    assert ran.code == 0
    assert data["says_nothing"]
    for name in data["says_nothing"]:
        assert f"says nothing here: {name}\n" in ran.out
    cut = kvspec("explore", "core", "TINY", "--max-states", "9", "--json").json
    assert cut["says_nothing"] == []
