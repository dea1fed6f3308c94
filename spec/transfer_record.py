"""What a transfer is: its record, its two ends, and the notices about it. `transfer` has the actions.

A transfer is named by its writer and key, so that tries of the same one are told apart by their number alone.
`content` and `kept` are what is really there, which no engine knows and no guard asks; `arriving`,
`entry_state`, `stage`, `lease` and the pins are what an engine goes by. Only what a sender itself does next
depends on `sender`.
Left out: where bytes are while they move.
"""

from __future__ import annotations

from kvspec.spec.append import append
from kvspec.spec.failures import FailureClass, error_code
from kvspec.spec.handles import Generation, Handle, Layer, Phase, generation, handles, phase
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
    one_of,
    the,
)
from kvspec.spec.lifecycle import lifecycle
from kvspec.spec.prefix import Block, prefix


class Transfer(Open):
    """A transfer by its writer and key: tries of the same one are told apart by their number."""


class Entry(Open):
    """A place of the outer tier that rows are kept in under a key."""


class Notice(Open):
    """A sender's message that it writes no more for an attempt."""


class Attempt(Natural):
    """Tries of a transfer so far."""


class Fill(Natural):
    """Requests that a block was given to afresh."""


class Stage(Enum):
    """Where a transfer is: over in VISIBLE and DRAINED, cancelled at once in QUEUED alone."""

    IDLE = member()
    QUEUED = member()
    RUNNING = member()
    WRITTEN = member()
    VISIBLE = member()
    FAILED = member()
    DRAINED = member()


class Direction(Enum):
    """Which end is the source."""

    LOAD = member()
    STORE = member()


class Waiter(Enum):
    """The end that waits for notices and timeouts of a transfer."""

    ABSENT = member()
    WAITING = member()
    CLOSED = member()


class Sender(Enum):
    """What the sender really does, which nobody else knows: it writes as long as it pushes."""

    QUIET = member()
    PUSHING = member()
    DEAD = member()


class Lease(Enum):
    """What the ends of a transfer go by: its sender may write, has said that it writes no more, or may not.

    Where a lease has ended, or was never given, the target refuses what the sender writes.
    """

    ENDED = member()
    HELD = member()
    RETURNED = member()


class Content(Enum):
    """What is really in a layer of a block: a freed one has rows of whoever had it."""

    NOTHING = member()
    ROWS = member()
    FOREIGN = member()


class EntryState(Enum):
    """What a lookup finds of an entry: it hits what is VISIBLE."""

    ABSENT = member()
    RESERVED = member()
    VISIBLE = member()


class NoticeState(Enum):
    """Where a notice is."""

    UNUSED = member()
    IN_FLIGHT = member()
    TAKEN = member()
    LOST = member()


TRANSFER_IN_USE = error_code("TRANSFER_IN_USE", "an attempt of the transfer is not over")
ENTRY_IN_USE = error_code("ENTRY_IN_USE", "the entry holds rows, or another transfer writes it")
ENTRY_NOT_VISIBLE = error_code("ENTRY_NOT_VISIBLE", "a lookup does not find the entry")
TRANSFER_NOT_QUEUED = error_code("TRANSFER_NOT_QUEUED", "the transfer is not queued")
CANCEL_UNSAFE = error_code(
    "CANCEL_UNSAFE", "bytes move: the transfer can be given up, not cancelled"
)
NOT_PUSHING = error_code("NOT_PUSHING", "the sender writes nothing any more")
CHUNKS_MISSING = error_code("CHUNKS_MISSING", "some layer is not written yet")
NOTICE_IN_USE = error_code("NOTICE_IN_USE", "the notice was sent already")
NOTICE_NOT_IN_FLIGHT = error_code("NOTICE_NOT_IN_FLIGHT", "the notice is not on its way")
NOT_TAKEN = error_code("NOT_TAKEN", "the notice has not arrived before")
LATE_NOTICE = error_code("LATE_NOTICE", "the notice is of an earlier attempt")
REPEATED_NOTICE = error_code("REPEATED_NOTICE", "the attempt takes no notice any more")
EARLY_NOTICE = error_code("EARLY_NOTICE", "nobody waits for the notice yet")
WAITER_REGISTERED = error_code("WAITER_REGISTERED", "the end that waits was registered already")
NO_END_WAITS = error_code(
    "NO_END_WAITS", "no end is registered that a timeout or a cancel could reach"
)
TRANSFER_NOT_RUNNING = error_code("TRANSFER_NOT_RUNNING", "the transfer does not run")
TRANSFER_NOT_GIVEN_UP = error_code("TRANSFER_NOT_GIVEN_UP", "the transfer was not given up")
LEASE_ENDED = error_code(
    "LEASE_ENDED", "the lease has run out: the peer may not touch the rows", FailureClass.OWNERSHIP
)
NO_LEASE = error_code("NO_LEASE", "the sender has no lease that could end")
STILL_PUSHING = error_code("STILL_PUSHING", "the sender may still write to the target")
NOT_WRITTEN = error_code("NOT_WRITTEN", "the transfer was not written completely")
OTHER_DIRECTION = error_code("OTHER_DIRECTION", "the transfer goes the other way")
REQUEST_GONE = error_code(
    "REQUEST_GONE", "the request that the load serves has ended", FailureClass.SNAPSHOT
)
ROWS_ARRIVING = error_code(
    "ROWS_ARRIVING", "rows of the request are still being loaded", FailureClass.FRONTIER
)
NOT_OWNED = error_code("NOT_OWNED", "the request has no claim on the block", FailureClass.OWNERSHIP)
ROWS_NOT_MISSING = error_code("ROWS_NOT_MISSING", "the rows of the block are there")
ROWS_COMMITTED = error_code(
    "ROWS_COMMITTED", "committed rows of the request are in the block", FailureClass.FRONTIER
)
BLOCK_SHARED = error_code(
    "BLOCK_SHARED", "another request has a claim on the block too", FailureClass.OWNERSHIP
)
BLOCK_PINNED = error_code("BLOCK_PINNED", "a transfer pins the block", FailureClass.OWNERSHIP)
BLOCK_READ = error_code("BLOCK_READ", "an open append reads the block", FailureClass.OWNERSHIP)
ENTRY_PINNED = error_code("ENTRY_PINNED", "a transfer pins the entry", FailureClass.OWNERSHIP)

