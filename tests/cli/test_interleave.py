import json
import shutil

import pytest

from kvspec.cli.interleave import explored
from kvspec.cli.plan import orders_stage
from kvspec.counterexamples import interleavings
from kvspec.counterexamples.interleavings import interleaving_path
from kvspec.counterexamples.interleavings.files import read_interleaving
from kvspec.models.decode import backend_requests, concurrent_scenarios
from kvspec.models.decode.concurrent_faults import CONCURRENCY_FAULTS
from kvspec.models.decode.concurrent_scenarios import SCENARIOS
from kvspec.report.results import result_rows


def test_a_sound_cache_ends_with_0(kvspec) -> None:
    """Every order within the bound holds, and the schedules are counted (C5, D5)."""
    ran = kvspec("interleave", "two-appends", "--preemptions", "1", "--json")
    assert ran.code == 0
    (scenario,) = ran.json["scenarios"]
    assert (ran.json["verdict"], scenario["schedules"]) == ("holds", [2, 26])
    assert scenario["is_whole"]


def test_a_fault_ends_with_1_and_is_saved_and_replayed(kvspec, tmp_path) -> None:
    """The plainest failing order is told, written, and gives itself again; a sound cache holds (D5)."""
    path = tmp_path / "lost.json"
    ran = kvspec("interleave", "--fault", "finish.lost-update", "--save", str(path))
    assert ran.code == 1
    assert "publish-and-finish, 1 preemptions: no order of atomic steps" in ran.out
    assert "<- stopped before: handle0.entry write" in ran.out
    assert "1 preemptions, 45 steps" in ran.out
    assert read_interleaving(path).document.fault == "finish.lost-update"
    again = kvspec("interleave", "replay", str(path), "--json")
    assert again.code == 0
    faulty, sound = again.json["replays"]
    assert (faulty["outcome"], faulty["same_history"]) == ("violated again", True)
    assert (sound["outcome"], sound["applies"]) == ("keeps to the specification", False)
    assert "expected thread 1 at handle0.entry read" in sound["message"]


def test_a_cut_exploration_and_a_sample_end_with_3(kvspec) -> None:
    """What was not run may fail: neither is a pass."""
    cut = kvspec("interleave", "fork-and-look", "--most", "9")
    assert cut.code == 3
    assert "cut after 9 schedules" in cut.out
    sample = kvspec("interleave", "busy", "--sample", "3")
    assert sample.code == 3
    assert "a sample, which no number makes whole" in sample.out


def test_a_sample_that_meets_a_fault_ends_with_1(kvspec) -> None:
    """One order that fails is enough."""
    words = ("--sample", "20", "--fault", "publish.check-then-act", "--json")
    ran = kvspec("interleave", "busy", *words)
    assert ran.code == 1
    assert ran.json["scenarios"][0]["failing"]["preemptions"] >= 1


def test_nothing_is_written_where_nothing_fails(kvspec, tmp_path) -> None:
    """A file is only made of an order that fails."""
    path = tmp_path / "none.json"
    ran = kvspec("interleave", "two-appends", "--preemptions", "0", "--save", str(path))
    assert ran.code == 0
    assert "not written, no order fails" in ran.out
    assert not path.exists()


def test_a_load_on_real_threads_is_recorded_and_judged(kvspec, tmp_path) -> None:
    """What four clients were told at a time is written, and `kvspec linearize` judges it alike (C5, D5)."""
    path = tmp_path / "load.json"
    ran = kvspec("interleave", "load", "--sample", "2", "--history", str(path), "--json")
    assert ran.code == 0
    assert [(each["seed"], each["verdict"]) for each in ran.json["loads"]] == [
        (0, "holds"),
        (1, "holds"),
    ]
    assert all(each["calls"] >= 120 for each in ran.json["loads"])
    assert kvspec("linearize", str(path)).code == 0


def test_a_load_that_fails_ends_with_1(kvspec, tmp_path) -> None:
    """A reader that keeps what it saw is found by a load, and its history fails again (D5)."""
    path = tmp_path / "stale.json"
    words = ("--fault", "read.stale-after-release", "--sample", "2", "--history", str(path))
    ran = kvspec("interleave", "load", *words)
    assert ran.code == 1
    assert "no order of atomic steps gives these answers" in ran.out
    assert kvspec("linearize", str(path)).code == 1


def test_the_history_of_a_failing_order_is_written(kvspec, tmp_path) -> None:
    """The history that an exploration finds is one that `kvspec linearize` refuses (C5)."""
    path = tmp_path / "order.json"
    words = ("--fault", "fork.child-by-child", "--history", str(path))
    assert kvspec("interleave", "fork-and-look", *words).code == 1
    assert kvspec("linearize", str(path)).code == 1


def test_all_stored_orders_go_as_told(kvspec, tmp_path) -> None:
    """Each on its faulty cache and on a sound one; the files for CI have a case for each (D5)."""
    many = 2 * len(CONCURRENCY_FAULTS)
    ran = kvspec("interleave", "replay", "--junit", str(tmp_path / "ci.xml"))
    assert ran.code == 0
    assert f"holds: {many} of {many} replays went as told" in ran.out
    assert (tmp_path / "ci.xml").read_text(encoding="utf-8").count("<testcase") == many


