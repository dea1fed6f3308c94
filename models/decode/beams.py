"""Beams: rows that carry cache, tokens, score, sampler and position side by side, and move them together.

Modelled: fan-out of one parent to many children at once; reorder, which is a bijection and copies nothing;
select, which may take one parent several times (the first taker gets its rows, the others a fork of them)
and releases what nobody takes; a beam search that makes use of them, with random keys if wanted. Companions
that a select leaves behind are a fault that can be switched on. Left out: length penalties, ends of
sequences, beams of several prompts.

The core system says what a reorder is (`spec.batch.reorder`); the score is the one companion it leaves out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import attrs
import torch
from torch import Tensor

from kvspec.models.decode.decoder import Decoder
from kvspec.models.decode.errors import BadLengthError, DecodeError
from kvspec.models.decode.kinds import AnyLayout, Store
from kvspec.models.decode.ragged import Chunk, append_ragged

_MIX: Final = 1_000_003
_SEEDS: Final = 2**31


class NotAPermutationError(DecodeError):
    """A reorder takes one row twice, and so leaves another out."""

    code = "NOT_A_PERMUTATION"


class NoSuchBeamError(DecodeError):
    """A beam is to continue a parent that is not there."""

    code = "NO_SUCH_BEAM"


@attrs.frozen
class Sampler:
    """The state of a random source: equal states draw the same."""

    seed: int
    draws: int = 0

    def noise(self, count: int) -> Tensor:
        """Gumbel noise, float64 [count], of the next draw; ``advanced`` is the state behind it."""
        generator = torch.Generator().manual_seed((self.seed * _MIX + self.draws) % _SEEDS)
        uniform = torch.rand(count, generator=generator, dtype=torch.float64)
        return -(-uniform.clamp_min(1e-12).log()).log()

    def advanced(self) -> Sampler:
        """The state after one draw."""
        return attrs.evolve(self, draws=self.draws + 1)

    def split(self, child: int) -> Sampler:
        """The state of the child of this number; the first goes on with the parent's."""
        return self if child == 0 else Sampler((self.seed * _MIX + child) % _SEEDS, self.draws)


@attrs.frozen(eq=False)
class Beam:
    """One row of a beam search, with all its companions.

    Attributes:
        cache: the rows of its processed tokens.
        tokens: every token of it, the one that has no row yet last.
        score: sum of the log-probabilities of the tokens it chose.
        sampler: its random state.
        position: where its next row stands.
        ancestry: the rows that it came through, oldest first.
    """

    cache: AnyLayout
    tokens: tuple[int, ...]
    score: float = 0.0
    sampler: Sampler = Sampler(0)
    position: int = 0
    ancestry: tuple[int, ...] = ()

    @property
    def pending(self) -> tuple[int, ...]:
        """The tokens that have no row yet: the whole prompt at first, then the last token."""
        return self.tokens[-1:] if self.position else self.tokens


COMPANIONS: Final = tuple(field.name for field in attrs.fields(Beam))
"""What moves with a beam: all of it, or the beam is damaged."""


def fan_out(parent: AnyLayout, n: int, count: int) -> tuple[AnyLayout, ...]:
    """So many children with the rows [0, n) of one snapshot of the parent: all of them, or none.

    Raises:
        BadLengthError: ``count`` is below one, or ``n`` outside [0, length].
        ReleasedRowsError: the parent's rows were given up.
    """
    if count < 1:
        raise BadLengthError(
            where=f"fan-out of a {parent.name} layout",
            found=f"{count} children",
            expected="at least 1",
            fix="leave the empty fan-out out",
        )
    # Nobody else knows the first child, so that its rows cannot change while the others are made of it.
    children = [parent.fork(n)]
    try:
        for _ in range(count - 1):
            children.append(children[0].fork(n))
    except BaseException:
        for child in children:
            child.release()
        raise
    return tuple(children)


def reorder(beams: Sequence[Beam], source: Sequence[int]) -> tuple[Beam, ...]:
    """Row r carries what row source[r] carried, all companions of it; nothing is copied.

    Raises:
        NotAPermutationError: ``source`` is no bijection of the rows.
    """
    if sorted(source) != list(range(len(beams))):
        raise NotAPermutationError(
            where=f"reorder of {len(beams)} beams",
            found=f"source {list(source)}",
            expected="each row once",
            fix="select instead, which forks what is taken twice",
        )
    return tuple(beams[row] for row in source)


