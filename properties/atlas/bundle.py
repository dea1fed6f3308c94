"""Groups of the atlas about companions: what was left behind when a request moved, went back or went on."""

from __future__ import annotations

import attrs

from kvspec.properties.atlas.drafting import REJECTED_DRAFTS
from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.bundle import bundle
from kvspec.properties.faults import drop_guard, loosen, mutant, put
from kvspec.spec.append import target
from kvspec.spec.batch import reorder
from kvspec.spec.bundle import (
    NO_REPLAY,
    NO_ROLLBACK,
    NOT_A_REPLAY,
    NOT_LOST,
    asked,
    draft_rows,
    give_up,
    grammar,
    is_current,
    lost,
    replay,
    resume,
    row_mask,
    system,
)
from kvspec.spec.bundle_instances import (
    BRIEF,
    attaches_at_once,
    begins_before_a_death,
    dies_once,
    emits_before_a_death,
    forks_nothing,
    make_instance,
    truncates_nothing,
)
from kvspec.spec.frontier import drafts, prompt, verify
from kvspec.spec.language import Counts, Expr, Instance, Limit, is_some, the, where
from kvspec.spec.lifecycle import fork, truncate

MOVES = (*BRIEF, forks_nothing, truncates_nothing)
"""Limits that leave what befalls a request which nobody forks, cuts or finishes."""

ONCE = (*MOVES, begins_before_a_death, emits_before_a_death, dies_once, attaches_at_once)
"""Limits that leave one worker's death and what follows it."""


def _instance(
    name: str,
    doc: str,
    expected: Counts,
    *,
    longest: int = 1,
    txns: int = 1,
    versions: int = 1,
    rewinds: int = 0,
    limits: tuple[Limit, ...] = (),
    **sizes: int,
) -> Instance:
    """An instance without layers, since these faults need none, and without a length that is too long."""
    made = make_instance(
        name,
        doc,
        longest=longest,
        txns=txns,
        versions=versions,
        rewinds=rewinds,
        limits=limits,
        expected=expected,
        **sizes,
    )
    return attrs.evolve(
        made,
        sizes={**made.sizes, "Layer": 0, "Key": min(txns, 1)},
        bounds={**made.bounds, "Length": longest},
    )


TWO_ROWS = _instance(
    "TWO_ROWS",
    "two requests that take turns in two batch rows",
    Counts(5_699, 31_663, 9, 3),
    handles=2,
    txns=0,
    rows=2,
    versions=0,
)
ONE_ROW = _instance(
    "ONE_ROW",
    "two requests that take turns in one batch row",
    Counts(2_603, 11_148, 9, 3),
    handles=2,
    txns=0,
    rows=1,
    versions=0,
)
SWAP = _instance(
    "SWAP",
    "one request and two batch rows to stand in",
    Counts(57, 222, 5, 1),
    txns=0,
    rows=2,
    versions=0,
)
FORWARD_ALONE = _instance(
    "FORWARD_ALONE",
    "a recurrent state that goes forward alone, and rows that could be cut",
    Counts(571, 2_361, 10, 5),
    versions=2,
    rewinds=1,
)
BACK_BY_ONE = _instance(
    "BACK_BY_ONE",
    "a recurrent state that can go back with its row",
    Counts(611, 2_567, 10, 5),
    versions=2,
    rewinds=1,
    rollbacks=1,
)
CHILD_BEFORE = _instance(
    "CHILD_BEFORE",
    "a request of one row, and its fork",
    Counts(13_789, 61_759, 17, 29),
    handles=2,
    limits=BRIEF,
)
ONE_DRAFT = _instance("ONE_DRAFT", "a round of one draft", Counts(921, 3_782, 10, 4), longest=2)
REJECTED = _instance(
    "REJECTED",
    "a round of up to two drafts",
    Counts(2_081, 8_720, 10, 5),
    longest=3,
)
MOVE = _instance(
    "MOVE",
    "a request with one output, and the worker that takes it over",
    Counts(17_879, 75_583, 18, 9),
    longest=2,
    handles=2,
    blocks=2,
    replays=1,
    limits=ONCE,
)
NO_MOVE = _instance(
    "NO_MOVE",
    "a request with one output, and a worker that cannot take it over",
    Counts(17_663, 74_775, 17, 9),
    longest=2,
    handles=2,
    blocks=2,
    limits=ONCE,
)
RESENT = _instance(
    "RESENT",
    "a request with one output, and a worker that is sent its prompt",
    Counts(5_029, 20_833, 17, 4),
    handles=2,
    blocks=2,
    limits=ONCE,
)
NOWHERE = _instance(
    "NOWHERE", "a lost request that no worker can take over", Counts(261, 1_007, 9, 3)
)
TWICE = _instance(
    "TWICE",
    "a lost request and one that continues it",
    Counts(331, 1_099, 9, 1),
    txns=0,
    handles=2,
    blocks=2,
    versions=0,
    limits=MOVES,
)


