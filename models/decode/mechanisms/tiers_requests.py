"""Requests of the two tiers: their handles, their blocks, and what the core system says of them.

Left out: committed rows beside the prompt; lengths are 0 throughout.
"""

from __future__ import annotations

from attrs import Factory, define

from kvspec.models.decode.mechanisms.tiers_rows import Buffer, empty

FREE = ("VACANT", "RELEASED")


@define
class Request:
    """A handle and the request that has it.

    Attributes:
        family: the request that filled its block: its own rows are those of that one.
        path: the nodes that it reads, from the shortest prefix on.
        table: the pages in which it reads them, as they were when it matched or cached them.
    """

    phase: str = "VACANT"
    generation: int = 0
    version: int = 0
    abi: int | None = None
    parent: int | None = None
    family: int = 0
    path: tuple[int, ...] = ()
    table: tuple[int, ...] = ()

    @property
    def is_held(self) -> bool:
        """Rows are held for it."""
        return self.phase not in FREE

    @property
    def matched(self) -> int | None:
        """The longest prefix that it reads."""
        return self.path[-1] if self.path else None


@define
class Lookup:
    """A lookup of a host slot, and which path it found there.

    Attributes:
        read: what became of the client's read.
        received: the client's buffer.
    """

    state: str = "UNUSED"
    slot: int | None = None
    seat: int = 0
    found: tuple[int, ...] = ()
    read: str = "NONE"
    received: Buffer = Factory(empty)

    @property
    def has_pin(self) -> bool:
        """It has begun and not ended."""
        return self.state == "OPEN"


@define
class Job:
    """A send: what the sender did, what the receiver has, and the path whose last rows are sent.

    Attributes:
        received: the receiver's buffer; a sender that does not find the rows leaves it as it is.
    """

    state: str = "UNUSED"
    node: int | None = None
    receiver: str = "NONE"
    has_notice: bool = False
    path: tuple[int, ...] = ()
    received: Buffer = Factory(empty)


@define
class Slot:
    """What a host buffer is for: a copy of a node, whole or under way, or a retracted request.

    Attributes:
        source: the page from which the copy is made.
    """

    copy_of: int | None = None
    source: int | None = None
    is_whole: bool = False
    kept_for: int | None = None
    pins: int = 0

    @property
    def is_empty(self) -> bool:
        """It is for nobody."""
        return self.copy_of is None and self.kept_for is None

    @property
    def is_storing(self) -> bool:
        """A copy is under way into it."""
        return self.copy_of is not None and not self.is_whole
