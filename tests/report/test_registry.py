"""The registry of formulas: the page is current, and every line comes from the code."""

from pathlib import Path

import attrs
import pytest

from kvspec.report import registry
from kvspec.spec.formulas import BOOK
from kvspec.spec.formulas.units import BYTE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formulas.md"


def test_the_page_is_current() -> None:
    """docs/formulas.md is what the code says today."""
    assert PAGE.read_text(encoding="utf-8") == registry.markdown(), "run make docs"


def test_another_formula_makes_another_page(monkeypatch) -> None:
    """The page changes with the code of a formula."""
    before = registry.markdown()
    altered = BOOK.altered(rows_cached=lambda P, G: P + G)
    monkeypatch.setattr(registry.by_section, "__defaults__", (altered,))
    after = registry.markdown()
    assert "`N_rows,cached = P + G`" in after
    assert "`N_rows,cached = P + G`" not in before


def test_formulas_are_in_the_order_of_the_text() -> None:
    """By section."""
    sections = [each.section for each in registry.by_section()]
    assert sections == sorted(sections)
    assert len(sections) == len(BOOK)


def test_one_symbol_has_one_unit() -> None:
    """A symbol of two units is refused; one of two meanings has a row for each."""
    found = registry.quantities()
    assert sum(each.symbol == "S" for each in found) == 2
    (first, *rest) = BOOK
    wrong = attrs.evolve(first, takes=(attrs.evolve(first.takes[0], unit=BYTE), *first.takes[1:]))
    with pytest.raises(ValueError, match=r"L_cache is in .*, expected one unit for one symbol"):
        registry.quantities([*rest, wrong])


def test_the_predicates_are_read_from_the_specification() -> None:
    """Claims, failure classes in their order, and the runtimes that follow the canonical lifecycle."""
    whole, prepared, fits, translated = registry.predicates()
    assert all("k_rows[h, l]" in line or "v_rows[h, l]" in line for line in whole.says)
    assert all("start[x] + count[x]" in line for line in prepared.says)
    assert [line.split(":")[0] for line in fits.says] == [
        "abi", "position", "layers", "snapshot", "frontier", "ownership",
    ]  # fmt: skip
    assert all(line.endswith(" refines canonical") for line in translated.says)
