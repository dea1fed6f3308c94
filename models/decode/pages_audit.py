"""What must hold of a pool's book-keeping, checked against the holds that there are.

Modelled: conservation of blocks, reference counts, the free list, one writer a block, rows that are
shown and written at once, blocks given back too early. Left out: the rows themselves; whether they
are the right ones only a recomputation can tell.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from attrs import frozen


class Use(Enum):
    """What blocks are held for."""

    READER = "snapshot"
    WRITER = "append"


@frozen
class Holder:
    """Blocks that somebody holds.

    Attributes:
        use: what for.
        first: index of the first of them in a block table.
        blocks: the blocks, in the order of the table.
        rows: positions that are shown, or written, half-open.
    """

    use: Use
    first: int
    blocks: tuple[int, ...]
    rows: tuple[int, int]

    def places(self) -> Iterator[tuple[int, int]]:
        """Each block with its index in the table."""
        for offset, block in enumerate(self.blocks):
            yield block, self.first + offset

    def __str__(self) -> str:
        """The use and the rows."""
        return f"the {self.use.value} of rows [{self.rows[0]}, {self.rows[1]})"


def problems(
    block_size: int,
    references: Sequence[int],
    free: Sequence[int],
    holders: Sequence[Holder],
    late: Sequence[Holder],
) -> list[str]:
    """What is wrong, block by block; empty when every block is free once, or held as it is counted.

    ``late`` are holds whose blocks were given back while work on them is still in flight.
    """
    held = Counter(block for holder in holders for block in holder.blocks)
    listed = Counter(free)
    found: list[str] = []
    for block, counted in enumerate(references):
        if counted != held[block]:
            found.append(f"block {block} has {counted} references and {held[block]} holders")
        if listed[block] > 1:
            found.append(f"block {block} stands {listed[block]} times in the free list")
        if listed[block] and held[block]:
            found.append(f"block {block} is free and has {held[block]} holders")
        if not listed[block] and not held[block]:
            found.append(f"block {block} is neither free nor held")
    found += [f"block {block} does not exist" for block in listed if block >= len(references)]
    found += _displaced(holders)
    found += _written(block_size, holders)
    found += [f"{holder} was given back with work in flight" for holder in late]
    return found


def _displaced(holders: Iterable[Holder]) -> Iterator[str]:
    """A block stands at one index, in whatever table it is."""
    seen: dict[int, set[int]] = {}
    for holder in holders:
        for block, index in holder.places():
            seen.setdefault(block, set()).add(index)
    for block, indices in seen.items():
        if len(indices) > 1:
            yield f"block {block} stands at the indices {sorted(indices)}"


def _written(block_size: int, holders: Sequence[Holder]) -> Iterator[str]:
    """A block has one writer at most, and nobody shows the rows that it writes."""
    of_block: dict[int, list[Holder]] = {}
    for holder in holders:
        for block in holder.blocks:
            of_block.setdefault(block, []).append(holder)
    for writer in holders:
        if writer.use is not Use.WRITER:
            continue
        for block, index in writer.places():
            start = max(writer.rows[0], index * block_size)
            stop = min(writer.rows[1], (index + 1) * block_size)
            for other in of_block[block]:
                if other is writer:
                    continue
                if other.use is Use.WRITER:
                    yield f"block {block} has two writers, {writer} and {other}"
                elif max(start, other.rows[0]) < min(stop, other.rows[1]):
                    yield f"block {block} is written by {writer} and shown by {other}"
