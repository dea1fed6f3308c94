"""`kvspec check` tells which contract a document breaks first, and where."""

import io
import json
import sys
from xml.etree import ElementTree as ET

import pytest

from kvspec.counterexamples.negative_cases import DOCUMENTS, kinds_with_cases, load_document
from kvspec.models.documents import READING, at, line_of, replaced
from kvspec.models.documents.shapes import misfit
from kvspec.properties.documents import codes, find_kind, kinds

MANIFEST = str(DOCUMENTS / "manifest.json")


@pytest.fixture
def document(tmp_path):
    """Write a layer trace with one value changed."""

    def write(path, value):
        file = tmp_path / "trace.json"
        changed = replaced(load_document("layer-trace"), path, value)
        file.write_text(json.dumps(changed, indent=2), encoding="utf-8")
        return file

    return write


@pytest.fixture
def stdin(monkeypatch):
    """Put bytes on standard input."""

    def put(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return put


def test_valid_documents_hold(kvspec):
    """Each valid document on file is recognized by its field and keeps its contracts."""
    files = sorted(map(str, DOCUMENTS.glob("*.json")))
    ran = kvspec("check", *files, "--json")
    assert ran.code == 0
    assert [each["file"] for each in ran.json["documents"]] == files
    assert {each["verdict"] for each in ran.json["documents"]} == {"holds"}
    assert {each["document"] for each in ran.json["documents"]} == set(kinds_with_cases())


def test_the_first_broken_contract_is_told(kvspec, document):
    """Code, meaning, place with its line, expected and found; exit code 1."""
    file = document("/publication/committed_during", 5)
    ran = kvspec("check", str(file))
    line = 1 + next(
        n
        for n, text in enumerate(file.read_text(encoding="utf-8").splitlines())
        if "committed_during" in text
    )
    assert ran.code == 1
    assert "violated: " in ran.out
    assert "breaks PUBLICATION: another call reads the past alone" in ran.out
    assert f"/publication/committed_during (line {line})" in ran.out
    assert "expected  4" in ran.out
    assert "found     5" in ran.out


def test_every_place_is_told_to_a_program(kvspec, document):
    """A contract that is broken at more places than a reader is shown is told whole as JSON."""
    file = document("/geometry/hidden_width", 8)
    found = kvspec("check", str(file), "--json")
    assert found.code == 1
    broken = found.json["documents"][0]["broken"]
    assert broken["code"] == "HIDDEN_SHAPE"
    assert [each["path"] for each in broken["findings"]] == [
        f"/layers/{layer}/{name}" for layer in (0, 1) for name in ("hidden_in", "hidden_out")
    ]
    assert {tuple(each["expected"]) for each in broken["findings"]} == {(1, 1, 8)}


def test_one_bad_document_among_good_ones(kvspec, document):
    """All files are checked, and one that is broken makes the answer `violated`."""
    file = document("/mask/key_length", 4)
    ran = kvspec("check", MANIFEST, str(file), MANIFEST)
    assert ran.code == 1
    assert "violated: 2 of 3 documents keep their contracts" in ran.out


def test_standard_input(kvspec, stdin):
    """`-` reads a document from standard input."""
    stdin((DOCUMENTS / "saved-work.json").read_bytes())
    ran = kvspec("check", "-")
    assert ran.code == 0
    assert "standard input keeps all" in ran.out


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        (b"", "NOT_JSON", "nothing"),
        (b'{"document": "manifest", "document": "x"}', "NOT_JSON", "the key document twice"),
        (b'{"document": "manifest", ', "NOT_JSON", "line 1"),
        (b"[]", "WRONG_TYPE", "JSON of type list"),
        (b"{}", "WRONG_KIND", "no such field"),
        (b'{"document": "menifest"}', "WRONG_KIND", "one of"),
        (b'{"document": ["manifest"]}', "WRONG_KIND", "one of"),
        (b'{"document": "manifest", "version": 2}', "WRONG_VERSION", "2"),
        (b'{"document": "manifest", "version": 1}', "MISSING_FIELD", "request_identity"),
    ],
)
def test_what_is_no_document_is_refused(kvspec, stdin, text, code, told):
    """Input that cannot be read ends with 2, and says what was found, expected, where, what to do."""
    stdin(text)
    ran = kvspec("check", "-")
    assert ran.code == 2
    assert ran.out == ""
    assert code in ran.err
    assert told in ran.err
    for part in ("found", "expected", "where     standard input", "do"):
        assert part in ran.err


