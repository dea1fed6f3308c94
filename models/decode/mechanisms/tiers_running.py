"""What runs beside the two tiers: appends that have begun, and the batch rows that carry requests.

Left out: staging and publication of rows, so that an append is open until it is aborted.
"""

from __future__ import annotations

from attrs import define

from kvspec.models.concrete.state import Value


@define
class Append:
    """An append: its state, what it captured at begin, and its interval, which begins at 0."""

    state: str = "IDLE"
    target: int | None = None
    base_generation: int = 0
    base_version: int = 0
    txn_abi: int | None = None
    key: int | None = None
    count: int = 0

    def abort(self) -> None:
        """End it; what it captured is gone, and its interval stays on record."""
        self.state, self.target, self.txn_abi, self.key = "ABORTED", None, None, None
        self.base_generation = self.base_version = 0


@define
class Carried:
    """A batch row and its companions."""

    row_cache: int | None = None
    row_ancestry: int | None = None


_APPEND = ("state", "target", "base_generation", "base_version", "txn_abi", "key", "count")


class Running:
    """The appends and the batch of a cache."""

    def __init__(self, txns: int, rows: int, layers: int) -> None:
        self.appends = [Append() for _ in range(txns)]
        self.batch = [Carried() for _ in range(rows)]
        self._layers = layers

    def appends_to(self, h: int, generation: int) -> list[Append]:
        """The open appends to the request that a handle has now."""
        return [
            each
            for each in self.appends
            if each.state == "OPEN" and (each.target, each.base_generation) == (h, generation)
        ]

    def carries(self, h: int) -> bool:
        """Some batch row carries the handle."""
        return any(row.row_cache == h for row in self.batch)

    def seen(self) -> dict[str, list[Value]]:
        """The core's variables of appends and batch rows."""
        none: list[Value] = [0] * len(self.appends)
        carried: list[Value] = [row.row_cache for row in self.batch]
        blank: list[Value] = [None] * len(self.appends)
        return {
            **{name: [getattr(each, name) for each in self.appends] for name in _APPEND},
            "start": none,
            "k_end": none * self._layers,
            "v_end": none * self._layers,
            "receipt": none,
            "acked": [False] * len(self.appends),
            "ack_handle": blank,
            "ack_key": blank,
            "ack_base": none,
            "ack_count": none,
            "ack_receipt": none,
            "row_cache": carried,
            "row_tokens": carried,
            "row_sampler": carried,
            "row_ancestry": [row.row_ancestry for row in self.batch],
            "row_position": [0] * len(self.batch),
        }
