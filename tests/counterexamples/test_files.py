"""Reading refuses everything that is not a trace, each with its own words; writing loses nothing."""

import json
import os
from pathlib import Path

import msgspec
import pytest

from kvspec.counterexamples import files
from kvspec.counterexamples.errors import TraceError
from kvspec.counterexamples.files import (
    dump_trace,
    parse_trace,
    read_trace,
    write_text,
    write_trace,
)
from kvspec.counterexamples.format import Trace, plain, trace_schema
from kvspec.counterexamples.writing import WIDTH, to_text

ROOT = Path(__file__).resolve().parents[2]


def test_what_is_written_is_read_again(stale: Trace, tmp_path: Path) -> None:
    """A trace comes back as it was, and writing it again gives the same bytes."""
    path = tmp_path / "stale.json"
    write_trace(stale, path)
    assert read_trace(path) == stale
    assert dump_trace(read_trace(path)) == path.read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["stale.json"]


def test_the_text_is_made_for_diffs(stale: Trace) -> None:
    """Two spaces a level, a line for each variable, names in order, a newline at the end."""
    text = dump_trace(stale)
    lines = text.splitlines()
    assert text.endswith("}\n")
    assert lines[:3] == ["{", '  "format": "kvspec-trace",', '  "version": 1,']
    assert any(line.startswith('        "k_end": {"txn0": {') for line in lines)
    assert max(map(len, lines)) <= WIDTH
    states = [list(step["state"]) for step in json.loads(text)["steps"]]
    assert all(names == sorted(names) for names in states)


def test_the_order_of_names_does_not_matter(stale: Trace) -> None:
    """Equal traces give equal texts, however their dicts were filled."""
    turned = msgspec.structs.replace(stale, initial=dict(reversed(stale.initial.items())))
    assert dump_trace(turned) == dump_trace(stale)


def test_the_schema_file_is_current() -> None:
    """counterexamples/schema.json is what the classes say."""
    text = (ROOT / "counterexamples" / "schema.json").read_text()
    assert text == to_text(trace_schema()), (
        "schema.json is not current: write it with `python -m kvspec.counterexamples.schema`"
    )


def test_the_schema_refuses_unknown_fields_everywhere() -> None:
    """Every part of the format is closed, and its two marks are required."""
    parts = trace_schema()["$defs"]
    assert {
        name for name, part in parts.items() if part["additionalProperties"] is not False
    } == set()
    assert parts["Trace"]["required"][:2] == ["format", "version"]


def spoil(document, path, value):
    """The document with the value at a path replaced, or dropped if the value is `...`."""
    copy = json.loads(json.dumps(document))
    level = copy
    for key in path[:-1]:
        level = level[key]
    if value is ...:
        del level[path[-1]]
    else:
        level[path[-1]] = value
    return copy


