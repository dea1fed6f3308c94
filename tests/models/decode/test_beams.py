"""Tests of fan-out, reorder and selection of beams."""

from itertools import product

import attrs
import pytest
import torch

from kvspec.models.concrete import Event, Machine
from kvspec.models.decode import (
    LAYOUT_KINDS,
    DecodeError,
    agrees,
    append,
    disagreement,
    uncached_logits,
)
from kvspec.models.decode.beams import (
    COMPANIONS,
    Beam,
    Sampler,
    beam_search,
    best,
    fan_out,
    next_logits,
    reorder,
    select,
)
from kvspec.models.decode.kinds import StoreSizes, open_store
from kvspec.spec import core

PROMPT = (3, 14, 15, 9)
WIDTH, STEPS = 3, 6
NOISE, SEED = 8.0, 3


@pytest.fixture(params=LAYOUT_KINDS)
def store(request, shape):
    """A store of each kind, with room for all beams of a step and those of the next."""
    return open_store(request.param, shape, StoreSizes(16, layouts=4 * WIDTH))


def alone(decoder, tokens):
    """Next-token logits [vocab] after ``tokens``, every row computed anew."""
    return uncached_logits(decoder, torch.tensor([tokens]))[0, -1]


def recomputed_search(decoder, noise=0.0, seed=0):
    """The same search with no cache, over values that are copied whole: tokens, score and sampler."""
    return searched(decoder, noise, seed)[0]


def searched(decoder, noise, seed):
    """The beams of that search, and the parents that each of its steps chose."""
    beams, history = [(PROMPT, 0.0, Sampler(seed), ())], []
    for _ in range(STEPS):
        rows = [Beam(None, tokens, score, sampler) for tokens, score, sampler, _ in beams]
        logits = torch.stack([alone(decoder, tokens) for tokens, *_ in beams])
        parents, chosen, chances = best(rows, logits, WIDTH, noise)
        seen, grown = [0] * len(beams), []
        for parent, token in zip(parents, chosen, strict=True):
            tokens, score, sampler, way = beams[parent]
            state = sampler.advanced().split(seen[parent])
            seen[parent] += 1
            grown.append(
                (
                    (*tokens, token),
                    score + float(chances[parent, token]),
                    state,
                    (*way, parent),
                )
            )
        beams = grown
        history.append(parents)
    return beams, history


def beam_of(decoder, store, number, length):
    """A beam of its own tokens, seed and score, with rows of all but its last token."""
    tokens = tuple((7 * number + 3 * i) % 32 for i in range(length + 1))
    cache = store()
    append(decoder, cache, torch.tensor([tokens[:length]]))
    return Beam(cache, tokens, -float(number), Sampler(number), length, (number,))


def shown(layout):
    """Copies of the visible rows of all layers."""
    return [part.clone() for layer in range(2) for part in layout.read(layer)]


@pytest.mark.parametrize("noise", [0.0, NOISE])
def test_a_beam_search_equals_the_one_with_recomputation(decoder, store, noise):
    """Tokens, scores, samplers and ancestry of every beam are those of a search without a cache (D2)."""
    found = beam_search(decoder, store, PROMPT, width=WIDTH, steps=STEPS, noise=noise, seed=SEED)
    expected = recomputed_search(decoder, noise, SEED)
    for beam, (tokens, score, sampler, way) in zip(found, expected, strict=True):
        assert (beam.tokens, beam.sampler, beam.ancestry) == (tokens, sampler, way)
        assert beam.score == pytest.approx(score, abs=1e-12)
        assert beam.position == beam.cache.length == len(tokens) - 1
    _, logits = next_logits(decoder, found)
    for row, beam in zip(logits, found, strict=True):
        assert agrees(row, alone(decoder, beam.tokens))


def test_a_search_moves_forks_and_drops(decoder):
    """The searches above fork at first, and later take rows twice, drop some and move others."""
    _, history = searched(decoder, NOISE, SEED)
    later = history[1:]
    assert history[0] == [0] * WIDTH
    assert any(len(set(parents)) < WIDTH for parents in later)
    assert any(parents[0] != 0 for parents in later)


