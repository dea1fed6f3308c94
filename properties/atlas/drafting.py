"""Groups of speculative rounds: positions, cuts, and what the client did not get."""

from __future__ import annotations

from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.drafting import drafting
from kvspec.properties.faults import drop_guard, mutant, put
from kvspec.spec.drafting import (
    NO_ROLLBACK,
    cancel,
    close,
    draft,
    kept,
    key,
    position,
    system,
    written,
)
from kvspec.spec.handles import Handle, Length, context
from kvspec.spec.language import Counts, Instance, instance


def _instance(
    name: str,
    doc: str,
    *,
    longest: int,
    values: int | None = None,
    expected: Counts | None = None,
) -> Instance:
    """An instance of one request whose counts go to the context and no further."""
    return instance(
        name,
        system,
        {Handle: 1, Length: longest},
        constants={context: longest, kept: longest if values is None else values},
        expected=expected,
        doc=doc,
    )


ONE_TOKEN_A_ROUND = put(
    system,
    close,
    position,
    lambda h: position[h] + 1,
    name="one-token-a-round",
    says="moves the position by one token a round, whatever was accepted",
)
POSITION_STAYS = mutant(
    system, "truncate.drop-assignment.position", "cuts rows and leaves the position where it was"
)
COUNTS_OF_THE_LAST_ROUND = mutant(
    system,
    "draft.drop-assignment.delivered",
    "opens a round with the count of what the round before it delivered",
)
KEEPS_ALL_ACCEPTED = mutant(
    system,
    "close.drop-assignment.written",
    "closes a round with the rows of all accepted drafts, those behind the stop among them",
)
KEY_OF_THE_ROUND = put(
    system,
    cancel,
    key,
    lambda h: written[h],
    name="key-of-the-round",
    says="puts the rows of the open round under the key of a cancelled request",
)
STATE_STAYS = mutant(
    system,
    "verify.drop-assignment.state",
    "cuts the rows of rejected drafts and leaves the recurrent state behind them",
)
NO_VALUE_TO_GO_BACK_TO = drop_guard(
    system,
    draft,
    NO_ROLLBACK,
    "drafts further than the recurrent state can go back, and cuts the rows alone",
)
TWO_AT_ONCE = _instance(
    "TWO_AT_ONCE",
    "a round of one draft, or two of none",
    longest=4,
    values=2,
    expected=Counts(63, 115, 7, 24),
)
TWO_DRAFTS = _instance(
    "TWO_DRAFTS", "a round of two drafts", longest=4, values=3, expected=Counts(89, 169, 7, 35)
)
ONE_BY_ONE = _instance(
    "ONE_BY_ONE", "a round of one token", longest=3, values=1, expected=Counts(11, 16, 6, 4)
)
ONE_AFTER_ANOTHER = _instance(
    "ONE_AFTER_ANOTHER",
    "two rounds of one token",
    longest=4,
    values=1,
    expected=Counts(24, 38, 6, 9),
)
TWO_ROUNDS = _instance(
    "TWO_ROUNDS",
    "a round of one draft, and another behind it",
    longest=5,
    values=2,
    expected=Counts(104, 195, 7, 40),
)
ONE_DRAFT = _instance(
    "ONE_DRAFT",
    "a round of one draft, which the recurrent state can undo",
    longest=3,
    values=2,
    expected=Counts(25, 44, 6, 9),
)
NONE_KEPT = _instance(
    "NONE_KEPT",
    "a round of one draft, and a recurrent state without earlier values",
    longest=3,
    values=0,
    expected=Counts(3, 2, 2, 1),
)

REJECTED_DRAFTS = (
    Case(
        shows="a draft is rejected and its row cut; the recurrent state has no earlier value to go back "
        "to, and goes on behind the rejected draft",
        fault=NO_VALUE_TO_GO_BACK_TO,
        properties=drafting,
        claim="the_recurrent_state_goes_back_with_rejected_drafts",
        instance=NONE_KEPT,
    ),
    Case(
        shows="a draft is rejected, and the recurrent state, which could go back, is not told",
        fault=STATE_STAYS,
        properties=drafting,
        claim="the_recurrent_state_goes_back_with_rejected_drafts",
        instance=ONE_DRAFT,
    ),
)
"""Cases of A-B45, whose other ones are about the rows of a request that speculates elsewhere."""

