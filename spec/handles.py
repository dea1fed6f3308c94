"""Handles: the names under which requests keep their rows, and what each of them shows.

Modelled: a handle is an entry of a handle table that is used again after release, so a request is a
handle together with its generation. `generation` is advanced by release alone; `version` counts the
snapshots of one request, and stands for the snapshot digest, which an implementation computes from
handle, generation, version and content: two snapshots with the same three are the same snapshot.
`length` is the committed length; `k_rows` and `v_rows` are what a reader finds in each layer.

Left out: the values of rows, positions apart from rows (windows), physical addresses.
Assumed: the generation counter does not wrap; `wrapping` tells what happens when it does.
"""

from __future__ import annotations

from kvspec.spec.language import Enum, Expr, Module, Natural, Open, Option, member, none, one_of


class Handle(Open):
    """An entry of the handle table."""


class Layer(Open):
    """A layer that produces K and V rows."""


class Abi(Open):
    """All that must agree for a row to be read: artifact, adapters, schema, position rule."""


class Length(Natural):
    """Rows of a request, or the position of one."""


class Version(Natural):
    """Snapshots of one request so far."""


class Generation(Natural):
    """Requests that have used and released a handle."""


class Phase(Enum):
    """Where the request of a handle is in its life."""

    VACANT = member()
    DECODE_READY = member()
    FINISHED = member()
    CANCELLED = member()
    RELEASED = member()


handles = Module("handles", "Handles, their snapshots and their phases.")

context = handles.constant("context", Length, meaning="most rows that a request may commit")
rewind = handles.constant("rewind", Length, meaning="most rows that one truncate can take back")

phase = handles.variable(
    "phase", Handle, to=Phase, init=Phase.VACANT, meaning="phase of the request"
)
generation = handles.variable(
    "generation", Handle, to=Generation, init=0, meaning="releases of the handle so far"
)
version = handles.variable(
    "version", Handle, to=Version, init=0, meaning="snapshot of the request: stands for its digest"
)
abi = handles.variable(
    "abi", Handle, to=Option[Abi], init=none(Abi), meaning="cache ABI of the request's rows"
)
parent = handles.variable(
    "parent", Handle, to=Option[Handle], init=none(Handle), meaning="handle it was forked from"
)
length = handles.variable("length", Handle, to=Length, init=0, meaning="committed length")
k_rows = handles.variable(
    "k_rows", Handle, Layer, to=Length, init=0, meaning="K rows that a reader of the layer sees"
)
v_rows = handles.variable(
    "v_rows", Handle, Layer, to=Length, init=0, meaning="V rows that a reader of the layer sees"
)


def is_free(h: Expr) -> Expr:
    """The handle can be given to a new request."""
    return one_of(phase[h], Phase.VACANT, Phase.RELEASED)


def is_terminal(h: Expr) -> Expr:
    """The request has ended and its rows are still held."""
    return one_of(phase[h], Phase.FINISHED, Phase.CANCELLED)


def is_held(h: Expr) -> Expr:
    """The handle holds rows: it is ready, or ended and not released."""
    return one_of(phase[h], Phase.DECODE_READY, Phase.FINISHED, Phase.CANCELLED)
