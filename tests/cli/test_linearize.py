"""`kvspec linearize`: every verdict and exit code, what is told of a violation, and bad input (C5)."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kvspec.cli.bench_linearize import measure
from kvspec.counterexamples.history_files import FOLDER, dump_history, parse_history, read_history
from kvspec.properties.linearizability.generate import Shape

HOLDS = FOLDER / "one-of-two-publishes.json"
VIOLATED = FOLDER / "publish-seen-then-unseen.json"


def document(path: Path = HOLDS) -> dict:
    """A history file as plain data, to be changed."""
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture
def write(tmp_path: Path):
    """Write a document and give its path."""

    def made(data: object, name: str = "history.json") -> str:
        path = tmp_path / name
        path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
        return str(path)

    return made


def test_a_linearizable_history_ends_with_0(kvspec) -> None:
    """The verdict is told, with how many operations there were."""
    ran = kvspec("linearize", str(HOLDS))
    assert ran.code == 0
    assert "2 operations of 2 clients" in ran.out
    assert ran.out.rstrip().endswith("linearizable")


def test_a_violation_is_explained(kvspec) -> None:
    """Exit code 1; the least answers that fail, the longest order, and what would be answered."""
    ran = kvspec("linearize", str(VIOLATED))
    assert ran.code == 1
    assert "client 2            [2!!]" in ran.out
    assert "the longest order takes 2 of 3: 0, 1" in ran.out
    assert "was told 0, 0\n  the specification answers 1, 1" in ran.out
    found = kvspec("linearize", str(VIOLATED), "--json")
    assert found.code == 1
    (history,) = found.json["histories"]
    assert history["window"] == {"operations": [1, 2], "until": 5, "minimal": True}
    assert [each["place"] for each in history["stuck"]] == [2]


def test_the_reason_of_a_refusal_is_told(kvspec) -> None:
    """Where the specification refuses, its guard is told with the values that it found."""
    ran = kvspec("linearize", str(FOLDER / "check-then-act.json"))
    assert "the specification answers refused: STALE_SNAPSHOT" in ran.out
    assert "base_version[txn1] = 0" in ran.out


def test_many_histories_have_the_worst_verdict(kvspec, tmp_path: Path) -> None:
    """One violated history decides; JUnit and SARIF name its file."""
    junit, sarif = tmp_path / "runs.xml", tmp_path / "runs.sarif"
    ran = kvspec(
        "linearize", str(HOLDS), str(VIOLATED), "--junit", str(junit), "--sarif", str(sarif)
    )
    assert ran.code == 1
    assert "2 histories: 1 holds, 1 violated" in ran.out
    cases = list(ET.parse(junit).iter("testcase"))  # noqa: S314  # written just now
    assert [len(list(case)) > 0 for case in cases] == [False, True]
    (result,) = json.loads(sarif.read_text(encoding="utf-8"))["runs"][0]["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri.endswith("publish-seen-then-unseen.json")


def test_a_limit_ends_with_3(kvspec, write) -> None:
    """A search that may keep one configuration gives no verdict on what needs more."""
    data = document(FOLDER / "lost-update.json")
    cut = data["operations"][0]
    read = data["operations"][-1]
    data["operations"] = [{**cut, "client": n, "invoked": 1, "returned": 9} for n in range(4)]
    look = {"variable": "version", "index": ["handle0"]}
    data["operations"] += [
        {
            **read,
            "client": 9 + n,
            "read": [look],
            "answer": {"values": [v]},
            "invoked": 2,
            "returned": 8,
        }
        for n, v in enumerate((1, 2, 3))
    ]
    data["operations"].append({**read, "client": 20, "invoked": 10, "returned": 11})
    path = write(data)
    assert kvspec("linearize", path).code == 1
    ran = kvspec("linearize", path, "--max-states", "1", "--json")
    assert ran.code == 3
    assert "1 configurations" in ran.json["histories"][0]["reason"]


def test_a_picture_stands_alone(kvspec, tmp_path: Path) -> None:
    """The SVG is well formed, marks what cannot follow, and refers to nothing outside."""
    path = tmp_path / "run.svg"
    assert kvspec("linearize", str(VIOLATED), "--picture", str(path)).code == 1
    text = path.read_text(encoding="utf-8")
    root = ET.fromstring(text)  # noqa: S314  # written just now
    kinds = [
        each.get("class", "").strip() for each in root.iter("{http://www.w3.org/2000/svg}rect")
    ]
    assert kinds.count("bar stuck") == 1
    assert kinds.count("bar window") == 1
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 2
    assert "href" not in text
    assert "url(" not in text


def test_a_picture_is_of_one_history(kvspec, tmp_path: Path) -> None:
    """Two histories have no picture in common."""
    ran = kvspec("linearize", str(HOLDS), str(VIOLATED), "--picture", str(tmp_path / "two.svg"))
    assert ran.code == 2
    assert "--picture draws one history" in ran.err


def test_files_are_written_as_they_are_read() -> None:
    """A history that is written and read again is the same, pending operations among them."""
    for path in sorted(FOLDER.glob("*.json")):
        history = read_history(path).history
        again = parse_history(dump_history(history)).history
        assert again.operations == history.operations
        assert again.start == history.start


def changed(**more: object) -> dict:
    """A history whose first operation has other fields."""
    data = document()
    data["operations"][0].update(more)
    return data


BAD = {
    "no JSON": ("{", "as JSON"),
    "half of a character": ({**document(), "about": "\ud800"}, "half of a surrogate pair"),
    "a key twice": ('{"format": "kvspec-history", "format": "x"}', "twice"),
    "another format": ({"format": "kvspec-trace"}, "kvspec-history"),
    "a version to come": ({**document(), "version": 2}, "version"),
    "an unknown field": ({**document(), "clients": 2}, "clients"),
    "an unknown system": ({**document(), "system": "cores"}, "cores"),
    "an unknown action": (changed(event={"action": "publsh"}), "publsh"),
    "a parameter too few": (changed(event={"action": "publish"}), "needs the parameter x"),
    "an unknown member": (
        changed(event={"action": "publish", "parameters": {"x": "txn7"}}),
        "txn7",
    ),
    "a code that is empty": (changed(answer={"refused": ""}), "a code of"),
    "a code that is no text": (changed(answer={"refused": 4}), "a code of"),
    "an answer of a read": (changed(answer={"values": [1]}), "what the client was told"),
    "an answer without a return": (changed(returned=None), "null for both"),
    "a return before its call": (changed(returned=1), "later than the call"),
    "an event and a read": (
        changed(read=[{"variable": "version", "index": ["handle0"]}]),
        "one of them",
    ),
    "a return that is the mark for none": (changed(returned=(1 << 62) - 1), "returned"),
    "a client too large": (changed(client=1 << 63), "client"),
    "a client that does not wait": (changed(client=1), "before it was answered"),
    "operations out of order": (changed(invoked=3), "in the order of their calls"),
    "a start that is refused": (
        {**document(), "start": [{"action": "publish", "parameters": {"x": "txn0"}}]},
        "NOT_PREPARED",
    ),
    "an unknown variable": (
        changed(event=None, read=[{"variable": "versions"}], answer={"values": [1]}),
        "versions",
    ),
    "an index too short": (
        changed(event=None, read=[{"variable": "version"}], answer={"values": [1]}),
        "an index of 0",
    ),
    "a value out of bounds": (
        changed(
            event=None,
            read=[{"variable": "version", "index": ["handle0"]}],
            answer={"values": [99]},
        ),
        "99",
    ),
}


@pytest.mark.parametrize("code", ["LAYOUT_FULL", "BLOCK_IN_USE"])
def test_a_refusal_that_the_specification_lacks_is_a_violation(code: str, kvspec, write) -> None:
    """A cache's own code, or that of another action, is an answer that no step gives: told so (C5)."""
    ran = kvspec("linearize", write(changed(answer={"refused": code})))
    assert ran.code == 1
    assert f"{code} is a refusal that the specification does not have: publish is" in ran.out
    assert "at the least" in ran.out


@pytest.mark.parametrize("case", BAD)
def test_bad_input_ends_with_2(case: str, kvspec, write) -> None:
    """What is no history is refused with its place, what was expected and what to do."""
    given, told = BAD[case]
    ran = kvspec("linearize", write(given))
    assert ran.code == 2, ran.out
    assert told in " ".join(ran.err.split())
    assert "history.json" in ran.err
    for part in ("found", "expected", "where", "do"):
        assert f"\n  {part} " in ran.err


def test_the_benchmark_judges_what_it_made() -> None:
    """Of generated histories every other one holds, as made, and rates are told for all."""
    found = measure(Shape(2, 6), 6)
    assert found["verdicts"]["holds"] >= 3
    assert (found["wrong"], found["verdicts"]["unknown"]) == (0, 0)
    assert found["searched_per_second"] >= found["checked_per_second"] > 0


def test_a_missing_file_ends_with_2(kvspec) -> None:
    """A file that does not exist is named."""
    ran = kvspec("linearize", "no-such.json")
    assert ran.code == 2
    assert "no-such.json" in ran.err
