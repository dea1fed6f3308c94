"""The outcomes of refusals."""

import pytest

from kvspec.models.telemetry.outcomes import (
    CANCELLED,
    OUTCOME_OF_CODE,
    OUTCOMES,
    OutcomeTableError,
    check_total,
    outcome_of,
)
from kvspec.spec.failures import CODES, FailureClass


def test_every_code_of_the_specification_has_an_outcome() -> None:
    """The table has each code once, and no other."""
    check_total()
    assert OUTCOME_OF_CODE.keys() == CODES.keys()


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        ({"STALE_SNAPSHOT": None}, "STALE_SNAPSHOT"),
        ({"NO_SUCH_CODE": "failure"}, "NO_SUCH_CODE"),
        ({"ABI_MISMATCH": "perhaps"}, "ABI_MISMATCH -> perhaps"),
    ],
)
def test_a_table_that_is_not_total_is_refused(spoil: dict[str, str | None], told: str) -> None:
    """A missing code, a strange one and an unknown outcome are each named."""
    table = {code: said for code, said in {**OUTCOME_OF_CODE, **spoil}.items() if said is not None}
    with pytest.raises(OutcomeTableError, match=told):
        check_total(table)


def test_a_refusal_is_never_a_cancellation() -> None:
    """Only cancelling cancels; the three other outcomes all occur."""
    assert set(OUTCOME_OF_CODE.values()) | {"success"} == set(OUTCOMES) - {CANCELLED}


def test_what_another_call_changed_is_a_conflict() -> None:
    """Codes of the snapshot class are conflicts, those of positions and layers failures."""
    of_class = {
        kind: {outcome_of(name) for name, code in CODES.items() if code.order == kind}
        for kind in FailureClass
    }
    assert of_class[FailureClass.SNAPSHOT] == {"conflict"}
    assert of_class[FailureClass.POSITION] == {"failure"}
    assert of_class[FailureClass.LAYERS] == {"failure"}


def test_a_code_of_a_layout_is_a_failure() -> None:
    """What only a faulty backend can answer has an outcome too."""
    assert outcome_of("CAPACITY_EXCEEDED") == "failure"
