"""The registry of formulas, units and symbols: every line of it is read from the code that computes it.

Formulas print as their own code on symbols. Predicates of the text that are no formula of numbers
are claims, codes and refinements of the specification, and are read from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import attrs

from kvspec.report.tables import markdown_table, text_table
from kvspec.spec.formulas import BOOK, Formula
from kvspec.spec.formulas.identities import IDENTITIES
from kvspec.spec.formulas.quantities import Quantity
from kvspec.spec.formulas.units import Unit

if TYPE_CHECKING:
    from kvspec.models.symbolic.identities import Proof


@attrs.frozen
class Predicate:
    """A predicate of the text. says: what it asks, one line for each part, from the specification."""

    symbol: str
    meaning: str
    section: str
    says: tuple[str, ...]


def by_section(formulas: Iterable[Formula] = BOOK) -> list[Formula]:
    """The formulas in the order of the text."""
    return sorted(formulas, key=lambda each: each.section)


def quantities(formulas: Iterable[Formula] = BOOK) -> dict[Quantity, list[str]]:
    """Every quantity that a formula takes, with the sections that use it, in the order of the text."""
    found: dict[Quantity, list[str]] = {}
    units: dict[str, Unit] = {}
    for formula in by_section(formulas):
        for each in formula.takes:
            if units.setdefault(each.symbol, each.unit) != each.unit:
                raise ValueError(
                    f"{each.symbol} is in {units[each.symbol]} and in {each.unit}, expected one unit "
                    "for one symbol: give one of them another symbol"
                )
            sections = found.setdefault(each, [])
            sections.extend(s for s in formula.section.split(", ") if s not in sections)
    return {each: sorted(sections) for each, sections in found.items()}


def predicates() -> list[Predicate]:
    """The predicates of the text's registry, with the parts of the specification that say them."""
    return [
        Predicate(
            "I(S_g)",
            "every layer of a snapshot shows K and V of one committed length",
            "0x01, 0x09",
            _claims(
                "every_layer_shows_the_committed_k_rows", "every_layer_shows_the_committed_v_rows"
            ),
        ),
        Predicate(
            "prepared(X)",
            "every layer has staged K and V over exactly the interval of the append",
            "0x01, 0x09",
            _claims("a_prepared_append_is_complete_in_k", "a_prepared_append_is_complete_in_v"),
        ),
        Predicate(
            "C(a, S_s)",
            "an append fits a snapshot; an earlier part hides the failures of later ones",
            "0x09",
            _failures(),
        ),
        Predicate(
            "phi(delta_a(S, op)) = delta(phi(S), op)",
            "a step of a runtime is a step of the canonical lifecycle, or changes nothing of it",
            "0x08, 0x09",
            _refinements(),
        ),
    ]


def _claims(*names: str) -> tuple[str, ...]:
    from kvspec.properties.core import properties

    return tuple(f"{properties.by_name[name].body!r}" for name in names)


def _failures() -> tuple[str, ...]:
    from kvspec.spec.failures import CODES, FailureClass

    codes = {kind: [c.name for c in CODES.values() if c.order == kind] for kind in FailureClass}
    return tuple(
        f"{kind.name.lower()}: {', '.join(found)}"
        for kind, found in codes.items()
        if kind and found
    )


def _refinements() -> tuple[str, ...]:
    from kvspec.properties import runtime_refinements
    from kvspec.spec.language.refinement import Refinement

    values = vars(runtime_refinements).values()
    found = [each for each in values if isinstance(each, Refinement)]
    return tuple(f"{each.concrete.name} refines {each.abstract.name}" for each in found)


def data(proofs: Iterable[Proof] = ()) -> dict[str, Any]:
    """The registry for a program; with the verdicts on the identities that were asked for."""
    proved = {proof.identity.name: proof for proof in proofs}
    return {
        "formulas": [
            {
                "name": each.name,
                "symbol": each.symbol,
                "text": each.text(),
                "unit": str(each.unit),
                "section": each.section,
                "meaning": each.doc,
                "takes": [quantity.symbol for quantity in each.takes],
                "requires": [one.meaning for one in each.requires],
            }
            for each in by_section()
        ],
        "symbols": [
            {
                "symbol": each.symbol,
                "meaning": each.meaning,
                "unit": str(each.unit),
                "least": None if each.flag else each.least,
                "column": each.column,
                "sections": sections,
            }
            for each, sections in quantities().items()
        ],
        "predicates": [attrs.asdict(each) for each in predicates()],
        "identities": [
            {"name": each.name, "claim": each.claim, "method": each.method}
            | (_verdict(proved[each.name]) if each.name in proved else {})
            for each in IDENTITIES.by_name.values()
        ],
    }


