"""What a decoder is made of: sizes, rotary base, dtype, head and seed.

Modelled: the dense Llama family (RMSNorm, rotary positions, grouped-query attention, SwiGLU), with
an optional sliding window. Left out: biases, rotary scaling, mixtures of experts, latent or
quantized K/V, dropout.
"""

from typing import Final

import torch
from attrs import field, frozen

from kvspec.models.decode.errors import BadConfigError

SUPPORTED_DTYPES: Final = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def default_device() -> torch.device:
    """The device of a decoder that names none: CUDA where there is one, the CPU elsewhere."""
    return concrete_device(torch.device("cuda" if torch.cuda.is_available() else "cpu"))


def concrete_device(device: torch.device) -> torch.device:
    """The device as tensors name it: a bare ``cuda`` gets the index of the current device."""
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of sums that a narrow one would spoil (norms, rotation, softmax)."""
    return torch.float64 if dtype == torch.float64 else torch.float32


@frozen
class DecoderConfig:
    """Sizes and seed of a decoder; equal configs have equal weights on every machine.

    Attributes:
        layers: number of decoder layers L, each of which produces K and V.
        d_model: width d of the hidden rows.
        heads: query heads H_q.
        kv_heads: key/value heads H_kv; H_q / H_kv query heads share one.
        head_dim: width d_h of a head, even because rotation turns pairs.
        d_ff: inner width of the SwiGLU.
        vocab: number of token ids.
        rope_theta: base of the rotary frequencies theta^(-2i/d_h).
        dtype: dtype of weights, hidden rows and cache rows.
        tied: the output head is the embedding matrix.
        window: a query at position p sees keys in (p - window, p]; None lets it see [0, p].
        norm_eps: added to the mean square in RMSNorm.
        seed: seed of the weights.

    Raises:
        BadConfigError: a size is below one, or two sizes contradict each other.
    """

    layers: int = 2
    d_model: int = 16
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 4
    d_ff: int = 32
    vocab: int = 32
    rope_theta: float = 10_000.0
    dtype: torch.dtype = field(default=torch.float32)
    tied: bool = True
    window: int | None = None
    norm_eps: float = 1e-6
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        sizes = ("layers", "d_model", "heads", "kv_heads", "head_dim", "d_ff", "vocab")
        for name in sizes:
            self._demand(getattr(self, name) >= 1, name, "at least 1", "give a positive size")
        self._demand(
            self.heads % self.kv_heads == 0,
            "heads",
            f"a multiple of kv_heads = {self.kv_heads}",
            "let equally many query heads share each key/value head",
        )
        self._demand(
            self.head_dim % 2 == 0, "head_dim", "an even number", "rotation turns pairs of channels"
        )
        self._demand(self.rope_theta > 0, "rope_theta", "a positive base", "10000.0 is usual")
        self._demand(self.norm_eps >= 0, "norm_eps", "no negative number", "1e-6 is usual")
        self._demand(
            self.window is None or self.window >= 1,
            "window",
            "None or at least 1",
            "a query sees itself at least",
        )
        self._demand(
            self.dtype in SUPPORTED_DTYPES,
            "dtype",
            "one of " + ", ".join(str(dtype) for dtype in SUPPORTED_DTYPES),
            "choose one of these",
        )

    def _demand(self, holds: bool, name: str, expected: str, fix: str) -> None:
        if not holds:
            raise BadConfigError(
                where="DecoderConfig",
                found=f"{name} = {getattr(self, name)}",
                expected=expected,
                fix=fix,
            )

    @property
    def group(self) -> int:
        """Query heads that share one key/value head: H_q / H_kv."""
        return self.heads // self.kv_heads