# Beams of different length, so that a position left behind is another row's position.
LENGTHS = (3, 5, 4)


def wrongness(decoder, beams, expected):
    """What is wrong with each companion: by recomputation, or against the row that was chosen."""
    _, logits = next_logits(decoder, beams)
    parts = [
        disagreement(row, alone(decoder, beam.tokens))
        for row, beam in zip(logits, beams, strict=True)
    ]
    pairs = list(zip(beams, expected, strict=True))
    return {
        "rows": max(parts) > 1e-3,
        "score": any(beam.score != wanted.score for beam, wanted in pairs),
        "draws": any(
            not torch.equal(beam.sampler.noise(8), wanted.sampler.noise(8))
            for beam, wanted in pairs
        ),
        "ancestry": any(beam.ancestry != wanted.ancestry for beam, wanted in pairs),
    }


SHOWS = {
    "cache": "rows",
    "tokens": "rows",
    "position": "rows",
    "score": "score",
    "sampler": "draws",
    "ancestry": "ancestry",
}


def test_every_companion_has_a_way_to_be_missed():
    """No companion of a beam is left without a check that sees it stay behind."""
    assert set(SHOWS) == set(COMPANIONS)


@pytest.mark.parametrize("companion", [None, *COMPANIONS])
def test_a_companion_left_behind_is_seen(decoder, store, companion):
    """One that does not move with its row shows: wrong logits, a wrong score, draws or ancestry (A6, D4)."""
    beams = [beam_of(decoder, store, n, length) for n, length in enumerate(LENGTHS)]
    source = (2, 0, 1)
    expected = [
        attrs.evolve(beam, ancestry=(*beam.ancestry, row))
        for row, beam in zip(source, reorder(beams, source), strict=True)
    ]
    left = () if companion is None else (companion,)
    found = list(select(beams, source, left))
    told = wrongness(decoder, found, expected)
    assert told == {name: companion is not None and SHOWS[companion] == name for name in told}


@pytest.mark.parametrize("companion", ["cache", "tokens", "score", "sampler"])
def test_a_search_that_leaves_a_companion_ends_elsewhere(decoder, store, companion):
    """The faulty search differs from the recomputed one in its outcome, not only inside (D4)."""
    found = beam_search(
        decoder, store, PROMPT, width=WIDTH, steps=STEPS, noise=NOISE, seed=SEED, left=(companion,)
    )
    expected = recomputed_search(decoder, NOISE, SEED)
    assert [(b.tokens, round(b.score, 9)) for b in found] != [
        (tokens, round(score, 9)) for tokens, score, *_ in expected
    ]


def test_a_reorder_copies_nothing(decoder, store):
    """Every row of the result is a row of the argument itself, and select of a bijection moves as much."""
    beams = [beam_of(decoder, store, n, length) for n, length in enumerate(LENGTHS)]
    moved = reorder(beams, (1, 2, 0))
    assert [beams.index(beam) for beam in moved] == [1, 2, 0]
    chosen = select(beams, (1, 2, 0))
    assert all(a.cache is b.cache for a, b in zip(chosen, moved, strict=True))
    assert not any(beam.cache.is_released for beam in chosen)


BATCH = core.make_instance(
    "THREE_ROWS", "three requests of different length in three rows", handles=3, txns=1, layers=1,
    rows=3, blocks=3, longest=3, versions=3,
)  # fmt: skip
ROWS = ("row_cache", "row_tokens", "row_sampler", "row_ancestry", "row_position")