def test_a_log_of_one_event_a_line_goes_to_another_command(kvspec, stdin):
    """JSON Lines are no document, and whoever gives them is told where they belong."""
    stdin(b'{"document": "event-log"}\n{"event": 1}\n')
    ran = kvspec("check", "-")
    assert ran.code == 2
    assert "kvspec audit" in ran.err


def test_an_unknown_kind_lists_those_that_exist(kvspec, stdin):
    """Whoever mistypes a kind sees all of them."""
    stdin(b'{"document": "menifest"}')
    ran = kvspec("check", "-")
    assert all(name in ran.err for name in kinds())


def test_unreadable_input_is_json_too(kvspec, stdin):
    """With --json the refusal is an object on stdout."""
    stdin(b"\xff\xfe")
    ran = kvspec("check", "-", "--json")
    assert ran.code == 2
    assert ran.json["error"]["where"] == "standard input"
    assert "0xff" in ran.json["error"]["found"]


def test_a_file_that_is_not_there(kvspec):
    """A missing file is an error of usage."""
    ran = kvspec("check", "no-such.json")
    assert ran.code == 2
    assert "no-such.json cannot be read" in ran.err


def test_ci_files(kvspec, document, tmp_path):
    """JUnit counts the documents; SARIF names file and line of the first place."""
    file = document("/mask/key_length", 4)
    junit, sarif = tmp_path / "c.xml", tmp_path / "c.sarif"
    assert (
        kvspec("check", MANIFEST, str(file), "--junit", str(junit), "--sarif", str(sarif)).code == 1
    )
    root = ET.parse(junit).getroot()  # noqa: S314  # our own file
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    (result,) = json.loads(sarif.read_text(encoding="utf-8"))["runs"][0]["results"]
    assert result["ruleId"].endswith("/MASK_KEY_LENGTH")
    assert "MASK_KEY_LENGTH at /mask/key_length: expected 5, found 4" in result["message"]["text"]
    place = result["locations"][0]["physicalLocation"]
    lines = file.read_text(encoding="utf-8").splitlines()
    assert "key_length" in lines[place["region"]["startLine"] - 1]


def test_negative_sets(kvspec):
    """The stored cases of named kinds are tried, and every contract is reached."""
    ran = kvspec("check", "--negatives", "manifest", "layer-trace", "saved-work", "--json")
    assert ran.code == 0
    for each, least in zip(ran.json["documents"], (18, 12, 17), strict=True):
        assert each["contracts_not_reached"] == []
        assert len(each["cases"]) >= least
        assert all(case["found"] == case["expected"] for case in each["cases"])


def test_a_case_that_passes_is_told(kvspec, monkeypatch, tmp_path):
    """A negative case that no contract catches makes the answer `violated`, and so does a lost code."""
    from kvspec.counterexamples import negative_cases

    cases = [case for case in negative_cases.load_set("manifest").cases if case.code != "AXES"]
    harmless = negative_cases.Case(
        name="harmless", path="/input_identity/template", value="plain 2", code="AXES", why="free"
    )
    monkeypatch.setattr(negative_cases, "NEGATIVES", tmp_path)
    negative_cases.write_set("manifest", [*cases, harmless])
    ran = kvspec("check", "--negatives", "manifest")
    assert ran.code == 1
    assert "harmless (negatives manifest): it passes, expected AXES" in ran.out
    negative_cases.write_set("manifest", cases)
    ran = kvspec("check", "--negatives", "manifest")
    assert ran.code == 1
    assert "no case breaks AXES" in ran.out


def test_codes(kvspec):
    """Every code of every kind is listed with its meaning, those of reading first."""
    ran = kvspec("check", "--codes", "--json")
    assert ran.json["any"] == READING
    assert {name: one["codes"] for name, one in ran.json["documents"].items()} == codes()
    text = kvspec("check", "--codes", "manifest").out
    assert "CACHE_ABI" in text
    assert "/input_identity/tokenizer" in text
    assert "KEY_STAGE" not in text


