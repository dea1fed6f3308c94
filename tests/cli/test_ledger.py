import io
import json

import pytest

from kvspec.counterexamples.negative_cases import DOCUMENTS, load_document, load_set, mutated

FILE = DOCUMENTS / "byte-trajectory.json"
SIZES = [
    "--layers",
    "2",
    "--kv-heads",
    "2",
    "--head-width",
    "4",
    "--key-bytes",
    "2",
    "--value-bytes",
    "2",
]
LLAMA = [
    "--layers",
    "32",
    "--head-width",
    "128",
    "--key-bytes",
    "2",
    "--value-bytes",
    "2",
    "--lengths",
    "4096",
]


def broken(name):
    """The text of a negative case of the byte trajectory."""
    case = next(case for case in load_set("byte-trajectory").cases if case.name == name)
    return json.dumps(mutated(load_document("byte-trajectory"), case))


@pytest.fixture
def stdin(monkeypatch):
    """Put bytes on standard input."""

    def put(text):
        raw = text if isinstance(text, bytes) else text.encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))

    return put


def test_every_event_is_a_row(kvspec):
    """The table has every event with its ledgers, then the peaks and the area."""
    ran = kvspec("ledger", str(FILE))
    assert ran.code == 0
    (row,) = [line.split() for line in ran.out.splitlines() if "B prefill_publish" in line]
    figures = ["384", "512", "128", "1,024", "512", "48", "1,072", "800", "272", "96", "1,168"]
    assert row == ["3", "B", "prefill_publish", "2", "4,2", *figures]
    assert [line.split()[0] for line in ran.out.splitlines()[4:15]] == [str(n) for n in range(11)]
    assert "peak physical       1,072 bytes" in ran.out
    assert "peak with workspace 1,168 bytes" in ran.out
    assert "area under logical  3,072 bytes x ticks" in ran.out


def test_standard_input_and_json(kvspec, stdin):
    """`-` reads standard input; the JSON has every event as the document has it."""
    stdin(FILE.read_bytes())
    ran = kvspec("ledger", "-", "--json")
    assert ran.code == 0
    assert ran.json["document"] == "standard input"
    assert ran.json["events"] == load_document("byte-trajectory")["events"]
    assert (ran.json["peak_physical"], ran.json["peak_instantaneous"]) == (1072, 1168)


def test_a_broken_contract_is_told(kvspec, stdin):
    """Code, place, what was expected and what was found, and the exit code of a violation."""
    stdin(broken("row-skipped"))
    ran = kvspec("ledger", "-")
    assert ran.code == 1
    assert "violated: standard input breaks POSITION_MISMATCH" in ran.out
    assert "at        /events/4 (line " in ran.out
    assert "expected  p = length[h]" in ran.out
    assert "found     p = 5" in ran.out


def test_a_broken_contract_as_json(kvspec, stdin):
    """A program finds the same, with every place."""
    stdin(broken("other-tier"))
    ran = kvspec("ledger", "-", "--json")
    assert ran.code == 1
    assert (ran.json["verdict"], ran.json["code"]) == ("violated", "TIER_PARTITION")
    assert [finding["path"] for finding in ran.json["findings"]] == [
        f"/events/{n}/ledger/resident" for n in range(3, 10)
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "NOT_JSON"),
        ("{}", "WRONG_KIND"),
        ('{"document": "byte-trajectory", "version": 1}', "MISSING_FIELD"),
        (b"\xff", "no text"),
        ('{"document": "log", "version": 1}', "WRONG_KIND"),
    ],
)
def test_what_is_no_trajectory_is_wrong_input(kvspec, stdin, text, told):
    """A text that is no byte trajectory ends with 2 and the reason."""
    stdin(text)
    ran = kvspec("ledger", "-")
    assert ran.code == 2
    assert told in ran.err
    assert "standard input" in ran.err


def test_one_instant(kvspec):
    """Lengths 5 and 2: 448 bytes, 640 padded, 192 of them of no row."""
    ran = kvspec("ledger", *SIZES, "--lengths", "5,2", "--copies", "1,1", "--json")
    assert ran.code == 0
    assert (ran.json["logical"], ran.json["rectangular"], ran.json["phantom"]) == (448, 640, 192)


def test_one_instant_with_copies_and_room(kvspec):
    """Copies and room give the ledgers of the text: 704, 192, 1,024 and 320."""
    words = ("--lengths", "5,3", "--copies", "1,2", "--capacities", "8,4", "--json")
    found = kvspec("ledger", *SIZES, *words).json
    assert (found["materialized"], found["replication_overhead"]) == (704, 192)
    assert (found["reserved"], found["reservation_slack"]) == (1024, 320)


@pytest.mark.parametrize(
    ("heads", "row", "logical"), [("8", 128 * 2**10, 512 * 2**20), ("32", 512 * 2**10, 2 * 2**30)]
)
def test_the_scale_of_grouped_heads(kvspec, heads, row, logical):
    """4,096 rows of 8 K/V heads are 512 MiB, and of 32 heads 2 GiB."""
    found = kvspec("ledger", *LLAMA, "--kv-heads", heads, "--json").json
    assert (found["token_bytes"], found["logical"]) == (row, logical)


def test_scalars_have_two_bytes_by_default(kvspec):
    """As in `kvspec manifest`, K and V have two bytes a scalar unless told otherwise."""
    words = ("--layers", "2", "--kv-heads", "2", "--head-width", "4", "--lengths", "5,2", "--json")
    assert kvspec("ledger", *words).json == kvspec("ledger", *SIZES, *words[6:]).json


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "neither a file nor --lengths"),
        (("--lengths", "5,2"), "--layers"),
        ((*SIZES, "--lengths", "5,x"), "--lengths cannot be '5,x'"),
        ((*SIZES, "--lengths", ""), "--lengths cannot be ''"),
        ((*SIZES, "--lengths", "5,2", "--copies", "1"), "different requests"),
        ((*SIZES, "--lengths", "5,2", "--copies", "1,0"), "whole numbers from 1 on"),
        ((*SIZES, "--lengths", "5,2", "--capacities", "5,1"), "no room"),
        ((str(FILE), "--layers", "2"), "a file has its own sizes"),
        (("--layer",), "did you mean '--layers'"),
        (("no-such-file.json",), "no-such-file.json"),
    ],
)
def test_wrong_usage(kvspec, words, told):
    """What cannot be meant is told, and ends with 2."""
    ran = kvspec("ledger", *words)
    assert ran.code == 2
    assert told in ran.err


def test_a_number_beyond_all_bounds_is_refused(kvspec) -> None:
    """What could not even be printed is an error of usage, and shown in short (F5)."""
    huge = "9" * 5000
    sizes = ["--layers", "2", "--kv-heads", "2", "--head-width", "4"]
    for ran in (
        kvspec("ledger", *sizes, "--lengths", huge),
        kvspec("formulas", "token_bytes", huge, "2", "2", "2", "2"),
    ):
        assert ran.code == 2
        assert "at most 18 digits" in ran.err
        assert len(ran.err) < 1_000
