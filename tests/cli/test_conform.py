"""`kvspec conform`: a cache of anybody's, rule by rule; files for CI, excuses and errors (F1, F4)."""

import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

PLANTED = Path(__file__).parent.parent / "properties" / "conformance" / "planted_caches.py"
STALE = "publish/STALE_SNAPSHOT"
TINY = ("--instance", "TINY")


@pytest.fixture(autouse=True)
def _mine(tmp_path, monkeypatch) -> None:
    shutil.copy(PLANTED, tmp_path / "my_planted_cache.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_sound_cache_holds(kvspec) -> None:
    """Exit code 0; the answer has each rule with its verdict and how often it was tried."""
    ran = kvspec("conform", "my_planted_cache:Sound", *TINY, "--json")
    assert (ran.code, ran.json["verdict"]) == (0, "holds")
    assert ran.json["counts"]["kept"] + ran.json["counts"]["out of reach"] == len(ran.json["rules"])
    kept = [rule for rule in ran.json["rules"] if rule["verdict"] == "kept"]
    assert all(rule["tried"] > 0 for rule in kept)


def test_a_broken_rule_is_told_with_its_page(kvspec) -> None:
    """Exit code 1; the page, the table and the verdict; the command that the page names repeats it."""
    ran = kvspec("conform", "my_planted_cache:AcceptsStale", *TINY)
    assert ran.code == 1
    assert "publish/STALE_SNAPSHOT: NOT ENFORCED" in ran.out
    assert "publish: 1 not enforced, 12 kept" in ran.out
    again = "kvspec conform my_planted_cache:AcceptsStale --instance TINY --only " + STALE
    assert again in ran.out
    repeated = kvspec(*again.split()[1:], "--json").json
    assert [rule["rule"] for rule in repeated["rules"]] == [STALE]
    assert repeated["rules"][0]["verdict"] == "not enforced"
    assert [call["call"].partition("(")[0] for call in repeated["rules"][0]["trace"]["calls"]] == [
        "allocate", "begin", "stage_k", "stage_v", "prepare", "truncate", "publish"
    ]  # fmt: skip


def test_files_for_ci_tell_broken_skipped_and_kept_apart(kvspec, tmp_path) -> None:
    """JUnit has failures and skips with reasons, SARIF results at lines of the specification."""
    junit, sarif = tmp_path / "rules.xml", tmp_path / "rules.sarif"
    words = ("conform", "my_planted_cache:AcceptsStale", *TINY)
    ran = kvspec(*words, "--junit", str(junit), "--sarif", str(sarif), "--json")
    root = ET.parse(junit).getroot()  # noqa: S314  # our own text
    counts = {name: int(root.get(name)) for name in ("tests", "failures", "skipped", "errors")}
    assert counts == {
        "tests": len(ran.json["rules"]), "failures": 3, "skipped": 17, "errors": 0
    }  # fmt: skip
    (case,) = root.findall(f".//testcase[@name='{STALE}']")
    assert "7. publish(x=txn0)" in case.find("failure").text
    assert '"kind": "notApplicable"' in sarif.read_text()
    assert "spec/append.py" in sarif.read_text()


def test_known_failures_are_excused_and_stale_ones_fail(kvspec, tmp_path) -> None:
    """With all that is broken listed the exit code is 0; an entry that excuses nothing makes it 1."""
    listed = tmp_path / "known.txt"
    words = ("conform", "my_planted_cache:WrongCode", *TINY, "--xfails", str(listed))
    listed.write_text("evict/STILL_OWNED  # our code\n")
    assert kvspec(*words).code == 0
    listed.write_text("evict/STILL_OWNED  # our code\npublish/length  # repaired\n")
    ran = kvspec(*words)
    assert ran.code == 1
    assert "STALE: " in ran.out
    assert "known.txt:2: publish/length is kept" in ran.out


def test_kept_rules_are_listed_on_demand(kvspec) -> None:
    """By default the table is about what is not simply kept."""
    words = ("conform", "my_planted_cache:Sound", *TINY)
    assert "publish/accepted" not in kvspec(*words).out
    assert "publish/accepted" in kvspec(*words, "--every").out


def test_an_instance_is_tried_whole_on_demand(kvspec) -> None:
    """--whole tries every call in every state where else each kind is tried once, and the report says so."""
    words = ("conform", "my_planted_cache:Sound", "--instance", "ROWS", "--only", "enter/ROW_TAKEN")
    part = kvspec(*words, "--json").json["instances"][0]
    whole = kvspec(*words, "--whole", "--json").json["instances"][0]
    assert whole["told"] == "every call in every state"
    assert whole["calls"] > part["calls"]


def test_a_run_that_is_cut_is_unknown(kvspec) -> None:
    """Exit code 3, and the reason."""
    ran = kvspec("conform", "my_planted_cache:Sound", "--budget", "0.001")
    assert ran.code == 3
    assert "the time was up before" in ran.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nobody.here:make",), "no module nobody"),
        (("my_planted_cache:Adapter",), "neither a method nor declared: evict"),
        (("my_planted_cache:Sound", "--instance", "HUGE"), "one of TINY, LONG"),
        (("my_planted_cache:Sound", "--only", "publish/STALE"), "publish/STALE_SNAPSHOT"),
        (("my_planted_cache:Sound", "--xfails", "none.txt"), "none.txt"),
        (("my_planted_cache:Sound", "--budget", "nan"), "nan"),
    ],
)
def test_wrong_input_is_told_with_what_to_do(kvspec, words, told) -> None:
    """Exit code 2; found, expected, where and what to do."""
    ran = kvspec("conform", *words)
    assert ran.code == 2
    assert told in " ".join(ran.err.split())
    assert "do" in ran.err