def select(
    beams: Sequence[Beam], parents: Sequence[int], left: Collection[str] = ()
) -> tuple[Beam, ...]:
    """Row r continues beam parents[r]; beams that no row continues are released.

    The first row that takes a beam gets its cache and sampler, each further one a fork and a split. If a
    fork fails, nothing has changed. ``left`` names companions that wrongly stay where they were; there
    must be as many rows as beams then.

    Raises:
        NoSuchBeamError: a parent is not among the beams, or there is none.
    """
    _check_parents(beams, parents)
    caches = None if "cache" in left else _caches(beams, parents)
    taken = [0] * len(beams)
    chosen: list[Beam] = []
    for row, parent in enumerate(parents):
        beam = beams[parent]
        moved: dict[str, Any] = {
            "sampler": beam.sampler.split(taken[parent]),
            "ancestry": (*beam.ancestry, parent),
        }
        if caches is not None:
            moved["cache"] = caches[row]
        stays = {name: getattr(beams[row], name) for name in left}
        chosen.append(attrs.evolve(beam, **{**moved, **stays}))
        taken[parent] += 1
    if caches is not None:
        for parent, beam in enumerate(beams):
            if not taken[parent]:
                beam.cache.release()
    return tuple(chosen)


def _caches(beams: Sequence[Beam], parents: Sequence[int]) -> list[AnyLayout]:
    """The cache of each row, with all forks made; they are taken back if one fails."""
    spare: dict[int, list[AnyLayout]] = {}
    try:
        for parent in sorted(set(parents)):
            cache, more = beams[parent].cache, parents.count(parent) - 1
            spare[parent] = list(fan_out(cache, cache.length, more)) if more else []
    except BaseException:
        for children in spare.values():
            for child in children:
                child.release()
        raise
    waiting = {parent: [beams[parent].cache, *children] for parent, children in spare.items()}
    return [waiting[parent].pop(0) for parent in parents]


def next_logits(decoder: Decoder, beams: Sequence[Beam]) -> tuple[tuple[Beam, ...], Tensor]:
    """Append every beam's pending tokens in one call; logits [B, vocab] of what comes next.

    Rows are computed for the position that the beam carries. All beams publish, or the first refusal is
    raised; those that published keep their rows then.

    Raises:
        DecodeError: an append was refused.
    """
    device = decoder.device
    chunks = [Chunk(beam.cache, torch.tensor(beam.pending, device=device)) for beam in beams]
    starts = {row: beam.position for row, beam in enumerate(beams)}
    last: list[Tensor] = []
    for result in append_ragged(decoder, chunks, starts=starts):
        if result.logits is None:
            raise result.refused or RuntimeError("a call gave neither logits nor a refusal")
        last.append(result.logits[-1])
    moved = tuple(attrs.evolve(beam, position=beam.position + len(beam.pending)) for beam in beams)
    return moved, torch.stack(last)


def best(
    beams: Sequence[Beam], logits: Tensor, width: int, noise: float
) -> tuple[list[int], list[int], Tensor]:
    """Parents and tokens of the ``width`` best continuations, and log-probabilities [B, vocab].

    They are ordered by score plus ``noise`` times what each beam's sampler draws; of equals, the one of
    the lower row and token comes first.
    """
    chances = logits.to(torch.float64).log_softmax(dim=-1).cpu()
    scores = torch.tensor([beam.score for beam in beams], dtype=torch.float64)[:, None] + chances
    keys = scores + noise * torch.stack([beam.sampler.noise(chances.shape[1]) for beam in beams])
    order = keys.flatten().sort(descending=True, stable=True).indices[:width].tolist()
    vocab = chances.shape[1]
    return [index // vocab for index in order], [index % vocab for index in order], chances


def beam_search(
    decoder: Decoder,
    store: Store,
    prompt: Sequence[int],
    *,
    width: int,
    steps: int,
    noise: float = 0.0,
    seed: int = 0,
    left: Collection[str] = (),
) -> tuple[Beam, ...]:
    """The beams of a search from ``prompt`` after so many tokens, in the order of their keys.

    ``left`` names companions that every select but the first leaves where they were: a fault.
    """
    beams: tuple[Beam, ...] = (Beam(store(), tuple(prompt), sampler=Sampler(seed)),)
    for step in range(steps):
        beams, logits = next_logits(decoder, beams)
        parents, tokens, chances = best(beams, logits, width, noise)
        behind = [attrs.evolve(beam, sampler=beam.sampler.advanced()) for beam in beams]
        chosen = select(behind, parents, left if step else ())
        beams = tuple(
            attrs.evolve(
                beam,
                tokens=(*beam.tokens, token),
                score=beam.score + float(chances[parent, token]),
            )
            for beam, parent, token in zip(chosen, parents, tokens, strict=True)
        )
    return beams


def _check_parents(beams: Sequence[Beam], parents: Sequence[int]) -> None:
    if not parents or any(not 0 <= parent < len(beams) for parent in parents):
        raise NoSuchBeamError(
            where=f"select among {len(beams)} beams",
            found=f"parents {list(parents)}",
            expected=f"at least one, each in [0, {len(beams)})",
            fix="name a beam of this step for each row",
        )
