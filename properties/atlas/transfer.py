"""Faults of transfers seen in public: ends given back early, reports of another attempt, rows not there."""

from __future__ import annotations

import attrs

from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.faults import also, drop_guard, loosen, put
from kvspec.properties.transfer import transfer as claims
from kvspec.spec.handles import Handle
from kvspec.spec.language import (
    FALSE,
    Action,
    Counts,
    Expr,
    Instance,
    Limit,
    Step,
    exists,
    forall,
    limit,
    the,
    where,
)
from kvspec.spec.lifecycle import cancel_request, finish
from kvspec.spec.prefix import Block
from kvspec.spec.transfer import (
    acknowledge_abort,
    crash,
    deliver,
    drain,
    drop,
    give_up,
    land,
    lose,
    make_instance,
    place,
    push,
    queue_store,
    register,
    repeat,
    system,
)
from kvspec.spec.transfer_record import (
    LATE_NOTICE,
    LEASE_ENDED,
    ROWS_ARRIVING,
    STILL_PUSHING,
    Entry,
    EntryState,
    Lease,
    Stage,
    Transfer,
    Waiter,
    arriving,
    attempt,
    block_pin,
    entry,
    entry_state,
    is_load,
    lease,
    pins_block,
    serves,
    stage,
    waiter,
)


def _drop_the_pin(step: Step, t: Transfer) -> None:
    step.assign(block_pin[t], False)


def _close_the_wait(step: Step, h: Handle) -> None:
    for t in step.every(Transfer):
        hit = (serves[t] == h) & (waiter[t] == Waiter.WAITING) & (stage[t] == Stage.RUNNING)
        step.assign(waiter[t], where(hit, Waiter.CLOSED, waiter[t]))


ABORT_UNPINS = also(
    system,
    give_up,
    _drop_the_pin,
    name="unpins-at-once",
    says="gives the block back when the abort is sent, while the sender may still write",
)
DRAINED_EARLY = drop_guard(
    system,
    drain,
    STILL_PUSHING,
    "gives both ends back without waiting for the sender's word or the end of its lease",
)
ONLY_ACKNOWLEDGED = loosen(
    system,
    drain,
    STILL_PUSHING,
    lambda t: lease[t] == Lease.RETURNED,
    name="needs-an-answer",
    says="gives both ends back only when the sender has answered the abort, though it be dead",
)
LEASE_IS_NOT_ASKED = drop_guard(
    system, land, LEASE_ENDED, "takes what a sender writes after the end of its lease"
)
LATE_IS_TAKEN = drop_guard(
    system, deliver, LATE_NOTICE, "takes a report of any attempt for one of the present attempt"
)
WAIT_IS_CLOSED = also(
    system,
    cancel_request,
    _close_the_wait,
    name="closes-the-transport",
    says="closes what waits for a transfer under way when the request is cancelled",
)
FAILED_IS_LISTED = put(
    system,
    drain,
    entry_state,
    lambda t: where(is_load(t), entry_state[the(entry[t])], EntryState.VISIBLE),
    name="lists-the-entry",
    says="leaves the key of a store that failed to lookups",
)
STORED_UNDER_A_LOAD = loosen(
    system,
    queue_store,
    ROWS_ARRIVING,
    lambda b: ~arriving[b] | exists(Transfer, lambda t: is_load(t) & pins_block(t, b)),
    name="under-a-load",
    says="stores a block that a load under way is to fill, since it is allocated",
)


READ = "a_request_reads_whole_rows_of_its_own"
FOUND = "a_lookup_finds_whole_rows"
FREED = "every_block_without_owner_is_evicted"
ENDS = "every_started_transfer_reaches_an_outcome"


def bare(
    name: str,
    doc: str,
    expected: Counts,
    layers: int = 1,
    limits: tuple[Limit, ...] = (),
    **sizes: int,
) -> Instance:
    """An instance without appends, keys and lengths, of which no case here has need."""
    made = make_instance(name, doc, expected=expected, layers=layers, **sizes)
    return attrs.evolve(
        made,
        sizes={**made.sizes, "Key": 0},
        bounds={**made.bounds, "Length": 0, "Version": 0},
        constants=dict.fromkeys(made.constants, 0),
        limits=(*made.limits, *limits),
    )


