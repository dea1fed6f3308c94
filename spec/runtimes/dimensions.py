"""Dimensions and families: what is compared of each runtime, beside the coordinates of Sigma.

Eight of the twelve dimensions are the coordinates; what a runtime says of them is its view, which is checked
step by step. The other four are physical or beyond the vector: a receipt that binds generation and snapshot,
the release of memory, reusable prefixes, and where rows reside. For those the evidence stands here.
"""

from __future__ import annotations

from typing import Final

import attrs

from kvspec.spec.language import Variable
from kvspec.spec.projections import Status
from kvspec.spec.runtimes import sglang, tensorrt_llm, transformers, vllm

DIMENSIONS: Final[dict[str, str]] = {
    "request_identity": "which request this is",
    "handle_generation": "how often the handle was released and given to another request",
    "snapshot_version": "which snapshot of the request is visible",
    "output_progress": "how many outputs were emitted",
    "committed_kv_progress": "how many rows all layers have committed",
    "lifecycle_phase": "where the request is in its life",
    "publication_receipt": "a proof of publication, bound to a generation and a snapshot",
    "terminal_output": "whether the output has ended",
    "logical_release": "whether the request has given up its rows",
    "physical_release": "whether the memory of the rows is free again",
    "prefix_reuse": "which rows can be read by other requests",
    "residency": "on which tier the rows are",
}
FAMILIES: Final[dict[str, str]] = {
    "append_publish": "rows are computed and made visible",
    "output": "a token is emitted",
    "fork_reorder": "a request goes on from where another one is",
    "truncate_rewind": "rows are taken back",
    "finish_release": "the output ends, and later the rows are given up",
}
LAYOUTS: Final[dict[str, str]] = {
    "transformers": "a cache object that its caller holds",
    "vllm": "a request beside a scheduler and a cache manager",
    "sglang": "a request that refers to a shared prefix tree",
    "tensorrt_llm": "a sequence that an executor manages",
}


@attrs.frozen
class Evidence:
    """What a source says of a dimension. value: the reading, as text; known: where it is known, as text.

    file: the pinned file of the source. note: for a reader.
    """

    status: Status
    owner: str
    source: str | None
    file: str | None
    value: str | None = None
    known: str | None = None
    note: str = ""


_RECEIPT: Final = Evidence(
    "absent", "wrapper", None, None, note="No release has a receipt with generation and snapshot."
)
_CACHE_UTILS: Final = "transformers/cache_utils.py"
_MANAGER: Final = "vllm/v1/core/kv_cache_manager.py"
_REQ: Final = "sglang/srt/managers/schedule_batch.py"
_RADIX: Final = "sglang/srt/mem_cache/radix_cache.py"
_KV_HEADER: Final = "tensorrt_llm/batch_manager/kvCacheManager.h"
_KV_PAGE: Final = "docs/source/features/kvcache.md"

BEYOND: Final[dict[str, dict[str, Evidence]]] = {
    "transformers": {
        "publication_receipt": _RECEIPT,
        "physical_release": Evidence(
            "foreign_owner",
            "framework allocator",
            "tensors of the cache layers",
            _CACHE_UTILS,
            note="Memory is free when the framework finds that nobody holds the tensors.",
        ),
        "prefix_reuse": Evidence("absent", "caller", None, None),
        "residency": Evidence(
            "foreign_owner",
            "framework allocator",
            "Cache layers with offloading",
            _CACHE_UTILS,
            note="Layers move to the host and back; the rows that they stand for stay the same.",
        ),
    },
    "vllm": {
        "publication_receipt": _RECEIPT,
        "physical_release": Evidence(
            "foreign_owner",
            "KVCacheManager",
            "KVCacheManager.free",
            _MANAGER,
            note="Blocks stay while a connector still sends them.",
        ),
        "prefix_reuse": Evidence(
            "foreign_owner", "KVCacheManager", "KVCacheManager.get_computed_blocks", _MANAGER
        ),
        "residency": Evidence(
            "near_correspondence",
            "metrics",
            "cache metrics",
            "docs/design/metrics.md",
            value="selected observations",
            note="Some block observations are samples, and no statement about each row.",
        ),
    },
    "sglang": {
        "publication_receipt": _RECEIPT,
        "physical_release": Evidence(
            "foreign_owner",
            "RadixCache",
            "RadixCache.cache_finished_req",
            _RADIX,
            note="Shared rows stay in the tree; duplicates and the unaligned tail are freed.",
        ),
        "prefix_reuse": Evidence(
            "direct_field",
            "Req",
            "Req.prefix_indices and Req.last_node",
            _REQ,
            value="prefix_indices, last_node",
            note="Where reusable rows are; not how many outputs there were.",
        ),
        "residency": Evidence(
            "foreign_owner", "scheduler", "Req.offload_kv_cache", _REQ, note="Optional."
        ),
    },
    "tensorrt_llm": {
        "publication_receipt": _RECEIPT,
        "physical_release": Evidence(
            "foreign_owner",
            "KV cache manager",
            "BaseKVCacheManager.removeSequence",
            _KV_HEADER,
        ),
        "prefix_reuse": Evidence(
            "foreign_owner",
            "KV cache manager",
            "K/V cache reuse across requests",
            _KV_PAGE,
            note="Blocks of an ended sequence can be kept for others.",
        ),
        "residency": Evidence(
            "foreign_owner",
            "KV cache manager",
            "K/V cache event manager",
            _KV_HEADER,
            note="Events report changes of the manager; they are no request state.",
        ),
    },
}