def entered(lengths):
    """The machine, and its state once requests of these lengths stand in the rows, each a fork's parent."""
    machine = Machine(BATCH)
    (state,) = machine.initial_states()

    def take(action, **values):
        nonlocal state
        outcome = machine.step(state, Event(action, tuple(values.items())))
        assert outcome.kind == "accepted", outcome
        state = outcome.state

    for h, length in enumerate(lengths):
        take("allocate", h=h, b=h, a=0)
        take("begin", x=0, h=h, k=0, a=0, p=0, n=length)
        for p in range(length):
            take("stage_k", x=0, l=0, p=p)
            take("stage_v", x=0, l=0, p=p)
        for action in ("prepare", "publish", "forget"):
            take(action, x=0)
        take("enter", r=h, h=h)
    return machine, state


@pytest.mark.parametrize("kind", LAYOUT_KINDS)
def test_a_reorder_is_what_the_specification_says(kind, shape):
    """Over all 27 maps of three rows: refused with the same code, or the same companions in each row (A6)."""
    machine, before = entered((1, 2, 3))
    make = open_store(kind, shape, StoreSizes(8, layouts=3))
    caches = [make() for _ in range(3)]
    beams = [Beam(cache, (0,) * (n + 2), 0.0, Sampler(n), n + 1) for n, cache in enumerate(caches)]
    refused = 0
    for source in product(range(3), repeat=3):
        outcome = machine.step(before, Event("reorder", (("source", source),)))
        if outcome.kind == "refused":
            with pytest.raises(DecodeError) as refusal:
                reorder(beams, source)
            assert refusal.value.code == outcome.code
            refused += 1
            continue
        moved = reorder(beams, source)
        told = [tuple(machine.value(outcome.state, name, row) for name in ROWS) for row in range(3)]
        assert told == [
            (
                caches.index(beam.cache),
                len(beam.tokens) - 2,
                beam.sampler.seed,
                None,
                beam.position,
            )
            for beam in moved
        ]
    assert refused == 21


@pytest.mark.parametrize("parents", [(0, 0, 0), (1, 1, 0), (2, 0, 2), (0,), (1, 0, 2, 1, 1)])
def test_rows_taken_twice_are_forks_and_rows_not_taken_are_released(decoder, store, parents):
    """Each row goes on alone afterwards: its logits are those of its own tokens (A6, D2)."""
    beams = [beam_of(decoder, store, n, length) for n, length in enumerate(LENGTHS)]
    chosen = select(beams, parents)
    assert len({id(beam.cache) for beam in chosen}) == len(parents)
    assert len({beam.sampler for beam in chosen}) == len(parents)
    assert [beam.cache.is_released for beam in beams] == [n not in parents for n in range(3)]
    for _ in range(2):
        chosen, logits = next_logits(decoder, chosen)
        for found, beam in zip(logits, chosen, strict=True):
            assert agrees(found, alone(decoder, beam.tokens))
        chosen = [attrs.evolve(beam, tokens=(*beam.tokens, row)) for row, beam in enumerate(chosen)]


@pytest.mark.parametrize("n", [0, 2, 5])
def test_a_fan_out_gives_every_child_the_prefix(decoder, store, tokens, n):
    """Four children at once show the rows [0, n) of the parent, which stays as it is (A6)."""
    parent = store()
    append(decoder, parent, tokens[:, :5])
    before, snapshot = shown(parent), parent.snapshot()
    children = fan_out(parent, n, 4)
    assert len(set(map(id, children))) == 4
    for child in children:
        assert child.lengths() == [(n, n)] * 2
        assert all(torch.equal(a, b[:, :, :n]) for a, b in zip(shown(child), before, strict=True))
    assert parent.snapshot() is snapshot
    for place, child in enumerate(children):
        other = torch.cat((tokens[:, :n], tokens[:, :2] + place), dim=1) % decoder.config.vocab
        found = append(decoder, child, other[:, n:])
        assert agrees(found, uncached_logits(decoder, other)[:, n:])
    assert all(torch.equal(a, b) for a, b in zip(shown(parent), before, strict=True))


