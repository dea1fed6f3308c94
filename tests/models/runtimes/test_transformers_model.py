"""What the tiny Llama's figures come to."""

import pytest

from kvspec.models.runtimes.transformers_model import TOLERANCE, logits_damage


@pytest.mark.parametrize("apart", [float("nan"), float("inf"), 2 * TOLERANCE])
def test_logits_that_are_too_far_are_damage(apart) -> None:
    """A NaN is never within the tolerance."""
    (harm,) = logits_damage(1, apart)
    assert (harm.kind, harm.where) == ("logits", "handle1")


def test_logits_within_the_tolerance_are_none() -> None:
    """Rounding is no damage."""
    assert logits_damage(1, TOLERANCE) == []
