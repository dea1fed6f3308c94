"""Groups of the atlas about observation: what is counted and not settled, and views that drift apart."""

from __future__ import annotations

import attrs

from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.faults import also, mutant, put
from kvspec.properties.observation import observation
from kvspec.properties.replica import replica
from kvspec.spec.append import count, target
from kvspec.spec.handles import length
from kvspec.spec.language import Counts, Expr, Instance, Step, the, where
from kvspec.spec.lifecycle import allocate, truncate
from kvspec.spec.observation import (
    cached,
    fetch,
    refusals,
    series,
    total,
    turn_away,
)
from kvspec.spec.observation import make_instance as make_observed
from kvspec.spec.observation import system as observed
from kvspec.spec.replica import (
    Kind,
    deliver,
    event_block,
    event_hash,
    event_kind,
    event_sequence,
    expected,
    gap,
    known,
)
from kvspec.spec.replica import make_instance as make_replica
from kvspec.spec.replica import system as told

CUT_KEEPS_HITS = mutant(
    observed,
    "truncate.drop-assignment.cached",
    "takes rows back from a preempted request, and none of those that it had found",
)
CUT_KEEPS_FETCHED = mutant(
    observed,
    "truncate.drop-assignment.external",
    "takes rows back from a preempted request, and none of those that it had fetched",
)


def _count_hits(step: Step, x: Expr) -> None:
    h = the(target[x])
    step.assign(cached[h], cached[h] + count[x])


COUNTED_AT_LOOK_UP = also(
    observed,
    fetch,
    _count_hits,
    name="counted-before-it-came",
    says="counts rows as found when they are looked up, whatever comes of the load",
)


def _take_back(step: Step, h: Expr, n: Expr) -> None:
    step.assign(total[h], total[h] + n - length[h])


COUNTER_GOES_BACK = also(
    observed,
    truncate,
    _take_back,
    name="takes-the-count-back",
    says="subtracts from a counter the rows that a preempted request has lost",
)
NO_SUM = mutant(
    observed,
    "cancel_request.drop-assignment.recorded",
    "cancels a request and records none of what was counted for it",
)
NO_RECORD = mutant(
    observed,
    "cancel_request.drop-assignment.records",
    "cancels a request without a terminal record",
)
NO_RECORD_TURNED_AWAY = mutant(
    observed,
    "turn_away.drop-assignment.refusals",
    "turns a request away without a terminal record",
)
TWO_RECORDS = put(
    observed,
    turn_away,
    refusals,
    lambda: refusals[()] + 2,
    name="two-records-of-one-refusal",
    says="records a request where it is turned away, and once more where requests end",
)
ANY_NAME = put(
    observed,
    allocate,
    series,
    lambda: True,
    name="a-series-for-any-name",
    says="counts a request under whatever name its client sent",
)
ANY_NAME_TURNED_AWAY = put(
    observed,
    turn_away,
    series,
    lambda: True,
    name="a-series-for-any-name",
    says="counts even a request that it refuses under whatever name its client sent",
)


def _apply(b: Expr, removed: Expr, cleared: Expr) -> Expr:
    """The consumer's rule with another view of a block after a removal, or after the cache was cleared."""
    kind = event_kind[()]
    stored = where(event_block[()] == b, event_hash[()], known[b])
    done = where(kind == Kind.STORED, stored, where(kind == Kind.REMOVED, removed, cleared))
    return where(event_sequence[()] == expected[()], done, known[b])


REMOVED_BY_HASH = put(
    told,
    deliver,
    known,
    lambda block_0: _apply(
        block_0,
        where(known[block_0] == event_hash[()], None, known[block_0]),
        where(known[block_0] == known[block_0], None, known[block_0]),
    ),
    name="removes-every-copy",
    says="takes a removal of one copy for that of the prefix",
)
NOT_CLEARED = put(
    told,
    deliver,
    known,
    lambda block_0: _apply(
        block_0,
        where(event_block[()] == block_0, None, known[block_0]),
        known[block_0],
    ),
    name="does-not-clear",
    says="passes over the event that the cache was cleared",
)
GAP_PASSED_OVER = mutant(
    told,
    "resynchronize.drop-assignment.known",
    "goes on behind a gap without a snapshot",
)
LOST_END = mutant(
    told,
    "heartbeat.drop-assignment.gap",
    "does not compare the number of a heartbeat with the one that it expects",
)
OLD_EVENT = put(
    told,
    deliver,
    known,
    lambda block_0: where(
        event_sequence[()] < expected[()],
        where(event_block[()] == block_0, event_hash[()], known[block_0]),
        _apply(
            block_0,
            where(event_block[()] == block_0, None, known[block_0]),
            where(known[block_0] == known[block_0], None, known[block_0]),
        ),
    ),
    name="applies-old-events",
    says="writes an event from before its snapshot over the snapshot",
)

