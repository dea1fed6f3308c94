"""Units multiply and divide, and are never added to one another where they differ."""

import attrs
import pytest

from kvspec.spec.formulas import BOOK
from kvspec.spec.formulas.frame import Formula
from kvspec.spec.formulas.units import BYTE, MS, ONE, PAIR, REQUEST, SECOND, TOKEN, UnitError

FORMULAS = tuple(BOOK)


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda f: f.name)
def test_every_formula_gives_the_unit_that_it_declares(formula: Formula) -> None:
    """The code, run on units, gives the declared unit."""
    formula.check_dimension()


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda f: f.name)
def test_a_wrong_unit_is_caught(formula: Formula) -> None:
    """A formula that declares another unit is refused, and told what its code gives."""
    wrong = attrs.evolve(formula, unit=formula.unit * TOKEN)
    with pytest.raises(UnitError, match=f"{formula.name}: the code gives") as told:
        wrong.check_dimension()
    assert f"the code gives {formula.unit}, and {wrong.unit} is declared" in str(told.value)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("physical_bytes", lambda reserved, allocator: reserved * allocator),
        ("committed_bytes", lambda tokens, beta: tokens + beta),
        ("causal_pairs", lambda S: S + 1),
        ("rows_cached", lambda P, G: P * G),
        ("ttft", lambda arrival, outputs: outputs[0] / arrival),
        ("slo_valid", lambda done, ttft, tbts, limit, _: (ttft <= limit) & (tbts[0] <= done)),
        ("request_throughput", lambda completed, window: completed * 1000 / window),
        ("token_bytes", lambda l, h, d, k, v: l * h * d * k * v),
    ],
)
def test_a_formula_with_a_wrong_term_is_caught(name: str, code: object) -> None:
    """A factor too many, a sum of unlike things or a time that is not converted has another unit."""
    with pytest.raises(UnitError, match=name):
        BOOK.altered(**{name: code})[name].check_dimension()


def test_units_print_as_in_the_text() -> None:
    """Powers, quotients and the unit of a plain count."""
    printed = [BYTE / TOKEN, BYTE * MS, PAIR, ONE, ONE / SECOND, REQUEST / (MS * TOKEN)]
    assert [str(unit) for unit in printed] == [
        "byte/token", "byte*ms", "token^2", "1", "1/s", "request/(ms*token)",
    ]  # fmt: skip


def test_numbers_have_no_unit_of_their_own() -> None:
    """A number takes the unit of what it is added to, and multiplies without one."""
    assert 1 + TOKEN == TOKEN - 1 == 2 * TOKEN == TOKEN // 2 == TOKEN
    assert (TOKEN < 3) == (TOKEN / TOKEN) == ONE


def test_unlike_units_are_not_compared() -> None:
    """Neither in a sum nor in an order."""
    for mix in (lambda: BYTE + TOKEN, lambda: BYTE - TOKEN, lambda: BYTE <= TOKEN):
        with pytest.raises(UnitError, match="found byte beside token"):
            mix()