def test_a_fault_without_a_stored_order_is_no_pass(kvspec, tmp_path, monkeypatch) -> None:
    """What is gone from the library is named: replays of the rest say nothing of it (D5)."""
    shutil.copy(interleaving_path("finish.lost-update"), tmp_path)
    monkeypatch.setattr(interleavings, "interleavings", lambda: sorted(tmp_path.glob("*.json")))
    ran = kvspec("interleave", "replay", "--json")
    assert (ran.code, ran.json["verdict"]) == (3, "unknown")
    assert set(ran.json["missing"]) == set(CONCURRENCY_FAULTS) - {"finish.lost-update"}
    assert len(ran.json["replays"]) == 2
    told = kvspec("interleave", "replay")
    assert "publish.torn: found no stored interleaving of this fault" in told.out


def test_named_orders_need_not_be_all(kvspec) -> None:
    """Who asks for one is not told what else could be asked for."""
    one = kvspec("interleave", "replay", "prepare.unlocked", "--json")
    assert (one.code, one.json["missing"]) == (0, [])


def test_the_stage_explores_sound_caches_and_fails_where_one_does(monkeypatch) -> None:
    """All orders with one preemption are run, of every scenario that is not too large (D5)."""
    kept = {name: SCENARIOS[name] for name in ("two-appends", "fork-and-look", "busy")}
    monkeypatch.setattr(concurrent_scenarios, "SCENARIOS", kept)
    told = []
    found = explored(1, lambda *now: told.append(now))
    assert found.verdict == "holds"
    assert [now[2] for now in told] == ["two-appends", "fork-and-look"]
    assert all(each["is_whole"] for each in found.data["scenarios"])
    timed = {"stage": "concurrency orders", "command": found.command, "wall_seconds": 1.0}
    (row,) = result_rows([timed | found.data])
    assert row[1:3] == ("at most 1 preemption", "61 orders of 2 scenarios")

    def child_by_child(tables, slots, entries):
        for slot, entry in zip(slots, entries, strict=True):
            slot.entry = entry

    monkeypatch.setattr(backend_requests, "enter_together", child_by_child)
    assert explored(1, lambda *now: None).verdict == "violated"


@pytest.mark.slow
def test_the_stage_takes_every_scenario() -> None:
    """As it is in `kvspec verify`, it leaves no scenario out but the large one (D5)."""
    found = orders_stage(lambda *now: None)
    names = [each["scenario"] for each in found.data["scenarios"]]
    assert found.verdict == "holds"
    assert names == [each.name for each in SCENARIOS.values() if not each.is_large]


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (lambda d: d["history"][0].update(returned=77), "another history"),
        (lambda d: d["schedule"].pop(), "does not apply"),
        (lambda d: d.update(fault=None), "does not apply"),
        (lambda d: d.update(preemptions=17), "told otherwise"),
        (lambda d: d.update(reason="the moon"), "told otherwise"),
    ],
)
def test_a_file_that_does_not_go_as_told_ends_with_1(kvspec, tmp_path, change, outcome) -> None:
    """Another history, steps that do not apply, or another reason are no replay of the file (D5)."""
    document = json.loads(interleaving_path("finish.lost-update").read_text(encoding="utf-8"))
    change(document)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    ran = kvspec("interleave", "replay", str(path), "--json")
    assert ran.code == 1
    assert ran.json["replays"][0]["outcome"] == outcome


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("two-append",), "did you mean 'two-appends'?"),
        (("--fault", "torn"), "there is no fault 'torn'"),
        (("two-appends", "--layout", "heap"), "there is no layout 'heap'"),
        (("two-appends", "--preemptions", "-1"), "--preemptions cannot be '-1'"),
        (("two-appends", "--most", "0"), "--most cannot be '0'"),
        (("replay", "publish.torm"), "did you mean 'publish.torn'?"),
        (("replay", "none.json"), "is no interleaving that can be replayed"),
        (("--save", "x.json"), "one order is saved"),
        (("--history", "x.json"), "one order is saved"),
        (("load", "--save", "x.json"), "a load has no order of steps to be saved"),
        (("load", "two-appends"), "there is no scenario 'load'"),
        (("two-appends", "--save", "no/such/folder/x.json"), "--save cannot be written"),
    ],
)
def test_wrong_usage_ends_with_2(kvspec, tmp_path, monkeypatch, words, told) -> None:
    """What was found, what was expected, where, and what to do."""
    monkeypatch.chdir(tmp_path)
    ran = kvspec("interleave", *words)
    assert ran.code == 2
    assert told in ran.err
    assert all(part in ran.err for part in ("found", "expected", "where", "do"))


def test_a_file_of_another_kind_names_its_command(kvspec) -> None:
    """`kvspec replay` sends an interleaving to where it belongs, and is sent its traces in turn."""
    ran = kvspec("replay", str(interleaving_path("publish.torn")))
    assert ran.code == 2
    assert "kvspec interleave replay" in " ".join(ran.err.split())
