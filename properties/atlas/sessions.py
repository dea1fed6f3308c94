"""Groups of the atlas about sessions: turns that end early, clients that are gone, restored snapshots."""

from __future__ import annotations

from typing import Any

import attrs

from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.faults import also, drop_guard, loosen, mutant, put
from kvspec.properties.sessions import sessions
from kvspec.spec.append import begin
from kvspec.spec.handles import Handle, length
from kvspec.spec.images import image_tokens, publish_restore, save, undo_restore, written
from kvspec.spec.language import Counts, Instance, Step
from kvspec.spec.lifecycle import cancel_request, truncate
from kvspec.spec.sessions import make_instance, system
from kvspec.spec.turns import (
    APPEND_LIVE,
    CLIENT_CONNECTED,
    NOT_COMPLETED,
    TURN_TOO_LONG,
    Client,
    Turn,
    client,
    complete,
    disconnect,
    tokens,
    turn,
)


def _instance(name: str, doc: str, expected: Counts, *, txns: int = 0, **sizes: int) -> Instance:
    """An instance without layers; without an append there are no rows and no keys either."""
    least: dict[str, Any] = {"txns": txns, "versions": 1, "images": 0, "longest": txns}
    made = make_instance(name, doc, expected=expected, **{**least, **sizes})
    return attrs.evolve(
        made,
        sizes={**made.sizes, "Layer": 0, "Key": txns},
        bounds={**made.bounds, "Length": txns, "Token": txns + 1},
    )


ONE_TURN = _instance("ONE_TURN", "a session of one turn without rows", Counts(21, 55, 8, 2))
NO_TURN = _instance("NO_TURN", "a session without turns", Counts(8, 17, 4, 1), versions=0)
A_ROW = _instance(
    "A_ROW",
    "a session of two turns and one row, which can be taken back",
    Counts(220, 863, 15, 5),
    txns=1,
    versions=2,
)
NO_WAY_BACK = _instance(
    "NO_WAY_BACK",
    "a session whose cache cannot go back",
    Counts(34, 93, 12, 3),
    txns=1,
    versions=2,
    rewinds=0,
)
AN_IMAGE = _instance(
    "AN_IMAGE", "a session without rows and its image", Counts(71, 257, 9, 4), images=1
)
TWO_SESSIONS = _instance(
    "TWO_SESSIONS",
    "two sessions without rows, and one image",
    Counts(3_189, 17_549, 16, 24),
    handles=2,
    images=1,
)
SAVED_ROW = _instance(
    "SAVED_ROW",
    "one handle for two sessions, one row, one image",
    Counts(3_004, 15_595, 28, 15),
    txns=1,
    versions=2,
    images=1,
    generations=2,
)

STUCK_BUSY = mutant(
    system,
    "drop_queued.drop-assignment.busy",
    "drops a turn from the queue and leaves its session busy",
)
HALF_A_TURN_STAYS = drop_guard(
    system, truncate, NOT_COMPLETED, "rolls an aborted turn back to any rows, its own among them"
)
TOKENS_STAY = mutant(
    system,
    "truncate.drop-assignment.tokens",
    "cuts the rows of an aborted turn and keeps its tokens",
)
LATE_APPEND = drop_guard(
    system, complete, APPEND_LIVE, "completes a turn while an append of it is on its way"
)
NO_STOP_WHILE_STREAMING = loosen(
    system,
    cancel_request,
    CLIENT_CONNECTED,
    lambda h: (client[h] == Client.GONE) & (turn[h] != Turn.RUNNING),
    name="not-while-streaming",
    says="waits for the turn that streams to its end, though nobody reads it",
)
FORGOTTEN = put(
    system,
    disconnect,
    client,
    lambda: Client.NONE,
    name="a-client-is-forgotten",
    says="forgets a client that is gone, and tells nobody",
)
ROWS_REMAIN = mutant(
    system,
    "undo_restore.drop-assignment.written",
    "forgets what was restored, and leaves its rows in their place",
)


def _clear_all_tokens(step: Step) -> None:
    for g in step.every(Handle):
        step.assign(tokens[g], 0)


OTHERS_CLEARED = also(
    system,
    undo_restore,
    _clear_all_tokens,
    name="clears-every-session",
    says="clears the tokens of every session, not of its own alone",
)
FAILURE_IS_FORGOTTEN = mutant(
    system,
    "check_image.drop-assignment.IMAGE_DAMAGED.restore",
    "refuses a damaged image, and leaves its restore open",
)
EQUAL_COUNTS = put(
    system,
    save,
    image_tokens,
    lambda h: length[h],
    name="as-many-tokens-as-rows",
    says="saves as many tokens as rows",
)
TOKENS_OF_ROWS = put(
    system,
    publish_restore,
    tokens,
    lambda h: written[h],
    name="tokens-of-its-rows",
    says="takes the tokens of a restored session to be those that have rows",
)
NO_RETURN = drop_guard(
    system, begin, TURN_TOO_LONG, "appends rows to a turn that the cache cannot go back by"
)

