"""What the tests of the decoder share."""

from collections.abc import Iterator

import pytest
import torch

from kvspec.models.decode import CacheShape, Decoder, DecoderConfig


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
