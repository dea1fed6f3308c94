"""What the prefix index knows of a block: its entry, its readers, its epochs, and what its rows really are.

The rules that change these are in `index`.
"""

from __future__ import annotations

from kvspec.spec.append import CAPTURED, append, k_end, state, v_end
from kvspec.spec.failures import FailureClass, error_code
from kvspec.spec.handles import Abi, Handle, handles, is_free
from kvspec.spec.language import (
    Bool,
    Enum,
    Expr,
    Module,
    Natural,
    Open,
    Option,
    forall,
    member,
    none,
)
from kvspec.spec.lifecycle import lifecycle
from kvspec.spec.prefix import Block, filled, prefix


class Content(Open):
    """What the rows of a prefix are computed from."""


class Epoch(Natural):
    """How often memory was dropped, or weights were replaced."""


class EntryState(Enum):
    """Where the entry of a block is in its life."""

    ABSENT = member()
    RESERVED = member()
    COMPLETE = member()
    WITHDRAWN = member()


ASLEEP = error_code("ASLEEP", "the server sleeps and has no memory for rows")
NOT_ASLEEP = error_code("NOT_ASLEEP", "the server is awake")
BLOCK_INDEXED = error_code("BLOCK_INDEXED", "the block has an entry already")
TIER_CURRENT = error_code("TIER_CURRENT", "the tier has rows of the weights in use already")
NOT_RESERVED = error_code("NOT_RESERVED", "no load into the block is under way")
NOT_COMPLETE = error_code("NOT_COMPLETE", "the entry is not, or no longer, complete")
NOT_WITHDRAWN = error_code("NOT_WITHDRAWN", "the entry is not withdrawn")
OTHER_CONTENT = error_code("OTHER_CONTENT", "the entry is of another content", FailureClass.ABI)
STALE_MEMORY = error_code(
    "STALE_MEMORY", "the memory of the rows was dropped since", FailureClass.SNAPSHOT
)
STALE_WEIGHTS = error_code(
    "STALE_WEIGHTS", "the weights of the rows were replaced since", FailureClass.SNAPSHOT
)
STALE_TIER = error_code(
    "STALE_TIER", "the rows of the tier were computed by replaced weights", FailureClass.SNAPSHOT
)
READS_CORRUPT = error_code(
    "READS_CORRUPT", "the request reads rows that were found corrupt", FailureClass.OWNERSHIP
)
NOT_OWNER = error_code("NOT_OWNER", "the request did not fill the block", FailureClass.OWNERSHIP)
STILL_INDEXED = error_code(
    "STILL_INDEXED", "the index has a claim on the block", FailureClass.OWNERSHIP
)
STILL_READ = error_code("STILL_READ", "some request reads the block", FailureClass.OWNERSHIP)
REQUESTS_HELD = error_code("REQUESTS_HELD", "some request holds rows", FailureClass.OWNERSHIP)
LOADS_UNDER_WAY = error_code("LOADS_UNDER_WAY", "rows are being loaded", FailureClass.OWNERSHIP)

index = Module(
    "index",
    "The prefix index: entries, their readers, epochs and repair.",
    uses=(handles, prefix, append, lifecycle),
    writes=(
        filled,
        state,
        *(variable for variable, _ in CAPTURED),
        k_end,
        v_end,
    ),
)

prompt = index.variable(
    "prompt",
    Handle,
    to=Option[Content],
    init=none(Content),
    meaning="content that the request needs rows of",
)
entry = index.variable(
    "entry", Block, to=EntryState, init=EntryState.ABSENT, meaning="state of the block's entry"
)
entry_key = index.variable(
    "entry_key",
    Block,
    to=Option[Content],
    init=none(Content),
    meaning="content that the entry is found by",
)
entry_abi = index.variable(
    "entry_abi", Block, to=Option[Abi], init=none(Abi), meaning="ABI that the entry is found by"
)
entry_memory = index.variable(
    "entry_memory", Block, to=Epoch, init=0, meaning="epoch of memory at the entry's making"
)
entry_weights = index.variable(
    "entry_weights", Block, to=Epoch, init=0, meaning="epoch of weights at the entry's making"
)
kept = index.variable(
    "kept", Block, to=Bool, init=False, meaning="the index has a claim on the block"
)
reader = index.variable(
    "reader",
    Block,
    Handle,
    to=Bool,
    init=False,
    meaning="the request reads the indexed block",
)
corrupt = index.variable(
    "corrupt", Block, to=Bool, init=False, meaning="the rows of the entry were found corrupt"
)
memory = index.variable("memory", to=Epoch, init=0, meaning="how often memory was dropped")
weights = index.variable("weights", to=Epoch, init=0, meaning="how often weights were replaced")
tier_weights = index.variable(
    "tier_weights", to=Epoch, init=0, meaning="epoch of the weights that computed the tier's rows"
)
asleep = index.variable("asleep", to=Bool, init=False, meaning="the server has no memory for rows")
coming = index.variable(
    "coming",
    Block,
    to=Option[Content],
    init=none(Content),
    meaning="ghost: content of the rows that a load under way brings",
)
content = index.variable(
    "content",
    Block,
    to=Option[Content],
    init=none(Content),
    meaning="ghost: content that the rows really are of, none for no rows at all",
)
content_abi = index.variable(
    "content_abi",
    Block,
    to=Option[Abi],
    init=none(Abi),
    meaning="ghost: ABI that the rows, or those on their way, were really computed under",
)
content_weights = index.variable(
    "content_weights",
    Block,
    to=Epoch,
    init=0,
    meaning="ghost: epoch of the weights that really computed the rows, or those on their way",
)


def has_reader(b: Expr) -> Expr:
    """Some request reads the block through the index."""
    return ~forall(Handle, lambda h: ~reader[b, h])


def reads_corrupt(h: Expr) -> Expr:
    """The request reads a block that was found corrupt."""
    return ~forall(Block, lambda b: ~(reader[b, h] & corrupt[b]))


def nobody_holds_rows() -> Expr:
    """Every handle is free."""
    return forall(Handle, is_free)


def is_stale(b: Expr) -> Expr:
    """The block has an entry of an epoch that is over."""
    over = (entry_memory[b] < memory[()]) | (entry_weights[b] < weights[()])
    return (entry[b] != EntryState.ABSENT) & over
