"""Loads in parts on the decode backend: shards of real rows that arrive one by one, and faults to switch on.

Modelled: the rows of an append are loaded from a peer that has them. Rank r has the heads h with h = r modulo
the number of ranks, stage s the layers l with l = s modulo the number of stages, chunk c the rows in the same
manner. A part that arrives is copied into a landing buffer, which is zero elsewhere. Once every rank has
done what the votes say, the shards that are to compute their rows run the decoder over the span: each adds
what its heads give to the sum behind every layer, and a shard that does not take part adds nothing. The
publication shows what has landed of a shard that uses its load, and what was computed of one that does not.
Assumed: an instance without layers has those that its stages need; they are staged as the append is
prepared; one without chunks has rows that have all landed.
Damage: rows in use that never arrived, in bytes; rows that were computed without some shards, and how far
they are off; and all that the backend measures of a handle (logits and rows against an uncached run).
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from itertools import product
from typing import Any, Final

import attrs
import torch
from attrs import define, field
from torch import Tensor

from kvspec.models.backend import Damage
from kvspec.models.concrete.state import State, Value
from kvspec.models.decode.agreement import TOLERANCES
from kvspec.models.decode.backend import DecodeBackend
from kvspec.models.decode.backend_appends import Txn
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_model import PREFIX_ROWS
from kvspec.models.decode.backend_tables import RefusedError
from kvspec.models.decode.decoder import Decoder, positions_from
from kvspec.models.decode.hooks import KVView, Part
from kvspec.models.decode.mechanisms.core_part import LAYERS, core_part, core_tables
from kvspec.models.decode.weights import Weights
from kvspec.spec.language import Instance

FAULTS: Final = {
    "vote_for.one-set-of-chunks": "a chunk counts as arrived when any stage has sent it",
    "vote_for.failures-are-not-reported": "a load counts as whole when every part has come to its end",
    "vote_for.drop-guard.VOTE_CAST": "a vote that comes after it was passed over is taken",
    "apply_votes.each-rank-alone": "each rank does what it has voted for itself",
    "apply_votes.each-group-alone": "a failed stage is given up, and the others are used",
    "apply_votes.drop-guard.VOTES_AWAITED": "a rank decides before all have voted",
}
"""Every fault that the cache can be given, by name, with what it does."""

Shard = tuple[int, int]
"""A rank and a stage."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of its rules, or None."""
    return mutation if mutation in FAULTS else None


@define(eq=False)
class Load:
    """What has landed of an append: rows [L, H_kv, n, d_h] of K and V, and those of the peer that sends.

    outcome: what came of each part (rank, stage, chunk). vote: what each rank said.
    verdict: what each shard does with its rows.
    computed: rows of the shards that compute theirs, behind the rows of earlier places.
    """

    outcome: dict[tuple[int, int, int], str]
    vote: list[str]
    verdict: dict[Shard, str]
    sent: dict[Part, Tensor] = field(factory=dict)
    landed: dict[Part, Tensor] = field(factory=dict)
    computed: dict[Part, Tensor] = field(factory=dict)