def _trimmed(x: Expr, a: Expr) -> Expr:
    h = the(target[x])
    by = drafts[x] - a + 1
    trimmed = where(by <= draft_rows[h], draft_rows[h] - by, 0)
    rejects = is_current(x, h) & (a < drafts[x])
    return where(rejects, trimmed, draft_rows[h])


COPIED_NOT_CLEARED = put(
    system,
    reorder,
    row_mask,
    lambda source, row_0: where(
        is_some(row_mask[source[row_0]]), row_mask[source[row_0]], row_mask[row_0]
    ),
    name="copies-without-clearing",
    says="copies the mask to the new row and leaves it in the old one",
)
LEFT_ON_LEAVE = mutant(
    system, "leave.drop-assignment.row_mask", "leaves the mask in the row that a request leaves"
)
STAYS_ON_MOVE = mutant(
    system, "reorder.drop-assignment.row_mask", "moves the request and not its mask"
)
CUT_ROWS_ALONE = drop_guard(
    system, truncate, NO_ROLLBACK, "cuts rows where the recurrent state cannot go back"
)
FORKED_ROWS_ALONE = drop_guard(
    system, fork, NO_ROLLBACK, "forks earlier rows with the recurrent state of later ones"
)
STATE_NOT_TOLD = mutant(
    system,
    "truncate.drop-assignment.recurrent",
    "cuts rows and leaves the recurrent state, which could go back, where it is",
)
TRIMS_TOO_MANY = put(
    system,
    verify,
    draft_rows,
    _trimmed,
    name="trims-two-too-many",
    says="trims the draft model's cache after a rejection by the rejected drafts and one, where it has "
    "one row less",
)
NOT_TRIMMED = mutant(
    system,
    "cancel_txn.drop-assignment.draft_rows",
    "leaves the rows of drafts in the draft model's cache when the round is broken off",
)
GRAMMAR_ANEW = put(
    system,
    resume,
    grammar,
    lambda: 0,
    name="replays-tokens-alone",
    says="continues with all tokens and a grammar that has consumed none",
)
NOT_REFUSED = drop_guard(
    system, resume, NO_REPLAY, "continues where the grammar cannot be brought to its state"
)
PROMPT_ALONE = loosen(
    system,
    resume,
    NOT_A_REPLAY,
    lambda h, s: prompt[h] == where(asked[s] == 0, prompt[s], asked[s]),
    name="replays-the-prompt-alone",
    says="continues with the client's prompt, without what was emitted since",
)
STILL_ON_RECORD = mutant(
    system, "resume.drop-assignment.lost", "leaves the continued request on record as lost"
)
WAITS_FOREVER = loosen(
    system,
    give_up,
    NOT_LOST,
    lambda h: lost[h] & (grammar[h] <= replay),
    name="waits-for-a-worker-that-can",
    says="keeps a request that no worker can take over until one can",
)

UNDER_ANOTHERS_MASK = "no_request_is_sampled_under_the_mask_of_another"
STATE_LEVEL = "the_recurrent_state_stands_at_the_committed_length"
EVERY_OUTPUT = "the_grammar_has_consumed_every_output_of_the_request"

