"""The specification as TLA+ and Promela text, for checkers from outside, and Spin's answer to it.

Reading order: `terms` and `ground` (an instance without quantifiers and parameters), `promela`,
`spin`; for TLA+ `tla_words` (names), `tla_text` (expressions), `tla_steps` (actions), `tla_claims`,
`tla`.
"""

from kvspec.models.export.promela import to_promela
from kvspec.models.export.spin import SpinError, SpinResult, bench_spin, run_spin, spin_absent
from kvspec.models.export.tla import to_tla

__all__ = [
    "SpinError",
    "SpinResult",
    "bench_spin",
    "run_spin",
    "spin_absent",
    "to_promela",
    "to_tla",
]
