"""Tests of the serving engine: policies that see the service view alone change nothing but the clocks."""

from types import MappingProxyType

import attrs
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvspec.models.concrete.machine import Event
from kvspec.models.decode import LAYOUT_KINDS, DecodeError, Decoder, DecoderConfig, agrees, append
from kvspec.models.decode.engine import Engine
from kvspec.models.decode.engine_requests import EngineFaults, Request, plain_outputs
from kvspec.models.decode.engine_tables import ABSENT, READERS
from kvspec.models.decode.kinds import allocate
from kvspec.models.decode.policies import (
    POLICIES,
    ChunkedPrefill,
    IterationLevel,
    Selection,
    StaticBatches,
)
from kvspec.spec.scheduling import system as scheduling
from kvspec.spec.serving import POLICY_FIELDS, VIEW_FIELDS

PREFILLS = "PREFILL_ROWS_AVAILABLE"
BY_NAME = pytest.mark.parametrize("policy", POLICIES, ids=[p.name for p in POLICIES])
KINDS = pytest.mark.parametrize("kind", LAYOUT_KINDS)


@pytest.fixture(scope="module")
def decoder(cpu):
    """A decoder with a head of its own: a tied one repeats its last token, and most faults with it."""
    return Decoder(DecoderConfig(dtype=torch.float64, tied=False, seed=1), cpu)


# Different lengths and arrivals, more requests than handles, a repair, and a stop token that is met.
MIXED = (
    Request((3, 14, 15, 9, 2, 6), 4),
    Request((5, 3), 5, repair=True),
    Request((8, 9, 7, 9, 3), 2, arrival=1),
    Request((2, 7, 1, 8, 2, 8, 1), 3, arrival=2, repair=True),
    Request((31,), 6, stop=24, arrival=3),
)


def drafter(tokens):
    """Drafts that are right now and then: the tokens behind the last occurrence of the last one."""
    before = [place for place, token in enumerate(tokens[:-1]) if token == tokens[-1]]
    return tokens[before[-1] + 1 :][:3] if before else tokens[-2:]