def _verdict(proof: Proof) -> dict[str, Any]:
    case = None if proof.case is None else proof.case.values
    return {
        "verdict": proof.verdict,
        "seconds": round(proof.seconds, 3),
        "reason": proof.reason,
        "counterexample": case,
    }


FORMULA_HEAD = ("call", "formula", "unit", "section", "what it is")
SYMBOL_HEAD = ("symbol", "unit", "least", "section", "what it is")
IDENTITY_HEAD = ("identity", "shown by", "claim")


def call_of(formula: Formula) -> str:
    """The formula's name and the symbols of what it takes, in order: `rows_saved P G`."""
    return " ".join((formula.name, *(each.symbol for each in formula.takes)))


def formula_rows() -> list[tuple[str, str, str, str, str]]:
    """A row for each formula."""
    return [
        (call_of(each), each.text(), str(each.unit), each.section, each.doc)
        for each in by_section()
    ]


def symbol_rows() -> list[tuple[str, str, str, str, str]]:
    """A row for each symbol that a formula takes; one that has two meanings has two rows."""
    return [
        (
            each.symbol,
            str(each.unit),
            "" if each.flag else str(each.least),
            ", ".join(sections),
            each.meaning,
        )
        for each, sections in quantities().items()
    ]


def identity_rows() -> list[tuple[str, str, str]]:
    """A row for each identity."""
    return [(each.name, each.method, each.claim) for each in IDENTITIES.by_name.values()]


def text() -> str:
    """The registry for a reader at a terminal."""
    parts = [
        text_table(FORMULA_HEAD, formula_rows()),
        text_table(SYMBOL_HEAD, symbol_rows(), right=(2,)),
        "\n".join(
            f"{each.symbol}: {each.meaning} ({each.section})\n"
            + "\n".join(f"  {line}" for line in each.says)
            for each in predicates()
        ),
        text_table(IDENTITY_HEAD, identity_rows()),
    ]
    return "\n\n".join(parts)


INTRODUCTION = """# Formulas, units and symbols

Made from the code by `make docs`; do not edit. Each formula is a function of `spec/formulas`, printed by
running it on symbols, and its unit is checked by running it on units. `//` divides and rounds down; where
it halves, an identity says that nothing is lost. `kvspec formulas` prints this page, and
`kvspec formulas --prove` proves the identities.

The scope of a symbol is its section. A generation of a handle is `generation[h]` in the specification, and no
count of tokens; `K_c` is a length, and `k_rows` are keys; bytes are an analytical payload unless a name says
reserved, physical, resident or temporary.
"""


def markdown() -> str:
    """The registry as a page."""
    formulas = [(f"`{n}`", f"`{t}`", f"`{u}`", s, d) for n, t, u, s, d in formula_rows()]
    symbols = [(f"`{s}`", f"`{u}`", *rest) for s, u, *rest in symbol_rows()]
    identities = [(f"`{name}`", how, claim) for name, how, claim in identity_rows()]
    told = [
        f"**`{each.symbol}`** ({each.section}): {each.meaning}.\n\n"
        + "\n".join(f"- `{line}`" for line in each.says)
        for each in predicates()
    ]
    parts = [
        INTRODUCTION.rstrip(),
        "## Formulas",
        markdown_table(FORMULA_HEAD, formulas),
        "## Symbols",
        "What a formula takes; `least` is the smallest legal value.",
        markdown_table(SYMBOL_HEAD, symbols, right=(2,)),
        "## Predicates",
        *told,
        "## Identities",
        "Proved by Z3 for all whole numbers and lists of any length. Each is broken by a changed formula.",
        markdown_table(IDENTITY_HEAD, identities),
    ]
    return "\n\n".join(parts) + "\n"
