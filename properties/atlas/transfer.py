"""Faults of transfers seen in public: ends given back early, reports of another attempt, rows not there."""

from __future__ import annotations

import attrs

from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.faults import also, drop_guard, loosen, put
from kvspec.properties.transfer import transfer as claims
from kvspec.spec.handles import Handle
from kvspec.spec.language import Counts, Instance, Step, the, where
from kvspec.spec.lifecycle import cancel_request
from kvspec.spec.transfer import (
    deliver,
    drain,
    give_up,
    make_instance,
    queue_store,
    system,
)
from kvspec.spec.transfer_record import (
    LATE_NOTICE,
    ROWS_ARRIVING,
    STILL_PUSHING,
    EntryState,
    Sender,
    Stage,
    Transfer,
    Waiter,
    block_pin,
    entry,
    entry_state,
    is_load,
    sender,
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
    "gives both ends back without waiting for the sender to stop",
)
ONLY_ACKNOWLEDGED = loosen(
    system,
    drain,
    STILL_PUSHING,
    lambda t: sender[t] == Sender.QUIET,
    name="needs-an-answer",
    says="gives both ends back only when the sender has answered the abort, though it be dead",
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
STORED_UNREAD = drop_guard(
    system,
    queue_store,
    ROWS_ARRIVING,
    "stores a block without asking whether its own load has finished",
)


READ = "a_request_reads_whole_rows_of_its_own"
FOUND = "a_lookup_finds_whole_rows"
FREED = "every_block_without_owner_is_evicted"
ENDS = "every_started_transfer_reaches_an_outcome"


def bare(name: str, doc: str, expected: Counts, layers: int = 1, **sizes: int) -> Instance:
    """An instance without appends, keys and lengths, of which no case here has need."""
    made = make_instance(name, doc, expected=expected, layers=layers, **sizes)
    return attrs.evolve(
        made,
        sizes={**made.sizes, "Key": 0},
        bounds={**made.bounds, "Length": 0, "Version": 0},
        constants=dict.fromkeys(made.constants, 0),
    )


NEXT_REQUEST = bare(
    "NEXT_REQUEST",
    "a block given to two requests, and one load for the first",
    generations=2,
    notices=0,
    expected=Counts(678, 2_330, 18, 0),
)
NOTHING_MOVES = bare(
    "NOTHING_MOVES",
    "one request and one transfer that has nothing to write",
    layers=0,
    notices=0,
    expected=Counts(174, 578, 13, 0),
)
ONE_TRANSFER = bare(
    "ONE_TRANSFER",
    "one request and one transfer that nobody reports",
    notices=0,
    expected=Counts(290, 1_002, 14, 0),
)
TWO_ATTEMPTS = bare(
    "TWO_ATTEMPTS",
    "one request, two attempts and one report",
    attempts=2,
    expected=Counts(2_172, 8_864, 22, 0),
)
LOADED_AGAIN = bare(
    "LOADED_AGAIN",
    "one request, three attempts and two reports",
    attempts=3,
    notices=2,
    expected=Counts(19_910, 96_673, 30, 0),
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
                "the block waits for the answer of a sender that is dead, and is never freed",
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
                "a block without its rows is stored and listed",
                STORED_UNREAD,
                claims,
                FOUND,
                TWO_ATTEMPTS,
            ),
            Case(
                "what was stored without rows is loaded again, and read",
                STORED_UNREAD,
                claims,
                READ,
                LOADED_AGAIN,
            ),
        ),
    ),
)
