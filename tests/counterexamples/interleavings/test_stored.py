import json

import pytest

from kvspec.counterexamples import TraceError, UnknownNameError
from kvspec.counterexamples.interleavings import interleaving_path, interleavings
from kvspec.counterexamples.interleavings.files import (
    dump_interleaving,
    parse_interleaving,
    read_interleaving,
    write_interleaving,
)
from kvspec.counterexamples.interleavings.resolve import document_of
from kvspec.models.decode.concurrent_faults import CONCURRENCY_FAULTS, leaves_lock_out
from kvspec.properties.interleaving import Failing, replay_schedule
from kvspec.properties.interleaving.checking import linearizability

STORED = interleavings()
AGAIN = "make it anew with the command in its provenance and --save"


@pytest.fixture(scope="module")
def check():
    """The linearizability checker as a judge."""
    return linearizability()


def test_every_planted_fault_has_its_interleaving() -> None:
    """There is one file for each fault, under its name, and no other (D5)."""
    assert {path.stem for path in STORED} == set(CONCURRENCY_FAULTS)
    assert all(read_interleaving(path).planted == (path.stem,) for path in STORED)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_interleaving_goes_as_told(path, check) -> None:
    """The faulty cache gives the stored history again, violated; a sound one holds (D5)."""
    read = read_interleaving(path)
    faulty = replay_schedule(
        read.scenario, read.schedule, read.planted, check=check, asked=read.asked
    )
    assert faulty.applies, f"{faulty.departs}; {AGAIN}"
    assert faulty.is_same, AGAIN
    assert faulty.judged.verdict == "violated"
    assert faulty.judged.reason == read.document.reason, AGAIN
    exposed = leaves_lock_out(read.planted)
    sound = replay_schedule(read.scenario, read.schedule, check=check, is_exposed=exposed)
    assert sound.judged.verdict == "holds"
    assert sound.applies or sound.departs


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_file_is_canonical_and_complete(path, check, tmp_path) -> None:
    """Read, run again and written, a document is the same text."""
    text = path.read_text(encoding="utf-8")
    read = read_interleaving(path)
    assert dump_interleaving(read.document) == text
    found = replay_schedule(read.scenario, read.schedule, read.planted, check=check)
    failing = Failing(
        read.scenario, read.planted, read.document.layout, found.recording, found.judged.reason
    )
    assert failing.preemptions == read.document.preemptions
    write_interleaving(document_of(failing, read.document.provenance), tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text(encoding="utf-8") == text


def test_an_unknown_name_lists_what_is_stored() -> None:
    """A name that nothing has is an error with the names that exist."""
    assert interleaving_path("publish.torn.json") == interleaving_path("publish.torn")
    with pytest.raises(UnknownNameError, match=r"no interleaving 'torn' .*publish\.torn"):
        interleaving_path("torn")


def _put(path: tuple, value: object):
    def change(document: dict) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


WRONG = {
    "format": (_put(("format",), "kvspec-trace"), "", "format 'kvspec-trace'"),
    "version": (_put(("version",), 2), "", "version 2"),
    "version true": (_put(("version",), True), "", "version True"),
    "unknown field": (_put(("colour",), 1), "", "unknown field `colour`"),
    "fault": (_put(("fault",), "torn"), ", fault", "'torn'"),
    "layout": (_put(("layout",), "heap"), ", layout", "'heap'"),
    "thread": (_put(("schedule", 3, "thread"), 7), ", step 3 of the schedule", "thread 7"),
    "negative": (_put(("schedule", 3, "thread"), -1), ", schedule[3].thread", "int` >= 0"),
    "action": (_put(("setup", 0, "action"), "open"), ", setup event 1", "action 'open'"),
    "parameter": (_put(("setup", 0, "parameters"), {}), ", setup event 1", "needs the parameter h"),
    "handle": (_put(("clients", 1, 0, "handle"), "handle9"), ", client 1, call 1", "'handle9'"),
    "kind": (
        _put(("clients", 1, 0, "kind"), "peek"),
        ", clients[1][0].kind",
        "Invalid value 'peek'",
    ),
    "sizes": (_put(("instance", "sizes"), {"Handle": 1}), ", instance", "Handle"),
    "ticks": (_put(("history", 0, "returned"), 1), ", history, call 1", "returns at 1"),
    "no such call": (_put(("history", 1, "client"), 0), ", history, call 2", "a call of client 0"),
    "other answer": (_put(("history", 1, "accepted"), True), ", history, call 2", "another kind"),
    "a truth for a count": (
        _put(("history", 1, "seen", 1), False),
        ", history, call 2, version",
        "False",
    ),
    "a count for a phase": (
        _put(("history", 1, "seen", 0), 1),
        ", history, call 2, phase",
        "1",
    ),
    "too few cells": (_put(("history", 1, "seen"), [1]), ", history, call 2", "1 values"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_is_not_of_the_format_is_refused(name: str) -> None:
    """Each kind of fault is told with its place, what was found, what was expected, and what to do."""
    change, place, found = WRONG[name]
    document = json.loads(interleaving_path("publish.torn").read_text(encoding="utf-8"))
    change(document)
    with pytest.raises(TraceError) as caught:
        parse_interleaving(json.dumps(document), "it.json")
    assert caught.value.where == f"it.json{place}"
    assert found in caught.value.found
    assert caught.value.expected
    assert caught.value.advice


def test_a_setup_that_the_specification_refuses_is_told() -> None:
    """A cache is brought where clients begin by accepted events alone."""
    document = json.loads(interleaving_path("publish.torn").read_text(encoding="utf-8"))
    document["setup"] = document["setup"][1:]
    with pytest.raises(TraceError, match=r"setup event 1: found begin\(.* refused \(HANDLE_TERM"):
        parse_interleaving(json.dumps(document))


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"format": "x", "format": "y"}'])
def test_a_text_that_is_no_document_is_refused(text: str) -> None:
    """An empty file, another kind of JSON, half a document, or a key that occurs twice."""
    with pytest.raises(TraceError) as caught:
        parse_interleaving(text)
    assert caught.value.advice
