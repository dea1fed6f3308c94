"""What an engine did, as a service trace: records, views with bytes and clocks, and the metrics of them.

Modelled: an engine's events are the records of `spec.documents.service`; the facts of each view are those
that the engine's policy could see, read off its rows; a round of the engine counts as one millisecond. The
document is then judged by its contracts, which take the records to the specification anew. Left out: drafts,
repairs, lost calls and handles that are given away again, of which a service trace has no record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import attrs
import torch

from kvspec.models.concrete.machine import Event
from kvspec.models.decode.config import DecoderConfig
from kvspec.models.decode.decoder import Decoder
from kvspec.models.decode.engine_calls import EngineCore
from kvspec.models.decode.engine_requests import Request
from kvspec.models.decode.engine_tables import Slot
from kvspec.models.decode.errors import BadConfigError
from kvspec.spec.documents.byte_trajectory import Rows
from kvspec.spec.documents.cache_abi import AXES, CacheAbi, coefficient
from kvspec.spec.documents.canonical import digest
from kvspec.spec.documents.manifest_record import (
    ArtifactIdentity,
    CacheSchema,
    PositionContract,
    Representation,
    Rope,
    Shard,
)
from kvspec.spec.documents.service import BYTES, CLOCKS, Record, Served, ServiceTrace
from kvspec.spec.documents.service_metrics import (
    Clocks,
    Limits,
    aggregate,
    area,
    request_metrics,
)
from kvspec.spec.formulas import committed_bytes

_COUNTS: Final = (
    "committed_tokens",
    "next_ordinary_append_tokens",
    "terminal_retained_tokens",
)
_AFTER_THE_CALL: Final = ("publish", "emit", "stop")
_UNFIT: Final = {
    "verify": "drafts, whose outputs come with their rows",
    "cancel_txn": "a call that was lost",
}


def cache_abi(decoder: Decoder) -> CacheAbi:
    """The ABI of the rows that a decoder produces.

    Raises:
        BadConfigError: no ABI has its dtype or its rotary base.
    """
    config = decoder.config
    if config.dtype == torch.float64 or config.rope_theta != int(config.rope_theta):
        raise BadConfigError(
            where="the cache ABI of a decoder",
            found=f"dtype {config.dtype} and rope_theta {config.rope_theta}",
            expected="float32, bfloat16 or float16, and a whole number",
            fix="use a decoder of such a config where a document is wanted",
        )
    return CacheAbi(
        ArtifactIdentity(decoder.weights.digest(), digest(_configuration(config)), (), ()),
        _schema(config),
        PositionContract(
            convention="absolute",
            origin=0,
            rope=Rope(int(config.rope_theta), config.head_dim, "halves", "none"),
            visibility="causal" if config.window is None else "causal-window",
            window=config.window,
        ),
    )


def _configuration(config: DecoderConfig) -> dict[str, Any]:
    """The config as JSON; numbers that are no integers as text."""
    fields = attrs.asdict(config)
    plain = (int, str, type(None))
    return {name: each if isinstance(each, plain) else str(each) for name, each in fields.items()}


def _schema(config: DecoderConfig) -> CacheSchema:
    dtype, heads = str(config.dtype).removeprefix("torch."), config.kv_heads
    return CacheSchema(
        family="full" if config.window is None else "sliding-window",
        layers=config.layers,
        kv_heads=heads,
        head_width=config.head_dim,
        key_bytes=config.dtype.itemsize,
        value_bytes=config.dtype.itemsize,
        positional_stage="post-rope",
        axes=AXES,
        representation=Representation(dtype, dtype, "none"),
        shard=Shard(1, 0, heads, 0, heads),
    )


def _name(request: int) -> str:
    return f"r{request}"


class ServiceRecorder:
    """Listens to one run of an engine, and makes a service trace of it."""

    def __init__(self, decoder: Decoder, requests: Sequence[Request]) -> None:
        self._abi = cache_abi(decoder)
        self._width = coefficient(self._abi)
        self._prompts = [len(each.prompt) for each in requests]
        self._clocks = [Clocks(None, (), None, None) for _ in requests]
        self._request_of: dict[int, int] = {}
        self._records: list[Record] = []
        self._unfit: str | None = None

    def __call__(self, core: EngineCore, event: Event) -> None:
        """Take an event down that was just carried out, with the view behind it."""
        values, action = event.names, event.action
        if action in _UNFIT:
            self._refuse(_UNFIT[action])
        handle = values.get("h", values.get("x"))
        if not isinstance(handle, int):
            return
        slot = core.tables.slots[handle]
        time = core.clock.rounds + (action in _AFTER_THE_CALL)
        if action == "allocate" and slot.request is not None:
            if slot.generation:
                self._refuse("a handle that was given away again")
            self._request_of[handle] = slot.request
            self._add(core, slot, time, "arrive", {"arrival": time})
        elif action in {"begin", "publish"}:
            self._rows(core, slot, time, action)
        elif action == "emit":
            index, token = len(slot.outputs) - 1, str(slot.outputs[-1])
            outputs = (*self._clocks[self._request_of[handle]].outputs, time)
            told = {"output_index": index, "token": token}
            self._add(core, slot, time, "emit", {"outputs": outputs}, **told)
        elif action == "stop":
            last = self._records.pop()
            told = {"output_index": last.output_index, "token": last.token}
            self._add(core, slot, time, "emit_and_finish", {"finish": time}, **told)
        elif action == "release":
            self._add(core, slot, time, "release", {"release": time})

    def trace(self, limits: Limits) -> ServiceTrace:
        """The trace of a run that is over.

        Raises:
            BadConfigError: the run has something in it that no service trace tells.
            ValueError: a request of it is not at its end.
        """
        if self._unfit is not None:
            raise BadConfigError(
                where="the service trace of an engine",
                found=self._unfit,
                expected="prefill, decode, outputs and one request a handle",
                fix="run without drafts and repairs, with a handle for each request",
            )
        requests, metrics = [], []
        for number, clocks in enumerate(self._clocks):
            name = _name(number)
            own = [each for each in self._records if each.request == name]
            held = [int(str(each.view["committed_tokens"])) for each in own]
            covered = area([each.time for each in own], held, self._width)
            requests.append(Served(name, self._prompts[number], len(clocks.outputs)))
            metrics.append(request_metrics(name, clocks, limits, covered))
        return ServiceTrace(
            cache_abi=self._abi,
            cache_abi_sha256=digest(self._abi),
            token_bytes=self._width,
            limits=limits,
            requests=tuple(requests),
            records=tuple(self._records),
            metrics=tuple(metrics),
            aggregate=aggregate(metrics, limits, sum(each.byte_time for each in metrics)),
        )

    def _refuse(self, found: str) -> None:
        self._unfit = self._unfit or found

    def _rows(self, core: EngineCore, slot: Slot, time: int, step: str) -> None:
        """The begin or the publication of rows; of decode steps the publication alone is told."""
        append = core.tables.appends[slot.handle]
        rows = Rows(append.start, append.count)
        if step == "begin" and slot.stopped:
            self._refuse("a repair")
        if append.start < len(slot.prompt):
            self._add(core, slot, time, f"{step}_prefill", rows=rows)
        elif step == "publish":
            self._add(core, slot, time, "publish_decode", rows=rows, token=str(append.tokens[0]))

    def _add(
        self,
        core: EngineCore,
        slot: Slot,
        time: int,
        operation: Any,
        ticks: Mapping[str, Any] = MappingProxyType({}),
        **more: Any,
    ) -> None:
        """A record with the view behind it; ticks: clocks of the request that it sets."""
        number = self._request_of[slot.handle]
        clocks = self._clocks[number] = attrs.evolve(self._clocks[number], **ticks)
        facts = core.facts(slot)
        first, last = facts["processed_generated_tokens"], facts["emitted_output_tokens"]
        payloads = (committed_bytes(facts[name], self._width) for name in _COUNTS)
        times = (clocks.arrival, clocks.outputs, clocks.finish, clocks.release)
        self._records.append(
            Record(
                time=time,
                request=_name(number),
                operation=operation,
                frontier=tuple(str(token) for token in slot.outputs[first:last]),
                view={
                    "request_id": _name(number),
                    **facts,
                    **dict(zip(BYTES, payloads, strict=True)),
                    **dict(zip(CLOCKS, times, strict=True)),
                },
                **{"rows": None, "output_index": None, "token": None, **more},
            )
        )
