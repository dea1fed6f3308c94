"""What an audit can find: rules of form, delivery, cause and result, beside the specification's codes.

A history that the specification refuses is told with the code of the guard. All other rules are here.
"""

from __future__ import annotations

from typing import Final

import attrs

from kvspec.spec.core import system
from kvspec.spec.frontier import emit


@attrs.frozen
class Rule:
    """Something that a log must keep. meaning: what it asks. advice: what to do where it is broken."""

    code: str
    meaning: str
    advice: str


_PRODUCER: Final = "correct the producer: it tells events that the table of types does not allow"
_STATE: Final = (
    "look at the cache itself: either it broke its contract, or the event tells it wrongly"
)
_DELIVERY: Final = (
    "look at the exporter: the log is not what the source told, in the order it told it"
)
_CAUSE: Final = "carry the id of the event that is followed through to the part that observes"
_MODEL: Final = "compare planes by a model that holds, or say `unrelated` in the header"

_RULES: Final = (
    ("EVENT_TYPE", "the type of an event is one of the table", _PRODUCER),
    ("FIELD_MISSING", "an event carries all that its type asks for", _PRODUCER),
    ("FIELD_FOREIGN", "an event carries no field that its type does not carry", _PRODUCER),
    (
        "PLANE_MIXED",
        "an event carries no field of a plane of which its type says nothing",
        _PRODUCER,
    ),
    ("FAILURE_MUTATES", "a failure names no new snapshot and no committed rows", _PRODUCER),
    ("OUTPUT_COMMITS", "putting out a token commits no rows", _PRODUCER),
    ("TRACE_MISSING", "an event has a trace id", _PRODUCER),
    (
        "IDENTITY_MISSING",
        "names of events, sources, requests and operations are not empty",
        _PRODUCER,
    ),
    ("NEGATIVE_COUNT", "counts, positions and clocks are not negative", _PRODUCER),
    ("WALL_TIME", "the observed wall time is a time of RFC 3339 with its offset", _PRODUCER),
    ("OUTCOME", "the outcome is one that the type can have", _PRODUCER),
    (
        "SOURCE_COMPONENT",
        "a source is one component, and tells events of that one alone",
        _PRODUCER,
    ),
    ("EVENT_ID_REUSED", "the same event id is the same event", _DELIVERY),
    ("SEQUENCE_REUSED", "a source gives each sequence number once", _DELIVERY),
    ("REORDERED", "events of a source arrive in its order", _DELIVERY),
    ("SEQUENCE_GAP", "no event of a source is missing", _DELIVERY),
    (
        "BEYOND_WINDOW",
        "what an event refers to is recent enough to be remembered",
        "audit with a larger --window",
    ),
    (
        "CLOCK_REGRESSION",
        "the monotonic clock of a source does not go back",
        "use one monotonic clock for each source; clocks of two sources are never compared",
    ),
    (
        "TRACE_CHANGED",
        "all events of a request, and observations of it, are in the trace of its allocation",
        "carry the trace context through",
    ),
    (
        "BEYOND_BOUNDS",
        "generations, snapshots and lengths are at most 2^53",
        "the history of this request is not judged from here on",
    ),
    ("CAUSE_MISSING", "an observation names the event that it follows", _CAUSE),
    ("CAUSE_UNKNOWN", "the event that is named as the cause is in the log", _CAUSE),
    ("CAUSE_TYPE", "the cause is of a type that can have this effect", _CAUSE),
    ("CAUSE_TARGET", "the cause speaks of the same request, generation and operation", _CAUSE),
    (
        "CAUSE_SNAPSHOT",
        "an output, and the retry of an append, follow the event of their base",
        _CAUSE,
    ),
    ("UNKNOWN_HANDLE", "an event speaks of a request that was allocated or forked", _STATE),
    ("GENERATION_SKIPPED", "a generation begins where the release before it ended", _STATE),
    ("UNKNOWN_OPERATION", "an append that ends was started, and has not ended", _STATE),
    ("BASE_SNAPSHOT", "the base is the snapshot that the operation works on", _STATE),
    ("RESULT_SNAPSHOT", "the result is the snapshot that the operation makes or keeps", _STATE),
    ("COMMITTED_TOKENS", "the committed rows are those that a reader sees afterwards", _STATE),
    ("RESULT_GENERATION", "release advances the generation by one", _STATE),
    ("CHILD_GENERATION", "a child has the generation of its handle", _STATE),
    ("CHILD_SNAPSHOT", "a child begins with its first snapshot", _STATE),
    ("OUTPUT_INDEX", "outputs of a request are counted without gap", _STATE),
    (
        "NO_CONFLICT",
        "a conflict is told where publication is refused, with the code of the refusal",
        _STATE,
    ),
    (
        "OPEN_APPENDS",
        "a request has no more open appends than are followed",
        "the history of this request is not judged from here on",
    ),
    ("ALLOCATOR_OVERFLOW", "no more slots are used than are allocated", _STATE),
    (
        "ALLOCATOR_EMPTY",
        "there are blocks where there are slots, and slots where there are blocks",
        _STATE,
    ),
    (
        "FREED_EARLY",
        "memory of a request that holds rows is not seen free before its release",
        _STATE,
    ),
    (
        "USED_SLOTS",
        "the slots used are those of the committed rows, where the header says so",
        _MODEL,
    ),
    (
        "RESIDENT_BYTES",
        "the bytes resident are those of the committed rows, where the header says so",
        _MODEL,
    ),
)

GUARDS: Final = {
    guard.code.name: guard.code.meaning
    for action in (*system.actions.values(), emit)
    for guard in action.guards
}
"""The codes with which the core system refuses, and an output, with their meanings."""

RULES: Final = {
    **{code: Rule(code, meaning, _STATE) for code, meaning in GUARDS.items()},
    **{code: Rule(code, meaning, advice) for code, meaning, advice in _RULES},
}
"""Every code with which an audit can tell a finding."""

OWN: Final = tuple(code for code, _, _ in _RULES)
"""The codes that are no guard's, in the order in which a document tells them."""

ALWAYS_VIOLATED: Final = frozenset(
    {
        "EVENT_TYPE",
        "FIELD_MISSING",
        "FIELD_FOREIGN",
        "PLANE_MIXED",
        "FAILURE_MUTATES",
        "OUTPUT_COMMITS",
        "TRACE_MISSING",
        "IDENTITY_MISSING",
        "NEGATIVE_COUNT",
        "WALL_TIME",
        "OUTCOME",
        "SOURCE_COMPONENT",
        "EVENT_ID_REUSED",
        "SEQUENCE_REUSED",
        "SEQUENCE_GAP",
        "REORDERED",
        "CLOCK_REGRESSION",
        "CAUSE_MISSING",
        "CAUSE_TYPE",
        "CAUSE_TARGET",
        "CAUSE_SNAPSHOT",
        "ALLOCATOR_OVERFLOW",
        "ALLOCATOR_EMPTY",
        "FREED_EARLY",
        "USED_SLOTS",
        "RESIDENT_BYTES",
    }
)
"""Rules that an event breaks by itself, by its place or beside its cause, whatever else may be missing.

All others speak of what came before; where something of that is lost, a finding is no proof.
"""

NEVER_VIOLATED: Final = frozenset({"BEYOND_BOUNDS", "BEYOND_WINDOW", "OPEN_APPENDS"})
"""Rules that tell a limit of the audit: a finding leaves the answer unknown."""