BROKEN = {
    "an unknown field": (["colour"], "red", "t.json: found", "unknown field `colour`"),
    "an unknown field of a step": (
        ["steps", 2, "colour"],
        "red",
        "t.json, step 3: found",
        "unknown field `colour`",
    ),
    "a missing field": (["system"], ..., "t.json: found", "missing required field `system`"),
    "a missing field of a step": (["steps", 0, "code"], ..., "t.json, step 1: ", "field `code`"),
    "a wrong type": (["loop"], "no", "t.json, loop: found", "Expected `int | null`, got `str`"),
    "a wrong type in a step": (
        ["steps", 1, "parameters"],
        [],
        "t.json, step 2, parameters: found",
        "Expected `object`, got `array`",
    ),
    "steps that are no list": (["steps"], {}, "t.json, steps: found", "Expected `array`"),
    "another format": (["format"], "junit", "t.json: found format 'junit'", "'kvspec-trace'"),
    "no format": (["format"], ..., "t.json: found format None", "expected 'kvspec-trace'"),
    "a later version": (["version"], 2, "t.json: found version 2, expected version 1", "later"),
    "a version that is no number": (["version"], True, "found version True", "expected version 1"),
    "an unknown system": (
        ["system"],
        "moon",
        "t.json: found system 'moon'",
        "one of atomic, bundle, canon",
    ),
    "an unknown outcome": (["steps", 0, "outcome"], "maybe", "step 1, outcome: ", "'maybe'"),
    "an unknown action": (
        ["steps", 0, "action"],
        "fly",
        "t.json, step 1: found action 'fly'",
        "allocate, begin",
    ),
    "an unknown parameter": (
        ["steps", 0, "parameters", "z"],
        0,
        "t.json, step 1, allocate: found parameters a, b, h, z",
        "expected h, b, a",
    ),
    "a missing parameter": (["steps", 0, "parameters", "h"], ..., "step 1, allocate", "h, b, a"),
    "an unknown member": (
        ["steps", 0, "parameters", "h"],
        "handle9",
        "t.json, step 1, parameter h: found 'handle9'",
        "expected a Handle: one of handle0",
    ),
    "a parameter of another type": (["steps", 0, "parameters", "h"], 0, "found 0", "a Handle"),
    "a value beyond its bound": (
        ["steps", 3, "state", "version", "handle0"],
        3,
        "t.json, step 4, state, version[handle0]: found 3",
        "a Version: one of 0, 1, 2",
    ),
    "a truth value for a number": (
        ["initial", "version", "handle0"],
        False,
        "t.json, initial state, version[handle0]: found False",
        "one of 0, 1, 2",
    ),
    "a variable left out": (
        ["steps", 3, "state", "version"],
        ...,
        "t.json, step 4, state: found no version",
        "each variable of core at each index",
    ),
    "a variable too many": (["initial", "x"], 0, "initial state: found unknown x", "each variable"),
    "an index left out": (
        ["initial", "k_end", "txn1", "layer0"],
        ...,
        "initial state: found no k_end[txn1][layer0]",
        "nothing else",
    ),
    "an index too many": (
        ["initial", "version", "handle1"],
        0,
        "initial state: found unknown version[handle1]",
        "nothing else",
    ),
    "a table that is none": (["initial", "version"], 0, "found version = 0", "each variable"),
    "a code of another action": (
        ["sound", "code"],
        "TXN_IN_USE",
        "t.json, sound: found publish refused with TXN_IN_USE",
        "NOT_PREPARED, STALE_GENERATION",
    ),
    "an accepted step with a code": (
        ["steps", 0, "code"],
        "HANDLE_LIVE",
        "step 1: found allocate accepted with the code HANDLE_LIVE",
        "refusals alone",
    ),
    "a refusal without a code": (
        ["steps", 0, "outcome"],
        "refused",
        "step 1: found allocate refused with None",
        "HANDLE_LIVE, BLOCK_IN_USE",
    ),
    "a departure after the end": (
        ["sound", "step"],
        99,
        "t.json, sound: found step 99",
        "from 1 to 15",
    ),
    "a loop after the end": (["loop"], 99, "t.json, loop: found state 99", "from 0 to 15"),
    "a loop that is open": (["loop"], 3, "loop: found a last state other", "closes the loop"),
    "a kind of claim": (["property", "kind"], "wish", "property.kind: found", "'wish'"),
    "sizes that are too large": (["instance", "sizes", "Txn"], 10**9, "instance", "<= 256"),
    "bounds that are too large": (["instance", "bounds", "Version"], 10**9, "instance", "10000"),
    "a size below zero": (["instance", "sizes", "Txn"], -1, "instance", ">= 0"),
    "a sort that is missing": (
        ["instance", "sizes", "Txn"],
        ...,
        "t.json, instance: found sizes and bounds of Abi, Block",
        "those of core: Abi, Block",
    ),
    "a sort that is unknown": (["instance", "sizes", "Moon"], 1, "instance: found", "nothing else"),
    "a constant that is unknown": (["instance", "constants", "c"], 1, "constants c, con", "rewind"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_does_not_fit_is_refused(stale: Trace, name: str) -> None:
    """Found, expected and the place are told, and nothing is taken."""
    path, value, *parts = BROKEN[name]
    text = json.dumps(spoil(plain(stale), path, value))
    with pytest.raises(TraceError) as caught:
        parse_trace(text, "t.json")
    for part in (*parts, ", expected ", "t.json"):
        assert part in str(caught.value)
    assert caught.value.advice


TEXTS = {
    "": ("t.json: found an empty file, expected a trace",),
    " \n": ("t.json: found an empty file",),
    "{": ("t.json, line 1, column 2: found invalid JSON", "complete"),
    '{"a": 1,\n "a": 2}': ("found the key a twice in an object", "drop one"),
    "[]": ("t.json: found JSON of type list, expected an object",),
    "3": ("found JSON of type int",),
    '{"format": NaN}': ("found NaN, expected a number of JSON",),
    '{"format": ' + "1" * 5000 + "}": ("expected a JSON document: write smaller numbers",),
    "[" * 100_000: ("found JSON nested too deeply",),
}


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:12]))
def test_what_is_no_json_is_refused(text: str) -> None:
    """The place in the text is told."""
    with pytest.raises(TraceError) as caught:
        parse_trace(text, "t.json")
    for part in TEXTS[text]:
        assert part in str(caught.value)


