"""Receipts suffice: with them each runtime is a refinement of the canonical lifecycle.

These are the total projections of `kvspec.spec.runtimes.receipt_views`, here to be found with the others.
"""

from kvspec.spec.runtimes.receipt_views import (
    sglang_refines,
    tensorrt_llm_refines,
    transformers_refines,
    vllm_refines,
)

__all__ = ["sglang_refines", "tensorrt_llm_refines", "transformers_refines", "vllm_refines"]
