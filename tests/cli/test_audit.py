"""`kvspec audit`: logs in both forms, every exit code, and what CI reads."""

import io
import json
import sys
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree as ET

import attrs
import pytest

from kvspec.counterexamples.negative_cases import DOCUMENTS
from kvspec.models.documents.lines import write_closing, write_event, write_header
from kvspec.properties.audit.synthetic import HEADER, closing_of, long_log

EVENTS = list(islice(long_log(live=2, outputs=2), 60))


CLOSING = closing_of(EVENTS)


def open_text(events=EVENTS, header=HEADER):
    """A log of lines without a closing."""
    return write_header(header) + "".join(map(write_event, events))


def text_of(events=EVENTS, header=HEADER):
    """A log of lines, closed by what the cache held after the lawful events."""
    return open_text(events, header) + write_closing(CLOSING)


@pytest.fixture
def log(tmp_path: Path):
    """Write a log of lines, by default a lawful one."""

    def write(text=None):
        path = tmp_path / "run.jsonl"
        path.write_text(text_of() if text is None else text, encoding="utf-8")
        return str(path)

    return write


def changed(place, **fields):
    """The lawful events with other fields in one of them."""
    events = list(EVENTS)
    events[place] = attrs.evolve(events[place], **fields)
    return events


def cases(path):
    """The test cases of a JUnit file that was just written."""
    return list(ET.fromstring(path.read_text(encoding="utf-8")).iter("testcase"))  # noqa: S314


PUBLISHED = next(n for n, each in enumerate(EVENTS) if each.event_type == "append_publish")


def test_a_lawful_log_holds(kvspec, log):
    """It ends with 0 and tells what was looked at."""
    ran = kvspec("audit", log(), "--json")
    assert ran.code == 0
    assert (ran.json["verdict"], ran.json["events"], ran.json["findings"]) == ("holds", 60, [])
    assert ran.json["types"]["append_publish"] > 5
    assert "holds: " in kvspec("audit", log()).out


def test_a_finding_tells_line_rule_expected_found_and_advice(kvspec, log):
    """It ends with 1; the line is that of the file."""
    ran = kvspec("audit", log(text_of(changed(PUBLISHED, committed_tokens=23))))
    assert ran.code == 1
    assert f"run.jsonl:{PUBLISHED + 2}: COMMITTED_TOKENS\n  rule      " in ran.out
    for part in ("expected  24", "found     23", "at        committed_tokens", "do        "):
        assert part in ran.out


def test_a_finding_is_data_for_a_program(kvspec, log):
    """Each has its line, code, place and verdict."""
    ran = kvspec("audit", log(text_of(changed(PUBLISHED, result_snapshot=9))), "--json")
    (found,) = ran.json["findings"]
    assert (found["line"], found["code"], found["field"]) == (
        PUBLISHED + 2,
        "RESULT_SNAPSHOT",
        "result_snapshot",
    )
    assert (found["expected"], found["found"], found["verdict"]) == ("1", "9", "violated")
    assert ran.json["unjudged"] > 0


def test_only_so_many_findings_are_told(kvspec, log):
    """`--max-findings` limits what is told; the others are counted."""
    events = [attrs.evolve(each, trace_id="") for each in EVENTS]
    ran = kvspec("audit", log(text_of(events)), "--max-findings", "2")
    assert ran.out.count(": TRACE_MISSING\n") == 2
    assert "and 58 more" in ran.out
    assert kvspec("audit", log(), "--max-findings", "0").code == 2


def test_standard_input_is_a_log(kvspec, monkeypatch):
    """`-` reads what is piped in."""
    piped = io.TextIOWrapper(io.BytesIO(text_of().encode()))
    monkeypatch.setattr(sys, "stdin", piped)
    ran = kvspec("audit", "-")
    assert ran.code == 0
    assert "holds: standard input" in ran.out


def test_a_document_is_audited_as_well(kvspec, tmp_path):
    """The event-log document holds; broken, it is told by the line of its own file."""
    text = (DOCUMENTS / "event-log.json").read_text(encoding="utf-8")
    path = tmp_path / "event-log.json"
    path.write_text(text, encoding="utf-8")
    assert kvspec("audit", str(path)).code == 0
    path.write_text(text.replace('"used_slots": 5,', '"used_slots": 9,', 1), encoding="utf-8")
    ran = kvspec("audit", str(path), "--json")
    (found,) = ran.json["findings"]
    line = path.read_text(encoding="utf-8").splitlines()[found["line"] - 1]
    assert (ran.code, found["code"], '"used_slots": 9' in line) == (1, "ALLOCATOR_OVERFLOW", True)
    path.write_text(json.dumps(json.loads(text)), encoding="utf-8")
    assert kvspec("audit", str(path)).code == 0


