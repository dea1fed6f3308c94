"""Claims: the functions that look at states, for invariants, witnesses, ends and coverage.

check(st, lo, hi, variant, tally)          breaches and witnesses go to the tally
ends(st, dead, count, variant)             gives how many dead states are no proper end
select(st, lo, hi, variant, flags, bound)  sets a bit for each formula that holds
"""

from __future__ import annotations

from collections.abc import Callable

from kvspec.models.explicit.folding import Val, negate
from kvspec.models.explicit.packing import Field, Layout
from kvspec.models.explicit.tally import Tally
from kvspec.models.explicit.terms import Terms, scaled, split
from kvspec.models.explicit.writer import Writer
from kvspec.spec.language.expr import Expr, Symbol
from kvspec.spec.language.properties import Property


def check_source(layout: Layout, tally: Tally, claims: tuple[Property, ...], *, full: bool) -> str:
    """Invariants, lemmas and witnesses of each state; in the full form antecedents and members too."""

    def body(terms: Terms) -> None:
        for claim in claims:
            if claim.kind not in ("invariant", "lemma", "witness"):
                continue
            place = tally.breaches[claim.name]
            found = terms.formula(claim.body)
            hit = found if claim.kind == "witness" else negate(found)
            if hit is not False:
                with terms.out.block(f"if {hit}:"):
                    terms.out.put(f"if tally[{place}] == 0:")
                    terms.out.put(f"    tally[{place}] = i + 1")
            if full and claim.kind != "witness" and claim.antecedent is not None:
                with terms.out.block(f"if {terms.formula(claim.antecedent)}:"):
                    terms.out.put(f"tally[{tally.antecedents[claim.name]}] += 1")
        if full:
            for name, place in tally.members.items():
                _members(terms, layout.fields[name], place)

    return _over_states(layout, "check(st, lo, hi, variant, tally)", "range(lo, hi)", body)


def ends_source(layout: Layout, claims: tuple[Property, ...]) -> str:
    """Keeps of the dead states those that no end property accepts."""

    def body(terms: Terms) -> None:
        for claim in claims:
            if claim.kind == "end":
                with terms.out.block(f"if {terms.formula(claim.body)}:"):
                    terms.out.put("continue")
        terms.out.put("dead[kept] = i")
        terms.out.put("kept += 1")

    return _over_states(layout, "ends(st, dead, count, variant)", "range(count)", body, "dead[j]")


def select_source(
    layout: Layout, formulas: tuple[Expr, ...], bound: tuple[Symbol, ...] = ()
) -> str:
    """Which of the formulas hold in each state, with members for the symbols they have free."""

    def body(terms: Terms) -> None:
        for place, symbol in enumerate(bound):
            top = layout.instance.members(symbol.type) - 1
            terms.env[id(symbol)] = Val(terms.out.named(f"bound[{place}]"), 0, top)
        terms.out.put("flags[i] = 0")
        for bit, formula in enumerate(formulas):
            with terms.out.block(f"if {terms.formula(formula)}:"):
                terms.out.put(f"flags[i] |= {1 << bit}")

    return _over_states(layout, "select(st, lo, hi, variant, flags, bound)", "range(lo, hi)", body)


def _over_states(
    layout: Layout, head: str, span: str, body: Callable[[Terms], None], index: str = "j"
) -> str:
    out = Writer(2)
    terms = Terms(layout, out)
    body(terms)
    top = Writer()
    top.put(f"def {head}:")
    top.depth = 1
    top.put("kept = 0")
    top.put(f"for j in {span}:")
    top.depth = 2
    top.put(f"i = {index}")
    for word in range(layout.words):
        top.put(f"s{word} = st[i * {layout.words} + {word}]")
    for name, text in terms.used.items():
        top.put(f"{name} = {text}")
    return top.text() + out.text() + "    return kept\n"


def _members(terms: Terms, field: Field, place: int) -> None:
    """Mark the members that a variable of an enumeration has in this state."""
    out = terms.out
    if field.width == 0:
        out.put(f"tally[{place}] = 1")
        return
    with out.block(f"for e in range({field.count}):"):
        shift = scaled("e", field.width, field.shift)
        word = f"s{field.word}"
        if field.per_word < field.count:
            row, rest = split(out, "e", field.per_word)
            word = f"st[i * {terms.layout.words} + {field.word} + {row}]"
            shift = scaled(rest, field.width, field.shift)
        code = Val(out.named(f"({word} >> {shift}) & {field.mask}"), 0, field.top)
        out.put(f"tally[{place} + {code.text}] = 1")
