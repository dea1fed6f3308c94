"""Each planted fault breaks the rules that speak of it, and no others."""

import time

import attrs
import pytest

from kvspec.models.adapter import RefusedByCacheError
from kvspec.properties.conformance.run import run_conformance
from kvspec.properties.conformance.suite import SUITE
from kvspec.spec.core import system

SEEN = ("breaks", "not enforced")


def rules(report, *verdicts, claims=False):
    """The rules with these verdicts; claims are broken along with a rule of an action."""
    found = {r.rule.id for r in report.of(*verdicts)}
    return {name for name in found if claims or not name.startswith("claim/")}


def test_a_sound_cache_keeps_every_rule_that_arises(tested) -> None:
    """The specification as a cache keeps all; on one instance the rest is out of reach, not kept (C4)."""
    report = tested("Sound")
    assert report.verdict == "holds"
    assert rules(report, *SEEN, "unknown", "not offered", claims=True) == set()
    assert {"fork/accepted", "begin/ABI_MISMATCH"} <= rules(report, "out of reach")
    assert report.results["publish/STALE_SNAPSHOT"].tried >= 6


@pytest.mark.parametrize(
    ("cache", "instance", "verdict", "broken"),
    [
        ("EarlyLayer", "TINY", "breaks", {"stage_k/keeps-the-rest"}),
        ("ForgetsGeneration", "TINY", "breaks", {"release/generation"}),
        ("AcceptsStale", "TINY", "not enforced", {"publish/STALE_SNAPSHOT"}),
        ("WrongCode", "TINY", "breaks", {"evict/STILL_OWNED"}),
        ("Meddles", "TINY", "breaks", {"truncate/BEYOND_COMMITTED"}),
        ("OffByOne", "LONG", "breaks", {"truncate/length"}),
        ("Crashes", "TINY", "breaks", {"evict/BLOCK_EMPTY"}),
        ("Refuses", "TINY", "breaks", {"finish/accepted"}),
        ("Remembers", "TINY", "breaks", {"cancel_request/phase"}),
        ("Rots", "TINY", "breaks", {"cache/undamaged"}),
        ("NotBlank", "TINY", "breaks", {"cache/starts-blank"}),
    ],
)
def test_a_fault_breaks_the_rules_that_speak_of_it(
    tested, cache, instance, verdict, broken
) -> None:
    """The verdict tells what the cache does by itself from what it lets others do (C4)."""
    report = tested(cache, instance)
    assert report.verdict == "violated"
    assert rules(report, verdict) == rules(report, *SEEN) == broken
    for name in broken:
        assert report.results[name].trace.repeats


def test_a_generation_that_cannot_be_seen_is_found_by_what_rests_on_it(tested) -> None:
    """A forgotten generation lets a stale append be published, and another request's be aborted."""
    report = tested("HidesGeneration", "KINDS")
    assert rules(report, "not enforced") == {"publish/STALE_GENERATION"}
    assert {name.partition("/")[0] for name in rules(report, "breaks")} == {"cancel_request"}
    assert report.results["release/generation"].reason == "generation is not observed"


def test_an_early_layer_breaks_the_claim_that_nothing_staged_is_seen(tested) -> None:
    """A claim is broken by a state that is shown, and names the rule of the call that led there."""
    found = tested("EarlyLayer").results["claim/nothing_staged_is_seen"]
    assert (found.verdict, found.cause) == ("breaks", "stage_k/keeps-the-rest")


def test_what_comes_after_a_break_is_tried_all_the_same(tested) -> None:
    """Rows that are seen too early do not keep the suite from asking about publish and release (C4)."""
    report = tested("EarlyLayer")
    assert {"publish/state", "publish/STALE_SNAPSHOT", "release/accepted"} <= rules(report, "kept")
    unknown = report.results["publish/k_rows"]
    assert unknown.verdict == "unknown"
    assert "stage_k/keeps-the-rest" in unknown.reason


def test_a_consequence_of_a_break_is_no_break(tested) -> None:
    """A guard that rests on a value which was wrong before is unknown, with the rule to repair first."""
    found = tested("ForgetsGeneration").results["publish/STALE_GENERATION"]
    assert found.verdict == "unknown"
    assert "release/generation" in found.reason


def test_a_cache_that_does_not_answer_alike_is_told_so(planted, tested) -> None:
    """What did not come again when the same calls were made again is broken, and so is repeatability."""
    planted.Flickers.calls = 0
    report = tested("Flickers")
    assert report.results["cache/repeatable"].verdict == "breaks"
    leaves = {"leave/row_cache", "leave/row_tokens", "leave/row_sampler"}
    broken = rules(report, *SEEN)
    assert leaves <= broken <= {*leaves, "leave/row_position", "cache/repeatable"}
    assert not all(r.trace.repeats for r in report.broken)