def _never(action: Action) -> Limit:
    return limit(action)(lambda: FALSE)


@limit(place)
def one_entry_is_there_before_anything_moves(e: Entry) -> Expr:
    """Another worker fills one entry, before the first attempt."""
    return forall(Transfer, lambda t: attempt[t] == 0) & forall(
        Entry, lambda d: (d == e) | (entry_state[d] == EntryState.ABSENT)
    )


@limit(queue_store)
def a_store_is_a_first_attempt(t: Transfer) -> Expr:
    """A transfer that has had an attempt stores nothing."""
    return attempt[t] == 0


@limit(register)
def who_waits_is_there_at_once(t: Transfer) -> Expr:
    """The end that waits registers while the transfer is queued."""
    return stage[t] == Stage.QUEUED


@limit(push)
def nothing_moves_before_it_is_waited_for(t: Transfer) -> Expr:
    """Bytes move when the end that waits is registered."""
    return waiter[t] == Waiter.WAITING


@limit(queue_store)
def what_else_pins_the_block_moves(b: Block) -> Expr:
    """A store is queued when no other transfer of the block is still in the queue."""
    return forall(Transfer, lambda s: ~pins_block(s, b) | (stage[s] != Stage.QUEUED))


UNDISTURBED = (
    *map(_never, (crash, lose, repeat, acknowledge_abort)),
    one_entry_is_there_before_anything_moves,
    who_waits_is_there_at_once,
    nothing_moves_before_it_is_waited_for,
    what_else_pins_the_block_moves,
)
"""No sender crashes, no notice is early, lost or there again, no abort is answered, no queue is long."""
UNINTERRUPTED = (
    *UNDISTURBED,
    *map(_never, (finish, cancel_request, drop)),
    a_store_is_a_first_attempt,
)
"""Nor does a request end, or an entry go, and what was stored is only loaded."""

NEXT_REQUEST = bare(
    "NEXT_REQUEST",
    "a block given to two requests, and one load for the first",
    generations=2,
    notices=0,
    expected=Counts(710, 2_618, 19, 0),
)
NOTHING_MOVES = bare(
    "NOTHING_MOVES",
    "one request and one transfer that has nothing to write",
    layers=0,
    notices=0,
    expected=Counts(182, 640, 14, 0),
)
ONE_TRANSFER = bare(
    "ONE_TRANSFER",
    "one request and one transfer that nobody reports",
    notices=0,
    expected=Counts(306, 1_126, 15, 0),
)
TWO_ATTEMPTS = bare(
    "TWO_ATTEMPTS",
    "one request, two attempts and one report",
    attempts=2,
    expected=Counts(2_954, 12_581, 23, 0),
)
STORE_UNDER_A_LOAD = bare(
    "STORE_UNDER_A_LOAD",
    "two transfers of one block, each with an entry of its own",
    transfers=2,
    entries=2,
    limits=UNDISTURBED,
    expected=Counts(19_348, 74_854, 23, 496),
)
STORED_AND_LOADED = bare(
    "STORED_AND_LOADED",
    "two transfers of one block that try twice, each with an entry of its own",
    transfers=2,
    entries=2,
    attempts=2,
    notices=2,
    limits=UNINTERRUPTED,
    expected=Counts(37_844, 124_327, 33, 840),
)

