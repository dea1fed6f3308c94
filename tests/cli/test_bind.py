"""`--bind` makes a document from its inputs, and prints that or nothing."""

import copy
import json

import pytest

from kvspec.counterexamples.negative_cases import (
    DOCUMENTS,
    documents_of,
    load_document,
    load_set,
    mutated,
    verdict,
)
from kvspec.models.documents import READING, removed, replaced
from kvspec.properties.documents import find_kind
from kvspec.properties.documents.binding import bindable

COMMANDS = {
    "manifest": "manifest",
    "byte-trajectory": "ledger",
    "service": "service",
    "event-log": "check",
    "lifecycle": "check",
}
each_kind = pytest.mark.parametrize("kind", COMMANDS)


def without(data, path):
    """A copy of a document without what stands at a pattern."""
    if "*" not in path:
        return removed(data, path)
    above, _, below = path.partition("/*")
    data = copy.deepcopy(data)
    for item in data[above.strip("/")]:
        item.pop(below.strip("/"), None)
    return data


def inputs_of(kind, data):
    """A document without what follows, without nulls that may be left out, and tokens of decodes."""
    binding = find_kind(kind).binding
    for path in binding.paths:
        data = without(data, path)
    for path in binding.nullable:
        above, _, name = path.strip("/").split("/")
        for item in data[above]:
            if item[name] is None or (name, item.get("operation")) == ("token", "publish_decode"):
                del item[name]
    return data


@pytest.fixture
def put(tmp_path):
    """Write a document to a file."""

    def write(data):
        file = tmp_path / "given.json"
        file.write_text(json.dumps(data, indent=2), encoding="utf-8")
        return str(file)

    return write


def test_every_kind_that_can_be_made_is_tried():
    """The kinds below are all that can be made from their inputs."""
    assert set(COMMANDS) == set(bindable())


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in COMMANDS for name in documents_of(kind)]
)
def test_the_documents_on_file_follow_from_their_inputs(kvspec, put, kind, name):
    """Without all that follows, each document is made again as it is on file, to the letter."""
    data = inputs_of(kind, documents_of(kind)[name])
    for words in (
        (COMMANDS[kind], put(data), "--bind"),
        ("check", put(data), "--bind"),
        (COMMANDS[kind], str(DOCUMENTS / name), "--bind"),
    ):
        ran = kvspec(*words)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out == (DOCUMENTS / name).read_text(encoding="utf-8")


@each_kind
def test_unlawful_inputs_are_told_and_nothing_is_printed(kvspec, put, kind):
    """What binding cannot mend is told on stderr with code, place and next step; it mends all else."""
    bindings = find_kind(kind).contracts
    seen = set()
    for case in load_set(kind).cases:
        if case.code in READING or case.code in seen or case.path == "/records/15/output_index":
            continue
        seen.add(case.code)
        ran = kvspec(COMMANDS[kind], put(mutated(load_document(kind), case)), "--bind")
        if bindings[case.code].derived:
            assert ran.code == 0
            assert verdict(find_kind(kind), json.loads(ran.out)) is None
        else:
            assert (ran.code, ran.out) == (1, "")
            assert f"breaks {case.code}" in ran.err
            assert "at        /" in ran.err
            assert "do        " in ran.err


def test_a_refusal_is_told_to_a_program(kvspec, put):
    """With --json stdout has the document or nothing, and the refusal is an object on stderr."""
    data = replaced(load_document("byte-trajectory"), "/events/4/rows/start", 5)
    ran = kvspec("ledger", put(data), "--bind", "--json")
    assert (ran.code, ran.out) == (1, "")
    (one,) = json.loads(ran.err)["documents"]
    assert one["broken"]["code"] == "POSITION_MISMATCH"
    assert one["broken"]["findings"][0]["path"] == "/events/4"


def test_inputs_that_cannot_be_read(kvspec, put):
    """An input of a wrong type is wrong input: 2, with what is allowed and the line."""
    data = replaced(load_document("byte-trajectory"), "/events/4/operation", "decode")
    ran = kvspec("ledger", put(data), "--bind")
    assert (ran.code, ran.out) == (2, "")
    assert "one of arrive, prefill_publish, decode_publish, finish, release" in ran.err
    assert "/events/4/operation (line " in " ".join(ran.err.split())


def test_a_kind_that_cannot_be_made(kvspec):
    """Of a kind in which nothing is made from the rest, those are listed that can be made."""
    ran = kvspec("check", str(DOCUMENTS / "pins.json"), "--bind")
    assert (ran.code, ran.out) == (2, "")
    assert all(name in ran.err for name in bindable())


@each_kind
def test_what_was_left_out_names_the_command(kvspec, put, kind):
    """Whoever checks a document without what follows is told how to fill it in."""
    path = find_kind(kind).binding.paths[0]
    file = put(without(load_document(kind), path))
    ran = kvspec("check", file)
    assert ran.code == 2
    assert f"`kvspec {COMMANDS[kind]} {file} --bind`" in " ".join(ran.err.split())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("ledger", "--bind"), "no document to bind"),
        (("service", str(DOCUMENTS / "service.json"), "--bind", "--window", "99"), "own limits"),
        (("ledger", str(DOCUMENTS / "service.json"), "--bind"), "is no byte-trajectory"),
        (("check", "a.json", "b.json", "--bind"), "one document at a time"),
        (("check", "--bind"), "nothing to check"),
        (("check", "--bind", "--codes"), "one thing at a time"),
    ],
)
def test_wrong_usage(kvspec, words, told):
    """What cannot be bound is told, and ends with 2."""
    ran = kvspec(*words)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err


@each_kind
def test_ci_files(kvspec, put, tmp_path, kind):
    """The commands that end with 1 write JUnit and SARIF files, bound or not."""
    contracts = find_kind(kind).contracts
    found = (c for c in load_set(kind).cases if c.code in contracts and contracts[c.code].derived)
    case = next(found)
    file = put(mutated(load_document(kind), case))
    junit, sarif = tmp_path / "j.xml", tmp_path / "s.json"
    words = ("--junit", str(junit), "--sarif", str(sarif))
    assert kvspec(COMMANDS[kind], file, *words).code == 1
    assert 'failures="1"' in junit.read_text(encoding="utf-8")
    (result,) = json.loads(sarif.read_text(encoding="utf-8"))["runs"][0]["results"]
    assert case.code in result["message"]["text"]
    assert kvspec(COMMANDS[kind], file, "--bind", *words).code == 0
    assert 'failures="0"' in junit.read_text(encoding="utf-8")