def test_a_document_with_another_expected_result_is_violated(kvspec, tmp_path):
    """The history is lawful, and not the one that is expected; the place is told."""
    text = (DOCUMENTS / "event-log.json").read_text(encoding="utf-8")
    path = tmp_path / "event-log.json"
    path.write_text(text.replace('"end_generation": 8', '"end_generation": 9'), encoding="utf-8")
    ran = kvspec("audit", str(path), "--json")
    (found,) = ran.json["findings"]
    assert (ran.code, found["code"]) == (1, "EXPECTED_HANDLES")
    assert "handles" in path.read_text(encoding="utf-8").splitlines()[found["line"] - 1]
    assert "EXPECTED_HANDLES" in kvspec("audit", str(path)).out


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("\n\n", "empty"),
        (write_header(HEADER), "no event"),
        (open_text(), "no closing"),
        (text_of(header=attrs.evolve(HEADER, completeness="sampled")), "sampled"),
    ],
    ids=["nothing", "blank", "header alone", "open", "sampled"],
)
def test_what_proves_nothing_is_unknown(kvspec, log, text, reason):
    """It ends with 3, never with 0."""
    ran = kvspec("audit", log(text), "--json")
    assert (ran.code, ran.json["verdict"]) == (3, "unknown")
    assert reason in ran.json["reason"]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (open_text()[:-40], "line 61, column "),
        (text_of()[:-40], "line 62, column "),
        (open_text(EVENTS[:3]) + '{"event_id": 7}\n', "line 5, column 2"),
        ("no log\n", "line 1, column 1"),
        ('{"document": "manifest", "version": 1}\n', "line 1, column "),
        (text_of()[: len(write_header(HEADER)) - 9] + "\n", "line 1, column "),
    ],
    ids=["cut", "closing cut", "type", "text", "another document", "header cut"],
)
def test_what_cannot_be_read_ends_with_2(kvspec, log, text, where):
    """The line and the column are told."""
    ran = kvspec("audit", log(text))
    assert ran.code == 2
    assert where in " ".join(ran.err.split())


def test_a_file_that_is_not_there_ends_with_2(kvspec, tmp_path):
    """The path is told, and so is an option that does not exist."""
    ran = kvspec("audit", str(tmp_path / "nothing.jsonl"))
    assert ran.code == 2
    assert "nothing.jsonl" in ran.err
    assert "--colour" in kvspec("audit", "--colour").err


def test_a_header_is_checked(kvspec, log):
    """An unbounded label is told in line 1."""
    from kvspec.spec.documents.log import MetricFamily

    family = MetricFamily(name="appends", kind="counter", labels=("request_id",), outcomes=())
    header = attrs.evolve(HEADER, metric_families=(family,), schema_version=7)
    ran = kvspec("audit", log(text_of(header=header)), "--json")
    assert ran.code == 1
    assert [(each["line"], each["code"]) for each in ran.json["findings"]] == [
        (1, "SCHEMA_VERSION"),
        (1, "METRIC_CARDINALITY"),
    ]
    assert ran.json["codes"] == {"SCHEMA_VERSION": 1, "METRIC_CARDINALITY": 1}


def test_a_duplicate_is_counted_and_loss_is_violated(kvspec, log):
    """The three ways of delivery are told apart."""
    twice = kvspec("audit", log(text_of([*EVENTS, EVENTS[4]])), "--json")
    assert (twice.code, twice.json["duplicates"]) == (0, 1)
    lost = kvspec("audit", log(text_of(EVENTS[:9] + EVENTS[10:])), "--json")
    assert (lost.code, lost.json["lost"]) == (1, 1)
    assert "SEQUENCE_GAP" in lost.json["codes"]


