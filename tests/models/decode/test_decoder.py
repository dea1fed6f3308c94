"""Tests of the forward pass: against a plain-Python decoder, in steps, and for what it refuses."""

import cmath
import math

import pytest
import torch
from attrs import evolve

from kvspec.models.decode import (
    CallRows,
    DecodeError,
    Decoder,
    DecoderConfig,
    KVView,
    Part,
    agrees,
    disagreement,
    finish,
    positions_from,
    uncached_logits,
)


def mat(matrix, row):
    """Matrix times row."""
    return [math.fsum(w * x for w, x in zip(line, row, strict=True)) for line in matrix.tolist()]


def norm(row, gain, eps):
    """RMSNorm of one row."""
    root = math.sqrt(math.fsum(x * x for x in row) / len(row) + eps)
    return [x / root * g for x, g in zip(row, gain.tolist(), strict=True)]


def turn(head, position, theta):
    """One head turned as complex numbers."""
    half = len(head) // 2
    numbers = [
        complex(head[i], head[i + half]) * cmath.exp(1j * position * theta ** (-i / half))
        for i in range(half)
    ]
    return [z.real for z in numbers] + [z.imag for z in numbers]


def plain_heads(row, width):
    """A row cut into heads."""
    return [row[i : i + width] for i in range(0, len(row), width)]


def plain_attention(config, q, keys, values, at):
    """One position's heads over the keys at or before it; keys and values are [position][head]."""
    mixed = []
    first = 0 if config.window is None else max(0, at - config.window + 1)
    for head, query in enumerate(q):
        shared = head // config.group
        scores = [
            math.fsum(a * b for a, b in zip(query, keys[j][shared], strict=True))
            / math.sqrt(config.head_dim)
            for j in range(first, at + 1)
        ]
        shares = [math.exp(s - max(scores)) for s in scores]
        mixed += [
            math.fsum(s * values[first + j][shared][i] for j, s in enumerate(shares))
            / math.fsum(shares)
            for i in range(config.head_dim)
        ]
    return mixed


def plain_logits(decoder, tokens):
    """The logits of one sequence, from the weights, with nothing but Python's own numbers."""
    config, weights = decoder.config, decoder.weights
    eps, theta, width = config.norm_eps, config.rope_theta, config.head_dim
    hidden = [weights.embedding[t].tolist() for t in tokens]
    for layer in weights.layers:
        inputs = [norm(row, layer.attn_norm, eps) for row in hidden]
        turned = [
            [[turn(h, p, theta) for h in plain_heads(mat(w, x), width)] for w in (layer.q, layer.k)]
            for p, x in enumerate(inputs)
        ]
        keys = [k for _, k in turned]
        values = [plain_heads(mat(layer.v, x), width) for x in inputs]
        for p, row in enumerate(hidden):
            mixed = mat(layer.o, plain_attention(config, turned[p][0], keys, values, p))
            between = [a + b for a, b in zip(row, mixed, strict=True)]
            x = norm(between, layer.mlp_norm, eps)
            gated = [
                g / (1 + math.exp(-g)) * u
                for g, u in zip(mat(layer.gate, x), mat(layer.up, x), strict=True)
            ]
            hidden[p] = [a + b for a, b in zip(between, mat(layer.down, gated), strict=True)]
    return torch.tensor(
        [mat(weights.head, norm(row, weights.final_norm, eps)) for row in hidden],
        dtype=torch.float64,
    )


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("window", [None, 3])
def test_logits_are_those_of_a_plain_python_decoder(cpu, kv_heads, tied, window):
    """Group sizes 1, 2 and 4, both heads, with and without a window."""
    config = DecoderConfig(dtype=torch.float64, kv_heads=kv_heads, tied=tied, window=window)
    decoder = Decoder(config, cpu)
    tokens = [3, 1, 4, 1, 5, 9]
    found = uncached_logits(decoder, torch.tensor([tokens]))[0]
    assert disagreement(found, plain_logits(decoder, tokens)) < 1e-13


