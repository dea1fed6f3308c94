"""`kvspec record`: a newcomer records a run and audits it."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("prometheus_client")
pytest.importorskip("opentelemetry.sdk")

from kvspec.models.telemetry.faults import TELEMETRY_FAULTS

CODES = {
    "emit-before-publish": "PREMATURE_SUCCESS",
    "lose-event": "SEQUENCE_GAP",
    "lose-tail": "EVENT_LOST",
    "forge-event": "EVENT_ID_REUSED",
    "reorder-events": "REORDERED",
    "clock-back": "CLOCK_REGRESSION",
    "finish-as-release": "NOT_TERMINAL",
    "request-id-label": "METRIC_CARDINALITY",
}


@pytest.mark.parametrize("layout", ["dynamic", "static"])
def test_a_recorded_run_passes_the_audit(kvspec, tmp_path: Path, layout: str) -> None:
    """`kvspec record run.jsonl && kvspec audit run.jsonl` ends with 0."""
    log = tmp_path / "run.jsonl"
    ran = kvspec("record", str(log), "--layout", layout)
    assert ran.code == 0
    assert f"kvspec audit {log}" in ran.out
    audited = kvspec("audit", str(log), "--json")
    assert (audited.code, audited.json["verdict"]) == (0, "holds"), audited.out
    assert audited.json["events"] == len(log.read_text().splitlines()) - 2


@pytest.mark.parametrize(("fault", "code"), CODES.items())
def test_a_fault_is_recorded_and_caught(kvspec, tmp_path: Path, fault: str, code: str) -> None:
    """Recording ends with 0, for the log was written; the audit with 1 and the fault's own code."""
    log = tmp_path / "bad.jsonl"
    ran = kvspec("record", str(log), "--fault", fault)
    assert ran.code == 0
    assert TELEMETRY_FAULTS[fault] in ran.out
    audited = kvspec("audit", str(log), "--json")
    assert audited.code == 1
    assert audited.json["codes"].keys() & set(CODES.values()) == {code}


def test_a_duplicate_is_told_and_no_violation(kvspec, tmp_path: Path) -> None:
    """Delivered twice, byte for byte, an event is counted as a duplicate."""
    log = tmp_path / "twice.jsonl"
    kvspec("record", str(log), "--fault", "duplicate-event")
    audited = kvspec("audit", str(log), "--json")
    assert (audited.code, audited.json["duplicates"]) == (0, 1)
    lines = log.read_text().splitlines()
    assert len(lines) - len(set(lines)) == 1


def test_what_was_recorded_is_told_to_programs(kvspec, tmp_path: Path) -> None:
    """The JSON has the sizes, and what got lost: nothing."""
    log = tmp_path / "run.jsonl"
    words = ("--requests", "2", "--steps", "3", "--seed", "5", "--json")
    told = kvspec("record", str(log), *words).json
    assert (told["verdict"], told["requests"], told["steps"], told["seed"]) == ("holds", 2, 3, 5)
    assert told["outputs"] >= 6
    assert told["dropped"] == told["exporter_failures"] == {}
    assert (told["errors"], told["crash"]) == (0, "")


def test_a_crash_is_told(kvspec, tmp_path: Path) -> None:
    """The process died, and the last line of the log is what readers saw then."""
    log = tmp_path / "crash.jsonl"
    told = kvspec("record", str(log), "--fault", "emit-before-publish", "--json").json
    assert "died" in told["crash"]
    closing = json.loads(log.read_text().splitlines()[-1])["closing"]
    assert {end["phase"] for end in closing["handles"]} == {"DECODE_READY"}


def test_metrics_and_spans_of_the_same_run(kvspec, tmp_path: Path) -> None:
    """As many successes are counted, and as many append spans end, as publications are in the log."""
    log, prom, spans = (tmp_path / name for name in ("run.jsonl", "run.prom", "run.spans"))
    words = ("--metrics-out", str(prom), "--spans-out", str(spans))
    assert kvspec("record", str(log), *words).code == 0
    events = [json.loads(line) for line in log.read_text().splitlines()[1:-1]]
    published = [event for event in events if event["event_type"] == "append_publish"]
    labels = 'engine="engine",event_type="append",model_name="tiny-decoder",outcome="success"'
    assert f"kvspec_cache_outcomes_total{{{labels}}} {len(published):.1f}" in prom.read_text()
    ended = [json.loads(line) for line in spans.read_text().splitlines()]
    told = [event["attributes"]["kvspec.event_id"] for span in ended for event in span["events"]
            if event["name"] == "cache.append.publish"]  # fmt: skip
    assert told == [event["event_id"] for event in published]
    assert "request_id" not in prom.read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--fault", "lose-evnt"), "did you mean 'lose-event'"),
        (("--layout", "scattered"), "dynamic, static"),
        (("--requests", "0"), "--requests"),
        (("--metrics-out", "no/such/folder/m.prom"), "--metrics-out"),
    ],
)
def test_wrong_words_are_refused(kvspec, tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    """The error names what was wrong and what there is; nothing is written."""
    log = tmp_path / "run.jsonl"
    ran = kvspec("record", str(log), *words)
    assert ran.code == 2
    assert told in ran.err
    assert not log.exists()


def test_metrics_need_their_library(kvspec, tmp_path: Path, monkeypatch) -> None:
    """Without the extra a log is recorded all the same, and metrics are refused with what to install."""
    monkeypatch.setattr("kvspec.cli.record._has_extra", lambda: False)
    log, prom = tmp_path / "run.jsonl", tmp_path / "run.prom"
    ran = kvspec("record", str(log), "--metrics-out", str(prom))
    assert ran.code == 2
    assert "kvspec[telemetry]" in ran.err
    assert kvspec("record", str(log), "--requests", "1").code == 0
    assert kvspec("audit", str(log)).code == 0


def test_a_log_that_could_not_be_written_is_unknown(kvspec, tmp_path: Path, monkeypatch) -> None:
    """An exporter that fails makes no holds: the answer says what is missing."""

    def broken(self, item: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("kvspec.models.telemetry.audit_log.AuditLog.export", broken)
    ran = kvspec("record", str(tmp_path / "run.jsonl"), "--requests", "1")
    assert ran.code == 3
    assert "no space left" in ran.out


@pytest.mark.bench
def test_what_telling_costs_is_told(kvspec, monkeypatch) -> None:
    """`kvspec bench telemetry` gives the steps a second of each way, and their ratio."""
    from kvspec.models.decode import telemetry_cost

    measure = telemetry_cost.measure
    monkeypatch.setattr(telemetry_cost, "measure", lambda: measure(1, 2, 1))
    ran = kvspec("bench", "telemetry", "--json")
    assert ran.code == 0
    ways = ran.json["ways"]
    assert list(ways) == list(telemetry_cost.WAYS)
    assert ways[telemetry_cost.BARE]["rate_ratio"] == 1
    assert all(way["steps_per_second"] > 0 for way in ways.values())


def test_telling_cannot_be_measured_without_its_libraries(kvspec, monkeypatch) -> None:
    """It says what to install."""
    monkeypatch.setattr("kvspec.cli.bench_telemetry.NEEDED", ("no_such_library",))
    ran = kvspec("bench", "telemetry")
    assert ran.code == 2
    assert "kvspec[torch,telemetry]" in ran.err
