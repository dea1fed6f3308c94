"""How far cached and uncached logits may part, by dtype.

Modelled: the largest difference between two runs' logits, as a share of the largest logit of the
uncached run. The two do the same sums over the same rows; only the shapes of the matrix products
differ, and with them the order of additions. Left out: agreement between devices or dtypes.

``python -m kvspec.models.decode.measure`` prints the measurement anew.
"""

from typing import Final

import torch
from torch import Tensor

# Each is about four times the largest disagreement that ``measure`` found on a CPU: 50 seeds, group
# sizes 1, 2 and 4, tied and untied head, 4 layers, both layouts, 4 schedules of 24 tokens, so 2,400
# runs a dtype. In units of the dtype's epsilon the largest are 9.2, 8.7, 2.2 and 1.4.
TOLERANCES: Final[dict[torch.dtype, float]] = {
    torch.float64: 8e-15,  # largest found 2.05e-15
    torch.float32: 4e-6,  # largest found 1.04e-6
    torch.bfloat16: 0.07,  # largest found 0.0174
    torch.float16: 0.006,  # largest found 0.00132
}
"""The disagreement up to which cached and uncached logits count as the same, by dtype."""


def disagreement(found: Tensor, expected: Tensor) -> float:
    """The largest |found - expected| as a share of the largest |expected|, over one shape."""
    wide, against = found.to(torch.float64), expected.to(torch.float64)
    return float((wide - against).abs().max() / against.abs().max())


def agrees(found: Tensor, expected: Tensor) -> bool:
    """The two are within the tolerance of their dtype; never so when either holds a NaN."""
    return disagreement(found, expected) <= TOLERANCES[expected.dtype]
