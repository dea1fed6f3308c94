"""Tests of drafts: verification, correction and repair, against plain greedy decoding."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvspec.models.concrete import Event, Machine
from kvspec.models.decode import (
    LAYOUT_KINDS,
    DecodeError,
    Decoder,
    DecoderConfig,
    agrees,
    append,
    disagreement,
    positions_from,
    uncached_logits,
)
from kvspec.models.decode.engine import Engine
from kvspec.models.decode.engine_requests import EngineFaults, Request, plain_outputs
from kvspec.models.decode.kinds import StoreSizes, allocate, open_store
from kvspec.models.decode.policies import IterationLevel
from kvspec.models.decode.speculation import accepted_drafts, keep_rows
from kvspec.spec import serving

KINDS = pytest.mark.parametrize("kind", LAYOUT_KINDS)
REQUEST = Request((3, 14, 15, 9), 8)


@pytest.fixture(scope="module")
def decoder(cpu):
    """A decoder with a head of its own: a tied one repeats its last token."""
    return Decoder(DecoderConfig(dtype=torch.float64, tied=False, seed=1), cpu)


def truth(decoder, request=REQUEST):
    """Prompt and outputs of plain greedy decoding."""
    return request.prompt + plain_outputs(decoder, request)


def oracle(sequence, right, wrong):
    """A drafter whose first ``right`` tokens are those of the sequence, and the next ``wrong`` are not."""

    def draft(tokens):
        known = sequence[len(tokens) : len(tokens) + right]
        following = sequence[len(tokens) + right : len(tokens) + right + wrong]
        return known + tuple((token + 1) % 32 for token in following)

    return draft


def served(decoder, kind, drafter, request=REQUEST, faults=None, keep_rows=True):
    """A run of one request with drafts."""
    return Engine(
        decoder,
        [request],
        IterationLevel(),
        layout=kind,
        handles=1,
        drafter=drafter,
        faults=faults or EngineFaults(),
        keep_rows=keep_rows,
    ).run()


def parted_rows(decoder, kind, shape, request, ended):
    """How far the rows at the end are from those of one append of the tokens that they stand for."""
    tokens = (request.prompt + ended.outputs)[: ended.committed]
    alone = allocate(kind, shape, capacity=64)
    append(decoder, alone, torch.tensor([tokens]))
    parts = [
        disagreement(found[:, :, : expected.shape[2]], expected)
        for layer, pair in enumerate(ended.rows)
        for found, expected in zip(pair, alone.read(layer), strict=True)
    ]
    return max(parts)


@KINDS
@pytest.mark.parametrize(
    ("right", "wrong"), [(0, 0), (0, 1), (0, 3), (1, 0), (1, 2), (2, 1), (4, 0)]
)
def test_drafts_of_every_kind_give_the_tokens_of_plain_decoding(decoder, kind, shape, right, wrong):
    """Token by token, whatever is accepted; rows are those of a recomputation (A10)."""
    run = served(decoder, kind, oracle(truth(decoder), right, wrong))
    (ended,) = run.ended
    assert (run.verdict, run.finding) == ("holds", None)
    assert REQUEST.prompt + ended.outputs == truth(decoder)
    assert (ended.committed, ended.frontier) == (4 + 8 - 1, (1, 1))
    assert parted_rows(decoder, kind, shape, REQUEST, ended) < 8e-15
    # Each call puts out what was accepted and one token more.
    assert run.clock.calls == 1 + -(-7 // (right + 1))


@KINDS
@settings(max_examples=8)
@given(data=st.data())
def test_arbitrary_drafts_give_the_tokens_of_plain_decoding(decoder, kind, data):
    """Drafts drawn anew at each call, right, wrong, or too many, change no token (A10)."""
    sequence = truth(decoder)

    def drafter(tokens):
        known = sequence[len(tokens) :]
        right = data.draw(st.integers(0, len(known)))
        return known[:right] + tuple(data.draw(st.lists(st.integers(0, 31), max_size=3)))

    run = served(decoder, kind, drafter, keep_rows=False)
    assert run.verdict == "holds"
    assert REQUEST.prompt + run.ended[0].outputs == sequence


@KINDS
@pytest.mark.parametrize("seed", [1, 2])
def test_drafts_of_another_decoder_change_no_token(decoder, cpu, kind, seed):
    """A decoder of one layer drafts three tokens a call for the target to judge (A10)."""
    small = Decoder(DecoderConfig(dtype=torch.float64, tied=False, layers=1, seed=seed), cpu)
    run = served(
        decoder, kind, lambda tokens: plain_outputs(small, Request(tokens, 3)), keep_rows=False
    )
    assert run.verdict == "holds"
    assert REQUEST.prompt + run.ended[0].outputs == truth(decoder)
    assert run.clock.calls <= 8


@KINDS
def test_a_stop_token_among_the_drafts_ends_the_request_as_plain_decoding_does(decoder, kind):
    """Nothing is put out behind it, and it has no row, drafted or not (A10)."""
    stop = plain_outputs(decoder, REQUEST)[4]
    request = Request(REQUEST.prompt, 8, stop=stop)
    (ended,) = served(decoder, kind, oracle(truth(decoder), 4, 0), request).ended
    assert ended.outputs == plain_outputs(decoder, request)
    assert ended.outputs[-1] == stop
    assert (ended.committed, ended.frontier) == (4 + len(ended.outputs) - 1, (1, 1))


@KINDS
def test_a_repair_gives_the_last_output_its_row(decoder, kind, shape):
    """With repair the rows are those of all tokens, and nothing more is put out (A10)."""
    request = Request(REQUEST.prompt, 8, repair=True)
    run = served(decoder, kind, oracle(truth(decoder), 2, 1), request)
    (ended,) = run.ended
    assert run.verdict == "holds"
    assert ended.outputs == plain_outputs(decoder, request)
    assert (ended.committed, ended.frontier) == (12, (1, 0))
    assert parted_rows(decoder, kind, shape, request, ended) < 8e-15


@KINDS
@pytest.mark.parametrize("fault", ["publish_drafts", "keep_rejected"])
def test_a_rejected_row_that_stays_is_seen(decoder, kind, shape, fault):
    """Publishing all drafts, or a rejected one for the correction: verdict, rows, tokens (A10, D4)."""
    drafter = oracle(truth(decoder), 1, 2)
    run = served(decoder, kind, drafter, faults=EngineFaults(**{fault: True}))
    (ended,) = run.ended
    assert run.verdict == "violated"
    assert "k_end" in run.finding
    assert parted_rows(decoder, kind, shape, REQUEST, ended) > 1e-3
    assert REQUEST.prompt + ended.outputs != truth(decoder)
    sound = served(decoder, kind, drafter)
    assert sound.verdict == "holds"


# The worked example: base 100, two drafts accepted, and a correction.


class Spec:
    """The serving machine, stepped beside a layout."""

    def __init__(self, prompt):
        instance = serving.make_instance("WORKED", "", layers=2, longest=112, versions=8)
        self.machine = Machine(instance)
        (self.state,) = self.machine.initial_states()
        self.take("allocate", h=0, b=0, a=0, p=prompt)

    def take(self, action, **values):
        """Take a step, which must be accepted."""
        outcome = self.machine.step(self.state, Event(action, tuple(values.items())))
        assert outcome.kind == "accepted", (action, outcome.code)
        self.state = outcome.state
        return self

    def refuses(self, action, **values):
        """The code with which a step is refused, if it is."""
        return self.machine.step(self.state, Event(action, tuple(values.items()))).code

    def __getitem__(self, name):
        return self.machine.value(self.state, name, 0)

    def prepare(self, staging, drafts=0):
        """The events of an append that was begun and staged, up to its preparation."""
        start, count = staging.start, staging.count
        self.take("begin", x=0, h=0, k=0, a=0, p=start, n=count, d=drafts)
        for (layer, part), (first, stop) in staging.staged().items():
            for position in range(first, stop):
                self.take("stage_k" if part.value == "key" else "stage_v", x=0, l=layer, p=position)
        return self.take("prepare", x=0)

    def publish(self):
        """Publication, and the end of the record."""
        return self.take("publish", x=0).take("forget", x=0)


def staged(decoder, layout, tokens):
    """An open append of these tokens with all its rows, and its logits [n, vocab]."""
    staging = layout.begin(len(tokens))
    positions = positions_from(staging.start, len(tokens), decoder.device)
    return staging, decoder.forward(torch.tensor([tokens]), positions, staging)[0]


@KINDS
def test_two_accepted_drafts_and_a_correction_commit_102_and_then_103(decoder, kind, shape):
    """From 100 rows: 102 with the drafts, the correction without a row, 103 with its own (A10)."""
    prompt = tuple(
        torch.randint(0, 32, (100,), generator=torch.Generator().manual_seed(3)).tolist()
    )
    layout, spec = open_store(kind, shape, StoreSizes(128, 2))(), Spec(100)
    staging, logits = staged(decoder, layout, prompt)
    spec.prepare(staging).publish()
    layout.install(staging)
    first, second, third = plain_outputs(decoder, Request(prompt, 3))
    drafts = (first, second, (third + 1) % 32)

    staging, judged = staged(decoder, layout, drafts)
    spec.prepare(staging, drafts=3)
    agreed = accepted_drafts(torch.cat((logits[-1:], judged[:-1])), drafts)
    assert agreed == 2
    assert spec.refuses("publish", x=0) == "UNVERIFIED_DRAFT"
    spec.take("verify", x=0, a=agreed)
    kept = keep_rows(layout, staging, spec["count"])
    layout.install(kept)
    spec.publish()
    assert (layout.length, spec["length"], spec["emitted"]) == (102, 102, 2)

    correction = int(judged[agreed - 1].argmax())
    spec.take("emit", h=0)
    assert correction == third
    assert (layout.length, spec["length"], spec["emitted"]) == (102, 102, 3)
    assert spec.refuses("emit", h=0) == "NO_LOGITS"

    staging, logits = staged(decoder, layout, (correction,))
    spec.prepare(staging).publish()
    layout.install(staging)
    assert (layout.length, spec["length"], spec["own"]) == (103, 103, 103)
    whole = uncached_logits(decoder, torch.tensor([(*prompt, first, second, third)]))
    assert agrees(logits, whole[0, -1:])


@KINDS
def test_an_append_no_row_of_which_stays_is_given_up(decoder, kind, shape):
    """Drafts alone of which none is accepted publish nothing: the specification has no empty append (A10)."""
    layout, spec = open_store(kind, shape, StoreSizes(16, 2))(), Spec(4)
    staging, logits = staged(decoder, layout, REQUEST.prompt)
    spec.prepare(staging).publish()
    layout.install(staging)
    wrong = (int(logits[-1].argmax()) + 1) % 32
    staging, _ = staged(decoder, layout, (wrong,))
    spec.prepare(staging, drafts=1)
    assert accepted_drafts(logits[-1:], (wrong,)) == 0
    assert spec.refuses("verify", x=0, a=0) == "EMPTY_APPEND"
    with pytest.raises(DecodeError, match="discard the append where no row of it stays") as refusal:
        keep_rows(layout, staging, 0)
    assert refusal.value.code == "BAD_LENGTH"
    staging.discard()
    spec.take("cancel_txn", x=0).take("forget", x=0).take("emit", h=0)
    assert (layout.length, spec["length"], spec["emitted"]) == (4, 4, 1)


# Appends cut to the rows that stay.


def filled(layout, constant, value, count):
    """An open append of rows of one number."""
    staging = layout.begin(count)
    constant.stage(staging, value)
    return staging


@KINDS
@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_append_is_cut_to_its_first_rows(kind, shape, constant, count):
    """The rows that stay are published where they were staged; those behind never show (D2)."""
    layout = open_store(kind, shape, StoreSizes(16, 2))()
    layout.install(filled(layout, constant, 1, 2))
    drafted = filled(layout, constant, 2, 3)
    kept = keep_rows(layout, drafted, count)
    assert (kept.start, kept.count) == (2, count)
    assert drafted.is_closed == (count < 3)
    layout.install(kept)
    layout.install(filled(layout, constant, 3, 1))
    assert constant.shown(layout) == constant.whole([1] * 2 + [2] * count + [3])


@KINDS
def test_cutting_gives_the_room_of_the_append_back(kind, shape, constant):
    """A hundred drafts of three rows with one kept each fit where a hundred rows do (D2)."""
    layout = open_store(kind, shape, StoreSizes(104, 2))()
    for value in range(100):
        layout.install(keep_rows(layout, filled(layout, constant, value, 3), 1))
    assert constant.shown(layout) == constant.whole(list(range(100)))


class WhenAsked:
    """The completion of a write that runs when somebody waits for it, and no sooner."""

    in_order = False

    def __init__(self, write):
        self.write, self.done = write, False

    def follow(self):
        """Nothing can be put behind it."""

    def is_complete(self):
        """Somebody has waited."""
        return self.done

    def wait(self):
        """Write, once."""
        if not self.done:
            self.write()
        self.done = True


@KINDS
def test_cutting_waits_for_the_rows_that_stay(kind, shape, constant):
    """Rows whose write is still under way are not cut before it is over (D3)."""
    layout = open_store(kind, shape, StoreSizes(16, 2))()
    staging = layout.begin(3, lambda write, device: WhenAsked(write))
    constant.stage(staging, 2)
    layout.install(keep_rows(layout, staging, 2))
    assert constant.shown(layout) == constant.whole([2, 2])


@KINDS
def test_an_append_that_is_over_or_stale_cannot_be_cut(kind, shape, constant):
    """A closed append, one behind which others published, and one that is not whole: each has its code."""
    layout = open_store(kind, shape, StoreSizes(16, 4))()
    closed, stale = filled(layout, constant, 1, 2), filled(layout, constant, 2, 2)
    layout.install(closed)
    empty = layout.begin(2)
    cases = [
        (closed, 1, "STAGING_CLOSED"),
        (stale, 1, "NOT_AT_FRONTIER"),
        (empty, 1, "ROWS_MISSING"),
        (empty, 3, "BAD_LENGTH"),
    ]
    for staging, count, code in cases:
        with pytest.raises(DecodeError) as refusal:
            keep_rows(layout, staging, count)
        assert refusal.value.code == code
    assert constant.shown(layout) == constant.whole([1, 1])


def test_drafts_are_accepted_up_to_the_first_wrong_one():
    """A draft behind a wrong one counts for nothing, though it be what the target chose."""
    logits = torch.nn.functional.one_hot(torch.tensor([4, 7, 1])).double()
    cases = {(4, 7, 1): 3, (4, 7, 0): 2, (4, 0, 1): 1, (0, 7, 1): 0}
    assert {drafts: accepted_drafts(logits, drafts) for drafts in cases} == cases
    assert accepted_drafts(logits[:0], ()) == 0
