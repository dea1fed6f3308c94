"""Prefix blocks and their owners: release gives up a claim, and only eviction frees.

Modelled: a block holds the prefix of one family of requests. The request that fills it owns it, and
so does every fork. A block is evicted when no handle owns it, and may then be filled again.
Left out: several blocks to a request, partly filled tails, reads still in flight at an eviction.
"""

from __future__ import annotations

from kvspec.spec.failures import BLOCK_EMPTY, STILL_OWNED
from kvspec.spec.handles import Handle, handles
from kvspec.spec.language import Bool, Module, Open, Step, forall


class Block(Open):
    """A physical block of prefix rows."""


prefix = Module("prefix", "Prefix blocks, their owners and their eviction.", uses=(handles,))

filled = prefix.variable("filled", Block, to=Bool, init=False, meaning="the block holds rows")
owner = prefix.variable(
    "owner", Block, Handle, to=Bool, init=False, meaning="the handle has a claim on the block"
)


@prefix.action
def evict(step: Step, b: Block) -> None:
    """Free a block that nobody owns."""
    step.require(filled[b], BLOCK_EMPTY)
    step.require(forall(Handle, lambda h: ~owner[b, h]), STILL_OWNED)
    step.assign(filled[b], False)
