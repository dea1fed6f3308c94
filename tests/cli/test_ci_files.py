"""JUnit XML and SARIF: valid documents that say what the answer says."""

import json
from xml.etree import ElementTree as ET

import pytest

from kvspec.cli.junit import junit
from kvspec.cli.sarif import sarif
from kvspec.cli.verdicts import HOLDS, UNKNOWN, VIOLATED, Answer, Check

CHECKS = (
    Check("explore a/B", "holds_well", HOLDS, 1.5),
    Check(
        "explore a/B", "is_broken", VIOLATED, 0.5, "it breaks <here>", "step\x00 1", (__file__, 3)
    ),
    Check("prove a", "is_open", UNKNOWN, 0.0, "no time"),
)
ANSWER = Answer("verify", VIOLATED, {}, "", CHECKS)


def test_junit_counts_failures_and_errors() -> None:
    """Violated is a failure, unknown an error; neither is skipped or passes."""
    root = ET.fromstring(junit(ANSWER))  # noqa: S314  # our own text
    assert root.tag == "testsuites"
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "1")
    suites = {suite.get("name"): suite for suite in root.iter("testsuite")}
    assert set(suites) == {"explore a/B", "prove a"}
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert len(cases["holds_well"]) == 0
    assert cases["is_broken"].find("failure").get("message") == "it breaks <here>"
    assert cases["is_broken"].find("failure").text == "step? 1"
    assert cases["is_open"].find("error").get("message") == "no time"


def test_sarif_has_what_the_standard_requires() -> None:
    """Version, a tool with a name, rules that results point to, messages, and places."""
    log = sarif(ANSWER)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "kvspec"
    rules = [rule["id"] for rule in driver["rules"]]
    assert len(rules) == len(set(rules)) == 3
    assert len(run["results"]) == 2
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["message"]["text"]
        assert result["level"] in ("error", "none")
        assert (result["level"] == "error") == (result["kind"] == "fail")
    (place,) = run["results"][0]["locations"]
    assert place["physicalLocation"]["region"] == {"startLine": 3}
    assert "://" in place["physicalLocation"]["artifactLocation"]["uri"] or place[
        "physicalLocation"
    ]["artifactLocation"]["uri"].startswith("tests/")


@pytest.mark.parametrize(
    ("words", "code", "bad"),
    [
        (("explore", "broken_lock"), 1, 1),
        (("explore", "peer", "1,1,1,2,2"), 0, 0),
        (("prove", "peer"), 0, 0),
    ],
    ids=str,
)
def test_commands_write_both(kvspec, tmp_path, words, code: int, bad: int) -> None:
    """`--junit` and `--sarif` agree with the exit code, with and without `--json`."""
    xml, log = tmp_path / "out.xml", tmp_path / "out.sarif"
    for more in ((), ("--json",)):
        assert kvspec(*words, "--junit", str(xml), "--sarif", str(log), *more).code == code
        root = ET.fromstring(xml.read_text(encoding="utf-8"))  # noqa: S314
        assert int(root.get("failures")) == bad
        assert int(root.get("tests")) >= 1
        found = json.loads(log.read_text(encoding="utf-8"))["runs"][0]["results"]
        assert len(found) == bad