OTHER_LOG = put(
    told,
    deliver,
    gap,
    lambda: where(expected[()] < event_sequence[()], True, gap[()]),
    name="takes-another-log-for-its-own",
    says="does not compare the start of an event with the one whose log it follows",
)


def _observed(name: str, doc: str, expected: Counts | None, **sizes: int) -> Instance:
    """An instance without layers, whose counters go to 1; without an append there are no keys."""
    made = make_observed(name, doc, expected=expected, **sizes)
    return attrs.evolve(
        made,
        sizes={**made.sizes, "Layer": 0, "Key": made.sizes["Txn"]},
        bounds={**made.bounds, "Length": 1, "Tally": 1},
        constants={"context": 1, "rewind": max(0, made.bounds["Version"] - 1)},
    )


def _replica(
    name: str, doc: str, expected: Counts | None, *, events: int, **sizes: int
) -> Instance:
    """An instance without layers, keys and rows, with so many numbers of the log."""
    made = make_replica(name, doc, expected=expected, **{"restarts": 0, **sizes})
    return attrs.evolve(
        made,
        sizes={**made.sizes, "Layer": 0, "Key": 0},
        bounds={**made.bounds, "Length": 0, "Version": 0, "Sequence": events},
        constants=dict.fromkeys(made.constants, 0),
    )


PREEMPTED = _observed(
    "PREEMPTED", "a request of one row, which can be cut", Counts(830, 2_936, 10, 36), versions=2
)
ONE_ROW = _observed("ONE_ROW", "a request of one row", Counts(356, 1_172, 9, 18))
NO_ROW = _observed("NO_ROW", "a request without rows", Counts(12, 24, 4, 2), txns=0, versions=0)
NO_ROOM = attrs.evolve(
    NO_ROW,
    name="NO_ROOM",
    doc="a service without room",
    sizes={**dict.fromkeys(NO_ROW.sizes, 0), "Name": 1},
    bounds={**dict.fromkeys(NO_ROW.bounds, 0), "Refusal": 1},
    constants=dict.fromkeys(NO_ROW.constants, 0),
    expected=Counts(4, 6, 1, 2),
)
NO_ROOM_TWICE = attrs.evolve(
    NO_ROOM,
    name="NO_ROOM_TWICE",
    doc="a service without room, and two requests",
    bounds={**NO_ROOM.bounds, "Refusal": 2},
    expected=Counts(6, 10, 2, 2),
)
TWO_COPIES = _replica("TWO_COPIES", "one prefix in two blocks", Counts(786, 4_225, 11, 0), events=3)
ONE_COPY = _replica(
    "ONE_COPY",
    "one prefix in one block",
    Counts(50, 241, 7, 0),
    events=2,
    blocks=1,
    generations=1,
)
ONE_EVENT = _replica(
    "ONE_EVENT", "one event", Counts(30, 145, 5, 0), events=1, blocks=1, generations=1
)
TWO_STARTS = _replica(
    "TWO_STARTS",
    "two prefixes, one block, and two starts of the engine",
    Counts(424, 2_163, 10, 0),
    events=1,
    blocks=1,
    hashes=2,
    restarts=1,
)

A_B66 = Group(
    name="A-B66",
    title="Rows found in the cache are counted before that is settled, and the count goes down",
    kind="observation",
    evidence=Evidence.REPRODUCED,
    sources=(
        "vllm-project/vllm PR #36812",
        "vllm-project/vllm PR #37460",
        "vllm-project/vllm PR #38096 (merged)",
        "vllm-project/vllm PR #10430 (merged)",
        "vllm-project/vllm issue #10583",
    ),
    happened=(
        "rows of a prompt are found in the cache, and counted as found",
        "their load fails, or the request is preempted, and its rows are taken back",
        "the number of rows found stays as it was",
        "what was computed is the difference, which is negative, and the counter refuses it",
    ),
    cases=(
        Case(
            "A preempted request has no rows, and still counts one that it had found.",
            CUT_KEEPS_HITS,
            observation,
            "no_more_was_found_than_there_is",
            PREEMPTED,
        ),
        Case(
            "A row is counted as found while its load is on its way, and may fail.",
            COUNTED_AT_LOOK_UP,
            observation,
            "no_more_was_found_than_there_is",
            ONE_ROW,
        ),
        Case(
            "A preempted request has found nothing, and still counts a row as fetched.",
            CUT_KEEPS_FETCHED,
            observation,
            "no_more_was_fetched_than_found",
            PREEMPTED,
        ),
        Case(
            "A counter is decreased by what a preempted request has lost.",
            COUNTER_GOES_BACK,
            observation,
            "no_counter_goes_back",
            PREEMPTED,
        ),
    ),
)