def test_a_writer_between_two_forks_of_a_fan_out_is_in_none_of_the_children(
    decoder, store, tokens, monkeypatch
):
    """Rows that replace the parent's while children are made reach no child: all have one snapshot (A6)."""
    parent = store()
    append(decoder, parent, tokens[:, :5])
    before, kind = shown(parent), type(parent)
    plain = kind.fork

    def fork(self, n):
        made = plain(self, n)
        parent.truncate(2)
        append(decoder, parent, (tokens[:, 2:5] + 1) % decoder.config.vocab)
        return made

    monkeypatch.setattr(kind, "fork", fork)
    children = fan_out(parent, 5, 3)
    for child in children:
        assert all(torch.equal(a, b) for a, b in zip(shown(child), before, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(shown(parent), before, strict=True))


@pytest.fixture
def failing(store, monkeypatch):
    """Lets forks of the kind succeed so many times, and then fail; tells which children were made."""
    kind = type(store())

    def arm(successes):
        made, plain = [], kind.fork

        def fork(self, n):
            if len(made) == successes:
                raise MemoryError("no room for another child")
            made.append(plain(self, n))
            return made[-1]

        monkeypatch.setattr(kind, "fork", fork)
        return made

    return arm


@pytest.mark.parametrize("successes", [0, 1, 3])
def test_a_fan_out_that_fails_leaves_no_child(decoder, store, tokens, failing, successes):
    """If the fork to one child fails, those made before are given up, and the parent is as it was (A6)."""
    parent = store()
    append(decoder, parent, tokens[:, :5])
    before, snapshot = shown(parent), parent.snapshot()
    made = failing(successes)
    with pytest.raises(MemoryError, match="another child"):
        fan_out(parent, 3, 4)
    assert len(made) == successes
    assert all(child.is_released for child in made)
    assert parent.snapshot() is snapshot
    assert all(torch.equal(a, b) for a, b in zip(shown(parent), before, strict=True))


@pytest.mark.parametrize("successes", [0, 1, 2])
def test_a_select_that_fails_changes_nothing(decoder, store, failing, successes):
    """If a fork fails, no beam was moved or released, and all forks made before are given up (A6)."""
    beams = [beam_of(decoder, store, n, length) for n, length in enumerate(LENGTHS)]
    made = failing(successes)
    with pytest.raises(MemoryError, match="another child"):
        select(beams, (0, 0, 1, 1, 1))
    assert len(made) == successes
    assert all(child.is_released for child in made)
    _, logits = next_logits(decoder, beams)
    for row, beam in zip(logits, beams, strict=True):
        assert agrees(row, alone(decoder, beam.tokens))


def test_what_cannot_be_forked_or_selected_is_refused(decoder, store):
    """Too many rows, no child, no parent: each has its code."""
    beam = beam_of(decoder, store, 1, 3)
    cases = [
        (lambda: fan_out(beam.cache, 4, 2), "BAD_LENGTH"),
        (lambda: fan_out(beam.cache, 3, 0), "BAD_LENGTH"),
        (lambda: select([beam], ()), "NO_SUCH_BEAM"),
        (lambda: select([beam], (0, 1)), "NO_SUCH_BEAM"),
        (lambda: select([beam], (-1,)), "NO_SUCH_BEAM"),
        (lambda: reorder([beam], (0, 0)), "NOT_A_PERMUTATION"),
    ]
    for act, code in cases:
        with pytest.raises(DecodeError) as refusal:
            act()
        assert refusal.value.code == code
    released = attrs.evolve(beam, cache=store())
    released.cache.release()
    with pytest.raises(DecodeError) as refusal:
        next_logits(decoder, [released])
    assert refusal.value.code == "ROWS_RELEASED"


def test_samplers_draw_alike_only_in_equal_states():
    """The same state draws the same; behind a draw, and in a split, another."""
    one = Sampler(4)
    states = [one, one.advanced(), one.split(1), one.split(2), one.split(1).advanced()]
    drawn = [tuple(state.noise(4).tolist()) for state in states]
    assert len(set(drawn)) == len(states)
    assert torch.equal(one.noise(4), Sampler(4).noise(4))
    assert one.split(0) == one
