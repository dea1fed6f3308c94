"""`kvspec verify`: all stages, one table, one verdict; nothing passes in the void."""

import pytest

from kvspec.cli.stages import Done, Stage
from kvspec.cli.verdicts import HOLDS, UNKNOWN, VIOLATED, Answer
from kvspec.cli.verify import answer
from kvspec.counterexamples import find_system


def explored(instance: str, verdict: str = HOLDS, **more) -> Done:
    """A stage that has searched an instance of the lock."""
    data = {
        "system": "lock",
        "instance": instance,
        "states": 1,
        "transitions": 2,
        "complete": True,
        "verdict": verdict,
        "coverage": None,
        "witnesses": {},
        **more,
    }
    told = Answer("explore", verdict, data, f"explored {instance}")
    return Done(Stage(f"explore lock/{instance}", "x:y"), told, 1.0)


def test_a_toy_system_is_verified(kvspec) -> None:
    """The lock is searched and proved as far as it can be, and the answer has a table."""
    ran = kvspec("verify", "two_phase_commit", "--json")
    data = ran.json
    assert data["verdict"] in ("holds", "violated", "unknown")
    assert ran.code == {"holds": 0, "violated": 1, "unknown": 3}[data["verdict"]]
    stages = {each["stage"]: each for each in data["results"]}
    assert stages["explore two_phase_commit/three"]["states"] == 288


def test_a_broken_system_is_violated(kvspec) -> None:
    """A violation on one instance is the verdict of the whole, and its trace is shown."""
    ran = kvspec("verify", "broken_lock", "--stage", "explore")
    assert ran.code == 1
    assert "violated at_most_one_is_inside" in ran.out
    assert "check    on" in ran.out


def test_what_no_instance_exercises_is_an_error() -> None:
    """An action that never fired, a guard that never refused: named, and the verdict is violated."""
    lock = find_system("lock")
    actions = dict.fromkeys(lock.system.actions, 1)
    guards = {a.name: {g.code.name: 1 for g in a.guards} for a in lock.system.actions.values()}
    claims = lock.properties()
    antecedents = dict.fromkeys(claims.by_name, 1)
    witnesses = dict.fromkeys(claims.by_name, 1)
    whole = {
        "actions": actions,
        "guards": guards,
        "antecedents": antecedents,
        "effects": {},
        "members": {},
    }
    fine = answer([lock], [explored("pair", coverage=whole, witnesses=witnesses)], 1.0)
    assert fine.verdict == HOLDS
    first = next(iter(actions))
    part = {**whole, "actions": {**actions, first: 0}}
    gap = answer([lock], [explored("pair", coverage=part, witnesses=witnesses)], 1.0)
    assert gap.verdict == VIOLATED
    assert f"{first} never fires" in gap.text
    both = [
        explored("pair", coverage=part, witnesses=witnesses),
        explored("other", coverage=whole, witnesses={}),
    ]
    assert answer([lock], both, 1.0).verdict == HOLDS


@pytest.mark.parametrize("verdict", [UNKNOWN, VIOLATED])
def test_one_bad_stage_is_enough(verdict: str) -> None:
    """A stage that does not hold decides, and its reason is told."""
    lock = find_system("lock")
    told = Answer("prove", verdict, {"verdict": verdict, "reason": "no luck"}, "no luck")
    bad = Done(Stage("prove lock", "x:y"), told, 1.0)
    found = answer([lock], [bad], 1.0)
    assert found.verdict == verdict
    assert "no luck" in found.text


@pytest.mark.slow
def test_the_core_system_holds(kvspec) -> None:
    """The main job: every stage of the core system holds, and nothing is left unexercised."""
    ran = kvspec("verify", "--json")
    data = ran.json
    bad = {
        each["stage"]: each.get("reason") for each in data["results"] if each["verdict"] != HOLDS
    }
    assert bad == {}
    assert data["vacuous"] == []
    assert (ran.code, data["verdict"]) == (0, HOLDS)
    assert {each["command"] for each in data["results"]} == {
        "explore",
        "mutants",
        "prove",
        "replay",
        "test",
    }


def test_without_torch_its_stages_are_unknown(monkeypatch) -> None:
    """What needs torch is not skipped in silence: it is unknown, with the reason."""
    from kvspec.cli import plan

    monkeypatch.setattr("kvspec.cli.backends.find_spec", lambda _: None)
    found = plan.test_stage("core", "TINY", lambda *_: None)
    assert found.verdict == UNKNOWN
    assert "kvspec[torch]" in found.text


def test_a_search_that_was_cut_says_nothing_of_what_is_exercised() -> None:
    """In the files for CI, `everything is exercised` is unknown then, not held."""
    lock = find_system("lock")
    for more in ({"complete": False, "coverage": {}}, {"complete": True, "coverage": None}):
        found = answer([lock], [explored("pair", **more)], 1.0)
        (check,) = [check for check in found.checks if check.group == "vacuity lock"]
        assert check.verdict == UNKNOWN
        assert "pair" in check.message


def test_a_stage_that_a_system_lacks_is_told(kvspec) -> None:
    """Asked for, it is an error of usage; else it is told that it is left out."""
    ran = kvspec("verify", "two_phase_commit", "--stage", "mutants")
    assert ran.code == 2
    assert "no mutants stage for two_phase_commit" in ran.err
    lock = find_system("lock")
    found = answer([lock], [explored("pair")], 1.0, ("mutants", "test"))
    assert "lock has no such stage: mutants, test" in found.text
    assert found.data["left_out"] == ["mutants", "test"]
