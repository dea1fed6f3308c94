"""Groups of the atlas about positions and windows: rows that are not where a query takes them to be."""

from __future__ import annotations

import attrs

from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.faults import also, drop_guard, loosen, mutant, put
from kvspec.properties.positions import positions
from kvspec.properties.residency import residency
from kvspec.spec import positions as rows
from kvspec.spec import residency as windows
from kvspec.spec.append import stage_k, target
from kvspec.spec.language import Counts, Expr, Instance, Limit, Step, forall, implies, the, where
from kvspec.spec.lifecycle import fork, truncate
from kvspec.spec.positions import (
    NOTHING_PENDING,
    SHIFT_PENDING,
    Cell,
    add,
    drop,
    flush,
    held,
    pending,
    position,
    seen,
)
from kvspec.spec.residency import (
    WINDOW_GONE,
    appends_all,
    columns,
    first,
    needed_from,
    retries_nothing,
    shown,
    window,
    windowed,
)


def _windows(
    name: str,
    doc: str,
    expected: Counts,
    *,
    longest: int,
    handles: int = 1,
    size: int = 1,
    versions: int = 1,
    rewinds: int = 0,
    limits: tuple[Limit, ...] = (),
) -> Instance:
    """An instance without a length that is too long; `size` is that of the window."""
    made = windows.make_instance(
        name,
        doc,
        longest=longest,
        handles=handles,
        windows=size,
        versions=versions,
        rewinds=rewinds,
        limits=limits,
        expected=expected,
    )
    return attrs.evolve(made, bounds={**made.bounds, "Length": longest})


TWO_ROWS_IN_A_LIST = rows.make_instance(
    "TWO_ROWS_IN_A_LIST", "an edit of two tokens", 2, expected=Counts(32, 72, 8, 0)
)
THREE_ROWS_IN_A_LIST = rows.make_instance(
    "THREE_ROWS_IN_A_LIST", "an edit of three tokens", 3, expected=Counts(218, 623, 11, 0)
)
TWO_DRAFTS = _windows(
    "TWO_DRAFTS", "a burst of two rows over a window of one", Counts(494, 1_814, 12, 16), longest=2
)
TAKEN_BACK = _windows(
    "TAKEN_BACK", "a burst of two rows that is taken back", Counts(494, 1_814, 12, 16), longest=2
)
BACK_TWICE = _windows(
    "BACK_TWICE",
    "a window of two rows, and two truncates by one",
    Counts(5_911, 24_352, 21, 81),
    longest=3,
    size=2,
    versions=3,
    rewinds=1,
)
EARLIER_CHILD = _windows(
    "EARLIER_CHILD",
    "a request that let go of a row, and its fork before that",
    Counts(14_184, 65_522, 24, 162),
    longest=2,
    handles=2,
    size=2,
    limits=(retries_nothing, appends_all),
)
ONE_ROW_TO_KEEP = _windows(
    "ONE_ROW_TO_KEEP",
    "a window of one row, which no query needs to find",
    Counts(208, 708, 10, 10),
    longest=1,
)


def _from_seen(c: Expr, n: Expr) -> Expr:
    return held[c] & (seen[()] <= position[c]) & (position[c] < seen[()] + n)


def _shifted_from_seen(cell_0: Expr, n: Expr) -> Expr:
    behind = held[cell_0] & (seen[()] + n <= position[cell_0])
    moved = where(behind, position[cell_0] - n, position[cell_0])
    return where(rows.leaves(cell_0, n), 0, moved)


def _last_shift(cell_0: Expr, n: Expr) -> Expr:
    alone = where(rows.follows(cell_0, n), n, pending[cell_0])
    return where(rows.leaves(cell_0, n), 0, alone)


def _window_and_query(x: Expr, l: Expr, p: Expr) -> Expr:
    given = shown(the(target[x]), l, p)
    return where(windowed[l] & (window < given), window, given)


def _let_go_at_once(step: Step, x: Expr, l: Expr, p: Expr) -> None:
    h = the(target[x])
    surplus = windowed[l] & (first[h, l] < needed_from(p + 1))
    step.assign(first[h, l], where(surplus, needed_from(p + 1), first[h, l]))


OLD_COORDINATES = put(
    rows.system,
    drop,
    held,
    lambda cell_0, n: where(_from_seen(cell_0, n), False, held[cell_0]),
    name="removes-in-old-coordinates",
    says="removes the rows at the run's place in the old list, though rows were shifted since",
)
SHIFTED_FROM_OLD = put(
    rows.system,
    drop,
    position,
    _shifted_from_seen,
    name="shifts-in-old-coordinates",
    says="shifts the rows behind the run's place in the old list alone",
)
LAST_SHIFT_ALONE = put(
    rows.system,
    drop,
    pending,
    _last_shift,
    name="the-last-shift-alone",
    says="puts down the last shift as pending, in place of the sum of those that are",
)
READ_UNTURNED = drop_guard(
    rows.system, add, SHIFT_PENDING, "reads rows before their shift is applied"
)
WAITS_FOR_ALL = loosen(
    rows.system,
    flush,
    NOTHING_PENDING,
    lambda: forall(Cell, lambda c: implies(held[c], pending[c] >= 1)),
    name="waits-for-every-row",
    says="applies shifts when every row has one pending",
)
NARROW_MASK = put(
    windows.system,
    stage_k,
    columns,
    _window_and_query,
    name="window-and-query-alone",
    says="makes a mask as wide as the window, while a burst shows more rows",
)
LET_GO_AT_ONCE = also(
    windows.system,
    stage_k,
    _let_go_at_once,
    name="lets-go-while-open",
    says="lets go of rows behind the window when a row is staged, before it is published",
)
CUT_ANYWAY = drop_guard(
    windows.system, truncate, WINDOW_GONE, "goes back to where the window's rows are gone"
)
FORKED_ANYWAY = drop_guard(
    windows.system, fork, WINDOW_GONE, "forks a prefix whose window's rows are gone"
)
NEVER_LET_GO = mutant(
    windows.system, "publish.drop-assignment.first", "never lets go of a row in a windowed layer"
)

