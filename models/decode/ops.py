"""The arithmetic of one decoder layer, each operation a function of tensors alone.

Modelled: RMSNorm, rotary positions, SwiGLU, grouped-query attention under a mask over absolute
positions. Left out: fused kernels; scores are formed in full, so that what a query sees can be read
off the code.

Sizes: B batch, T new rows, T_k keys in view, H_q query heads, H_kv key/value heads, d_h head width.
"""

import torch
from torch import Tensor
from torch.nn.functional import silu

from kvspec.models.decode.config import wide_dtype
from kvspec.models.decode.hooks import KVView


def rms_norm(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """Rows [..., d] divided by their root mean square and scaled by ``gain`` [d].

    Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019, with eps inside the
    root.
    """
    wide = x.to(wide_dtype(x.dtype))
    scaled = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    return scaled.to(x.dtype) * gain


def rotate(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    """Heads [B, H, T, d_h] turned by their absolute positions [B, T].

    Channels i and i + d_h/2 form a pair, turned by the angle position * theta^(-2i/d_h). The
    pairing of halves is the one of the Llama checkpoints in common use; the original text pairs
    neighbours, which is the same rotation under a fixed permutation of channels. Source: Su et al.,
    RoFormer, 2021, section 3.2.2.
    """
    half = x.shape[-1] // 2
    steps = torch.arange(half, dtype=torch.float64, device=x.device)
    # float64 angles: near position 100,000 an angle in float32 is off by up to 0.004.
    angles = positions.to(torch.float64)[:, None, :, None] * theta ** (-steps / half)
    wide = x.to(wide_dtype(x.dtype))
    cos, sin = angles.cos().to(wide.dtype), angles.sin().to(wide.dtype)
    low, high = wide[..., :half], wide[..., half:]
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1).to(x.dtype)


def swiglu(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """Rows [..., d] through down(silu(gate x) * up x).

    Source: Shazeer, GLU Variants Improve Transformer, 2020, equation 6.
    """
    return (silu(x @ gate.T) * (x @ up.T)) @ down.T


def visible(queries: Tensor, keys: Tensor, window: int | None) -> Tensor:
    """Which key each query sees, [B, T, T_k], from absolute positions [B, T] and [B, T_k] or [T_k].

    A query at position p sees the keys at 0 <= q <= p, and with a window only those at q > p -
    window. A negative key position marks a slot that holds no row; a negative query position marks
    padding, which sees nothing.
    """
    query, key = queries[:, :, None], (keys if keys.dim() == 2 else keys[None])[:, None, :]
    seen = (key >= 0) & (key <= query)
    return seen if window is None else seen & (key > query - window)


def scaled_scores(q: Tensor, keys: Tensor) -> Tensor:
    """q k^T / sqrt(d_h) of queries [B, H_q, T, d_h] and keys [B, H_kv, T_k, d_h]: [B, H_q, T, T_k].

    Query head h meets key head h // (H_q / H_kv). Source: Ainslie et al., GQA, 2023.
    """
    batch, heads, count, width = q.shape
    kv_heads = keys.shape[1]
    # Query heads of one group become more rows against the same keys, so that no K row is copied.
    rows = q.reshape(batch, kv_heads, heads // kv_heads * count, width)
    scores: Tensor = (rows @ keys.transpose(-1, -2)).to(wide_dtype(q.dtype)) * width**-0.5
    return scores.view(batch, heads, count, keys.shape[2])


def attend(q: Tensor, view: KVView, positions: Tensor, window: int | None) -> Tensor:
    """Queries [B, H_q, T, d_h] at ``positions`` [B, T] read ``view`` and give [B, H_q, T, d_h].

    softmax(q k^T / sqrt(d_h)) v over the visible keys, query head h reading key/value head h //
    (H_q / H_kv). A query that sees no key gives zeros. Source: Ainslie et al., GQA, 2023.
    """
    scores = scaled_scores(q, view.keys)
    seen = visible(positions, view.positions, window)[:, None]
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
    # A row of -inf alone gives NaN; the second mask makes it zero.
    weights = weights.masked_fill(~seen, 0.0).to(q.dtype)
    batch, heads, count, keys = weights.shape
    kv_heads = view.values.shape[1]
    mixed: Tensor = weights.view(batch, kv_heads, heads // kv_heads * count, keys) @ view.values
    return mixed.view(q.shape)
