"""`kvspec verify`: all stages, one table, one verdict; nothing passes in the void."""

import sys

import pytest

from kvspec.cli.plan import KINDS, plan
from kvspec.cli.stages import Done, Stage
from kvspec.cli.verdicts import HOLDS, UNKNOWN, VIOLATED, Answer
from kvspec.cli.verify import answer
from kvspec.counterexamples import find_system
from kvspec.counterexamples.systems import SPECIFICATION


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
def test_the_specification_holds(kvspec) -> None:
    """The main job: every stage of every system holds, and nothing is left unexercised."""
    ran = kvspec("verify", "--json")
    data = ran.json
    bad = {
        each["stage"]: each.get("reason") for each in data["results"] if each["verdict"] != HOLDS
    }
    assert bad == {}
    assert data["vacuous"] == []
    assert (ran.code, data["verdict"]) == (0, HOLDS)
    assert {each["stage"].split()[0] for each in data["results"]} == set(KINDS)
    proved = {each["system"] for each in data["results"] if each["command"] == "prove"}
    assert proved == set(SPECIFICATION)


def test_every_kind_of_stage_is_in_the_help(kvspec) -> None:
    """What `--stage` takes is what its help names."""
    told = " ".join(kvspec("verify", "--help").out.split())
    assert f"({', '.join(KINDS)})" in told.replace("│ ", "").replace(" │", "")


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


def test_gaps_of_given_rules_are_those_of_the_other_system() -> None:
    """A rule of the core that an extending system does not exercise is no gap of that system."""
    from kvspec.models.explicit import Gap
    from kvspec.report.coverage import _is_given

    claims = find_system("serving").properties()
    assert _is_given(claims, Gap("action", "enter", "enter never fires"))
    assert _is_given(claims, Gap("guard", "begin.ABI_MISMATCH", "never refuses"))
    assert not _is_given(claims, Gap("guard", "begin.UNKNOWN_TOKEN", "never refuses"))
    assert not _is_given(claims, Gap("action", "verify", "verify never fires"))
    assert not _is_given(find_system("core").properties(), Gap("action", "enter", "never"))


def test_several_systems_are_verified_together(kvspec) -> None:
    """Stages of each, one table, one verdict; what is vacuous is told by system."""
    ran = kvspec("verify", "two_phase_commit", "lock", "--stage", "explore", "--json")
    data = ran.json
    assert data["system"] == "two_phase_commit, lock"
    assert {each["stage"] for each in data["results"]} == {
        "explore two_phase_commit/three",
        "explore lock/pair",
    }
    assert all(set(gap) == {"system", "kind", "name", "message"} for gap in data["vacuous"])


def test_a_system_of_ones_own_is_judged_by_itself(tmp_path, monkeypatch) -> None:
    """One that is named like a system of this package gets none of the checks that are kept for that."""
    lines = (
        "from kvspec.spec.examples.lock import Process, PAIR, properties as claims",
        "from kvspec.spec.language import Properties, System, instance",
        "system = System.of('core', 'Not the core.', *claims.system.modules)",
        "properties = Properties(system)",
        "TWO = instance('TWO', system, {Process: 2})",
    )
    (tmp_path / "named_like_ours.py").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    found = plan(find_system("named_like_ours:system"), list(KINDS), 2)
    assert [stage.name for stage in found] == ["explore core/TWO"]
    assert found[0].arguments == ("named_like_ours:system", "TWO")