GROUPS: tuple[Group, ...] = (
    Group(
        name="A-B07",
        title="An abort at the receiving end frees a block that the sending end still writes to",
        kind="stale work, reuse under an outstanding access",
        evidence=Evidence.MERGED,
        sources=(
            "sgl-project/sglang PR #27372",
            "sgl-project/sglang PR #35049",
            "sgl-project/sglang PR #24580",
        ),
        happened=(
            "a request has its block before its rows come, and the sender begins to write",
            "the request is aborted, and its block is free at once",
            "the block is given to another request",
            "a chunk that was on its way lands in it, and the other request reads it",
        ),
        cases=(
            Case(
                "the abort drops the pin, and a late chunk lands in the block of the next request",
                ABORT_UNPINS,
                claims,
                READ,
                NEXT_REQUEST,
            ),
            Case(
                "both ends are given back too early, and a late chunk lands on rows computed instead",
                DRAINED_EARLY,
                claims,
                READ,
                ONE_TRANSFER,
            ),
            Case(
                "a lease has ended, and a late chunk is taken all the same, into rows computed instead",
                LEASE_IS_NOT_ASKED,
                claims,
                READ,
                ONE_TRANSFER,
            ),
            Case(
                "the block waits for the answer of a sender that gives none, and is never freed",
                ONLY_ACKNOWLEDGED,
                claims,
                FREED,
                NOTHING_MOVES,
            ),
        ),
    ),
    Group(
        name="A-B10",
        title="A late report of an earlier attempt completes the present one",
        kind="stale work, reuse under an outstanding access",
        evidence=Evidence.ANALYSIS,
        sources=(
            "kvcache-ai/Mooncake issue #3030",
            "kvcache-ai/Mooncake issue #974",
            "kvcache-ai/Mooncake issue #849",
        ),
        happened=(
            "a writer puts rows under a key, and its report is delayed",
            "a timeout discards the attempt",
            "the same writer begins again under the same key",
            "the first report arrives and is taken for one of the second attempt",
            "the key is visible with nothing written",
        ),
        cases=(
            Case(
                "a store is listed by the report of the attempt before it",
                LATE_IS_TAKEN,
                claims,
                FOUND,
                TWO_ATTEMPTS,
            ),
            Case(
                "a load is admitted by a report that came twice, and its request reads what is not there",
                LATE_IS_TAKEN,
                claims,
                READ,
                TWO_ATTEMPTS,
            ),
        ),
    ),
    Group(
        name="A-B14",
        title="A client that goes away takes the transport of a running transfer with it",
        kind="cancellation race",
        evidence=Evidence.MERGED,
        sources=("ai-dynamo/dynamo PR #7489",),
        happened=(
            "a transfer runs, and its client disconnects",
            "the cancel reaches the transport on which the end of the transfer would be told",
            "the transfer neither completes nor fails",
            "its blocks are never released, until the worker admits nobody",
        ),
        cases=(
            Case(
                "nothing ends a transfer whose wait was closed while it ran",
                WAIT_IS_CLOSED,
                claims,
                ENDS,
                NOTHING_MOVES,
            ),
            Case(
                "the request is released, and its block stays pinned for ever",
                WAIT_IS_CLOSED,
                claims,
                FREED,
                NOTHING_MOVES,
            ),
        ),
    ),
    Group(
        name="A-B24",
        title="The key of a store that failed is still found",
        kind="partial publication",
        evidence=Evidence.REPRODUCED,
        sources=("LMCache/LMCache issue #4991",),
        happened=(
            "a store reserves its key and begins",
            "the store fails",
            "the key can be found all the same",
            "a load of it brings bytes that are not whole",
        ),
        cases=(
            Case(
                "a lookup finds the key of a store whose sender died before it wrote",
                FAILED_IS_LISTED,
                claims,
                FOUND,
                ONE_TRANSFER,
            ),
            Case(
                "a load of that key is admitted, and its request reads rows that nobody stored",
                FAILED_IS_LISTED,
                claims,
                READ,
                TWO_ATTEMPTS,
            ),
        ),
    ),
    Group(
        name="A-B26",
        title="A tier stores blocks whose own rows have not come yet",
        kind="partial publication",
        evidence=Evidence.REPRODUCED,
        sources=("vllm-project/vllm PR #35092", "vllm-project/vllm issue #34526"),
        happened=(
            "a request has its blocks, and waits for a load into them",
            "another tier stores these blocks, since they are allocated",
            "what it read was never written, and is listed as rows",
            "the load comes to its end too late, and later requests reload what was stored",
        ),
        cases=(
            Case(
                "a block is stored and listed while the load that is to fill it is pending",
                STORED_UNDER_A_LOAD,
                claims,
                FOUND,
                STORE_UNDER_A_LOAD,
            ),
            Case(
                "what was stored under a load that came too late is loaded again, and read",
                STORED_UNDER_A_LOAD,
                claims,
                READ,
                STORED_AND_LOADED,
            ),
        ),
    ),
)
