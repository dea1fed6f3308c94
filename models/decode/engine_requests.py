"""What an engine is asked for, what came of it, and what it cost.

Modelled: a request with a prompt, a limit on its outputs and a token that ends it; its outcome; a clock of
calls and model tokens; faults of an engine that let a decision reach the rows. Left out: sampling; the most
likely token is put out.
"""

from __future__ import annotations

import attrs
import torch
from torch import Tensor

from kvspec.models.decode.calls import uncached_logits
from kvspec.models.decode.decoder import Decoder
from kvspec.models.decode.errors import BadConfigError
from kvspec.spec.formulas import ttft


@attrs.frozen
class Request:
    """One request.

    Attributes:
        prompt: token ids, at least one.
        outputs: most tokens that are put out, at least one.
        stop: a token after which no other is put out.
        arrival: the round before which it arrives, from 0.
        repair: its last output gets a row as well, so that its rows can be gone on with.

    Raises:
        BadConfigError: a part of it is empty, or it arrives before the first round.
    """

    prompt: tuple[int, ...]
    outputs: int
    stop: int | None = None
    arrival: int = 0
    repair: bool = False

    def __attrs_post_init__(self) -> None:
        if not self.prompt or self.outputs < 1 or self.arrival < 0:
            raise BadConfigError(
                where="Request",
                found=f"{len(self.prompt)} prompt tokens, {self.outputs} outputs, arrival {self.arrival}",
                expected="at least one prompt token, at least one output, and an arrival from 0 on",
                fix="leave the empty request out",
            )


@attrs.frozen(eq=False)
class Ended:
    """What came of a request.

    Attributes:
        request: its place in the list that the engine was given.
        outputs: the tokens it put out.
        committed: rows that it had at its end.
        frontier: outputs without a row when the last one was put out, and at its end.
        rows: copies of K and V of each layer at its end, where the engine was to keep them.
        times: the round of each output.
        arrival: the round of its arrival.
    """

    request: int
    outputs: tuple[int, ...]
    committed: int
    frontier: tuple[int, int]
    rows: tuple[tuple[Tensor, Tensor], ...]
    times: tuple[int, ...]
    arrival: int

    @property
    def told(self) -> tuple[tuple[int, ...], int, tuple[int, int]]:
        """What no schedule may change: tokens, committed length and frontiers."""
        return self.outputs, self.committed, self.frontier

    @property
    def ttft(self) -> int:
        """Rounds from its arrival to its first output."""
        return ttft(self.arrival, self.times)


@attrs.define
class Clock:
    """What the run has cost so far.

    Attributes:
        rounds: turns of the policy; those without a call are idle.
        calls: model calls.
        tokens: that were computed in them, padding left out.
        padding: places of the batches in which there was no token.
    """

    rounds: int = 0
    calls: int = 0
    tokens: int = 0
    padding: int = 0


@attrs.frozen
class EngineFaults:
    """Ways in which a decision, or a draft, reaches the rows; a sound engine has none set.

    Attributes:
        place_is_handle: the rows of a call go to the handle of their place in the batch.
        skip_row: a decode step beside a chunk of a prompt leaves the row of its token out.
        restart_chunks: each chunk of a prompt is computed for positions from 0 on.
        publish_drafts: the rows of all drafts are published, accepted or not.
        keep_rejected: the row of the first rejected draft stays, and stands in for the correction.
    """

    place_is_handle: bool = False
    skip_row: bool = False
    restart_chunks: bool = False
    publish_drafts: bool = False
    keep_rejected: bool = False


NO_FAULTS = EngineFaults()


@attrs.frozen(eq=False)
class Run:
    """A whole run of an engine.

    Attributes:
        ended: one for each request, in their order.
        clock: what it cost.
        verdict: of the sequential machine that followed it: holds, violated or unknown.
        finding: what was violated first.
        events: that were followed.
    """

    ended: tuple[Ended, ...]
    clock: Clock
    verdict: str
    finding: str | None
    events: int

    @property
    def told(self) -> tuple[tuple[tuple[int, ...], int, tuple[int, int]], ...]:
        """What no schedule may change, of every request."""
        return tuple(each.told for each in self.ended)


def plain_outputs(decoder: Decoder, request: Request) -> tuple[int, ...]:
    """The tokens of plain greedy decoding, every row of every step computed anew."""
    tokens = list(request.prompt)
    for _ in range(request.outputs):
        logits = uncached_logits(decoder, torch.tensor([tokens], device=decoder.device))
        tokens.append(int(logits[0, -1].argmax()))
        if tokens[-1] == request.stop:
            break
    return tuple(tokens[len(request.prompt) :])
