"""Kinds of document: contracts in their order, the first that is broken, and free fields."""

import attrs
import pytest

from kvspec.spec.documents.contracts import DocumentKind, Finding, differs, requires
from kvspec.spec.language import DefinitionError


@attrs.frozen
class Count:
    """A toy document."""

    total: int
    parts: tuple[int, ...]


@pytest.fixture
def kind():
    """A kind with two contracts, of which the second relies on the first."""
    made = DocumentKind("count", Count, "A total and its parts.")

    @made.contract("PARTS", "parts are not negative")
    def parts(d):
        for n, one in enumerate(d.parts):
            yield from requires(one >= 0, f"/parts/{n}", "at least 0", one)

    @made.contract("TOTAL", "the total is the sum of the parts")
    def total(d):
        yield from differs("/total", sum(d.parts), d.total)

    made.frees("/notes/*/text", "nobody reads them")
    return made


def test_a_good_document_breaks_nothing(kind):
    """There is nothing to tell of it."""
    assert kind.first_broken(Count(3, (1, 2))) is None


def test_the_first_broken_contract_is_told(kind):
    """Both contracts are broken; the first is told, with all its places and no others."""
    broken = kind.first_broken(Count(9, (-1, 2, -3)))
    assert broken.code == "PARTS"
    assert broken.findings == (
        Finding("/parts/0", "at least 0", -1),
        Finding("/parts/2", "at least 0", -3),
    )
    assert str(broken) == (
        "PARTS at /parts/0: expected 'at least 0', found -1; the contract: parts are not negative "
        "(and 1 more)"
    )


def test_a_later_contract(kind):
    """One that holds is passed over."""
    broken = kind.first_broken(Count(4, (1, 2)))
    assert (broken.code, broken.findings) == ("TOTAL", (Finding("/total", 3, 4),))


def test_codes_are_unique_in_a_kind(kind):
    """A second contract of one code is refused when it is declared."""
    with pytest.raises(DefinitionError, match="two contracts PARTS"):
        kind.contract("PARTS", "again")(lambda d: ())


def test_another_class_is_no_document_of_the_kind(kind):
    """A document is checked by its own kind."""
    with pytest.raises(TypeError, match="checks Count"):
        kind.first_broken({"total": 3})


@pytest.mark.parametrize(
    ("path", "free"),
    [
        ("/notes/0/text", True),
        ("/notes/7/text/deeper", True),
        ("/notes/0", False),
        ("/notes/0/title", False),
        ("/total", False),
        ("", False),
    ],
)
def test_free_fields(kind, path, free):
    """A pattern frees a field and what is within it; `*` stands for one step."""
    assert kind.is_free(path) is free