def test_ci_can_read_the_findings(kvspec, log, tmp_path):
    """JUnit and SARIF have the rule and the line; without findings there is one check that passed."""
    junit, sarif = tmp_path / "a.xml", tmp_path / "a.sarif"
    words = ("--junit", str(junit), "--sarif", str(sarif))
    path = log(text_of(changed(PUBLISHED, base_snapshot=5)))
    assert kvspec("audit", path, *words).code == 1
    (case,) = cases(junit)
    assert (case.get("name"), case.get("line")) == ("BASE_SNAPSHOT", str(PUBLISHED + 2))
    assert case.find("failure") is not None
    (result,) = json.loads(sarif.read_text())["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert result["ruleId"] == "audit/BASE_SNAPSHOT"
    assert place["region"]["startLine"] == PUBLISHED + 2
    assert kvspec("audit", log(), *words).code == 0
    (case,) = cases(junit)
    assert list(case) == []


def test_the_bench_of_the_audit_measures_both(kvspec):
    """Events a second with and without the audit, and memory at two lengths."""
    ran = kvspec("bench", "audit", "--events", "500", "--json")
    assert ran.code == 0
    data = ran.json
    assert (data["events"], data["verdict"]) == (500, "holds")
    assert data["ratio"] > 1
    small, large = data["peak_bytes"].values()
    assert large < 1.5 * small


def test_no_progress_is_shown_where_nobody_looks(kvspec, log):
    """Standard error stays empty without a terminal."""
    assert kvspec("audit", log()).err == ""


def test_progress_tells_how_much_of_the_file_is_read(kvspec, log, monkeypatch):
    """At a terminal, bytes read of all bytes, now and then."""
    told = []

    @contextmanager
    def counting(_title):
        yield lambda done, total, name: told.append((done, total, name))

    monkeypatch.setattr("kvspec.cli.audit.counting", counting)
    monkeypatch.setattr("kvspec.properties.audit.stream.TICKS", 20)
    text = text_of()
    assert kvspec("audit", log(text)).code == 0
    assert [name for _, _, name in told] == ["line 20", "line 40", "line 60"]
    assert all(total == len(text) for _, total, _ in told)
    assert [done for done, _, _ in told] == [len(open_text(EVENTS[:n])) for n in (19, 39, 59)]


def test_a_log_that_is_cut_at_a_line_is_unknown(kvspec, log):
    """Whatever is missing, and be it the closing alone; `--open` judges what is told, and says so."""
    lines = text_of().splitlines(keepends=True)
    for kept in (len(lines) - 1, 30, 2):
        path = log("".join(lines[:kept]))
        ran = kvspec("audit", path)
        assert ran.code == 3
        assert "no closing" in ran.out
        told = kvspec("audit", path, "--open")
        assert told.code == 0
        assert "the log is open: only what is told is judged" in told.out
    assert kvspec("audit", path, "--open", "--json").json["open"]
    assert not kvspec("audit", log(), "--open", "--json").json["open"]


def test_a_lost_end_is_violated(kvspec, log):
    """The closing is there and some events before it are not, though they change nothing in sight."""
    ran = kvspec("audit", log(text_of(EVENTS[:-1])), "--json")
    assert ran.code == 1
    assert (ran.json["lost"], set(ran.json["codes"])) >= (1, {"EVENT_LOST"})


def test_an_empty_log_is_named(kvspec, log):
    """The answer tells which file has nothing in it."""
    path = log("")
    assert f"unknown: {path}: the log is empty" in kvspec("audit", path).out


def test_a_document_tells_places_of_a_document(kvspec, tmp_path):
    """An allocation is named by its place among the events, as a document has no line for each."""
    text = (DOCUMENTS / "event-log.json").read_text(encoding="utf-8")
    log = json.loads(text)
    place = next(n for n, e in enumerate(log["events"]) if e["event_type"] == "request_allocate")
    log["events"][place]["handle_generation"] += 1
    path = tmp_path / "event-log.json"
    path.write_text(json.dumps(log), encoding="utf-8")
    found = kvspec("audit", str(path), "--json").json["findings"]
    assert any(f"as told in /events/{place}" in each["expected"] for each in found)


def test_findings_before_an_unreadable_line_are_not_lost(kvspec, tmp_path) -> None:
    """A log that is cut within a line ends with 2, and what was found before is told (F5, B7)."""
    whole = tmp_path / "run.jsonl"
    assert kvspec("record", str(whole)).code == 0
    lines = whole.read_text().splitlines(keepends=True)
    del lines[3]
    cut = tmp_path / "cut.jsonl"
    cut.write_text("".join(lines[:40]) + lines[40][:30])
    ran = kvspec("audit", str(cut))
    assert ran.code == 2
    assert "SEQUENCE_GAP" in ran.err
    assert "this is of the lines before the one that cannot be read" in ran.err
    assert "NOT_JSON" in ran.err or "invalid" in ran.err
