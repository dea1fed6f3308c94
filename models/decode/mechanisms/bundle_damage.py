"""What goes wrong with companions, in numbers: masks, states, draft rows and grammars that were left behind.

Each measure holds a companion against one that is made anew from the request's tokens by uncached runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from attrs import define, field
from torch import Tensor

from kvspec.models.backend import Damage
from kvspec.models.decode.agreement import TOLERANCES, disagreement
from kvspec.models.decode.backend_model import PREFIX_ROWS, Model
from kvspec.models.decode.mechanisms.bundle_companions import (
    PREFIX,
    DraftRows,
    Grammar,
    Recurrent,
    draft_model,
    next_shares,
    unfed,
)

_PROBE = 1


@define(eq=False)
class Request:
    """What a handle's request has beside its rows.

    tokens: prompt and outputs, as the cache has them. client: as its client has them. taken_up: another
    request continues it.
    """

    prompt: int = 0
    tokens: list[int] = field(factory=list)
    client: list[int] = field(factory=list)
    is_stopped: bool = False
    recurrent: Recurrent | None = None
    drafts: DraftRows | None = None
    grammar: Grammar | None = None
    asked: int = 0
    carried: int = 0
    died: bool = False
    lost: bool = False
    taken_up: bool = False

    def outputs_within(self, n: int) -> list[int]:
        """The tokens that stay with the first n rows: those that have one, and the next one."""
        return self.tokens[: max(self.prompt, n + 1)]


def wrong_state(where: str, held: Recurrent, model: Model, ids: tuple[int, ...]) -> list[Damage]:
    """How far the reading of a recurrent state is from that of one which took in the committed rows."""
    run = model.run(ids)
    right = Recurrent.behind(run.keys[-1], run.values[-1]).reading()
    off = float((held.reading() - right).abs().max())
    if off <= TOLERANCES[run.keys.dtype] * max(1.0, float(right.abs().max())):
        return []
    text = (
        f"the recurrent state of {where} is that of {held.position} rows, of which it has "
        f"{len(ids) - PREFIX_ROWS}: logits are {off:.3g} off"
    )
    return [Damage("logits", where, off, text)]


def wrong_drafts(
    where: str, rows: DraftRows, tokens: Sequence[int], committed: int
) -> list[Damage]:
    """Draft rows beyond the committed ones or lost, and the draft model's next logits."""
    found = []
    apart = rows.count - committed
    if apart > 0 or apart < -1:
        lost = rows.row_bytes * (apart if apart > 0 else -1 - apart)
        text = f"the draft model has {rows.count} rows of {where}, whose cache has {committed}"
        found.append(Damage("rows", where, float(lost), text))
    tried = rows.copy()
    logits = tried.feed([*unfed(rows, tokens, committed), _PROBE])
    right = draft_model().run((*PREFIX, *tokens, _PROBE)).logits
    if logits is not None and disagreement(logits, right) > TOLERANCES[right.dtype]:
        off = float((logits - right).abs().max())
        text = f"the draft model's next logits of {where} are {off:.3g} off an uncached run"
        found.append(Damage("logits", where, off, text))
    return found


def wrong_mask(where: str, held: Grammar | None, request: Request, logits: Tensor) -> list[Damage]:
    """How much likelier or unlikelier a token is under the row's mask than under the request's own."""
    if held is request.grammar:
        return []
    off = _apart(logits, held, request.grammar)
    whose = "no mask" if held is None else f"the mask of handle{held.handle}"
    text = f"{where} is sampled under {whose}: the share of a token is {off:.3g} off"
    return [Damage("order", where, off, text)] if off else []


def left_mask(where: str, held: Grammar | None) -> list[Damage]:
    """Tokens that the next request in a row would be forbidden."""
    if held is None:
        return []
    forbidden = int(torch.isinf(held.mask()).sum())
    text = f"{where} has no request and forbids {forbidden} tokens, for handle{held.handle}"
    return [Damage("order", where, float(forbidden), text)]


def wrong_grammar(where: str, request: Request, logits: Tensor) -> list[Damage]:
    """What the state of a grammar does to the next token, against one that consumed every output."""
    held = request.grammar
    if held is None:
        return []
    first = request.asked or request.prompt
    due = Grammar(held.handle, held.start, request.client[first:])
    off = _apart(logits, held, due)
    text = (
        f"the grammar of {where} has consumed {len(held.consumed)} of {len(due.consumed)} outputs: "
        f"the share of a token is {off:.3g} off"
    )
    return [Damage("logits", where, off, text)] if off else []


def wrong_place(where: str, request: Request, model: Model) -> list[Damage]:
    """Next logits behind other tokens than the client has."""
    if request.tokens == request.client:
        return []
    right = model.run((*PREFIX, *request.client)).logits
    off = float((model.run((*PREFIX, *request.tokens)).logits - right).abs().max())
    text = (
        f"{where} goes on behind {len(request.tokens)} tokens, its client has "
        f"{len(request.client)}: logits are {off:.3g} off"
    )
    return [Damage("logits", where, off, text)]


def held_for_nothing(where: str, rows: Iterable[tuple[Tensor, Tensor]], why: str) -> list[Damage]:
    """Bytes of a lost request that stay, since a lost request is not released."""
    held = sum(part.numel() * part.element_size() for pair in rows for part in pair)
    return [Damage("owner", where, float(held), f"{held} bytes of {where} are held: {why}")]


def _apart(logits: Tensor, held: Grammar | None, own: Grammar | None) -> float:
    return float((next_shares(logits, held) - next_shares(logits, own)).abs().max())