def test_what_is_no_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing file, a folder, a pipe, a huge file and bytes that are no text each say so."""
    (tmp_path / "bytes.json").write_bytes(b'{"a": "\xff"}')
    (tmp_path / "long.json").write_text("{}" + " " * 100)
    os.mkfifo(tmp_path / "pipe.json")
    monkeypatch.setattr(files, "LARGEST_FILE", 50)
    for name, found in {
        "none.json": "no such file, expected a trace file",
        "": "a folder, expected a trace file",
        "pipe.json": "no regular file",
        "bytes.json": "byte 7, which is not UTF-8",
        "long.json": "102 bytes, expected at most 50",
        "bytes.json/x": "Not a directory, expected a file that can be read",
    }.items():
        with pytest.raises(TraceError, match=found) as caught:
            read_trace(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)


def test_an_instance_that_has_changed_is_told(stale: Trace) -> None:
    """A trace that names an instance must have its sizes; without the name it keeps its own."""
    document = spoil(plain(stale), ["instance", "name"], "TINY")
    with pytest.raises(TraceError) as caught:
        parse_trace(json.dumps(document), "t.json")
    assert (
        "t.json, instance TINY, sizes: found Layer = 2, Txn = 2, expected Layer = 1, Txn = 1"
        in str(caught.value)
    )
    assert parse_trace(json.dumps(spoil(document, ["instance", "name"], None))).sound is not None


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is replaced whole or not at all, and no part is left behind."""
    path = tmp_path / "t.json"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(TraceError, match="found No space left on device, expected a file that can"):
        write_text("new", path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]
    monkeypatch.undo()
    with pytest.raises(TraceError, match="No such file"):
        write_text("new", tmp_path / "none" / "t.json")


def test_a_trace_that_cannot_be_read_is_not_written(stale: Trace, tmp_path: Path) -> None:
    """Writing checks what reading would."""
    wrong = msgspec.structs.replace(stale, loop=3)
    with pytest.raises(TraceError, match="the trace to be written, loop: found a last state"):
        write_trace(wrong, tmp_path / "t.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["/" + "tmp/x.json", "~/x.json", "C:\\x.json"])
def test_no_path_of_a_machine_is_written(stale: Trace, tmp_path: Path, path: str) -> None:
    """Provenance names the command, and no place of the machine it ran on."""
    wrong = msgspec.structs.replace(stale, provenance=f"kvspec mutants --out {path}")
    with pytest.raises(TraceError, match=r"provenance: found .* expected no path of this machine"):
        write_trace(wrong, tmp_path / "t.json")
    fine = msgspec.structs.replace(stale, provenance="kvspec mutants core/TINY --out build/x.json")
    write_trace(fine, tmp_path / "t.json")