A_B67 = Group(
    name="A-B67",
    title="A cancelled request is in the totals and in no record",
    kind="observation",
    evidence=Evidence.REPRODUCED,
    sources=("vllm-project/vllm issue #55634", "vllm-project/vllm PR #55940 (open)"),
    happened=(
        "rows of a prompt are computed and counted",
        "the client cancels the request",
        "nothing is recorded for it",
        "what all requests are said to have had is less than the total",
    ),
    cases=(
        Case(
            "A row was counted, and no terminal record has it.",
            NO_SUM,
            observation,
            "an_ended_request_has_all_its_rows_in_its_record",
            ONE_ROW,
        ),
        Case(
            "A cancelled request has no terminal record.",
            NO_RECORD,
            observation,
            "every_request_has_one_terminal_record",
            NO_ROW,
        ),
        Case(
            "A request that was turned away is counted, and has no terminal record.",
            NO_RECORD_TURNED_AWAY,
            observation,
            "every_request_turned_away_has_one_terminal_record",
            NO_ROOM,
        ),
        Case(
            "A request that was turned away has two terminal records.",
            TWO_RECORDS,
            observation,
            "every_request_turned_away_has_one_terminal_record",
            NO_ROOM_TWICE,
        ),
    ),
)

A_B69 = Group(
    name="A-B69",
    title="Strings of clients become labels of metrics",
    kind="observation",
    evidence=Evidence.ANALYSIS,
    sources=("llm-d/llm-d-router issue #1625", "llm-d-batch-gateway issue #202"),
    happened=(
        "a request comes with a model name that was never seen before",
        "it is counted under that name, even if it fails later",
        "the series is never removed",
    ),
    cases=(
        Case(
            "A request with an unknown name makes a series of that name.",
            ANY_NAME,
            observation,
            "every_series_is_of_a_name_known_at_the_start",
            NO_ROW,
        ),
        Case(
            "A request with an unknown name is refused, and has made a series.",
            ANY_NAME_TURNED_AWAY,
            observation,
            "every_series_is_of_a_name_known_at_the_start",
            NO_ROOM,
        ),
    ),
)

A_B70 = Group(
    name="A-B70",
    title="What an external consumer takes the cache to hold drifts away from what it holds",
    kind="observation",
    evidence=Evidence.ANALYSIS,
    sources=(
        "vllm-project/vllm PR #55092 (open)",
        "vllm-project/vllm issue #48933",
        "llm-d/llm-d-kv-cache PR #593",
        "vllm-project/aibrix issue #2287 (open)",
    ),
    happened=(
        "one prefix is stored in two blocks",
        "one of them is emptied, and the removal of the prefix is told",
        "the consumer forgets the prefix, which the engine still serves",
        "or else: the whole cache is cleared, and the consumer goes on with what it knew",
        "or else: the engine is restarted, its log begins anew, and its first events are taken for old ones",
    ),
    cases=(
        Case(
            "One of two copies is removed, and the consumer knows neither.",
            REMOVED_BY_HASH,
            replica,
            "a_prefix_that_is_still_stored_is_known",
            TWO_COPIES,
        ),
        Case(
            "The cache was cleared, and the consumer still knows a prefix.",
            NOT_CLEARED,
            replica,
            "a_prefix_that_is_known_is_still_stored",
            ONE_COPY,
        ),
        Case(
            "The consumer goes on behind what it missed, and does not know a block that is filled.",
            GAP_PASSED_OVER,
            replica,
            "a_prefix_that_is_still_stored_is_known",
            ONE_EVENT,
        ),
        Case(
            "After a snapshot an older event arrives, and brings back a block that was emptied.",
            OLD_EVENT,
            replica,
            "a_prefix_that_is_known_is_still_stored",
            ONE_COPY,
        ),
        Case(
            "After a restart of the engine its first block is unknown, as its event is taken for an old one.",
            OTHER_LOG,
            replica,
            "a_prefix_that_is_still_stored_is_known",
            TWO_STARTS,
        ),
        Case(
            "After a restart of the engine the consumer still knows a prefix that went with the cache.",
            OTHER_LOG,
            replica,
            "a_prefix_that_is_known_is_still_stored",
            TWO_STARTS,
        ),
        Case(
            "The last event is lost, and the consumer never comes to know.",
            LOST_END,
            replica,
            "every_replica_catches_up",
            ONE_EVENT,
        ),
    ),
)

GROUPS = (A_B66, A_B67, A_B69, A_B70)
