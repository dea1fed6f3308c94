"""What the tests of the decoder share."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kvspec.models.decode import AnyLayout, CacheShape, Decoder, DecoderConfig, Staging

# Modules beside the tests can be imported by them.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    """Small matrices are slower on many threads, and other work shares the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def cpu() -> torch.device:
    """The device that every machine has."""
    return torch.device("cpu")


@pytest.fixture(scope="session")
def decoder(cpu: torch.device) -> Decoder:
    """Two layers, four query heads on two key/value heads, in float64."""
    return Decoder(DecoderConfig(dtype=torch.float64), cpu)


@pytest.fixture
def shape(decoder: Decoder) -> CacheShape:
    """The rows that ``decoder`` produces for one sequence."""
    return CacheShape.of(decoder.config, decoder.device)


@pytest.fixture
def tokens(decoder: Decoder) -> torch.Tensor:
    """Twelve tokens of one sequence."""
    generator = torch.Generator().manual_seed(7)
    return torch.randint(0, decoder.config.vocab, (1, 12), generator=generator)


class Constant:
    """Rows that hold one number each, so that a reader can tell whose they are."""

    @staticmethod
    def rows(value: float, shape: CacheShape, count: int) -> torch.Tensor:
        """Rows of one part that all hold ``value``."""
        return torch.full(shape.rows(count), float(value), dtype=shape.dtype)

    def stage(self, staging: Staging, value: float) -> None:
        """Stage every part of an append with ``value``."""
        for layer, part in staging.shape.cells():
            staging.stage(layer, part, self.rows(value, staging.shape, staging.count))

    @staticmethod
    def shown(layout: AnyLayout) -> list[list[list[float]]]:
        """The visible rows of K and V of each layer."""
        snapshot = layout.snapshot()
        return [
            [part[0, 0, :, 0].tolist() for part in snapshot.read(layer)]
            for layer in range(layout.shape.layers)
        ]

    @staticmethod
    def whole(values: list[float]) -> list[list[list[float]]]:
        """What ``shown`` gives when every part of both layers holds ``values``."""
        return [[[float(value) for value in values]] * 2] * 2


@pytest.fixture
def constant() -> Constant:
    """Ways to fill a layout with rows of one number each, and to read them."""
    return Constant()
