"""`kvspec service`: the worked tables, other limits, and broken traces (B6, F1)."""

import io
import json

import pytest

from kvspec.counterexamples.negative_cases import DOCUMENTS, load_document, load_set, mutated

FILE = DOCUMENTS / "service.json"
PARTIAL = DOCUMENTS / "service-partial-prefill.json"


def broken(name):
    """The text of a negative case of the service trace."""
    case = next(case for case in load_set("service").cases if case.name == name)
    return json.dumps(mutated(load_document("service"), case))


@pytest.fixture
def stdin(monkeypatch):
    """Put bytes on standard input."""

    def put(text):
        raw = text if isinstance(text, bytes) else text.encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))

    return put


def rows_of(ran, words):
    """The lines of the answer that begin with a word."""
    return [line.split() for line in ran.out.splitlines() if line.split()[:1] == [words]]


def test_every_record_is_a_row(kvspec):
    """The table has each record with phase, counters, rows, frontier and bytes (B6)."""
    ran = kvspec("service", str(FILE))
    assert ran.code == 0
    (row,) = rows_of(ran, "14")
    assert row[:5] == ["14", "A", "emit", "a0", "DECODE_FRONTIER_READY"]
    assert row[5:] == ["1/0", "4", "[a0]", "256", "64", "0"]
    (row,) = rows_of(ran, "18")
    assert row[4:] == ["FINISHED_RETAINED", "1/0", "2", "[b0]", "128", "0", "128"]
    times = [line.split()[0] for line in ran.out.splitlines()[3:19]]
    assert times == [str(each["time"]) for each in load_document("service")["records"]]


def test_the_metrics_are_a_table(kvspec):
    """TTFT, TBT, TPOT, E2E and lag of both requests; the TPOT of one output is undefined (B6)."""
    ran = kvspec("service", str(FILE))
    (a,) = rows_of(ran, "A")
    assert a == ["A", "14", "[7,", "9,", "12]", "28/3", "(9.333)", "42", "8", "no", "13,568"]
    (b,) = rows_of(ran, "B")
    assert b == ["B", "13", "[]", "undefined", "13", "1", "yes", "512"]
    assert rows_of(ran, "goodput")[0][2:] == [
        "1/2",
        "(0.500)",
        "of",
        "the",
        "completed",
        "requests",
    ]
    assert rows_of(ran, "logical")[0][2:] == ["14,080", "byte-ms"]


def test_json_has_exact_ratios_and_null(kvspec, stdin):
    """Ratios are there as text and as a float, and what is undefined is null (B6)."""
    stdin(FILE.read_bytes())
    ran = kvspec("service", "-", "--json")
    assert ran.code == 0
    assert ran.json["document"] == "standard input"
    a, b = ran.json["metrics"]
    assert a["tpot"] == {"exact": "28/3", "value": 28 / 3}
    assert b["tpot"] is None
    assert b["tbt"] == []
    assert ran.json["aggregate"]["request_throughput"] == {"exact": "20", "value": 20.0}
    assert ran.json["aggregate"]["goodput_fraction"] == {"exact": "1/2", "value": 0.5}
    assert ran.json["records"] == load_document("service")["records"]


def test_other_limits(kvspec):
    """With other limits other requests are valid, and the rates are computed anew (B6)."""
    found = kvspec("service", str(FILE), "--tbt-limit", "12", "--window", "50", "--json").json
    assert [each["slo_valid"] for each in found["metrics"]] == [True, True]
    assert found["limits"] == {"ttft": 15, "tbt": 12, "window": 50}
    assert found["aggregate"]["request_throughput"]["exact"] == "40"
    assert found["aggregate"]["token_goodput"]["exact"] == "100"
    found = kvspec("service", str(FILE), "--ttft-limit", "12", "--json").json
    assert [each["slo_valid"] for each in found["metrics"]] == [False, False]
    assert found["aggregate"]["request_goodput"] == {"exact": "0", "value": 0.0}


def test_a_partial_prefill(kvspec):
    """A chunk is published and the request waits for the rest of its prompt (B6, A11)."""
    ran = kvspec("service", str(PARTIAL))
    assert ran.code == 0
    (row,) = rows_of(ran, "7")
    assert row[:7] == ["7", "C", "publish_prefill", "[0,", "3)", "WAITING_PREFILL", "0/0"]


def test_a_broken_contract_is_told(kvspec, stdin):
    """Code, place, what was expected and what was found, and the exit code of a violation (B6)."""
    stdin(broken("prompt-overrun"))
    ran = kvspec("service", "-")
    assert ran.code == 1
    assert "violated: standard input breaks UNKNOWN_TOKEN" in ran.out
    assert "at        /records/1 (line " in ran.out
    assert "n = 5" in ran.out


def test_a_broken_contract_as_json(kvspec, stdin):
    """A program finds the same: a TPOT of zero where there is none (B6)."""
    stdin(broken("tpot-zero"))
    ran = kvspec("service", "-", "--json")
    assert ran.code == 1
    assert (ran.json["verdict"], ran.json["code"]) == ("violated", "TPOT_UNDEFINED")
    (finding,) = ran.json["findings"]
    assert (finding["path"], finding["expected"], finding["found"]) == (
        "/metrics/1/tpot",
        None,
        "0",
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "NOT_JSON"),
        ("{}", "WRONG_KIND"),
        ('{"document": "service", "version": 1}', "MISSING_FIELD"),
        (b"\xff", "no text"),
    ],
)
def test_what_is_no_service_trace_is_wrong_input(kvspec, stdin, text, told):
    """A text that is no service trace ends with 2 and the reason (B6, F1)."""
    stdin(text)
    ran = kvspec("service", "-")
    assert ran.code == 2
    assert told in ran.err
    assert "standard input" in ran.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "FILE has no value"),
        (("no-such-file.json",), "no-such-file.json"),
        (("--limit",), "there is no option '--limit'"),
        ((str(FILE), "--window", "49"), "50 or more"),
        ((str(FILE), "--window", "0"), "--window cannot be '0'"),
        ((str(FILE), "--tbt-limit", "-1"), "--tbt-limit cannot be '-1'"),
        ((str(FILE), "--ttft-limit", "x"), "--ttft-limit cannot be 'x'"),
        ((str(DOCUMENTS / "manifest.json"),), "a document of kind 'manifest'"),
    ],
)
def test_wrong_usage(kvspec, words, told):
    """What cannot be meant is told, and ends with 2 (F1, F5)."""
    ran = kvspec("service", *words)
    assert ran.code == 2
    assert told in ran.err
