"""Every kind of document: its valid documents pass, and any one change is caught or known to be free."""

import json
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvspec.counterexamples import negative_cases, rebind
from kvspec.counterexamples.negative_cases import (
    DOCUMENTS,
    NEGATIVES,
    check_set,
    codes_not_reached,
    documents_of,
    kinds_with_cases,
    load_document,
    load_set,
    verdict,
)
from kvspec.models.documents import READING, changed_paths, leaves, replaced
from kvspec.properties.document_changes import changes, every_change, other_values
from kvspec.properties.documents import find_kind, kinds

LEAST = {
    "byte-trajectory": 20,
    "closure": 35,
    "event-log": 34,
    "layer-trace": 12,
    "lifecycle": 13,
    "manifest": 18,
    "projections": 30,
    "saved-work": 17,
    "service": 23,
}
"""How many negative cases the reference text asks for."""

QUICK = {"layer-trace", "manifest", "saved-work"}
"""The kinds of which every change can be tried within a few seconds; of the others, the slow tests do."""

each_kind = pytest.mark.parametrize("name", kinds_with_cases())
each_kind_by_speed = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow])
        for name in kinds_with_cases()
    ],
)


@cache
def drawn_changes(name):
    """The valid documents of a kind, each with the changes that can be drawn of it."""
    return [(base, changes(base)) for base in documents_of(name).values()]


def passes_as_free(kind, base, changed):
    """Whether all that a change altered is on the list of free fields of the kind."""
    return all(kind.is_free(path) for path in changed_paths(base, changed))


def test_every_kind_has_a_document_and_cases():
    """No kind is known without a valid document and a set of negative cases, and no file is stray."""
    assert kinds_with_cases() == list(kinds())
    assert {path.stem for path in NEGATIVES.glob("*.json")} == set(kinds())
    named = {file for name in kinds() for file in documents_of(name)}
    assert {path.name for path in DOCUMENTS.glob("*.json")} == named


@each_kind
def test_each_case_fails_for_its_own_reason(name):
    """The valid documents pass; each case changes one field and fails with exactly its code."""
    assert [result for result in check_set(name) if not result.holds] == []


@each_kind
def test_each_contract_is_broken_by_a_case(name):
    """No contract is there that no case breaks, and no case names a code that does not exist."""
    assert codes_not_reached(name) == []
    assert {case.code for case in load_set(name).cases} <= {*find_kind(name).contracts, *READING}


@each_kind
def test_there_are_enough_cases(name):
    """A kind has at least as many cases that break a contract as the reference text asks for."""
    found = [case for case in load_set(name).cases if case.code in find_kind(name).contracts]
    assert len(found) >= LEAST.get(name, len(find_kind(name).contracts))


@each_kind
def test_each_free_field_is_free(name):
    """Each entry of the list of free fields stands for fields that can be changed unnoticed."""
    kind, base = find_kind(name), load_document(name)
    for pattern in kind.free:
        own = [(path, value) for path, value in leaves(base) if covers(pattern, path)]
        assert own, f"{pattern} is no field of {name}.json"
        for path, value in own:
            found = [verdict(kind, replaced(base, path, other)) for other in other_values(value)]
            assert None in found, f"every change of {path} is caught: {found}"


def covers(pattern, path):
    """Whether the pattern alone makes the path free."""
    pairs = zip(pattern.split("/"), path.split("/"), strict=False)
    return len(pattern.split("/")) <= len(path.split("/")) and all(p in ("*", s) for p, s in pairs)


@each_kind_by_speed
def test_any_systematic_change_is_caught_or_free(name):
    """Each field removed, each item doubled or swapped, each value replaced: caught, or free."""
    kind = find_kind(name)
    for base in documents_of(name).values():
        missed = [
            (change.what, change.path)
            for change in every_change(base)
            if verdict(kind, change.data) is None and not passes_as_free(kind, base, change.data)
        ]
        assert missed == []


@each_kind
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_drawn_change_is_caught_or_free(name, data):
    """Any other value of any scalar, any two items swapped: caught, or free."""
    kind = find_kind(name)
    base, strategy = data.draw(st.sampled_from(drawn_changes(name)))
    change = data.draw(strategy)
    if verdict(kind, change.data) is None:
        assert passes_as_free(kind, base, change.data), f"{change.what} at {change.path} is missed"


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """Copies of a kind's documents and cases, which take the place of those on file."""

    def copy(name):
        for folder, kept in (("DOCUMENTS", DOCUMENTS), ("NEGATIVES", NEGATIVES)):
            (tmp_path / folder).mkdir()
            for file in (kept / f"{name}.json", *kept.glob(f"{name}-*.json")):
                (tmp_path / folder / file.name).write_bytes(file.read_bytes())
            monkeypatch.setattr(negative_cases, folder, tmp_path / folder)
        return tmp_path

    return copy


@each_kind
def test_rebinding_a_current_set_changes_nothing(name, copied):
    """A set bound anew to the document that it was made from is the same file."""
    file = copied(name) / "NEGATIVES" / f"{name}.json"
    before = file.read_bytes()
    negative_cases.rebind(name)
    assert file.read_bytes() == before


@each_kind
def test_a_set_of_another_document_is_told(name, copied):
    """A document changed behind the back of its set is noticed, and rebinding mends it."""
    file = copied(name) / "DOCUMENTS" / f"{name}.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8"))), encoding="utf-8")
    first = check_set(name)[0]
    assert not first.holds
    assert "another version" in first.problem
    negative_cases.rebind(name)
    assert check_set(name)[0].holds


def test_the_command_that_rebinds_tells_cases_that_pass(copied, capsys):
    """`python -m kvspec.counterexamples.rebind` ends with 1 and names a case that is caught no more."""
    copied("manifest")
    assert rebind.main(["manifest"]) == 0
    harmless = negative_cases.Case(
        name="harmless", path="/input_identity/template", value="plain 2", code="AXES", why="free"
    )
    negative_cases.write_set("manifest", [*load_set("manifest").cases, harmless])
    assert rebind.main(["manifest"]) == 1
    assert capsys.readouterr().err == "manifest: harmless: it passes, expected AXES\n"
