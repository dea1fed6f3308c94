"""Two numbers that are multiplied and divided, to compare engines on all of their arithmetic.

Modelled: products of state, parameters and numbers; quotients of what is negative and what is not.
Left out: everything else. Assumed: nothing.
"""

from __future__ import annotations

from kvspec.spec.language import (
    ErrorCode,
    Expr,
    Module,
    Natural,
    Properties,
    Step,
    System,
    after,
    fired,
    implies,
    instance,
)


class Amount(Natural):
    """A number."""


FAR = ErrorCode("FAR", "the product is too large")

module = Module("products", "Numbers that are multiplied and divided.")
one = module.variable("one", to=Amount, init=1, meaning="the first number")
two = module.variable("two", to=Amount, init=2, meaning="the second number")


@module.action
def multiply(step: Step, n: Amount) -> None:
    """Multiply the first number, and move the second one by a quotient that may be negative."""
    step.require(n * one.value + n <= 12, FAR)
    step.assign(one.value, n * one.value)
    step.assign(two.value, two.value + (one.value - 3 * n) // 2)


@module.action
def divide(step: Step) -> None:
    """Divide the square of the second number, and the negated sum of both by three."""
    step.assign(one.value, two.value * two.value // 4)
    step.assign(two.value, (0 - (one.value + two.value)) // 3 + (one.value + 1) * 2)


system = System.of("products", "Numbers that are multiplied and divided.", module)
properties = Properties(system)


@properties.invariant
def halves_are_no_more_than_the_whole() -> Expr:
    """Twice the half of a product is the product, or one less."""
    product = one.value * two.value
    return (product // 2 * 2 == product) | (product // 2 * 2 + 1 == product)


@properties.invariant
def a_negative_quotient_rounds_down() -> Expr:
    """What is negative is divided as what is not: the remainder is 0, 1 or 2."""
    rest = (0 - one.value) - (0 - one.value) // 3 * 3
    return (rest >= 0) & (rest <= 2)


@properties.step
def multiplying_gives_a_multiple() -> Expr:
    """After a multiplication, the first number is a multiple of what it was."""
    return implies(
        fired(multiply) & (one.value == 2), after(one.value) == after(one.value) // 2 * 2
    )


@properties.witness
def reaches_a_square() -> Expr:
    """The first number is the square of the second, and more than 1."""
    return (one.value == two.value * two.value) & (one.value > 1)


FEW = instance("few", system, {Amount: 12})
