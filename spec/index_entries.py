"""What the prefix index knows of a block: its entry, its readers, its epochs, and what its rows really are.

The rules that change these are in `index`.
"""

from __future__ import annotations

from kvspec.spec.append import CAPTURED, append, k_end, state, v_end
from kvspec.spec.failures import FailureClass
from kvspec.spec.handles import Abi, Handle, handles, is_free
from kvspec.spec.language import (
    Bool,
    Enum,
    ErrorCode,
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


def _code(name: str, kind: FailureClass, meaning: str) -> ErrorCode:
    return ErrorCode(name, meaning, int(kind))


ASLEEP = _code("ASLEEP", FailureClass.NONE, "the server sleeps and has no memory for rows")
NOT_ASLEEP = _code("NOT_ASLEEP", FailureClass.NONE, "the server is awake")
BLOCK_INDEXED = _code("BLOCK_INDEXED", FailureClass.NONE, "the block has an entry already")
TIER_CURRENT = _code(
    "TIER_CURRENT", FailureClass.NONE, "the tier has rows of the weights in use already"
)
NOT_RESERVED = _code("NOT_RESERVED", FailureClass.NONE, "no load into the block is under way")
NOT_COMPLETE = _code("NOT_COMPLETE", FailureClass.NONE, "the entry is not, or no longer, complete")
NOT_WITHDRAWN = _code("NOT_WITHDRAWN", FailureClass.NONE, "the entry is not withdrawn")
OTHER_CONTENT = _code("OTHER_CONTENT", FailureClass.ABI, "the entry is of another content")
STALE_MEMORY = _code(
    "STALE_MEMORY", FailureClass.SNAPSHOT, "the memory of the rows was dropped since"
)
STALE_WEIGHTS = _code(
    "STALE_WEIGHTS", FailureClass.SNAPSHOT, "the weights of the rows were replaced since"
)
STALE_TIER = _code(
    "STALE_TIER", FailureClass.SNAPSHOT, "the rows of the tier were computed by replaced weights"
)
READS_CORRUPT = _code(
    "READS_CORRUPT", FailureClass.OWNERSHIP, "the request reads rows that were found corrupt"
)
NOT_OWNER = _code("NOT_OWNER", FailureClass.OWNERSHIP, "the request did not fill the block")
STILL_INDEXED = _code("STILL_INDEXED", FailureClass.OWNERSHIP, "the index has a claim on the block")
STILL_READ = _code("STILL_READ", FailureClass.OWNERSHIP, "some request reads the block")
REQUESTS_HELD = _code("REQUESTS_HELD", FailureClass.OWNERSHIP, "some request holds rows")
LOADS_UNDER_WAY = _code("LOADS_UNDER_WAY", FailureClass.OWNERSHIP, "rows are being loaded")

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
