"""A small real decoder, and the cache rows of its requests, in torch.

Modelled: a forward pass that can stop between any two parts of any two layers, and cache layouts
whose changes all readers see whole; on top of them the backend, a cache that can be held against the
core system. Left out here: other architectures, several devices.

Reading order: ``config``, ``weights``, ``ops``, ``hooks``, ``decoder`` (the model); ``completion``,
``shapes``, ``staging``, ``layouts``, ``dynamic``, ``static``, ``pages_memory``, ``pages_audit``,
``pages``, ``paged``, ``window``, ``residency``, ``offloaded``, ``kinds`` (the rows); ``workers``,
``streams``, ``readers`` (work on other streams and threads);
``calls``, ``agreement``, ``layer_trace`` (model and rows together); ``backend_model``,
``backend_tables``, ``backend_calls``, ``backend_appends``, ``backend_requests``, ``backend_batch``,
``backend_reading``, ``backend_observe``, ``backend_damage``, ``backend_faults``, ``backend`` (the cache
under test); ``ragged``, ``beams``, ``speculation`` (calls of several requests, of beams and of drafts);
``policies``, ``engine_requests``, ``engine_tables``, ``engine_follow``, ``engine_calls``, ``engine``,
``engine_service`` (a small serving engine); ``concurrent_faults``, ``concurrent_points``, ``concurrent``,
``concurrent_record``, ``concurrent_scenarios``, ``concurrent_clients`` (the cache under several clients).
"""

from kvspec.models.decode.agreement import TOLERANCES, agrees, disagreement
from kvspec.models.decode.backend import DecodeBackend, make_backend
from kvspec.models.decode.backend_faults import FAULTS, fault_for
from kvspec.models.decode.backend_reading import NotReadableError, View
from kvspec.models.decode.beams import Beam, beam_search, fan_out, reorder, select
from kvspec.models.decode.calls import append, cached_logits, uncached_logits
from kvspec.models.decode.completion import Completion, Deferral, Submit, run_now
from kvspec.models.decode.concurrent import ConcurrentBackend, Look
from kvspec.models.decode.concurrent_faults import CONCURRENCY_FAULTS
from kvspec.models.decode.concurrent_scenarios import SCENARIOS, Scenario
from kvspec.models.decode.config import DecoderConfig, default_device
from kvspec.models.decode.decoder import Decoder, ForwardSteps, Produced, finish, positions_from
from kvspec.models.decode.dynamic import DynamicLayout
from kvspec.models.decode.engine import Engine
from kvspec.models.decode.engine_requests import EngineFaults, Request, plain_outputs
from kvspec.models.decode.engine_service import ServiceRecorder
from kvspec.models.decode.errors import DecodeError
from kvspec.models.decode.hooks import CallRows, KVView, LayerCache, Part, UpdateCache, update
from kvspec.models.decode.kinds import LAYOUT_KINDS, AnyLayout, allocate
from kvspec.models.decode.layouts import Layout, Publication
from kvspec.models.decode.offloaded import OffloadedLayout
from kvspec.models.decode.paged import PagedLayout, PagedSnapshot
from kvspec.models.decode.pages import BlockPool, Lease
from kvspec.models.decode.policies import (
    POLICIES,
    ChunkedPrefill,
    IterationLevel,
    Policy,
    Selection,
    ServiceView,
    StaticBatches,
)
from kvspec.models.decode.ragged import Chunk, RaggedCall, RowResult, append_ragged
from kvspec.models.decode.readers import Reader, Reading
from kvspec.models.decode.residency import LAYERS_ON_DEVICE, DeviceRoom
from kvspec.models.decode.shapes import SOUND, CacheShape, LayoutFaults, Snapshot
from kvspec.models.decode.speculation import accepted_drafts, keep_rows
from kvspec.models.decode.staging import Staging
from kvspec.models.decode.static import StaticLayout
from kvspec.models.decode.streams import CudaStream, Stream, open_stream, submit_on
from kvspec.models.decode.window import WindowLayout, most_rows
from kvspec.models.decode.workers import WorkerStream

__all__ = [
    "CONCURRENCY_FAULTS",
    "FAULTS",
    "LAYERS_ON_DEVICE",
    "LAYOUT_KINDS",
    "POLICIES",
    "SCENARIOS",
    "SOUND",
    "TOLERANCES",
    "AnyLayout",
    "Beam",
    "BlockPool",
    "CacheShape",
    "CallRows",
    "Chunk",
    "ChunkedPrefill",
    "Completion",
    "ConcurrentBackend",
    "CudaStream",
    "DecodeBackend",
    "DecodeError",
    "Decoder",
    "DecoderConfig",
    "Deferral",
    "DeviceRoom",
    "DynamicLayout",
    "Engine",
    "EngineFaults",
    "ForwardSteps",
    "IterationLevel",
    "KVView",
    "LayerCache",
    "Layout",
    "LayoutFaults",
    "Lease",
    "Look",
    "NotReadableError",
    "OffloadedLayout",
    "PagedLayout",
    "PagedSnapshot",
    "Part",
    "Policy",
    "Produced",
    "Publication",
    "RaggedCall",
    "Reader",
    "Reading",
    "Request",
    "RowResult",
    "Scenario",
    "Selection",
    "ServiceRecorder",
    "ServiceView",
    "Snapshot",
    "Staging",
    "StaticBatches",
    "StaticLayout",
    "Stream",
    "Submit",
    "UpdateCache",
    "View",
    "WindowLayout",
    "WorkerStream",
    "accepted_drafts",
    "agrees",
    "allocate",
    "append",
    "append_ragged",
    "beam_search",
    "cached_logits",
    "default_device",
    "disagreement",
    "fan_out",
    "fault_for",
    "finish",
    "keep_rows",
    "make_backend",
    "most_rows",
    "open_stream",
    "plain_outputs",
    "positions_from",
    "reorder",
    "run_now",
    "select",
    "submit_on",
    "uncached_logits",
    "update",
]
