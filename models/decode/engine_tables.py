"""What a serving engine keeps of its requests and appends, in the words of the serving system.

Modelled: a slot for each handle and one append for each, observed as the variables of `spec.serving` and the
decisions of `spec.scheduling`. Lengths are those that a reader of the rows sees, staged rows those that an
append holds, and which rows were computed for which tokens is what the model was told. Left out: batch rows,
receipts that are asked for again, forks; their variables keep their initial values.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import attrs

from kvspec.models.concrete.state import State, Value
from kvspec.models.decode.hooks import Part
from kvspec.models.decode.kinds import AnyLayout
from kvspec.models.decode.staging import Staging
from kvspec.spec.append import TxnState
from kvspec.spec.handles import Phase


def _name(member: Any) -> str:
    """The name of a member of an enumeration, as states tell it."""
    return str(member)


VACANT, READY = _name(Phase.VACANT), _name(Phase.DECODE_READY)
FINISHED, RELEASED = _name(Phase.FINISHED), _name(Phase.RELEASED)
IDLE, OPEN = _name(TxnState.IDLE), _name(TxnState.OPEN)
PREPARED, PUBLISHED = _name(TxnState.PREPARED), _name(TxnState.PUBLISHED)
ABORTED = _name(TxnState.ABORTED)


@attrs.define(eq=False)
class Slot:
    """A handle and the request that has it.

    Attributes:
        request: its number, or None.
        layout: its rows, or None where there are none.
        prompt, outputs: its tokens.
        computed_for: the token that each visible row was computed for.
        last_length: rows that it had when they were given up.
        is_filled: its memory is not free yet.
        is_repairing: its last output is to get a row.
        chunk, batch: what a policy decided about it last.
    """

    handle: int
    phase: str = VACANT
    generation: int = 0
    version: int = 0
    abi: int | None = None
    request: int | None = None
    layout: AnyLayout | None = None
    prompt: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    stopped: bool = False
    computed_for: tuple[int, ...] = ()
    last_length: int = 0
    is_filled: bool = False
    is_repairing: bool = False
    chunk: int = 0
    batch: int | None = None

    @property
    def tokens(self) -> tuple[int, ...]:
        """Prompt and outputs."""
        return self.prompt + self.outputs

    @property
    def rows(self) -> AnyLayout:
        """The rows of a slot that has some."""
        if self.layout is None:
            raise ValueError(f"handle {self.handle} has no rows: allocate it first")
        return self.layout

    @property
    def length(self) -> int:
        """Committed rows, as its layout shows them."""
        return self.last_length if self.layout is None else self.layout.length

    def shown(self, part: Part, layers: int) -> list[int]:
        """Rows of one part that a reader of each layer sees."""
        side = 0 if part is Part.KEY else 1
        if self.layout is None:
            return [0] * layers
        return [pair[side] for pair in self.layout.lengths()]

    @property
    def own(self) -> int:
        """Leading rows that were computed for the tokens at their positions."""
        pairs = zip(self.computed_for, self.tokens, strict=False)
        return next(
            (place for place, (found, token) in enumerate(pairs) if found != token),
            min(len(self.computed_for), len(self.tokens)),
        )


@attrs.define(eq=False)
class Append:
    """The append of one handle, by the names of `spec.append` and `spec.frontier`.

    Attributes:
        staging: its rows while it is under way, and after their publication until it is forgotten.
        tokens: that its rows are computed for.
    """

    state: str = IDLE
    target: int | None = None
    base_generation: int = 0
    base_version: int = 0
    txn_abi: int | None = None
    key: int | None = None
    start: int = 0
    count: int = 0
    receipt: int = 0
    drafts: int = 0
    accepted: int = 0
    base_tokens: int = 0
    staging: Staging | None = None
    tokens: tuple[int, ...] = ()

    def ends(self, part: Part, layers: int) -> list[int]:
        """The position behind the last staged row of one part, for each layer."""
        staged = {} if self.staging is None else self.staging.staged()
        return [staged.get((layer, part), (0, self.start))[1] for layer in range(layers)]

    def abort(self) -> None:
        """Throw the rows away, and claim nothing any more."""
        if self.staging is not None:
            self.staging.discard()
        self._become(Append(state=ABORTED, start=self.start, count=self.count))

    def forget(self) -> None:
        """Drop the record."""
        self._become(Append())

    def _become(self, other: Append) -> None:
        for field in attrs.fields(Append):
            setattr(self, field.name, getattr(other, field.name))


@attrs.define(eq=False)
class EngineTables:
    """All slots and appends of an engine.

    Attributes:
        layers: of its rows.
        initial: each variable of the system at its start, in the system's order.
    """

    slots: list[Slot]
    appends: list[Append]
    layers: int
    initial: dict[str, tuple[Value, ...]]

    def observe(self) -> State:
        """The state now; what no engine has keeps its initial values.

        Raises:
            KeyError: a variable has no reader, and is none that an engine lacks.
        """
        return State(
            tuple(
                start if name in ABSENT else tuple(READERS[name](self))
                for name, start in self.initial.items()
            )
        )


Reader = Callable[[EngineTables], list[Value]]


def _slots(read: Callable[[Slot], Value]) -> Reader:
    return lambda of: [read(slot) for slot in of.slots]


def _appends(read: Callable[[Append], Value]) -> Reader:
    return lambda of: [read(append) for append in of.appends]


def _rows(part: Part) -> Reader:
    return lambda of: [rows for slot in of.slots for rows in slot.shown(part, of.layers)]


def _ends(part: Part) -> Reader:
    return lambda of: [end for append in of.appends for end in append.ends(part, of.layers)]


def _owners(of: EngineTables) -> list[Value]:
    """Block b is the memory of handle b, which alone can have a claim on it."""
    return [a is b and a.layout is not None for b in of.slots for a in of.slots]


READERS: dict[str, Reader] = {
    "phase": _slots(lambda slot: slot.phase),
    "generation": _slots(lambda slot: slot.generation),
    "version": _slots(lambda slot: slot.version),
    "abi": _slots(lambda slot: slot.abi),
    "length": _slots(lambda slot: slot.length),
    "k_rows": _rows(Part.KEY),
    "v_rows": _rows(Part.VALUE),
    "filled": _slots(lambda slot: slot.is_filled),
    "owner": _owners,
    **{
        field.name: _appends(attrgetter(field.name))
        for field in attrs.fields(Append)
        if field.name not in {"staging", "tokens"}
    },
    "k_end": _ends(Part.KEY),
    "v_end": _ends(Part.VALUE),
    "prompt": _slots(lambda slot: len(slot.prompt)),
    "emitted": _slots(lambda slot: len(slot.outputs)),
    "stopped": _slots(lambda slot: slot.stopped),
    "own": _slots(lambda slot: slot.own),
    "batch_id": _slots(lambda slot: slot.batch),
    "prefill_chunk_size": _slots(lambda slot: slot.chunk),
}
"""How a variable of the scheduling system is read off an engine."""

ABSENT = frozenset(
    {
        "parent",
        *("row_cache", "row_tokens", "row_sampler", "row_ancestry", "row_position"),
        *("acked", "ack_handle", "ack_key", "ack_base", "ack_count", "ack_receipt"),
        *("admitted", "priority", "preempted", "run_next"),
    }
)
"""The variables of what an engine does not have: forks, batch rows, asked receipts, other decisions."""
