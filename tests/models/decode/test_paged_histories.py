"""Long histories over a small pool: rows, logits, kept snapshots and the books, at every step."""

import random
from collections import Counter

import pytest
import torch
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from kvspec.models.decode import (
    SOUND,
    TOLERANCES,
    AnyLayout,
    BlockPool,
    CacheShape,
    CallRows,
    DecodeError,
    Decoder,
    Deferral,
    LayoutFaults,
    agrees,
    disagreement,
    positions_from,
    run_now,
    uncached_logits,
)
from kvspec.models.decode.kinds import Store, StoreSizes, open_store

LONGEST = 9
"""Tokens that one handle may have."""

HANDLES = 4
"""Handles that are live at a time."""

FAULTS = ("share_tail", "alias_fork", "early_reuse", "double_free", "lost_reference")


class Recomputed:
    """Rows and logits of token sequences, without a cache; what was computed once is kept."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self._rows: dict[tuple[int, ...], list[tuple[torch.Tensor, torch.Tensor]]] = {}
        self._logits: dict[tuple[int, ...], torch.Tensor] = {}

    def rows(self, tokens):
        """K and V of each layer, [1, H_kv, T, d_h]."""
        if tokens not in self._rows:
            found = self._run(tokens or (0,))
            count = len(tokens)
            self._rows[tokens] = [(k[:, :, :count], v[:, :, :count]) for k, v in found]
        return self._rows[tokens]

    def logits(self, tokens):
        """Logits [1, T, vocab]."""
        if tokens not in self._logits:
            self._logits[tokens] = uncached_logits(self.decoder, torch.tensor([tokens]))
        return self._logits[tokens]

    def _run(self, tokens):
        positions = positions_from(0, len(tokens), self.decoder.device)
        cache = CallRows(positions)
        self.decoder.forward(torch.tensor([tokens]), positions, cache)
        views = [cache.view(layer) for layer in range(self.decoder.config.layers)]
        return [(view.keys, view.values) for view in views]


@define(eq=False)
class Handle:
    """A live layout, its tokens, and how often these changed."""

    layout: AnyLayout
    tokens: tuple[int, ...] = ()
    version: int = 0

    def become(self, tokens):
        """Have other tokens."""
        self.tokens = tokens
        self.version += 1


@define(eq=False)
class Open:
    """An append under way: its call, and the version and tokens that it began on."""

    handle: Handle
    staging: object
    hold: Deferral
    version: int
    tokens: tuple[int, ...]
    call: object


class WrongError(Exception):
    """A history went wrong, in words."""


@define(eq=False)
class History:
    """Random steps over the layouts of one pool, each of which is checked.

    ``is_audited``: the books are checked too, not the content alone.
    """

    recomputed: Recomputed
    draw: random.Random
    faults: LayoutFaults = SOUND
    blocks: int = 16
    block_size: int = 2
    is_audited: bool = True
    handles: list[Handle] = field(factory=list)
    readers: list[tuple[object, list]] = field(factory=list)
    opened: list[Open] = field(factory=list)
    late: list[Deferral] = field(factory=list)
    done: Counter = field(factory=Counter)
    store: Store = field(init=False)
    pool: BlockPool = field(init=False)

    def __attrs_post_init__(self):
        decoder = self.recomputed.decoder
        shape = CacheShape.of(decoder.config, decoder.device)
        sizes = StoreSizes(LONGEST, blocks=self.blocks, block_size=self.block_size)
        self.store = open_store("paged", shape, sizes, self.faults)
        self.pool = self.store().pool

    def run(self, steps):
        """So many steps that do something, drawn by weight; what went wrong, or None."""
        names, weights = zip(*STEPS.items(), strict=True)
        while self.done.total() < steps:
            name = self.draw.choices(names, weights)[0]
            try:
                self.step(name)
            except WrongError as wrong:
                return f"step {self.done.total()}, {name}: {wrong}"
        return None

    def step(self, name):
        """One step, and all checks behind it if it did anything."""
        before = self.done.total()
        if getattr(self, name)():
            self.done[name] += 1
        if self.done.total() > before:
            self.check()

    # Steps; each answers whether it did anything.

    def allocate(self):
        """Begin an empty handle."""
        if len(self.handles) < HANDLES:
            self.handles.append(Handle(self.store()))
            return True
        return False

    def append(self):
        """Run a call to its end and publish it; its logits are those without a cache."""
        begun = self.begun(run_now)
        if begun is None:
            return False
        self.finished(begun)
        begun.handle.layout.install(begun.staging)
        begun.handle.become(begun.tokens)
        return True

    def open(self):
        """Run a call to its end or a part of the way, its writes held back, and leave it open."""
        begun = self.begun(Deferral()) if len(self.opened) < 3 else None
        if begun is None:
            return False
        if self.draw.random() < 0.5:
            self.finished(begun)
        else:
            for _ in range(self.draw.randrange(4)):
                next(begun.call)
        self.opened.append(begun)
        return True

    def publish(self):
        """End an open append: publish it if its base is still there, else throw it away."""
        if not self.opened:
            return False
        begun = self.opened.pop(self.draw.randrange(len(self.opened)))
        self.finished(begun)
        begun.hold.fire_all()
        if begun.handle in self.handles and begun.handle.version == begun.version:
            begun.handle.layout.install(begun.staging, wait=False)
            begun.handle.become(begun.tokens)
            return True
        begun.staging.discard()
        self.done["outdated"] += 1
        return False

    def discard(self):
        """Throw an open append away in mid-call, with writes still in flight."""
        if not self.opened:
            return False
        begun = self.opened.pop(self.draw.randrange(len(self.opened)))
        begun.staging.discard()
        self.late.append(begun.hold)
        return True

    def land(self):
        """Let some of the late writes of discarded appends land."""
        if not self.late:
            return False
        hold = self.draw.choice(self.late)
        for write in self.draw.sample(hold.writes, self.draw.randint(0, len(hold.writes))):
            write.fire()
        if all(write.is_complete() for write in hold.writes):
            self.late.remove(hold)
        return True

    def fork(self):
        """Make a child with a prefix, often the whole."""
        if not self.handles or len(self.handles) == HANDLES:
            return False
        parent = self.draw.choice(self.handles)
        n = self.prefix(parent)
        self.handles.append(Handle(parent.layout.fork(n), parent.tokens[:n]))
        return True

    def truncate(self):
        """Keep a prefix."""
        if not self.handles:
            return False
        handle = self.draw.choice(self.handles)
        n = self.draw.randint(0, len(handle.tokens))
        handle.layout.truncate(n)
        handle.become(handle.tokens[:n])
        return True

    def release(self):
        """Give a handle up."""
        if not self.handles:
            return False
        self.handles.pop(self.draw.randrange(len(self.handles))).layout.release()
        return True

    def keep(self):
        """A reader takes a snapshot, and a copy of what it shows."""
        if not self.handles or len(self.readers) == 4:
            return False
        snapshot = self.draw.choice(self.handles).layout.snapshot()
        self.readers.append((snapshot, content(snapshot)))
        return True

    def leave(self):
        """A reader drops its snapshot."""
        if not self.readers:
            return False
        self.readers.pop(self.draw.randrange(len(self.readers)))
        return True

    # What steps are made of.

    def prefix(self, handle):
        """A length of a prefix: the whole in half of the cases."""
        whole = len(handle.tokens)
        return whole if self.draw.random() < 0.5 else self.draw.randint(0, whole)

    def begun(self, submit):
        """An append of one to five tokens to some handle, or None where there is no room."""
        ready = [handle for handle in self.handles if len(handle.tokens) < LONGEST]
        if not ready:
            return None
        handle = self.draw.choice(ready)
        count = self.draw.randint(1, min(5, LONGEST - len(handle.tokens)))
        vocab = self.recomputed.decoder.config.vocab
        new = tuple(self.draw.randrange(vocab) for _ in range(count))
        before = self.pool.references
        try:
            staging = handle.layout.begin(count, submit)
        except DecodeError as refusal:
            if refusal.code != "CAPACITY_EXCEEDED" or self.pool.references != before:
                raise
            self.done["refused"] += 1
            return None
        at = positions_from(staging.start, count, self.recomputed.decoder.device)
        call = self.recomputed.decoder.forward_layers(torch.tensor([new]), at, staging)
        hold = submit if isinstance(submit, Deferral) else Deferral()
        return Open(handle, staging, hold, handle.version, handle.tokens + new, call)

    def finished(self, begun):
        """Run a call to its end and look at its logits; once only."""
        try:
            while True:
                next(begun.call)
        except StopIteration as end:
            if end.value is None:
                return
            expected = self.recomputed.logits(begun.tokens)[:, begun.staging.start :]
            if not agrees(end.value, expected):
                off = disagreement(end.value, expected)
                raise WrongError(f"logits of {begun.tokens} are off by {off:.2g}") from None

    def check(self):
        """Live handles show their tokens' rows, kept snapshots what they showed, and books are right."""
        for handle in self.handles:
            found = handle.layout.snapshot()
            if found.length != len(handle.tokens):
                raise WrongError(f"{found.length} rows of {len(handle.tokens)} tokens")
            if not close(content(found), self.recomputed.rows(handle.tokens)):
                raise WrongError(f"rows are not those of {handle.tokens}")
        for snapshot, kept in self.readers:
            if not same(content(snapshot), kept):
                raise WrongError("a kept snapshot changed")
        if self.is_audited and (found := self.pool.audit()):
            raise WrongError("; ".join(found))

    def end(self):
        """Drop everything; all blocks must be free."""
        for begun in self.opened:
            begun.staging.discard()
            begun.hold.fire_all()
        for hold in self.late:
            hold.fire_all()
        for handle in self.handles:
            handle.layout.release()
        self.handles, self.readers, self.opened, self.late = [], [], [], []
        assert self.pool.audit() == []
        assert self.pool.free_count == self.pool.blocks


