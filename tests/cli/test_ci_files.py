"""JUnit XML and SARIF: valid documents that say what the answer says."""

import json
import os
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kvspec.cli.junit import junit
from kvspec.cli.sarif import sarif
from kvspec.cli.verdicts import HOLDS, SKIPPED, UNKNOWN, VIOLATED, Answer, Check
from kvspec.counterexamples.history_files import FOLDER
from kvspec.models.documents.strict import strict_loads

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


ODD = "odd \x1b \udcff\uffff name.json"
"""A name with a control character, a byte that is no UTF-8, and what XML cannot hold."""


def test_junit_of_an_odd_name_is_xml() -> None:
    """What XML cannot hold is replaced in every name and place, as it is in messages."""
    check = Check(f"linearize {ODD}", ODD, VIOLATED, 0.0, ODD, ODD, (ODD, 1))
    skipped = Check(f"linearize {ODD}", ODD, SKIPPED, 0.0, ODD)
    text = junit(Answer(ODD, VIOLATED, {}, "", (check, skipped)))
    root = ET.fromstring(text.encode())  # noqa: S314  # our own text
    case = next(root.iter("testcase"))
    assert case.get("name") == case.get("file") == "odd ? ?? name.json"
    assert root.find("testsuite").get("name") == case.get("classname")


def test_an_odd_name_can_be_written_everywhere(kvspec_process, tmp_path) -> None:
    """A file whose name is no UTF-8 has its verdict in text, JSON, JUnit and SARIF, never an error."""
    source = FOLDER / "publish-seen-then-unseen.json"
    file = os.fsencode(tmp_path / "bad\x1b") + b"\xff.json"
    try:
        Path(os.fsdecode(file)).write_bytes(source.read_bytes())
    except OSError:
        pytest.skip("this file system takes no such name")
    words = ("linearize", os.fsdecode(file), "--junit", "j.xml", "--sarif", "s.json")
    ran = kvspec_process(*words)
    assert ran.code == 1, ran.err
    assert "\\udcff.json" in ran.out
    ran = kvspec_process(*words, "--json")
    assert ran.code == 1, ran.err
    assert strict_loads(ran.out)["histories"][0]["file"].endswith("\\udcff.json")
    assert len(list(ET.parse(tmp_path / "j.xml").iter("failure"))) == 1  # noqa: S314  # ours
    log = strict_loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    (place,) = log["runs"][0]["results"][0]["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "bad%1B%FF.json"


def test_a_terminal_of_few_characters_gets_the_others_escaped(kvspec_process, tmp_path) -> None:
    """Where stdout holds ASCII alone, what a history says of itself does not end the command."""
    document = json.loads((FOLDER / "one-of-two-publishes.json").read_text(encoding="utf-8"))
    document["about"] = "caf\u00e9"
    path = tmp_path / "history.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ran = kvspec_process("linearize", str(path), env=environment)
    assert ran.code == 0, ran.err
    assert "caf\\xe9" in ran.out


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


def test_an_error_about_an_odd_name_is_strict_json(kvspec_process) -> None:
    """A missing file whose name is no UTF-8 is told as JSON that a strict reader takes."""
    ran = kvspec_process("linearize", "no\udcff.json", "--json")
    assert ran.code == 2
    assert any(r"no\udcff.json" in part for part in strict_loads(ran.out)["error"].values())