MASK_LEFT = Group(
    name="A-B37",
    title="A request moves to another batch row, and its sampling mask stays in the old one",
    kind="split reorder",
    evidence=Evidence.REPRODUCED,
    sources=("vllm-project/vllm issue #43894",),
    happened=(
        "A request with a grammar stands in a batch row, which has its mask.",
        "The batch is packed: the request moves to an empty row, and the mask is copied there.",
        "The old row keeps the mask, though nobody stands in it.",
        "A request without a grammar comes into that row, and sets no mask, as a row should have none.",
        "Its tokens are sampled under the grammar of the first one.",
    ),
    cases=(
        Case(
            "The mask is in two rows after the move, and the second request meets it.",
            COPIED_NOT_CLEARED,
            bundle,
            UNDER_ANOTHERS_MASK,
            TWO_ROWS,
        ),
        Case(
            "A request leaves the batch and its mask does not: the next one in the row meets it.",
            LEFT_ON_LEAVE,
            bundle,
            UNDER_ANOTHERS_MASK,
            ONE_ROW,
        ),
        Case(
            "The request stands in a neutral row after the move, and samples what its grammar forbids.",
            STAYS_ON_MOVE,
            bundle,
            "a_grammar_masks_the_row_of_its_request",
            SWAP,
        ),
    ),
)
STATE_AHEAD = Group(
    name="A-B45",
    title="Rows are removed and the recurrent state stays where it was, with success as the answer",
    kind="rejected suffix kept",
    evidence=Evidence.REPRODUCED,
    sources=(
        "ggml-org/llama.cpp issue #26695",
        "ggml-org/llama.cpp pull requests #20075, #20080, #23280",
    ),
    happened=(
        "Drafts are decoded: attention rows and recurrent state both go forward.",
        "The drafts are rejected, and the sequence is to be cut back.",
        "The attention rows are cut; the recurrent state has no earlier value to return to.",
        "The call answers that it succeeded, and decoding goes on from a state of later tokens.",
    ),
    cases=(
        *REJECTED_DRAFTS,
        Case(
            "The request has no row, and its recurrent state is that of one row.",
            CUT_ROWS_ALONE,
            bundle,
            STATE_LEVEL,
            FORWARD_ALONE,
        ),
        Case(
            "A state that could have gone back was not told to.",
            STATE_NOT_TOLD,
            bundle,
            STATE_LEVEL,
            BACK_BY_ONE,
        ),
        Case(
            "A child without rows begins with the recurrent state behind its parent's row.",
            FORKED_ROWS_ALONE,
            bundle,
            STATE_LEVEL,
            CHILD_BEFORE,
        ),
    ),
)
DRAFTS_BEHIND = Group(
    name="A-B47",
    title="The draft model's own cache loses two rows too many in every round",
    kind="rejected suffix kept",
    evidence=Evidence.MERGED,
    sources=("lablup/mlxcel issue #994",),
    happened=(
        "The draft model makes n drafts and has n rows more; the target has n + 1 rows more.",
        "The target accepts a of the drafts and trims the n - a rows behind them.",
        "The draft model, which never processed its last draft, should trim n - a - 1 rows.",
        "It trims n - a + 1, so after each rejection it is two rows further behind than the target thinks.",
    ),
    cases=(
        Case(
            "Of two drafts the second is rejected; the draft model, which has no row for it, loses the two "
            "rows that it has.",
            TRIMS_TOO_MANY,
            bundle,
            "the_draft_model_is_at_most_one_row_behind",
            REJECTED,
        ),
        Case(
            "A round is broken off, and the draft model goes on behind drafts that nobody accepted.",
            NOT_TRIMMED,
            bundle,
            "the_draft_model_is_ahead_only_in_a_round",
            ONE_DRAFT,
        ),
    ),
)
GRAMMAR_LEFT = Group(
    name="A-B74",
    title="A request is moved with its tokens and without the state of its grammar",
    kind="other",
    evidence=Evidence.MERGED,
    sources=("ai-dynamo/dynamo pull request #7930, issue #7634",),
    happened=(
        "A worker has emitted tokens under a grammar, whose state they have advanced.",
        "The worker dies, and the request is sent to another one: the prompt and the tokens so far.",
        "The new worker processes these tokens as a prompt, and begins its grammar at the start.",
        "The output begins anew in the middle of what the client has already.",
    ),
    cases=(
        Case(
            "The request goes on behind its output, and its grammar stands before it.",
            GRAMMAR_ANEW,
            bundle,
            EVERY_OUTPUT,
            MOVE,
        ),
        Case(
            "A worker that cannot advance the grammar takes the request all the same.",
            NOT_REFUSED,
            bundle,
            EVERY_OUTPUT,
            NO_MOVE,
        ),
        Case(
            "The request is sent again as the client sent it: what was emitted is emitted again.",
            PROMPT_ALONE,
            bundle,
            "a_continuation_begins_at_the_last_output",
            RESENT,
        ),
        Case(
            "A repeated call continues the request a second time.",
            STILL_ON_RECORD,
            bundle,
            "a_lost_request_is_continued_once",
            TWICE,
        ),
        Case(
            "The refusal repairs the output and leaks: nobody may let go of a request that cannot move.",
            WAITS_FOREVER,
            bundle,
            "every_lost_request_is_settled",
            NOWHERE,
        ),
    ),
)

GROUPS = (MASK_LEFT, STATE_AHEAD, DRAFTS_BEHIND, GRAMMAR_LEFT)
