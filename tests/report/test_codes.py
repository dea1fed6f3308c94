"""The page of codes: current, complete, and no code twice with two meanings."""

from pathlib import Path

from kvspec.counterexamples.systems import find_system
from kvspec.models.documents import READING
from kvspec.properties.audit.rules import RULES
from kvspec.properties.documents import codes as document_codes
from kvspec.report import codes
from kvspec.spec.failures import CODES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "codes.md"


def test_the_page_is_current() -> None:
    """docs/codes.md is what the code says today."""
    assert PAGE.read_text(encoding="utf-8") == codes.markdown(), "run make docs"


def test_every_code_is_on_the_page() -> None:
    """Refusals, reading, contracts of every kind and rules of the audit (A12, B1-B9)."""
    page = codes.markdown()
    own = [code for kind in document_codes().values() for code in kind]
    for code in (*CODES, *READING, *own, *RULES):
        assert f"| `{code}` |" in page, code


def test_a_code_of_the_specification_has_one_meaning() -> None:
    """Two systems that refuse with one name mean one thing (A12)."""
    meanings: dict[str, set[str]] = {}
    for name in codes.SYSTEMS:
        for action in find_system(name).system.actions.values():
            for guard in action.guards:
                meanings.setdefault(guard.code.name, set()).add(guard.code.meaning)
    assert {code: found for code, found in meanings.items() if len(found) > 1} == {}