def test_later_tokens_do_not_reach_earlier_logits(decoder, tokens):
    """Changing token 8 leaves the logits before it bit for bit, and changes those from it on."""
    changed = tokens.clone()
    changed[0, 8] = (changed[0, 8] + 1) % decoder.config.vocab
    before, after = uncached_logits(decoder, tokens), uncached_logits(decoder, changed)
    assert torch.equal(before[:, :8], after[:, :8])
    for position in range(8, 12):
        assert disagreement(after[:, position], before[:, position]) > 1e-3


def test_a_prefix_has_the_logits_it_has_in_the_whole(decoder, tokens):
    """Recomputing each prefix gives the row that one pass over all tokens gives."""
    whole = uncached_logits(decoder, tokens)
    for count in range(1, 13):
        assert agrees(uncached_logits(decoder, tokens[:, :count])[:, -1], whole[:, count - 1])


def test_positions_are_absolute(decoder, tokens):
    """The same tokens under one common shift agree; with one position off they do not."""
    expected = uncached_logits(decoder, tokens)

    def at(positions):
        return decoder.forward(tokens, positions, CallRows(positions))

    shifted = positions_from(1000, 12, decoder.device)
    assert disagreement(at(shifted), expected) < 1e-11
    skipped = positions_from(0, 12, decoder.device)
    skipped[6:] += 1
    assert disagreement(at(skipped), expected) > 1e-2


def test_ragged_batch_agrees_with_each_sequence_alone(decoder, tokens):
    """A short sequence padded on the left has the logits that it has alone, and so has the long one."""
    short = tokens[:, 4:9]
    batch = torch.cat((tokens, torch.cat((torch.zeros(1, 7, dtype=torch.int64), short), dim=1)))
    positions = torch.stack((torch.arange(12), torch.cat((torch.full((7,), -1), torch.arange(5)))))
    found = decoder.forward(batch, positions, CallRows(positions))
    assert agrees(found[:1], uncached_logits(decoder, tokens))
    assert agrees(found[1:, 7:], uncached_logits(decoder, short))


class Recorded(CallRows):
    """A cache that writes down what it is asked."""

    def __init__(self, positions):
        super().__init__(positions)
        self.asked = []

    def stage(self, layer, part, rows):
        """Write the part down."""
        self.asked.append((layer, part.value, tuple(rows.shape)))
        super().stage(layer, part, rows)

    def view(self, layer):
        """Write the view down."""
        self.asked.append((layer, "view"))
        return super().view(layer)


def test_steps_stop_after_each_k_and_each_v(decoder, tokens):
    """At each stop exactly the parts up to it are staged, and the logits are those of one call."""
    positions = torch.arange(12)
    cache = Recorded(positions)
    steps = decoder.forward_layers(tokens, positions, cache)
    rows = (1, 2, 12, 4)
    stops = []
    for _ in range(4):
        produced = next(steps)
        assert tuple(produced.rows.shape) == rows
        stops.append((produced.layer, produced.part, list(cache.asked)))
    key, value = Part.KEY, Part.VALUE
    asked = [
        (0, "key", rows),
        (0, "value", rows),
        (0, "view"),
        (1, "key", rows),
        (1, "value", rows),
    ]
    assert stops == [
        (0, key, asked[:1]),
        (0, value, asked[:2]),
        (1, key, asked[:4]),
        (1, value, asked[:5]),
    ]
    assert torch.equal(finish(steps), uncached_logits(decoder, tokens))


def test_two_calls_interleaved_step_by_step_do_not_touch_each_other(decoder, tokens):
    """Two calls that take turns after every part give the logits of two calls in a row."""
    first, second = tokens[:, :5], tokens[:, 5:]
    calls = [
        decoder.forward_layers(t, p := torch.arange(t.shape[1]), CallRows(p))
        for t in (first, second)
    ]
    for _ in range(4):
        for call in calls:
            next(call)
    assert torch.equal(finish(calls[0]), uncached_logits(decoder, first))
    assert torch.equal(finish(calls[1]), uncached_logits(decoder, second))