STEPS = {
    "allocate": 2,
    "append": 8,
    "open": 5,
    "publish": 4,
    "discard": 3,
    "land": 5,
    "fork": 4,
    "truncate": 5,
    "release": 2,
    "keep": 3,
    "leave": 3,
}
"""What a history is made of, with the weight of each step."""


def content(snapshot):
    """K and V of each layer, copied."""
    return [tuple(part.clone() for part in snapshot.read(layer)) for layer in range(2)]


def parts_of(found, expected):
    """Each part beside its counterpart."""
    for pair, right in zip(found, expected, strict=True):
        yield from zip(pair, right, strict=True)


def same(found, expected):
    """All parts are equal, bit for bit."""
    return all(torch.equal(one, other) for one, other in parts_of(found, expected))


def close(found, expected):
    """All parts have one shape and agree but for rounding; single rows may be four times as far off."""
    slack = 4 * TOLERANCES[torch.float64]
    return all(
        one.shape == other.shape and (one.numel() == 0 or disagreement(one, other) <= slack)
        for one, other in parts_of(found, expected)
    )


@pytest.fixture(scope="module")
def recomputed(decoder):
    """Recomputation that all histories share."""
    return Recomputed(decoder)


def test_a_long_history_is_right_at_every_step(recomputed):
    """Five hundred steps on sixteen blocks: nothing is ever wrong, and each block was let many times (D2)."""
    history = History(recomputed, random.Random(1))
    assert history.run(500) is None
    assert set(history.done) == {*STEPS, "refused", "outdated"}
    assert history.pool.taken > 10 * history.blocks
    history.end()


