"""The order of arrival is what a policy sees, whatever order an engine was given its requests in."""

import attrs
import pytest
import torch

from kvspec.models.decode import Decoder, DecoderConfig
from kvspec.models.decode.engine import Engine
from kvspec.models.decode.engine_requests import Request
from kvspec.models.decode.policies import ChunkedPrefill, IterationLevel, StaticBatches


@pytest.fixture(scope="module")
def decoder(cpu):
    """A small decoder."""
    return Decoder(DecoderConfig(dtype=torch.float64, tied=False, seed=1), cpu)


@attrs.frozen
class Numbers(IterationLevel):
    """Remembers every request that it was shown, as its number and the length of its prompt."""

    def begin(self):
        """It was shown nothing."""
        return frozenset()

    def decide(self, memory, views):
        """Select everything."""
        shown = {(view.request, view.facts["prompt_rows_remaining"]) for view in views}
        return memory | shown, super().decide(None, views)[1]


LATE_FIRST = (
    Request((1, 2, 3, 4), 2, arrival=1),
    Request((4, 5), 2),
    Request((7, 8, 9), 2),
)
"""The one that comes last is named first."""


def test_views_are_numbered_by_arrival(decoder) -> None:
    """However requests are listed, number 0 is the first that came; outcomes keep the caller's order."""
    engine = Engine(decoder, LATE_FIRST, Numbers(), handles=3)
    run = engine.run()
    assert {(0, 2), (1, 3), (2, 4)} <= engine._memory
    assert {number for number, rows in engine._memory if rows} == {0, 1, 2}
    assert [each.request for each in run.ended] == [0, 1, 2]
    assert [each.arrival for each in run.ended] == [1, 0, 0]


@pytest.mark.parametrize("policy", [StaticBatches(1), ChunkedPrefill(2)])
def test_who_came_first_is_served_first(decoder, policy) -> None:
    """A request that arrives later has its first output later, wherever it stands in the list."""
    first = [each.times[0] for each in Engine(decoder, LATE_FIRST, policy, handles=3).run().ended]
    assert first[1] < first[2] < first[0]