A_B16 = Group(
    name="A-B16",
    title="An aborted turn leaves its session busy for ever, or in its history",
    kind="cancellation race",
    evidence=Evidence.REPRODUCED,
    sources=("sgl-project/sglang issue #31765", "sgl-project/sglang issue #36475 (open)"),
    happened=(
        "a session takes a turn and is busy",
        "the turn waits in the queue, and is dropped from it before it ran",
        "the session stays busy, and refuses every turn from then on",
        "or else: the turn ran and had rows when its client gave it up, and the next turn begins with them",
    ),
    cases=(
        Case(
            "A turn is dropped from the queue, and its session is busy for ever.",
            STUCK_BUSY,
            sessions,
            "every_busy_session_becomes_free",
            ONE_TURN,
        ),
        Case(
            "The rows of a half generated turn stay, and the next turn begins with them.",
            HALF_A_TURN_STAYS,
            sessions,
            "a_turn_begins_with_the_last_completed_snapshot",
            A_ROW,
        ),
        Case(
            "The rows of the aborted turn are cut and its tokens stay in the history.",
            TOKENS_STAY,
            sessions,
            "a_session_is_one_token_ahead_of_its_rows",
            A_ROW,
        ),
        Case(
            "A turn is completed, and an append that was on its way adds a row to the history.",
            LATE_APPEND,
            sessions,
            "a_turn_begins_with_the_last_completed_snapshot",
            A_ROW,
        ),
        Case(
            "The turn has a row that the cache cannot give up: no rollback is possible, and the session "
            "stays busy.",
            NO_RETURN,
            sessions,
            "every_busy_session_becomes_free",
            NO_WAY_BACK,
        ),
    ),
)

A_B18 = Group(
    name="A-B18",
    title="Clients leave their streams, and their sessions are never stopped",
    kind="cancellation race",
    evidence=Evidence.REPRODUCED,
    sources=("InternLM/lmdeploy issue #1788", "InternLM/lmdeploy issue #548"),
    happened=(
        "a client begins a session and reads its stream",
        "the client is gone, and the engine is not told to stop",
        "the session keeps its handle",
        "this happens until no handle is left",
    ),
    cases=(
        Case(
            "The client of a turn that runs is gone, and the session keeps its rows for ever.",
            NO_STOP_WHILE_STREAMING,
            sessions,
            "every_session_without_client_gives_its_rows_back",
            ONE_TURN,
        ),
        Case(
            "A session has lost its client, and nobody knows: there are more sessions than clients.",
            FORGOTTEN,
            sessions,
            "sessions_and_clients_are_as_many",
            NO_TURN,
        ),
        Case(
            "The last handle belongs to a session without client, and nothing can happen any more.",
            FORGOTTEN,
            sessions,
            "nothing_is_left_to_release",
            NO_TURN,
        ),
    ),
)

A_B27 = Group(
    name="A-B27",
    title="A restore that fails leaves rows in the place of its session",
    kind="partial publication",
    evidence=Evidence.REPRODUCED,
    sources=(
        "ggml-org/llama.cpp issue #27068",
        "ggml-org/llama.cpp PR #27530 (open)",
        "ggml-org/llama.cpp issue #26790",
    ),
    happened=(
        "an image is read into a session, and some of its rows are written",
        "the image turns out to be damaged, and the call is refused",
        "what was known of the restore is cleared, and the rows are not",
        "the next request in that place reads them",
    ),
    cases=(
        Case(
            "A row of the damaged image is left in the place of the session, and its next turn begins to "
            "run behind that row.",
            ROWS_REMAIN,
            sessions,
            "a_turn_reads_no_row_of_a_failed_restore",
            SAVED_ROW,
        ),
        Case(
            "The restore that failed clears the tokens of another session.",
            OTHERS_CLEARED,
            sessions,
            "a_restore_touches_no_other_session",
            TWO_SESSIONS,
        ),
        Case(
            "The image is refused and its restore is neither undone nor published: the session takes no "
            "turn any more.",
            FAILURE_IS_FORGOTTEN,
            sessions,
            "every_restore_ends",
            AN_IMAGE,
        ),
    ),
)

A_B50 = Group(
    name="A-B50",
    title="A session is saved with as many tokens as rows, and goes on off by one",
    kind="output and commit frontier",
    evidence=Evidence.REPRODUCED,
    sources=("ggml-org/llama.cpp issue #23400",),
    happened=(
        "a session has tokens, the last of which has no row yet",
        "its rows are saved, and as many tokens",
        "the image is restored into another session",
        "which takes its last token to be without row, and gives it one a second time, off by one",
    ),
    cases=(
        Case(
            "A restored session has no token that is still without row.",
            EQUAL_COUNTS,
            sessions,
            "a_session_is_one_token_ahead_of_its_rows",
            AN_IMAGE,
        ),
        Case(
            "What was saved is right, and the restore counts tokens by rows.",
            TOKENS_OF_ROWS,
            sessions,
            "a_session_is_one_token_ahead_of_its_rows",
            AN_IMAGE,
        ),
    ),
)

GROUPS = (A_B16, A_B18, A_B27, A_B50)