@pytest.mark.slow
@pytest.mark.parametrize("block_size", [1, 2, 4])
def test_thousands_of_steps_are_right(recomputed, block_size):
    """Three thousand steps for each of several seeds and block sizes (D2)."""
    for seed in range(2):
        draw = random.Random(100 + seed)
        history = History(recomputed, draw, blocks=32 // block_size, block_size=block_size)
        assert history.run(3000) is None
        assert history.pool.taken > 50 * history.blocks
        assert history.done["refused"] > 0
        history.end()


@pytest.mark.parametrize("is_audited", [True, False], ids=["audited", "content alone"])
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_found(recomputed, fault, is_audited):
    """The same histories go wrong with each fault, and not by the books alone: rows or logits are (D4)."""
    faults = LayoutFaults(**{fault: True})
    found = [
        History(recomputed, random.Random(seed), faults, is_audited=is_audited).run(400)
        for seed in range(3)
    ]
    assert None not in found
    if not is_audited:
        assert any("rows" in text or "logits" in text or "snapshot" in text for text in found)


@settings(max_examples=25, deadline=None)
@given(
    names=st.lists(st.sampled_from(list(STEPS)), max_size=40),
    draw=st.randoms(use_true_random=False),
)
def test_any_history_is_right(recomputed, names, draw):
    """Histories that Hypothesis makes are right too (D2)."""
    history = History(recomputed, draw, blocks=8)
    for name in names:
        history.step(name)
    history.end()
