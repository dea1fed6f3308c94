"""What is told of a broken contract: a value of the form that stands at its place, and a next step."""

import pytest

from kvspec.cli.documents import Given, advice, broken_text
from kvspec.counterexamples.negative_cases import (
    kinds_with_cases,
    load_document,
    load_set,
    mutated,
)
from kvspec.models.documents import DocumentError, at, convert
from kvspec.properties.documents import find_kind
from kvspec.properties.documents.checking import Checked
from kvspec.spec.documents.canonical import plain

each_kind = pytest.mark.parametrize("name", kinds_with_cases())


def broken_cases(name):
    """Each negative case of a kind that can be read: its data, and what it breaks."""
    kind, base = find_kind(name), load_document(name)
    for case in load_set(name).cases:
        data = mutated(base, case)
        try:
            document = convert(kind, data, name)
        except DocumentError:
            continue
        yield data, Checked(kind, document, kind.first_broken(document))


def has_form(expected, there):
    """Whether a value could stand in the place of another: null, or the same type, item by item."""
    if expected is None or there is None:
        return True
    if isinstance(expected, list) and isinstance(there, list) and there:
        return all(has_form(item, there[0]) for item in expected)
    if isinstance(expected, dict) and isinstance(there, dict):
        return set(expected) == set(there)
    return type(expected) is type(there)


@each_kind
def test_what_is_expected_could_stand_there(name):
    """An expected value has the form of what stands at its place; anything else is told in words."""
    for data, checked in broken_cases(name):
        for finding in checked.broken.findings:
            expected = plain(finding.expected)
            try:
                there = at(data, finding.path)
            except KeyError:
                continue
            if not isinstance(expected, str):
                assert has_form(expected, there), (checked.broken.code, finding)


@each_kind
def test_every_broken_contract_says_what_to_do(name):
    """The last line is a next step; of what follows from the rest it is the command that makes it."""
    for _, checked in broken_cases(name):
        given = Given("x.json", "x.json", "{}", checked)
        told = advice(given, checked.broken)
        assert broken_text(given, checked.broken).endswith(f"\n  do        {told}")
        if checked.broken.contract.derived:
            assert "x.json --bind" in told