transfer = Module(
    "transfer",
    "Loads and stores as transactions between two ends.",
    uses=(handles, prefix, append, lifecycle),
)

stage = transfer.variable(
    "stage", Transfer, to=Stage, init=Stage.IDLE, meaning="where the transfer is"
)
attempt = transfer.variable(
    "attempt", Transfer, to=Attempt, init=0, meaning="number of its last attempt"
)
direction = transfer.variable(
    "direction", Transfer, to=Direction, init=Direction.LOAD, meaning="which way it goes"
)
serves = transfer.variable(
    "serves", Transfer, to=Option[Handle], init=none(Handle), meaning="handle that it serves"
)
serves_generation = transfer.variable(
    "serves_generation", Transfer, to=Generation, init=0, meaning="incarnation that it serves"
)
block = transfer.variable(
    "block", Transfer, to=Option[Block], init=none(Block), meaning="its end on the device"
)
entry = transfer.variable(
    "entry", Transfer, to=Option[Entry], init=none(Entry), meaning="its end in the tier"
)
block_pin = transfer.variable(
    "block_pin", Transfer, to=Bool, init=False, meaning="it pins its block"
)
entry_pin = transfer.variable(
    "entry_pin", Transfer, to=Bool, init=False, meaning="it pins its entry"
)
waiter = transfer.variable(
    "waiter", Transfer, to=Waiter, init=Waiter.ABSENT, meaning="the end that waits for it"
)
remembered = transfer.variable(
    "remembered", Transfer, to=Bool, init=False, meaning="its report came before anybody waited"
)
sender = transfer.variable(
    "sender", Transfer, to=Sender, init=Sender.QUIET, meaning="what its sender does"
)
lease = transfer.variable(
    "lease",
    Transfer,
    to=Lease,
    init=Lease.ENDED,
    meaning="the sender's right to write, as both ends know it",
)
landed = transfer.variable(
    "landed", Transfer, Layer, to=Bool, init=False, meaning="the sender has written the layer"
)
base_fill = transfer.variable(
    "base_fill", Transfer, to=Fill, init=0, meaning="filling of its block that it is about"
)
fill = transfer.variable(
    "fill", Block, to=Fill, init=0, meaning="times that the block was given to a new request"
)
arriving = transfer.variable(
    "arriving", Block, to=Bool, init=False, meaning="readiness flag: rows are not there yet"
)
content = transfer.variable(
    "content",
    Block,
    Layer,
    to=Content,
    init=Content.NOTHING,
    meaning="what a reader would find in the block",
)
entry_state = transfer.variable(
    "entry_state",
    Entry,
    to=EntryState,
    init=EntryState.ABSENT,
    meaning="what a lookup finds",
)
kept = transfer.variable(
    "kept",
    Entry,
    Layer,
    to=Bool,
    init=False,
    meaning="the entry really has the rows of the layer",
)
notice_state = transfer.variable(
    "notice_state", Notice, to=NoticeState, init=NoticeState.UNUSED, meaning="where the notice is"
)
notice_of = transfer.variable(
    "notice_of",
    Notice,
    to=Option[Transfer],
    init=none(Transfer),
    meaning="transfer that it reports",
)
notice_attempt = transfer.variable(
    "notice_attempt", Notice, to=Attempt, init=0, meaning="attempt that it reports"
)


def is_over(t: Expr) -> Expr:
    """No attempt of the transfer is under way."""
    return one_of(stage[t], Stage.IDLE, Stage.VISIBLE, Stage.DRAINED)


def is_load(t: Expr) -> Expr:
    """The transfer brings rows to a block."""
    return direction[t] == Direction.LOAD


def serves_a_ready_request(t: Expr) -> Expr:
    """The incarnation that asked for the transfer is still generating."""
    h = the(serves[t])
    return (generation[h] == serves_generation[t]) & (phase[h] == Phase.DECODE_READY)


def pins_block(t: Expr, b: Expr) -> Expr:
    """The transfer pins that block."""
    return block_pin[t] & (block[t] == b)


def pins_entry(t: Expr, e: Expr) -> Expr:
    """The transfer pins that entry."""
    return entry_pin[t] & (entry[t] == e)


def is_complete(t: Expr) -> Expr:
    """The sender has written every layer."""
    return forall(Layer, lambda l: landed[t, l])
