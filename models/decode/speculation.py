"""Drafts in an append: which of them the target accepts, and an append cut to the rows that stay.

Modelled: greedy verification. A call appends rows for drafts behind the known tokens; its logits tell how
many drafts the target would have chosen itself; the rows of the others are dropped before anything is
visible. What the target chose instead is an output without a row. How many rows stay is the
specification's to say (`spec.frontier.verify`). Left out: sampled verification, trees of drafts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from kvspec.models.decode.completion import Submit, run_now
from kvspec.models.decode.errors import BadLengthError, NotAtFrontierError, StagingClosedError
from kvspec.models.decode.kinds import AnyLayout
from kvspec.models.decode.staging import Staging

Drafter = Callable[[tuple[int, ...]], Sequence[int]]
"""Guesses how a sequence of tokens goes on; it may guess wrong, and as many tokens as it likes."""


def accepted_drafts(logits: Tensor, drafts: Sequence[int]) -> int:
    """How many drafts, from the first on, the target would have chosen itself.

    ``logits`` [d, vocab] are those before each draft: the first row is of the last known token.
    """
    chosen = logits.argmax(dim=-1).tolist()
    for place, (draft, token) in enumerate(zip(drafts, chosen, strict=True)):
        if draft != token:
            return place
    return len(drafts)


def keep_rows(layout: AnyLayout, staging: Staging, count: int, submit: Submit = run_now) -> Staging:
    """The append of the first ``count`` rows of an open append, which it closes.

    Raises:
        BadLengthError: ``count`` is outside [1, rows of the append].
        NotAtFrontierError: other rows were published behind the append's base meanwhile.
        RowsMissingError: a part is not staged.
        StagingClosedError: the append is over.
    """
    if not 1 <= count <= staging.count:
        raise BadLengthError(
            where=f"verification of rows [{staging.start}, {staging.stop})",
            found=f"{count} rows to keep",
            expected=f"from 1 to {staging.count}",
            fix="discard the append where no row of it stays",
        )
    if count == staging.count:
        return staging
    if staging.is_closed:
        raise StagingClosedError(
            where=f"verification of rows [{staging.start}, {staging.stop})",
            found="an append whose rows were already installed or thrown away",
            expected="an open append",
            fix="verify before the append is published",
        )
    staging.wait()
    kept = {cell: staging.rows(cell)[:, :, :count].clone() for cell in staging.shape.cells()}
    # Discarded, not left open, so that its room is free for the shorter append.
    staging.discard()
    shorter = layout.begin(count, submit)
    if shorter.start != staging.start:
        shorter.discard()
        raise NotAtFrontierError(
            where=f"verification of rows [{staging.start}, {staging.stop})",
            found=f"visible rows up to {shorter.start}",
            expected=f"visible rows up to {staging.start}, where the append begins",
            fix="verify before anything else is published, or draft anew",
        )
    for (layer, part), rows in kept.items():
        shorter.stage(layer, part, rows)
    return shorter
