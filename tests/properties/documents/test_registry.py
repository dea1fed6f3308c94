"""The registry finds every kind of document, and a text finds its kind."""

import pytest

from kvspec.counterexamples.negative_cases import DOCUMENTS
from kvspec.models.documents import DocumentError
from kvspec.properties.documents import codes, find_kind, kinds
from kvspec.properties.documents.checking import check_text


def test_kinds_are_found_by_name():
    """The kinds of the specification are there under the names of their documents."""
    assert {"layer-trace", "manifest", "saved-work"} <= set(kinds())
    assert all(find_kind(name).name == name for name in kinds())


def test_an_unknown_name_lists_those_that_exist():
    """A failed look-up says what there is."""
    with pytest.raises(LookupError, match=r"'menifest'; there are: .*layer-trace, manifest"):
        find_kind("menifest")


def test_every_contract_has_a_meaning():
    """A code is upper case, and its meaning is a clause without a full stop."""
    for name, own in codes().items():
        assert own, name
        for code, meaning in own.items():
            assert code.replace("_", "").isalnum(), code
            assert code == code.upper()
            assert meaning
            assert not meaning.endswith(".")


@pytest.mark.parametrize("file", ["layer-trace.json", "manifest.json", "saved-work.json"])
def test_a_text_says_of_which_kind_it_is(file):
    """The field `document` finds the kind."""
    found = check_text((DOCUMENTS / file).read_text(encoding="utf-8"), file)
    assert found.kind.name == file.removesuffix(".json")
    assert found.broken is None


@pytest.mark.parametrize("text", ["{}", '{"document": "trace"}', '{"document": []}'])
def test_a_text_of_no_kind_is_refused(text):
    """The kinds that exist are told."""
    with pytest.raises(DocumentError, match=r"one of .*manifest") as refusal:
        check_text(text, "x.json")
    assert refusal.value.code == "WRONG_KIND"