@pytest.mark.parametrize("kind", kinds_with_cases())
def test_schema(kvspec, kind):
    """The schema of a kind requires every field of its valid document."""
    ran = kvspec("check", "--schema", kind)
    assert ran.code == 0
    made = json.loads(ran.out)
    top = at(made, made["$ref"].removeprefix("#"))
    assert set(top["required"]) == set(load_document(kind))
    assert top["properties"]["document"] == {"const": kind}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "there is nothing to check"),
        (("--negatives", "--codes"), "one thing at a time"),
        (("--negatives", "menifest"), "did you mean 'manifest'"),
        (("--codes", "menifest"), "did you mean 'manifest'"),
        (("--schema",), "takes one kind"),
        (("--schema", "manifest", "saved-work"), "takes one kind"),
        (("--negative",), "did you mean '--negatives'"),
        (("-", "-"), "standard input can be read once"),
    ],
)
def test_wrong_usage(kvspec, words, told):
    """Wrong words end with 2 and a hint."""
    ran = kvspec("check", *words)
    assert ran.code == 2
    assert told in ran.err


def test_a_file_that_cannot_be_read_does_not_hide_the_others(kvspec, document, tmp_path):
    """Every document is reported, then what is none, on stderr; the exit code is 2 (as JSON, too)."""
    file = str(document("/mask/key_length", 4))
    other = tmp_path / "other.json"
    other.write_text("{}", encoding="utf-8")
    words = ("check", MANIFEST, file, "no-such.json", str(other), MANIFEST)
    ran = kvspec(*words)
    assert ran.code == 2
    assert ran.out.count(f"holds: {MANIFEST} keeps all") == 2
    assert "breaks MASK_KEY_LENGTH" in ran.out
    assert "unknown: no-such.json" in ran.out
    assert "2 of 5 documents keep their contracts" in ran.out
    assert "no-such.json cannot be read" in ran.err
    assert "WRONG_KIND" in ran.err
    junit = tmp_path / "c.xml"
    ran = kvspec(*words, "--json", "--junit", str(junit))
    assert ran.code == 2
    assert [each["verdict"] for each in ran.json["documents"]] == [
        *("holds", "violated", "holds"),
        *("unknown", "unknown"),
    ]
    assert ran.json["documents"][3]["error"]["where"] == "no-such.json"
    root = ET.parse(junit).getroot()  # noqa: S314  # our own file
    assert (root.get("failures"), root.get("errors")) == ("1", "2")


def test_what_belongs_to_another_command(kvspec, stdin, tmp_path):
    """Traces and logs that are given to check, and documents and logs given to replay, find their way."""
    trace = next((DOCUMENTS.parent / "library").glob("*.json"))
    ran = kvspec("check", str(trace))
    assert (ran.code, "kvspec replay" in ran.err) == (2, True)
    log = tmp_path / "run.jsonl"
    for lines in (
        '{"document": "event-log", "version": 1, "header": {}}\n',
        '{"document": "event-log", "version": 1, "header": {}}\n{"event_type": "release"}\n',
        '{"event_type": "release", "request_id": "R"}\n',
    ):
        log.write_text(lines, encoding="utf-8")
        for command in ("check", "replay"):
            ran = kvspec(command, str(log))
            assert ran.code == 2
            assert f"`kvspec audit {log}`" in " ".join(ran.err.split())
    ran = kvspec("replay", MANIFEST)
    assert (ran.code, f"`kvspec check {MANIFEST}`" in " ".join(ran.err.split())) == (2, True)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("/metrics/0/tpot", 9, 'an exact ratio as text, such as "28/3" or "9", or null'),
        ("/records/3/operation", "decode", "one of arrive, begin_prefill, publish_prefill, emit,"),
        ("/metrics", [], "an object for each of A, B, in this order"),
        ("/limits/ttft", "soon", "a whole number"),
    ],
)
def test_what_is_allowed_is_told_with_the_line(kvspec, tmp_path, path, value, told):
    """An error says which values could stand at its place, and on which line that is."""
    file = tmp_path / "service.json"
    text = json.dumps(replaced(load_document("service"), path, value), indent=2)
    file.write_text(text, encoding="utf-8")
    ran = kvspec("check", str(file))
    said = " ".join((ran.out + ran.err).split())
    assert told in said
    assert f"{path} (line {line_of(text, path)})" in said


@pytest.mark.parametrize("kind", kinds_with_cases())
def test_a_valid_document_has_no_misfit(kind):
    """What tells where a document does not fit finds nothing in one that does."""
    assert misfit(find_kind(kind).document, load_document(kind)) is None
