"""A time limit, however small, makes a verdict `unknown` and never wrong, and is never a crash."""

from typing import Any

import pytest

from kvspec.models.concrete import Machine
from kvspec.models.symbolic import prove, small
from kvspec.models.symbolic.obligations import Obligation, obligations
from kvspec.models.symbolic.small import SmallModels
from kvspec.models.symbolic.verdicts import FAILED, PROVED, UNKNOWN
from kvspec.spec.examples import peer

BROKEN = "step:publication_is_of_the_captured_generation:publish"


@pytest.mark.parametrize("seconds", [1e-6, 0.001, 0.005])
@pytest.mark.parametrize("system", ["sound", "planted"])
def test_a_tiny_limit_is_no_crash(planted: Any, system: str, seconds: float) -> None:
    """Each verdict is one of the three, an unknown has its reason, a failure is a step that breaks."""
    subject = peer.system if system == "sound" else planted("publish", "STALE_GENERATION")
    only = ["step:publication*", "inductive:a_prepared*", "enabled:publish*"]
    for _ in range(3):
        report = prove(
            subject, peer.properties, workers=0, seconds_per_obligation=seconds, only=only
        )
        for item in report.items:
            assert item.verdict in (PROVED, FAILED, UNKNOWN)
            assert item.verdict != UNKNOWN or item.reason
            if item.verdict == FAILED:
                assert system == "planted"
                found = item.counterexample
                assert found is not None
                assert found.event is not None
                step = Machine(found.instance).step(found.before, found.event)
                assert step.state == found.after


def _search(system: Any) -> tuple[SmallModels, Obligation]:
    known = peer.properties.of_kind("invariant", "lemma")
    chosen = next(o for o in obligations(system, peer.properties) if o.name == BROKEN)
    return SmallModels(system, known, [], [], seconds=10.0), chosen


def test_a_known_model_is_kept_when_no_smaller_one_is_found(planted: Any, monkeypatch: Any) -> None:
    """Out of time on the way down, the search returns the model that it has."""
    models, chosen = _search(planted("publish", "STALE_GENERATION"))
    monkeypatch.setattr(small, "LADDER", ((2, 3),))
    search, found = models.model, []

    def once(*args: Any) -> Any:
        found.append(search(*args) if not found else None)
        return found[-1]

    monkeypatch.setattr(models, "model", once)
    assert models.find(chosen) is found[0]
    assert found[0] is not None
    assert set(found[0].sizes.values()) == {2}
    assert len(found) > 1


def test_an_interrupted_solver_is_not_asked_again(planted: Any) -> None:
    """After a search without time, one with time gives what a search of its own gives."""
    models, chosen = _search(planted("publish", "STALE_GENERATION"))
    fresh = models.find(chosen)
    hurried, _ = _search(models.system)
    for hurried.seconds in (1e-6, 0.001, 0.005):
        hurried.find(chosen)
    hurried.seconds = 10.0
    again = hurried.find(chosen)
    assert fresh is not None
    assert again is not None
    assert not hurried.timed_out
    assert (again.sizes, again.largest) == (fresh.sizes, fresh.largest)


def test_a_spoilt_model_is_unknown_for_that_obligation(planted: Any, monkeypatch: Any) -> None:
    """A model that does not make true what was asked for is no counterexample and no fault."""
    monkeypatch.setattr(small, "_satisfies", lambda *_: False)
    system = planted("publish", "STALE_GENERATION")
    report = prove(system, peer.properties, workers=0, only=["step:*:publish"])
    item = report[BROKEN]
    assert item.verdict == UNKNOWN
    assert "give more seconds" in item.reason or "timeout" in item.reason
    others = [each for each in report.items if each.name != BROKEN]
    assert others
    assert {each.verdict for each in others} == {PROVED}