REQUESTS = st.lists(
    st.builds(
        Request,
        prompt=st.lists(st.integers(0, 31), min_size=1, max_size=6).map(tuple),
        outputs=st.integers(1, 4),
        stop=st.sampled_from([None, 7, 11, 28]),
        arrival=st.integers(0, 3),
        repair=st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


def schedules(budget, size):
    """The three policies with these sizes."""
    return StaticBatches(size), IterationLevel(), ChunkedPrefill(budget)


def check_independence(decoder, kind, requests, policies, drafts=None):
    """All policies tell the same of every request, what plain greedy decoding tells; all verdicts hold."""
    runs = [
        Engine(decoder, requests, policy, layout=kind, handles=2, drafter=drafts).run()
        for policy in policies
    ]
    assert [(run.verdict, run.finding) for run in runs] == [("holds", None)] * len(runs)
    assert len({run.told for run in runs}) == 1
    for request, ended in zip(requests, runs[0].ended, strict=True):
        outputs = plain_outputs(decoder, request)
        rows = len(request.prompt) + len(outputs)
        assert ended.outputs == outputs
        assert ended.committed == (rows if request.repair else rows - 1)
        assert ended.frontier == (1, 0 if request.repair else 1)
    return runs


@KINDS
@settings(max_examples=4)
@given(requests=REQUESTS, budget=st.integers(1, 5), size=st.integers(1, 3), drafts=st.booleans())
def test_no_schedule_changes_what_comes_of_a_request(decoder, kind, requests, budget, size, drafts):
    """Tokens, committed lengths, frontiers and verdicts are the same under three schedulers (A11)."""
    check_independence(
        decoder, kind, requests, schedules(budget, size), drafter if drafts else None
    )


@pytest.mark.slow
@KINDS
@settings(max_examples=60)
@given(requests=REQUESTS, budget=st.integers(1, 5), size=st.integers(1, 3), drafts=st.booleans())
def test_no_schedule_changes_what_comes_of_a_request_at_length(
    decoder, kind, requests, budget, size, drafts
):
    """The same over ten times as many workloads (A11)."""
    check_independence(
        decoder, kind, requests, schedules(budget, size), drafter if drafts else None
    )


@KINDS
def test_the_clocks_differ(decoder, kind):
    """Calls, tokens of padding and times to the first output tell the policies apart (A11, B6)."""
    runs = check_independence(decoder, kind, MIXED, POLICIES)
    clocks = [run.clock for run in runs]
    assert len({(clock.calls, clock.padding) for clock in clocks}) == 3
    assert len({tuple(ended.ttft for ended in run.ended) for run in runs}) == 3
    assert len({clock.tokens for clock in clocks}) == 1
    static, iteration, chunked = runs
    assert iteration.clock.calls < chunked.clock.calls
    assert max(e.ttft for e in iteration.ended) < max(e.ttft for e in static.ended)


@KINDS
def test_a_window_is_served_alike(decoder, kind, cpu):
    """A decoder that sees a window puts out the same tokens under every policy (A11, D2)."""
    windowed = Decoder(attrs.evolve(decoder.config, window=3), cpu)
    check_independence(windowed, kind, MIXED, POLICIES)


@BY_NAME
@KINDS
def test_rows_at_the_end_are_those_of_a_recomputation(decoder, shape, kind, policy):
    """K and V of every layer agree with those of one append of all committed tokens (A11, D1)."""
    run = Engine(
        decoder, MIXED, policy, layout=kind, handles=2, drafter=drafter, keep_rows=True
    ).run()
    assert run.verdict == "holds"
    for request, ended in zip(MIXED, run.ended, strict=True):
        tokens = (request.prompt + ended.outputs)[: ended.committed]
        alone = allocate(kind, shape, capacity=32)
        append(decoder, alone, torch.tensor([tokens]))
        for layer, pair in enumerate(ended.rows):
            assert all(agrees(a, b) for a, b in zip(pair, alone.read(layer), strict=True))


# What a policy is given, and what it can do.


@attrs.frozen
class Spy:
    """Decides as another policy, and keeps what it was shown."""

    inner: object
    seen: list = attrs.field(factory=list)
    name: str = "spy"

    def begin(self):
        """What the other remembers."""
        return self.inner.begin()

    def decide(self, memory, views):
        """What the other decides."""
        memory, decision = self.inner.decide(memory, views)
        self.seen.append((views, decision))
        return memory, decision


@BY_NAME
def test_a_policy_is_shown_the_service_view_and_nothing_else(decoder, policy):
    """Every view is of a request that is there, has the specification's fields, and is read-only (A11)."""
    spy = Spy(policy)
    assert Engine(decoder, MIXED, spy).run().verdict == "holds"
    shown = [view for views, _ in spy.seen for view in views]
    assert {tuple(view.facts) for view in shown} == {tuple(VIEW_FIELDS)}
    assert not set(POLICY_FIELDS) & set(VIEW_FIELDS)
    assert all(isinstance(view.facts, MappingProxyType) for view in shown)
    with pytest.raises(TypeError):
        shown[0].facts["phase"] = "RELEASED"
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        shown[0].handle = 1
    for turn, (views, _) in enumerate(spy.seen):
        assert all(MIXED[view.request].arrival <= turn for view in views)
    phases = {view.facts["phase"] for view in shown}
    assert {"WAITING_PREFILL", "DECODE_FRONTIER_READY"} <= phases


def test_a_budget_goes_to_decode_steps_first(decoder):
    """Chunks of prompts get what the decode steps leave of the budget, and no call exceeds it (A11)."""
    spy = Spy(ChunkedPrefill(2))
    Engine(decoder, MIXED, spy, handles=3).run()
    mixed = 0
    for views, decision in spy.seen:
        rows = {selection.handle: selection.rows for selection in decision}
        decoding = [view.handle for view in views if view.work == "DECODE_FRONTIER_AVAILABLE"]
        assert sum(rows.values()) <= 2
        assert sum(handle in rows for handle in decoding) == min(len(decoding), 2)
        mixed += 0 < len(decoding) < len(rows)
    assert mixed


def test_every_variable_is_observed_or_absent():
    """The engine's observation has a reader for each variable of the system, or says that it lacks it."""
    assert READERS.keys() | ABSENT == scheduling.variables.keys()
    assert not READERS.keys() & ABSENT


@KINDS
@settings(max_examples=3)
@given(requests=REQUESTS, picks=st.randoms(use_true_random=False))
def test_any_decision_leaves_the_views_as_they_are(decoder, kind, requests, picks):
    """Before and after any policy's decision, each field of every view is the same (A11)."""
    turns = []

    class Arbitrary:
        name = "arbitrary"

        def begin(self):
            return 0

        def decide(self, memory, views):
            able = [view for view in views if view.rows]
            picked = picks.sample(able, picks.randint(1, len(able))) if able else []
            return memory + 1, tuple(
                Selection(v.handle, v.rows if v.work != PREFILLS else picks.randint(1, v.rows))
                for v in picked
            )

    engine = Engine(decoder, requests, Arbitrary(), layout=kind, handles=3)
    plain = engine._decide

    def decide(views, decision):
        before = [dict(view.facts) for view in engine.views()]
        works = plain(views, decision)
        turns.append((before, [dict(view.facts) for view in engine.views()], decision))
        return works

    engine._decide = decide
    run = engine.run()
    assert all(before == after for before, after, _ in turns)
    assert any(decision for *_, decision in turns)
    assert run.verdict == "holds"
    assert [e.outputs for e in run.ended] == [plain_outputs(decoder, r) for r in requests]


@attrs.frozen
class Fixed:
    """Always decides the same."""

    decision: tuple
    name: str = "fixed"

    def begin(self):
        """Nothing."""

    def decide(self, memory, views):
        """What it was made with."""
        return memory, self.decision


@pytest.mark.parametrize(
    ("decision", "told"),
    [
        ([Selection(0, 3)], "refused with CHUNK_TOO_LONG"),
        ([Selection(0, 0)], "refused with EMPTY_CHUNK"),
        ([Selection(1, 1)], r"handles \[1\]"),
        ([Selection(0, 1), Selection(0, 1)], r"handles \[0, 0\]"),
    ],
)
def test_a_decision_that_cannot_be_is_refused(decoder, decision, told):
    """Work that is not there is refused, with the code of the specification's guard, and changes nothing."""
    engine = Engine(decoder, [Request((1, 2), 2)], Fixed(tuple(decision)))
    with pytest.raises(DecodeError, match=told) as refusal:
        engine.run()
    assert refusal.value.code == "BAD_DECISION"
    (view,) = engine.views()
    assert (view.facts["committed_tokens"], view.facts["phase"]) == (0, "WAITING_PREFILL")


def test_two_rows_of_one_frontier_token_are_refused(decoder):
    """A decode step has the row of the frontier token, and no second one."""

    class Greedy(IterationLevel):
        def decide(self, memory, views):
            return memory, tuple(
                Selection(v.handle, v.rows if v.work == PREFILLS else 2) for v in views
            )

    with pytest.raises(DecodeError, match="2 rows of handle 0") as refusal:
        Engine(decoder, [Request((1, 2), 2)], Greedy()).run()
    assert refusal.value.code == "BAD_DECISION"


def test_a_policy_that_selects_nothing_is_told(decoder):
    """Requests that come to no end are an error, and no verdict."""
    with pytest.raises(DecodeError, match="1 requests that are not at their end") as refusal:
        Engine(decoder, [Request((1, 2), 2)], Fixed(())).run()
    assert refusal.value.code == "STARVED"


def test_an_engine_without_requests_knows_nothing(decoder):
    """Where nothing was followed, the verdict is unknown (C7)."""
    assert Engine(decoder, [], IterationLevel()).run().verdict == "unknown"


@pytest.mark.parametrize(
    "wrong", [{"prompt": ()}, {"outputs": 0}, {"arrival": -1}], ids=lambda wrong: next(iter(wrong))
)
def test_an_empty_request_is_refused(wrong):
    """A request has a prompt, an output and an arrival."""
    with pytest.raises(DecodeError, match="leave the empty request out") as refusal:
        Request(**{"prompt": (1,), "outputs": 1, **wrong})
    assert refusal.value.code == "BAD_CONFIG"


# Engines and policies that cheat.


def faulty(decoder, policy, **faults):
    """A run of the mixed workload by an engine with these faults, and what plain decoding tells."""
    run = Engine(decoder, MIXED, policy, handles=2, faults=EngineFaults(**faults)).run()
    return run, tuple(plain_outputs(decoder, request) for request in MIXED)


def told(run):
    """The tokens of each request."""
    return tuple(ended.outputs for ended in run.ended)


class LastFirst(IterationLevel):
    """Selects everything, the last handle first."""

    def decide(self, memory, views):
        """As iteration-level batching, turned round."""
        memory, decision = super().decide(memory, views)
        return memory, decision[::-1]


def test_a_place_in_the_batch_taken_for_a_handle_is_caught(decoder):
    """The rows of a call that go by its order reach another request: the machine says where (A9, D4)."""
    run, plain = faulty(decoder, LastFirst(), place_is_handle=True)
    assert run.verdict == "violated"
    assert "k_end" in run.finding or "k_rows" in run.finding
    assert told(run) != plain
    sound, _ = faulty(decoder, LastFirst())
    assert (sound.verdict, told(sound)) == ("holds", plain)


def test_a_row_left_out_beside_a_chunk_is_caught(decoder):
    """A token that is put out before the one before it has its row is refused: NO_LOGITS (A10, D4)."""
    run, plain = faulty(decoder, ChunkedPrefill(3), skip_row=True)
    assert run.verdict == "violated"
    assert "emit(h=h" in run.finding
    assert "NO_LOGITS" in run.finding
    assert told(run) != plain


def test_chunks_that_begin_anew_at_position_zero_are_caught(decoder):
    """Lengths are as specified, so that no machine sees it; but tokens depend on the chunks (D4)."""
    outputs = [
        told(faulty(decoder, ChunkedPrefill(budget), restart_chunks=True)[0])
        for budget in (2, 3, 5)
    ]
    whole, plain = faulty(decoder, IterationLevel(), restart_chunks=True)
    assert len(set(outputs)) > 1
    assert told(whole) == plain
    assert plain not in outputs


@attrs.frozen
class Meddler:
    """A policy that got hold of the engine, and takes a row away; it may select nothing at that turn."""

    engine: list
    idle: bool
    name: str = "meddler"

    def begin(self):
        """Nothing."""

    def decide(self, memory, views):
        """Everything, or nothing in a turn in which a row was taken away."""
        decision = tuple(Selection(view.handle, view.rows) for view in views if view.rows)
        slot = self.engine[0]._core.tables.slots[0]
        if slot.layout is not None and slot.length > 2:
            slot.layout.truncate(slot.length - 1)
            return memory, () if self.idle else decision
        return memory, decision


@pytest.mark.parametrize(
    ("idle", "told"),
    [(False, "length = [5"), (True, "a decision changed a field of the service view")],
)
def test_a_decision_that_reaches_the_rows_is_caught(decoder, idle, told):
    """The view after the decision is another than before it, and the verdict says so (A11)."""
    held = []
    engine = Engine(decoder, MIXED[:1], Meddler(held, idle), handles=1)
    held.append(engine)
    for _ in range(2):
        engine.round()
    assert engine._core.follower.verdict == "violated"
    assert told in engine._core.follower.finding


@pytest.mark.parametrize("action", ["publish", "emit", "finish", "evict"])
def test_an_event_that_is_not_told_is_missed(decoder, action):
    """The machine that follows sees an engine that leaves one kind of event out (C7)."""
    engine = Engine(decoder, MIXED[:1], IterationLevel())
    plain = engine._core.follower.take

    def take(events, observed):
        plain([e for e in events if e.action != action], observed)

    engine._core.follower.take = take
    run = engine.run()
    assert run.verdict == "violated"


def test_an_event_that_did_not_happen_is_refused(decoder):
    """A publication told twice is refused with the guard's code."""
    engine = Engine(decoder, MIXED[:1], IterationLevel())
    engine.round()
    engine._core.took(Event("publish", (("x", 0),)))
    assert "publish(x=txn0) was carried out, and is refused with NOT_PREPARED" in (
        engine._core.follower.finding
    )


# Calls that fail.


class LostError(Exception):
    """A fault of the machine."""


@BY_NAME
@KINDS
def test_calls_that_are_lost_between_layers_change_nothing_but_time(decoder, kind, policy):
    """Every third part that is staged loses its call; all appends abort, and the outcome is the same (A7)."""
    count = 0

    def watch(produced):
        nonlocal count
        count += 1
        if count % 7 == 3:
            raise LostError

    engine = Engine(decoder, MIXED, policy, layout=kind, handles=2, drafter=drafter, watch=watch)
    lost = 0
    while True:
        try:
            run = engine.run()
            break
        except LostError:
            lost += 1
    undisturbed = Engine(decoder, MIXED, policy, handles=2, drafter=drafter).run()
    assert lost > 3
    assert run.verdict == "holds"
    assert run.told == undisturbed.told
    assert run.clock == undisturbed.clock