WHOLE_WINDOW = "a_query_finds_every_row_of_its_window"
ROTATED = "attention_reads_rows_rotated_for_their_positions"

REMOVED_TWICE = Group(
    name="A-B39",
    title="Rows were shifted, and the next removal counts in positions from before the shift",
    kind="position and mask",
    evidence=Evidence.MERGED,
    sources=("ggml-org/llama.cpp issue #12160, pull request #12161",),
    happened=(
        "An old prompt is brought to a new one, so that rows of tokens in both are used again.",
        "Tokens in the middle are not in the new prompt: their rows are removed, and the rest shifted.",
        "The place in the old list goes on by the tokens that left.",
        "The next run that leaves is removed from the cache at its place in the old list.",
        "Rows of tokens that stay are removed, and rows of the run are still there.",
    ),
    cases=(
        Case(
            "The first two tokens leave one by one, and the second removal takes the third one's row.",
            OLD_COORDINATES,
            positions,
            "every_token_of_the_sequence_has_its_row",
            THREE_ROWS_IN_A_LIST,
        ),
        Case(
            "Both tokens left the list, and attention still finds the row of the second.",
            OLD_COORDINATES,
            positions,
            "a_token_that_left_has_no_row",
            TWO_ROWS_IN_A_LIST,
        ),
        Case(
            "A row that stays is not shifted, and does not stand at the place of its token.",
            SHIFTED_FROM_OLD,
            positions,
            "a_row_stands_at_the_place_of_its_token",
            THREE_ROWS_IN_A_LIST,
        ),
    ),
)
ROTATED_ONCE = Group(
    name="A-B40",
    title="A row is shifted twice before it is read, and turned once",
    kind="position and mask",
    evidence=Evidence.REPRODUCED,
    sources=("ggml-org/llama.cpp issue #3825",),
    happened=(
        "A row is shifted: its position changes at once, and its rotation is put down for later.",
        "It is shifted again before any decode step: the position adds up.",
        "What is put down for the rotation is the second shift alone.",
        "The next decode step turns the row by the second shift, and reads it for a wrong distance.",
    ),
    cases=(
        Case(
            "Two tokens leave one by one, and the third is read as it stood in between.",
            LAST_SHIFT_ALONE,
            positions,
            ROTATED,
            THREE_ROWS_IN_A_LIST,
        ),
        Case(
            "A row is read as it stood before its shift.",
            READ_UNTURNED,
            positions,
            ROTATED,
            TWO_ROWS_IN_A_LIST,
        ),
        Case(
            "The refusal to read unturned rows stops the request: a row that was not shifted holds all back.",
            WAITS_FOR_ALL,
            positions,
            "every_pending_shift_is_applied",
            THREE_ROWS_IN_A_LIST,
        ),
    ),
)
MASK_TOO_NARROW = Group(
    name="A-B46",
    title="A burst of drafts shows more rows of a windowed layer than the mask covers",
    kind="rejected suffix kept",
    evidence=Evidence.MERGED,
    sources=("huggingface/transformers pull requests #48280 and #47447, issue #30312",),
    happened=(
        "Drafts may be taken back, so a windowed layer keeps its rows until they are judged.",
        "Drafts are processed one after the other, and nothing is cut in between.",
        "Attention is given the window and the drafts; the mask is made for the window and one query.",
        "Rows without a column are seen, or every column stands for the wrong row.",
    ),
    cases=(
        Case(
            "The second query of a burst is given two rows and a mask of one column.",
            NARROW_MASK,
            residency,
            "the_mask_covers_every_row_that_is_shown",
            TWO_DRAFTS,
        ),
        Case(
            "Rows are cut while drafts are open, so that taking these back leaves a window with a gap.",
            LET_GO_AT_ONCE,
            residency,
            WHOLE_WINDOW,
            TAKEN_BACK,
        ),
        Case(
            "A second truncate goes back to where a row of the window is gone.",
            CUT_ANYWAY,
            residency,
            WHOLE_WINDOW,
            BACK_TWICE,
        ),
        Case(
            "A fork begins where a row of its window is gone.",
            FORKED_ANYWAY,
            residency,
            WHOLE_WINDOW,
            EARLIER_CHILD,
        ),
        Case(
            "Rows kept for drafts are never let go, and memory grows with the request.",
            NEVER_LET_GO,
            residency,
            "a_windowed_layer_keeps_a_bounded_number_of_rows",
            ONE_ROW_TO_KEEP,
        ),
    ),
)

GROUPS = (REMOVED_TWICE, ROTATED_ONCE, MASK_TOO_NARROW)