class Cache(DecodeBackend):
    """The decode backend whose appends are loaded in parts; it speaks of the system `coverage`.

    Raises:
        ValueError: there is no such fault.
    """

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        chosen = known_faults(faults, FAULTS)
        super().__init__(device="cpu")
        self.forgets = chosen
        self.loads: list[Load] = []
        self.lost: list[bool] = []
        self._counts = {"Rank": 0, "Stage": 0, "Chunk": 0}
        self._without_layers = False

    def reset(self, instance: Instance) -> None:
        """Begin anew, with the sizes of an instance of `coverage`."""
        self._counts = {name: instance.sizes[name] for name in self._counts}
        self._without_layers = not instance.sizes["Layer"]
        part = core_part(instance, layers=max(LAYERS, self._counts["Stage"]))
        super().reset(part)
        self.lost = [False] * self._counts["Rank"]
        self.loads = [self._awaited() for _ in range(instance.sizes["Txn"])]
        plain = {name: self._actions[name] for name in ("begin", "prepare", "publish")}
        self._actions |= {
            "arrive": self._arrive,
            "fail": self._fail,
            "vote_for": self._vote_for,
            "vote_against": self._vote_against,
            "pass_over": self._pass_over,
            "apply_votes": self._apply_votes,
            "crash": self._crash,
            "begin": lambda **names: self._begin(plain["begin"], **names),
            "prepare": lambda x: self._prepare(plain["prepare"], x),
            "publish": lambda x: self._publish(plain["publish"], x),
        }

    def observe(self) -> State:
        """The state of the core, what came of each part, the votes, what each shard does, dead ranks."""
        tables = core_tables(super().observe(), has_layers=not self._without_layers)
        outcomes: list[Value] = [found for load in self.loads for found in load.outcome.values()]
        verdicts: list[Value] = [found for load in self.loads for found in load.verdict.values()]
        votes: list[Value] = [found for load in self.loads for found in load.vote]
        return State((*tables, tuple(outcomes), tuple(votes), tuple(verdicts), tuple(self.lost)))

    def damage(self) -> list[Damage]:
        """What the backend measures, rows that never arrived, and rows computed without some shards."""
        found = super().damage()
        for x, load in enumerate(self.loads):
            if self._txn(x).state in {"OPEN", "PREPARED"}:
                found += self._missing(f"txn{x}", load) + self._off(f"txn{x}", load)
        return found

    def _awaited(self) -> Load:
        ranks, stages, chunks = (range(self._counts[name]) for name in ("Rank", "Stage", "Chunk"))
        return Load(
            dict.fromkeys(product(ranks, stages, chunks), "AWAITED"),
            ["NONE" for _ in ranks],
            dict.fromkeys(product(ranks, stages), "OPEN"),
        )

    def _txn(self, x: int) -> Txn:
        return self._observer.appends.txns[x]

    def _begin(self, begin: Any, **names: int) -> None:
        """Open the append, with an empty landing buffer and a peer that has its rows."""
        begin(**names)
        x, tables = names["x"], self._held()
        txn, load = self._txn(x), self._awaited()
        entry = tables.slots[names["h"]].entry
        run = tables.models[names["a"]].run(entry.prompt + entry.tokens + txn.tokens)
        first = PREFIX_ROWS + txn.start
        for part, rows in zip(Part, (run.keys, run.values), strict=True):
            load.sent[part] = rows[:, :, first : first + txn.count].clone()
            here = torch.zeros_like if self._counts["Chunk"] else torch.clone
            load.landed[part] = here(load.sent[part])
        self.loads[x] = load

    def _prepare(self, prepare: Any, x: int) -> None:
        """Declare the append complete, once it is decided what becomes of its load."""
        txn = self._txn(x)
        stop = txn.start + txn.count
        staged = txn.staged is not None and set(txn.staged.ends.values()) <= {stop}
        whole = self._without_layers or staged
        if txn.state == "OPEN" and whole and "OPEN" in self.loads[x].verdict.values():
            raise RefusedError("LOAD_OPEN", f"nobody decided on the load of txn{x}")
        if txn.state == "OPEN" and self._without_layers:
            for layer, place in product(range(self._held().shape.layers), range(txn.start, stop)):
                self._actions["stage_k"](x, layer, place)
                self._actions["stage_v"](x, layer, place)
        prepare(x)

    def _publish(self, publish: Any, x: int) -> None:
        """Show what has landed where the load is used, and what was computed elsewhere."""
        txn, load = self._txn(x), self.loads[x]
        if txn.state == "PREPARED" and txn.staged is not None:
            rows = slice(txn.start, txn.start + txn.count)
            for shard, verdict in load.verdict.items():
                source = load.landed if verdict == "USED" else load.computed
                for part, (layer, head) in product(Part, self._cells(shard)):
                    _write(txn.staged.rows[part][layer, 0, head, rows], source[part][layer, head])
        publish(x)

    def _arrive(self, x: int, r: int, s: int, c: int) -> None:
        """A part arrives, and is copied into the landing buffer."""
        load = self._awaits(x, (r, s, c))
        for part, (layer, head) in product(Part, self._cells((r, s))):
            rows = slice(c, None, self._counts["Chunk"])
            _write(load.landed[part][layer, head, rows], load.sent[part][layer, head, rows])
        load.outcome[r, s, c] = "ARRIVED"

    def _fail(self, x: int, r: int, s: int, c: int) -> None:
        """A part fails: its place in the landing buffer stays as it is."""
        self._awaits(x, (r, s, c)).outcome[r, s, c] = "FAILED"

    def _awaits(self, x: int, part: tuple[int, int, int]) -> Load:
        self._need_open(x)
        load = self.loads[x]
        if load.outcome[part] != "AWAITED":
            raise RefusedError("PART_ENDED", f"part {part} of txn{x} has {load.outcome[part]}")
        return load

    def _need_open(self, x: int) -> None:
        if self._txn(x).state != "OPEN":
            raise RefusedError("TXN_CLOSED", f"txn{x} is {self._txn(x).state}")

    def _need_alive(self, r: int) -> None:
        if self.lost[r]:
            raise RefusedError("RANK_LOST", f"rank{r} has died")

    def _need_no_vote(self, x: int, r: int, fault: str = "") -> None:
        found = self.loads[x].vote[r]
        if found != "NONE" and fault not in self.forgets:
            raise RefusedError("VOTE_CAST", f"rank{r} has voted {found} on txn{x}")

    def _vote_for(self, x: int, r: int) -> None:
        """A rank votes to use its parts, which have all landed."""
        self._need_open(x)
        self._need_alive(r)
        self._need_no_vote(x, r, "vote_for.drop-guard.VOTE_CAST")
        if not self._is_whole(self._own(x, r)):
            raise RefusedError("PART_MISSING", f"rank{r} has {self._own(x, r)} of txn{x}")
        self.loads[x].vote[r] = "FOR"

    def _vote_against(self, x: int, r: int) -> None:
        """A rank votes against a load of which it lacks a part."""
        self._need_open(x)
        self._need_alive(r)
        self._need_no_vote(x, r)
        if set(self._own(x, r).values()) <= {"ARRIVED"}:
            raise RefusedError("NOTHING_MISSING", f"rank{r} has all its parts of txn{x}")
        self.loads[x].vote[r] = "AGAINST"

    def _pass_over(self, x: int, r: int) -> None:
        """The vote of a rank is not awaited any more, and counts as one against."""
        self._need_open(x)
        self._need_no_vote(x, r)
        self.loads[x].vote[r] = "AGAINST"

    def _crash(self, r: int) -> None:
        """A rank dies."""
        self._need_alive(r)
        self.lost[r] = True

    def _own(self, x: int, r: int) -> dict[tuple[int, int, int], str]:
        """What came of the parts of a rank."""
        return {part: came for part, came in self.loads[x].outcome.items() if part[0] == r}

    def _is_whole(self, own: dict[tuple[int, int, int], str]) -> bool:
        """A rank takes its parts as whole."""
        if "vote_for.failures-are-not-reported" in self.forgets:
            return "AWAITED" not in own.values()
        arrived = {part for part, came in own.items() if came == "ARRIVED"}
        if "vote_for.one-set-of-chunks" in self.forgets:
            return {c for _, _, c in arrived} == {c for _, _, c in own}
        return arrived == own.keys()

    def _apply_votes(self, x: int, r: int) -> None:
        """A rank does what the votes say; when the last has, those that compute their rows do it together."""
        self._need_open(x)
        self._need_alive(r)
        load = self.loads[x]
        shards = [shard for shard in load.verdict if shard[0] == r]
        if all(load.verdict[shard] != "OPEN" for shard in shards):
            raise RefusedError("VERDICT_APPLIED", f"rank{r} has decided on txn{x}")
        early = "apply_votes.drop-guard.VOTES_AWAITED" in self.forgets
        if "NONE" in load.vote and not early:
            raise RefusedError("VOTES_AWAITED", f"the votes on txn{x} are {load.vote}")
        for shard in shards:
            used = set(load.vote) <= {"FOR"}
            if "apply_votes.each-rank-alone" in self.forgets:
                used = load.vote[r] == "FOR"
            if "apply_votes.each-group-alone" in self.forgets:
                used = all(
                    came != "FAILED" for part, came in load.outcome.items() if part[:2] == shard
                )
            load.verdict[shard] = "USED" if used else "RECOMPUTED"
        if "OPEN" not in load.verdict.values():
            load.computed = self._compute(x, load)

    @torch.inference_mode()
    def _compute(self, x: int, load: Load) -> dict[Part, Tensor]:
        """Rows [L, H_kv, n, d_h] of the span, with the heads of the shards that compute theirs."""
        tables, txn = self._held(), self._txn(x)
        if txn.target is None:
            raise RefusedError("TXN_CLOSED", f"txn{x} has no target")
        entry, model = tables.slots[txn.target].entry, tables.models[txn.abi or 0]
        tokens = entry.prompt + entry.tokens + txn.tokens
        first = PREFIX_ROWS + txn.start
        run = model.run(tokens)
        behind = Behind(run.keys[:, None, :, :first], run.values[:, None, :, :first])
        alone = [shard for shard, done in load.verdict.items() if done == "RECOMPUTED"]
        decoder = copy(model.decoder)
        decoder.weights = _with_heads(model.decoder, {c for s in alone for c in self._cells(s)})
        span = torch.tensor([tokens[first : first + txn.count]], device=decoder.device)
        decoder.forward(span, positions_from(first, txn.count, decoder.device), behind)
        return behind.new(txn.count)

    def _cells(self, shard: Shard) -> Iterator[tuple[int, int]]:
        """Layers of the stage and heads of the rank."""
        rank, stage = shard
        shape = self._held().shape
        return product(
            range(stage, shape.layers, self._counts["Stage"]),
            range(rank, shape.kv_heads, self._counts["Rank"]),
        )

    def _missing(self, where: str, load: Load) -> list[Damage]:
        """Bytes of rows that a shard uses and that are not those of the peer."""
        lost = 0
        for shard, verdict in load.verdict.items():
            for part, (layer, head) in product(Part, self._cells(shard)):
                landed, sent = load.landed.get(part), load.sent.get(part)
                if verdict == "USED" and landed is not None and sent is not None:
                    wrong = (landed[layer, head] != sent[layer, head]).any(dim=-1)
                    lost += int(wrong.sum()) * sent.shape[-1] * sent.element_size()
        text = f"{where} uses {lost} bytes of rows that never arrived"
        return [Damage("rows", where, float(lost), text)] if lost else []

    def _off(self, where: str, load: Load) -> list[Damage]:
        """How far computed rows are from those of a run in which every shard takes part."""
        off, bound = 0.0, TOLERANCES[self._held().models[0].decoder.config.dtype]
        for shard, verdict in load.verdict.items():
            if verdict == "RECOMPUTED" and load.computed:
                for part, (layer, head) in product(Part, self._cells(shard)):
                    gap = load.computed[part][layer, head] - load.sent[part][layer, head]
                    off = max(off, float(gap.abs().max()))
        text = f"{where} has computed rows that are off by {off:.3g}: not every shard took part"
        return [Damage("layers", where, off, text)] if off > bound else []