def test_codes_that_are_told_by_turns_are_not_repeatable(planted) -> None:
    """A sound cache that tells the code of every other refusal is caught, since a run is made again (C4)."""

    class ByTurns(planted.Sound):
        refused = 0

        def step(self, action, values):
            try:
                super().step(action, values)
            except RefusedByCacheError as refusal:
                ByTurns.refused += 1
                raise RefusedByCacheError(refusal.code if ByTurns.refused % 2 else None) from None

    report = run_conformance(ByTurns, instances=["TINY"])
    assert rules(report, *SEEN, claims=True) == {"cache/repeatable"}
    assert "as the same calls got the first time" in " ".join(
        report.pages["cache/repeatable"].split()
    )


@pytest.mark.parametrize("cache", ["Sound", "AcceptsStale"])
def test_repeatability_counts_runs_that_were_compared(tested, cache) -> None:
    """Three runs of one instance are compared: no more are counted as kept."""
    found = tested(cache).results["cache/repeatable"]
    assert (found.verdict, found.tried) == ("kept", 3)


def test_a_refusal_without_a_code_is_kept_and_told(tested) -> None:
    """A cache that cannot tell codes apart breaks nothing, but the report says that no code was told."""
    report = tested("NoCodes")
    assert report.verdict == "holds"
    found = report.results["publish/STALE_SNAPSHOT"]
    assert (found.verdict, found.untold) == ("kept", found.tried)
    assert "the code was not told" in report.table()


def test_a_break_is_shown_by_the_shortest_calls(tested) -> None:
    """A stale publication needs seven calls, and the trace has no more."""
    trace = tested("AcceptsStale").results["publish/STALE_SNAPSHOT"].trace
    names = [call.action for call in trace.calls]
    assert names == [
        "allocate", "begin", "stage_k", "stage_v", "prepare", "truncate", "publish"
    ]  # fmt: skip
    assert all(call.answer.kind == "accepted" for call in trace.calls)


def test_a_break_that_needs_a_refused_call_keeps_it_in_the_trace(tested) -> None:
    """What a cache remembers beside the specification's state is found, and its trace made short."""
    trace = tested("Remembers").results["cancel_request/phase"].trace
    assert trace.hidden
    assert [call.action for call in trace.calls] == ["allocate", "fork", "cancel_request"]


def test_a_call_that_was_declined_is_made_elsewhere(tested) -> None:
    """What can_try() declines uses up no quota: the guard is tried where it can be, and is missing (C4)."""
    found = tested("TruncatesLate", "LONG").results["truncate/BEYOND_COMMITTED"]
    assert found.verdict == "not enforced"
    names = [call.action for call in found.trace.calls]
    assert names[-2:] == ["forget", "truncate"]


def test_what_lies_behind_a_known_break_is_told(planted) -> None:
    """A second publication is refused, and that is known: what is kept only before it says so (C4)."""

    class Once(planted.Sound):
        def publish(self, x):
            seen = self.seen()
            if seen["state"][x] == "PREPARED" and seen["start"][x] + seen["count"][x] > 1:
                raise RefusedByCacheError("BUSY")
            self.step("publish", {"x": x})

    report = run_conformance(Once, instances=["LONG"])
    found = report.results["finish/keeps-the-rest"]
    assert (found.verdict, found.behind) == ("kept", "publish/accepted")
    assert found.hidden > 0
    assert report.hidden["publish/accepted"] >= found.hidden
    assert "cases lie behind publish/accepted, which is broken" in report.table(every=True)
    assert "of those kept cases lie behind broken rules" in report.summary
    assert not run_conformance(planted.Sound, instances=["LONG"]).hidden


def test_a_budget_binds_what_comes_after_the_search(planted) -> None:
    """Where the time is up a break is told as it was seen, and its calls are not made again."""

    class Sleeps(planted.Crashes):
        resets = 0

        def reset(self, instance):
            Sleeps.resets += 1
            time.sleep(0.01)
            super().reset(instance)

    report = run_conformance(Sleeps, instances=["TINY"], budget=0.1)
    found = [r for r in report.broken if r.trace is not None and not r.trace.is_confirmed]
    assert report.verdict == "violated"
    assert found
    assert Sleeps.resets == sum(part.runs for part in report.parts)
    assert "The time was up" in " ".join(report.pages[found[0].rule.id].split())


@pytest.mark.slow
def test_each_guard_that_is_forgotten_is_not_enforced(planted) -> None:
    """A cache without one check, whichever it is, accepts a wrong call, and the guard's rule says so (C4)."""
    missed = []
    for action in system.actions.values():
        for guard in action.guards:
            rule, pair = f"{action.name}/{guard.code.name}", (action.name, guard.code.name)
            cache = type("Forgetful", (planted.Sound,), {"forgets": (pair,)})
            for part in (attrs.evolve(part, quota=1) for part in SUITE):
                report = run_conformance(cache, instances=[part], only=[rule])
                if report.results[rule].verdict == "not enforced":
                    break
            else:
                missed.append(rule)
    assert not missed, missed