def test_a_call_stopped_between_layers_goes_no_further(decoder, tokens):
    """A raised error leaves layer 1 unstaged."""
    cache = Recorded(torch.arange(12))
    steps = decoder.forward_layers(tokens, torch.arange(12), cache)
    next(steps)
    next(steps)
    with pytest.raises(RuntimeError, match="device lost"):
        steps.throw(RuntimeError("device lost"))
    assert {layer for layer, *_ in cache.asked} == {0}


def test_inference_mode_does_not_leak_into_the_caller(decoder, tokens):
    """Between two steps, and after the call, the caller is where it was; no graph is recorded."""
    steps = decoder.forward_layers(tokens, torch.arange(12), CallRows(torch.arange(12)))
    next(steps)
    assert not torch.is_inference_mode_enabled()
    logits = finish(steps)
    assert not torch.is_inference_mode_enabled()
    assert logits.is_inference()


@pytest.mark.parametrize(
    ("tokens", "positions", "code", "said"),
    [
        (torch.zeros(3, dtype=torch.int64), torch.arange(3), "BAD_SHAPE", r"shape \(3,\)"),
        (torch.zeros(1, 0, dtype=torch.int64), torch.arange(0), "BAD_SHAPE", r"shape \(1, 0\)"),
        (torch.zeros(1, 3), torch.arange(3), "BAD_SHAPE", "torch.float32"),
        (torch.zeros(1, 3).long(), torch.arange(2), "BAD_SHAPE", r"positions of shape \(2,\)"),
        (torch.zeros(1, 3).long(), torch.zeros(3), "BAD_SHAPE", "positions of shape"),
        (torch.tensor([[0, 32]]), torch.arange(2), "BAD_TOKEN", "token ids from 0 to 32"),
        (torch.tensor([[-1, 3]]), torch.arange(2), "BAD_TOKEN", "token ids from -1 to 3"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(decoder, tokens, positions, code, said):
    """Each is refused with its code, before anything is staged."""
    cache = Recorded(positions)
    with pytest.raises(DecodeError, match=said) as refusal:
        decoder.forward(tokens, positions, cache)
    assert refusal.value.code == code
    assert cache.asked == []


def test_window_changes_logits_from_its_length_on(cpu, tokens):
    """A window of four leaves positions 0 to 3 as they are and changes position 4."""
    config = DecoderConfig(dtype=torch.float64)
    full = uncached_logits(Decoder(config, cpu), tokens)
    narrow = uncached_logits(Decoder(evolve(config, window=4), cpu), tokens)
    assert agrees(narrow[:, :4], full[:, :4])
    assert disagreement(narrow[:, 4], full[:, 4]) > 1e-2


def test_every_cached_row_reaches_the_logits(decoder, tokens):
    """Disturbing any one K or V row of any layer is seen in the last logits."""
    positions = torch.arange(12)
    expected = uncached_logits(decoder, tokens)[:, -1]

    class Disturbed(CallRows):
        def __init__(self, layer, part, row):
            super().__init__(positions)
            self.where = (layer, part, row)

        def view(self, layer):
            view = super().view(layer)
            held = {Part.KEY: view.keys.clone(), Part.VALUE: view.values.clone()}
            if layer == self.where[0]:
                held[self.where[1]][:, :, self.where[2]] += 1.0
            return KVView(held[Part.KEY], held[Part.VALUE], positions)

    for layer in range(2):
        for part in Part:
            for row in range(12):
                found = decoder.forward(tokens, positions, Disturbed(layer, part, row))
                assert disagreement(found[:, -1], expected) > 1e-5, (layer, part, row)