FILES: Final[dict[str, str]] = {
    "Cache.get_seq_length": _CACHE_UTILS,
    "Request.request_id": "vllm/v1/request.py",
    "Request.output_token_ids": "vllm/v1/request.py",
    "Request.status": "vllm/v1/request.py",
    "Request.num_computed_tokens": "vllm/v1/core/sched/scheduler.py",
    "Scheduler._free_request": "vllm/v1/core/sched/scheduler.py",
    "Req.rid": _REQ,
    "Req.output_ids": _REQ,
    "Req.kv_committed_len": _REQ,
    "Req.finished_reason": _REQ,
    "Req.finished_reason and Req.kv_committed_len": _REQ,
    "BasePrefixCache.cache_finished_req": "sglang/srt/mem_cache/base_prefix_cache.py",
    "Executor.enqueueRequest": "tensorrt_llm/executor/executor.h",
    "GenericLlmRequest token vectors": "tensorrt_llm/batch_manager/llmRequest.h",
    "LlmRequestState": "tensorrt_llm/batch_manager/llmRequest.h",
    "BaseKVCacheManager addSequence, addToken and rewindKVCache": _KV_HEADER,
    "BaseKVCacheManager.removeSequence": _KV_HEADER,
}
"""The pinned file in which the source of a fact is found."""

NOTES: Final[dict[tuple[str, str], str]] = {
    ("transformers", "committed_kv_progress"): "Layer 0 alone; ahead while a forward pass runs.",
    ("vllm", "committed_kv_progress"): (
        "Advanced when work is scheduled, and taken back for rejected drafts."
    ),
    ("vllm", "lifecycle_phase"): "Running begins when a request is scheduled, before it has rows.",
    ("vllm", "logical_release"): "Finishing and freeing are two steps, which can lie apart.",
    ("sglang", "committed_kv_progress"): "Moved when a batch is prepared, before it has run.",
    (
        "sglang",
        "lifecycle_phase",
    ): "Known before the first batch, after a retraction, and at the end.",
    ("tensorrt_llm", "committed_kv_progress"): (
        "Room in the sequence, there before the rows; a rewind cuts it and no output."
    ),
    ("tensorrt_llm", "lifecycle_phase"): "Disaggregated states have no counterpart here.",
    ("tensorrt_llm", "output_progress"): "Within the engine; an application sees responses, later.",
}

CANONICAL_FAMILY: Final[dict[str, str]] = {
    "prefill_publish": "append_publish",
    "decode_publish": "append_publish",
    "output_emit": "output",
    "fork": "fork_reorder",
    "reorder": "fork_reorder",
    "truncate": "truncate_rewind",
    "retract": "truncate_rewind",
    "finish": "finish_release",
    "release": "finish_release",
}
"""The family of a canonical operation; allocation is of none."""

SILENT_FAMILY: Final[dict[str, str]] = {
    "begin_forward": "append_publish",
    "update": "append_publish",
    "schedule_prefill": "append_publish",
    "schedule_decode": "append_publish",
    "end_sending": "finish_release",
    "prepare_for_extend": "append_publish",
    "prepare_for_decode": "append_publish",
    "cache_unfinished": "append_publish",
    "evict": "finish_release",
    "add_sequence": "append_publish",
    "add_token": "append_publish",
    "rewind_drafts": "truncate_rewind",
    "await_responses": "output",
    "evict_reusable": "finish_release",
}
"""The family of a step that stands for no canonical operation."""

PHYSICAL: Final[dict[Variable, str]] = {
    transformers.layer_rows: "layer_tensors",
    vllm.slots: "request_blocks",
    vllm.sending: "block_transfer",
    sglang.has_slot: "pool_slot",
    sglang.protected_len: "tree_lock",
    sglang.tree_rows: "shared_tree",
    tensorrt_llm.sequence_tokens: "sequence_blocks",
    tensorrt_llm.reusable: "reusable_blocks",
}
"""What a variable of a runtime's model stands for in the physical plane."""
