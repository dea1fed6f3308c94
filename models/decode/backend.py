"""The decode backend: a transactional KV cache over a real decoder, driven by events of the core system.

Modelled: each handle of an instance is a slot of a handle table, each layer of the instance a layer
of a decoder with grouped-query attention, each ABI an adapter of it. Events are carried out on real
tensors: allocate computes the prompt's rows into a prefix block, an append computes the rows that its
events stage and installs them by one reference swap. What is accepted and what is refused is decided
by the backend's own checks on its own tables. Left out: a wire format, several devices.

`reset` takes any instance of the core system: the same variables and actions, whatever its sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kvspec.models.backend import Damage, Reply
from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State
from kvspec.models.decode.backend_appends import Appends, Txn
from kvspec.models.decode.backend_batch import BatchRows
from kvspec.models.decode.backend_damage import Meter
from kvspec.models.decode.backend_faults import known_faults, layout_faults
from kvspec.models.decode.backend_model import VOCAB, model_of
from kvspec.models.decode.backend_observe import READERS, Observer
from kvspec.models.decode.backend_reading import View, view_of
from kvspec.models.decode.backend_requests import Requests
from kvspec.models.decode.backend_tables import Batch, Pool, RefusedError, Slot, Tables
from kvspec.models.decode.backend_telemetry import Instrument
from kvspec.models.decode.completion import Submit, run_now
from kvspec.models.decode.config import DecoderConfig, concrete_device, default_device
from kvspec.models.decode.errors import BadConfigError, DecodeError
from kvspec.models.decode.kinds import LAYOUT_KINDS, StoreSizes, open_store
from kvspec.models.decode.shapes import CacheShape
from kvspec.models.telemetry.telemetry import Telemetry
from kvspec.spec.documents.closing import Closing
from kvspec.spec.language import Instance

ROOM = 4
"""How many times the largest context a preallocated layout has memory for, so that a faulty backend
that appends too often shows wrong rows instead of a full buffer."""


def _nothing() -> None:
    """The watcher of a backend that nobody watches."""


class DecodeBackend:
    """A KV cache that can be held against the core system (`kvspec.models.backend.Backend`).

    Attributes:
        layout: how rows are stored, one of `LAYOUT_KINDS`.
        device: where tensors live; by default CUDA where there is one.
        dtype: dtype of weights and rows.
        faults: the checks it forgets, by name (`FAULTS`).
        seed: seed of the weights.
        window: keys that a query of the decoder sees, its own among them; None lets it see all. The
            layout "window" then keeps no more rows than that takes, and refuses with CANNOT_REWIND a
            fork, or a second truncation in a row, to where rows are gone.
        submit: starts the writes of staged rows; a test may hold them back (`Deferral`).
        wait: prepare waits for these writes; else it refuses with K_INCOMPLETE or V_INCOMPLETE.
        watch: called after each visible change of a publication, under the backend's lock.
        telemetry: told of each step after it was taken; None tells nobody.

    Raises:
        BadConfigError: there is no such layout.
        ValueError: there is no such fault.
    """

    def __init__(
        self,
        layout: str = "dynamic",
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
        faults: tuple[str, ...] = (),
        seed: int = 0,
        *,
        window: int | None = None,
        submit: Submit = run_now,
        wait: bool = True,
        watch: Callable[[], None] = _nothing,
        telemetry: Telemetry | None = None,
    ) -> None:
        if layout not in LAYOUT_KINDS:
            raise BadConfigError(
                where="DecodeBackend",
                found=f"layout {layout!r}",
                expected="one of " + ", ".join(LAYOUT_KINDS),
                fix="name one of these",
            )
        self.layout = layout
        self.device = default_device() if device is None else concrete_device(torch.device(device))
        self.dtype = dtype
        self.faults = known_faults(tuple(faults))
        self.seed = seed
        self.window = window
        self.submit = submit
        self.wait = wait
        self.watch = watch
        self.telemetry = telemetry
        self._instrument: Instrument | None = None
        self._variables: list[str] = []
        self._actions: dict[str, Callable[..., None]] = {}
        self._tables: Tables | None = None
        self._requests: Requests | None = None

    def reset(self, instance: Instance) -> None:
        """Begin anew, with the sizes of an instance of the core system.

        Raises:
            ValueError: the instance is of a system with other variables, or pins initial values.
        """
        self._variables = list(instance.system.variables)
        unknown = sorted(set(self._variables) ^ READERS.keys())
        if unknown or instance.initial:
            raise ValueError(
                f"{instance.name}: found the variables {', '.join(unknown) or 'of the core system'} "
                f"and {len(instance.initial)} pinned initial values, expected an instance of the core "
                "system as it is: give this backend one of kvspec.spec.core"
            )
        self._tables = tables = self._make_tables(instance)
        appends = Appends(tables, [Txn() for _ in range(instance.sizes["Txn"])])
        self._requests = requests = Requests(tables, appends)
        batch = BatchRows(tables)
        self._observer = Observer(tables, appends)
        self._meter = Meter(tables, appends)
        self._actions = {
            "allocate": requests.allocate,
            "begin": appends.begin,
            "cancel_request": requests.cancel_request,
            "cancel_txn": appends.cancel_txn,
            "enter": batch.enter,
            "evict": requests.evict,
            "finish": requests.finish,
            "forget": appends.forget,
            "fork": requests.fork,
            "leave": batch.leave,
            "prepare": appends.prepare,
            "publish": appends.publish,
            "release": requests.release,
            "reorder": batch.reorder,
            "retry": appends.retry,
            "stage_k": appends.stage_k,
            "stage_v": appends.stage_v,
            "truncate": requests.truncate,
        }
        self._instrument = None
        if self.telemetry is not None:
            self._instrument = Instrument(tables, appends, self.telemetry)
            self._instrument.begin_run()

    def perform(self, event: Event) -> Reply:
        """Carry out an event, or refuse it with the code of the first check that fails.

        A refusal changes nothing, except that a stale publication rejects its append. A refusal by
        a layout, which only a window or faults can bring about, has the layout's code.
        """
        names: dict[str, Any] = dict(event.values)
        with self._held().lock:
            if self._instrument is None:
                return self._act(event.action, names)
            return self._instrument.follow(event.action, names, self._act)

    def feed(self, handle: int, tokens: tuple[int, ...]) -> None:
        """Name the tokens that the next append to a handle is for; by default they are made up.

        An append of another number of tokens takes none of them.
        """
        with self._held().lock:
            self._held().fed[handle] = tokens

    def emit(self, handle: int) -> int:
        """Put out the token that is most likely next, given the rows that a reader of the handle sees.

        Its own rows are not appended by that.

        Raises:
            NotReadableError: the handle is vacant or released.
        """
        with self._held().lock:
            token = int(self._meter.logits(handle).argmax())
            if self._instrument is not None:
                self._instrument.emitted(handle, token)
        return token

    def closing(self) -> Closing:
        """Where each request stands that telemetry was told of, read off the tables; none without it."""
        with self._held().lock:
            if self._instrument is None:
                return Closing(is_all=False, sources=(), handles=())
            return self._instrument.closing()

    def observe(self) -> State:
        """The state as the specification's variables; see `backend_observe`."""
        with self._held().lock:
            return self._observer.state(self._variables)

    def damage(self) -> list[Damage]:
        """Every harm that can be measured now; see `backend_damage`."""
        with self._held().lock:
            return self._meter.damage()

    def read(self, handle: int) -> View:
        """A handle as one reader sees it, all layers of one snapshot; takes no lock.

        Raises:
            NotReadableError: the handle is vacant or released.
        """
        return view_of(self._held(), handle)

    def logits(self, handle: int) -> Tensor:
        """Next-token logits [vocab], from the rows that a reader of the handle sees.

        Raises:
            NotReadableError: the handle is vacant or released.
        """
        self._held()
        return self._meter.logits(handle)

    def uncached_logits(self, handle: int) -> Tensor:
        """Next-token logits [vocab], from an uncached run over prompt and committed tokens.

        Raises:
            NotReadableError: the handle is vacant or released.
        """
        self._held()
        return self._meter.uncached(handle)

    def _act(self, action: str, names: dict[str, Any]) -> Reply:
        """Carry out an action, or answer with the code of the check that failed."""
        try:
            self._actions[action](**names)
        except RefusedError as refused:
            return Reply(False, refused.code, refused.detail)
        except DecodeError as refused:
            return Reply(False, refused.code, str(refused))
        return Reply(True)

    def _held(self) -> Tables:
        if self._tables is None:
            raise ValueError("the decode backend has no instance: call reset(instance) first")
        return self._tables

    def _make_tables(self, instance: Instance) -> Tables:
        sizes = instance.sizes
        layers = sizes["Layer"]
        config = DecoderConfig(
            layers=layers, vocab=VOCAB, dtype=self.dtype, window=self.window, seed=self.seed
        )
        shape = CacheShape.of(config, self.device)
        rewind = int(instance.constants["rewind"] or 0)
        rows = ROOM * instance.bounds["Length"] + ROOM
        # The logits behind the last row are read by a query at its own position, which looks one row
        # further back than the next append does.
        seen = None if self.window is None else self.window + 1
        room = StoreSizes(rows, layouts=sizes["Handle"], window=seen, rewind=rewind)
        return Tables(
            kind=self.layout,
            store=open_store(self.layout, shape, room, layout_faults(self.faults)),
            shape=shape,
            models=[model_of(config, abi, self.device) for abi in range(sizes["Abi"])],
            context=int(instance.constants["context"] or 0),
            rewind=rewind,
            longest=instance.bounds["Length"],
            faults=self.faults,
            submit=self.submit,
            wait=self.wait,
            watch=self.watch,
            slots=[Slot(handle) for handle in range(sizes["Handle"])],
            pool=Pool(sizes["Block"], shape),
            batch=Batch(sizes["Row"]),
        )


def make_backend(
    layout: str = "dynamic", faults: tuple[str, ...] = (), **options: Any
) -> DecodeBackend:
    """A decode backend by layout and faults; ``options`` are those of `DecodeBackend`."""
    return DecodeBackend(layout, faults=faults, **options)
