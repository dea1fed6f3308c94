"""Readers on streams of their own: a snapshot at one moment, read behind its publication.

Modelled: a reader takes what is visible, as one reference, puts its stream behind the event of the
publication, and hands the reading in; the host goes on at once. The result is there when the reading's
own event has fired. Until then the reading's stream holds the snapshot, so that no layout gives its
memory away: the allocator is told of the stream (`completion.borrow`), and pools of blocks count the
snapshots that are held. Left out: reading of a handle whose block is evicted meanwhile; the
specification leaves reads in flight out too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from attrs import define, field, frozen
from torch import Tensor

from kvspec.models.decode.backend_reading import View
from kvspec.models.decode.completion import Completion
from kvspec.models.decode.layouts import Layout, MixableSnapshot, Publication
from kvspec.models.decode.shapes import Snapshot
from kvspec.models.decode.streams import Stream

V = TypeVar("V")
S = TypeVar("S", bound=MixableSnapshot)
R = TypeVar("R")

Layers = list[tuple[Tensor, Tensor]]
"""K and V of each layer."""


@define(eq=False)
class _Result(Generic[R]):
    """Where a reading leaves what it found, or what it raised."""

    held: list[R] = field(factory=list)
    error: Exception | None = None

    def fill(self, look: Callable[[V], R], seen: V) -> None:
        """Look, on the reader's stream; what that raises is no failure of the stream."""
        try:
            self.held.append(look(seen))
        except Exception as error:  # noqa: BLE001 - raised again where the result is asked for
            self.error = error


@frozen(eq=False)
class Reading(Generic[R]):
    """A reading under way.

    Attributes:
        done: the event behind it on the reader's stream.
    """

    done: Completion
    _box: _Result[R]

    def is_complete(self) -> bool:
        """The result is there; asked without blocking."""
        return self.done.is_complete()

    def result(self) -> R:
        """What was read, once the event has fired.

        Tensors in it were made on the reader's stream: `completion.borrow` them for longer use on
        another one.

        Raises:
            StreamFailedError: earlier work on the reader's stream raised.
            Exception: what looking at the snapshot raised.
        """
        self.done.wait()
        if self._box.error is not None:
            raise self._box.error
        return self._box.held[0]


@frozen
class Reader:
    """One who reads on a stream.

    Attributes:
        stream: where its reading is done; not the stream of a writer.
    """

    stream: Stream

    def read(self, publication: Publication[V], look: Callable[[V], R]) -> Reading[R]:
        """Start ``look`` on what was published, behind its event; returns at once."""
        self.stream.wait_event(publication.landed)
        box: _Result[R] = _Result()
        seen = publication.seen
        done = self.stream.launch(lambda: box.fill(look, seen))
        return Reading(done, box)

    def copy(self, layout: Layout[S]) -> Reading[Layers]:
        """Start copying all layers of the snapshot that is visible now.

        Raises:
            ReleasedRowsError: the handle's rows were given up.
        """
        layers = layout.shape.layers
        return self.read(layout.publication(), lambda seen: copied(seen, layers))

    def copy_view(self, view: View) -> Reading[Layers]:
        """Start copying all layers of a handle of the backend, prefix rows first.

        The backend settles what it publishes, so that there is no event to follow.
        """
        return self.read(Publication(view), lambda seen: _cloned(seen.layers()))


def copied(snapshot: Snapshot, layers: int) -> Layers:
    """K and V of each layer in memory of their own, [B, H_kv, R, d_h] each."""
    return _cloned([snapshot.read(layer) for layer in range(layers)])


def _cloned(layers: Layers) -> Layers:
    return [(keys.clone(), values.clone()) for keys, values in layers]