ONE_TOKEN_A_STEP = Group(
    name="A-B41",
    title="The position counter takes every round for one new token",
    kind="position and mask",
    evidence=Evidence.MERGED,
    sources=(
        "huggingface/transformers PR #30068 (merged; the fix came in with #29943 as well)",
        "huggingface/transformers issue #30042",
    ),
    happened=(
        "n rows are committed, and k drafts behind them are verified",
        "a of the drafts are accepted: the cache has n + a + 1 rows",
        "the position counter goes on by one, to n + 1",
        "rows of the next round get positions that other rows have",
    ),
    cases=(
        Case(
            shows="one draft is accepted, two tokens are delivered, and the next row is counted to have "
            "the position of the last one",
            fault=ONE_TOKEN_A_ROUND,
            properties=drafting,
            claim="the_position_is_the_committed_length",
            instance=TWO_AT_ONCE,
        ),
        Case(
            shows="rows are cut off, and the next one is counted to have a position behind them",
            fault=POSITION_STAYS,
            properties=drafting,
            claim="the_position_is_the_committed_length",
            instance=ONE_BY_ONE,
        ),
    ),
)
LAST_ROUND = Group(
    name="A-B44",
    title="The cut at the end counts what the round before had accepted",
    kind="rejected suffix kept",
    evidence=Evidence.REPRODUCED,
    sources=("ml-explore/mlx-lm PR #1528 (closed)", "ml-explore/mlx-lm PR #1868 (closed)"),
    happened=(
        "a round drafts and accepts three tokens",
        "the next round drafts one, and is interrupted before it has a count of its own",
        "the cleanup cuts one less three rows: the cache is two rows longer after it",
    ),
    cases=(
        Case(
            shows="a round has delivered two tokens; the next one has no draft and no verdict, and its "
            "end takes one less two rows away: there is one more than before",
            fault=COUNTS_OF_THE_LAST_ROUND,
            properties=drafting,
            claim="the_end_of_a_round_adds_no_row",
            instance=TWO_ROUNDS,
        ),
        Case(
            shows="a row too few is cut at the end of two rounds, and a cancelled request is found under "
            "tokens that its client never had",
            fault=COUNTS_OF_THE_LAST_ROUND,
            properties=drafting,
            claim="the_key_is_a_prefix_of_what_the_client_has",
            instance=ONE_AFTER_ANOTHER,
        ),
    ),
)
BEHIND_THE_STOP = Group(
    name="A-B53",
    title="The key of an index entry goes on behind the stop",
    kind="output and commit frontier",
    evidence=Evidence.REPRODUCED,
    sources=(
        "sgl-project/sglang PR #35694 (open)",
        "sgl-project/sglang issue #22373",
        "sgl-project/sglang PR #22897 (merged)",
    ),
    happened=(
        "a round accepts k drafts, and their rows are committed",
        "the request stops at the j-th of them, j < k, and its client gets no more",
        "the prefix index is given all k rows",
        "the next prompt of the client goes another way behind the j-th, and finds other rows",
    ),
    cases=(
        Case(
            shows="two drafts are accepted, the first token is the last one, and the request is found "
            "under one token more than its client has",
            fault=KEEPS_ALL_ACCEPTED,
            properties=drafting,
            claim="the_key_is_a_prefix_of_what_the_client_has",
            instance=TWO_DRAFTS,
        ),
        Case(
            shows="a request is cancelled within a round, and found under a draft that nobody accepted",
            fault=KEY_OF_THE_ROUND,
            properties=drafting,
            claim="the_key_is_a_prefix_of_what_the_client_has",
            instance=ONE_DRAFT,
        ),
    ),
)

GROUPS = (ONE_TOKEN_A_STEP, LAST_ROUND, BEHIND_THE_STOP)
