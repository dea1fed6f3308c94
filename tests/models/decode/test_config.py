"""Tests of the decoder's sizes."""

import pytest
import torch

from kvspec.models.decode import DecodeError, DecoderConfig, default_device
from kvspec.models.decode.config import concrete_device, wide_dtype


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"layers": 0}, "layers = 0"),
        ({"vocab": -1}, "vocab = -1"),
        ({"heads": 3}, "heads = 3"),
        ({"head_dim": 5}, "head_dim = 5"),
        ({"rope_theta": 0.0}, "rope_theta = 0.0"),
        ({"norm_eps": -1.0}, "norm_eps = -1.0"),
        ({"window": 0}, "window = 0"),
        ({"dtype": torch.int8}, "dtype = torch.int8"),
    ],
)
def test_contradicting_sizes_are_refused(wrong, said):
    """Each wrong size is refused under its own name."""
    with pytest.raises(DecodeError, match=said) as refusal:
        DecoderConfig(**wrong)
    assert refusal.value.code == "BAD_CONFIG"
    assert refusal.value.fix in str(refusal.value)


def test_group_is_query_heads_per_kv_head():
    """Four query heads on two key/value heads share in groups of two."""
    assert DecoderConfig(heads=4, kv_heads=2).group == 2


def test_sums_are_never_narrower_than_float32():
    """Narrow dtypes are widened, float64 is kept."""
    widened = [wide_dtype(t) for t in (torch.float16, torch.bfloat16, torch.float32, torch.float64)]
    assert widened == [torch.float32, torch.float32, torch.float32, torch.float64]


def test_default_device_is_one_that_exists():
    """The default device is CUDA exactly where there is CUDA, and is named as tensors name it."""
    device = default_device()
    assert (device.type == "cuda") == torch.cuda.is_available()
    assert torch.empty(0, device=device).device == device == concrete_device(device)
