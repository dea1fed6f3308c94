"""Every engine multiplies and divides alike, also what is negative."""

import pytest
import z3

from kvspec.models.concrete import Machine
from kvspec.models.concrete.compiled import Compiled
from kvspec.models.explicit import explore
from kvspec.models.explicit.folding import Val, arithmetic
from kvspec.models.export import run_spin, spin_absent, to_tla
from kvspec.models.symbolic import bmc, prove
from kvspec.models.symbolic.domain import Ground, Unbounded
from kvspec.models.symbolic.evaluate import Scope
from kvspec.spec.examples import products
from kvspec.spec.language import DefinitionError, Symbol
from kvspec.spec.language.expr import INTEGER, Const, Op, same

CLAIMS = tuple(products.properties.by_name.values())


def searched(instance):
    """States and transitions by the reference engine alone."""
    machine = Machine(instance)
    seen = set(machine.initial_states())
    pending, count = list(seen), 0
    while pending:
        for _, outcome in machine.transitions(pending.pop()):
            count += 1
            if outcome.state not in seen:
                seen.add(outcome.state)
                pending.append(outcome.state)
    return len(seen), count


def test_the_explicit_engine_counts_what_the_reference_engine_counts():
    """127 states and 395 transitions, by either, and no claim is broken; some steps are cut."""
    found = explore(products.FEW, CLAIMS)
    assert (found.states, found.transitions) == searched(products.FEW) == (127, 395)
    assert (found.verdict, found.violations) == ("unknown", ())
    assert found.cut


def test_compiled_steps_are_those_of_the_interpreter():
    """Python that is generated for an action does what the reference engine does."""
    compiled = Compiled(products.FEW)
    machine = compiled.machine
    (start,) = machine.initial_states()
    states = [start, *(outcome.state for _, outcome in machine.transitions(start))]
    for state in states:
        for event in machine.events():
            assert compiled.disagreement(state, event) is None


@pytest.mark.spin
@pytest.mark.skipif(spin_absent() is not None, reason=str(spin_absent()))
def test_spin_counts_the_same():
    """Spin, whose division rounds towards 0, finds the same states."""
    claims = products.properties.of_kind("invariant", "step")
    found = run_spin(products.FEW, optimize=0, properties=claims)
    assert (found.states, found.transitions, found.errors) == (127, 395, 0)


@pytest.mark.slow
def test_the_claims_are_proved_for_all_numbers():
    """Z3 proves the invariants of integers without bounds; what may be negative is refuted."""
    only = ["*halves*", "*rounds_down*", "natural:two:multiply"]
    found = prove(
        products.system, products.properties, workers=0, seconds_per_obligation=3, only=only
    )
    verdicts = {item.name: item.verdict for item in found.items}
    invariants = [name for name in verdicts if "halves" in name or "rounds_down" in name]
    assert len(invariants) >= 6
    assert {verdicts[name] for name in invariants} == {"proved"}
    assert verdicts["natural:two:multiply"] == "failed"


def test_bounded_model_checking_finds_the_square():
    """A run to a square is found on bit-vectors that hold every product, and is replayed."""
    found = bmc(products.FEW, products.properties.by_name["reaches_a_square"], 4)
    assert found.verdict == "holds"


@pytest.mark.parametrize("domain", [Unbounded(), Ground({}, 8, 3, 2)], ids=["all", "bits"])
def test_terms_have_the_values_of_python(domain):
    """Products and quotients of numbers from -8 to 8 are those of Python, in both domains."""
    one, two = (Symbol(INTEGER, name, "constant") for name in ("one", "two"))
    for divisor in (1, 2, 3, 7):
        expr = one * two + (one - two) // divisor
        for a in range(-8, 9):
            for b in (-8, -3, 0, 1, 8):
                names = {"one": domain.literal(INTEGER, a), "two": domain.literal(INTEGER, b)}
                term = Scope(domain, None, names=names).value(expr)
                found = z3.simplify(term == domain.literal(INTEGER, a * b + (a - b) // divisor))
                assert z3.is_true(found), (a, b, divisor)


def test_tla_has_both_operators():
    """A product in a sum needs no brackets, a quotient of a difference does."""
    text, _ = to_tla(products.FEW)
    assert r"two' = two + (one - 3 * n) \div 2" in text
    assert r"one' = (two * two) \div 4" in text


@pytest.mark.parametrize("divisor", [0, -2, True, Symbol(INTEGER, "n", "constant")])
def test_a_divisor_is_a_positive_number(divisor):
    """There is no quotient that would have no meaning in some state."""
    with pytest.raises(DefinitionError, match="a divisor is a number, 1 or more"):
        Symbol(INTEGER, "x", "constant") // divisor


def test_the_tree_is_what_was_written():
    """A number on either side of * becomes a constant, and brackets are printed where needed."""
    x = Symbol(INTEGER, "x", "constant")
    assert same(3 * x, Op(INTEGER, "mul", (Const(INTEGER, 3), x)))
    assert repr((x + 1) * 2 // 3) == "(x + 1) * 2 // 3"
    assert repr(x * (x * 2 // 3)) == "x * (x * 2 // 3)"
    assert repr((x * 2 - 1) // 3) == "(x * 2 - 1) // 3"


def test_a_product_that_compiled_code_cannot_hold_is_refused():
    """The bound of a product is known beforehand; beyond 64 bits the instance is told to be smaller."""
    wide = Val("a", -(2**40), 2**40)
    assert arithmetic("mul", wide, Val("b", 0, 2**10)).high == 2**50
    with pytest.raises(ValueError, match="lower the bounds of the instance"):
        arithmetic("mul", wide, wide)