class Behind:
    """The cache of a call over a span: it reads earlier rows, [L, 1, H_kv, first, d_h], and its own."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self._rows = {Part.KEY: list(keys), Part.VALUE: list(values)}

    def stage(self, layer: int, part: Part, rows: Tensor) -> None:
        """Put the rows of the span behind the earlier ones."""
        self._rows[part][layer] = torch.cat([self._rows[part][layer], rows], dim=2)

    def view(self, layer: int) -> KVView:
        """The rows from place 0 on."""
        keys, values = (self._rows[part][layer] for part in Part)
        return KVView(keys, values, positions_from(0, keys.shape[2], keys.device))

    def new(self, count: int) -> dict[Part, Tensor]:
        """The last rows of every layer, [L, H_kv, count, d_h]."""
        return {part: torch.cat(rows)[:, :, -count:] for part, rows in self._rows.items()}


def _with_heads(decoder: Decoder, cells: set[tuple[int, int]]) -> Weights:
    """Weights with which only some (layer, K/V head) add to the sum behind their layer."""
    config = decoder.config
    width = config.heads // config.kv_heads * config.head_dim
    layers = list(decoder.weights.layers)
    for layer, head in product(range(config.layers), range(config.kv_heads)):
        if (layer, head) not in cells:
            part = layers[layer].o.clone()
            part[:, head * width : (head + 1) * width] = 0
            layers[layer] = attrs.evolve(layers[layer], o=part)
    return attrs.evolve(decoder.weights, layers=tuple(layers))


@torch.inference_mode()
def _write(target: Tensor, rows: Tensor) -> None:
    target.copy_(rows)
