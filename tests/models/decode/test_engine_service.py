"""Tests of the service traces that an engine's runs make."""

import attrs
import pytest
import torch

from kvspec.models.decode import LAYOUT_KINDS, DecodeError, Decoder, DecoderConfig
from kvspec.models.decode.engine import Engine
from kvspec.models.decode.engine_requests import Request
from kvspec.models.decode.engine_service import ServiceRecorder, cache_abi
from kvspec.models.decode.policies import POLICIES, ChunkedPrefill, IterationLevel
from kvspec.models.documents.codec import read, write
from kvspec.properties.documents.service import computed_metrics
from kvspec.spec.documents.cache_abi import is_lawful
from kvspec.spec.documents.service import service
from kvspec.spec.documents.service_metrics import Limits

LIMITS = Limits(ttft=4, tbt=2, window=60)
REQUESTS = (
    Request((3, 14, 15, 9, 2, 6), 4),
    Request((5, 3), 1),
    Request((8, 9, 7, 9, 3), 3, arrival=2),
)


@pytest.fixture(scope="module")
def decoder(cpu):
    """A decoder whose rows have an ABI: in float32, with a head of its own."""
    return Decoder(DecoderConfig(tied=False, seed=1), cpu)


def recorded(decoder, policy, requests=REQUESTS, handles=3, **options):
    """The recorder of a run that is over."""
    recorder = ServiceRecorder(decoder, requests)
    engine = Engine(decoder, requests, policy, handles=handles, listen=recorder, **options)
    assert engine.run().verdict == "holds"
    return recorder


@pytest.mark.parametrize("policy", POLICIES, ids=[policy.name for policy in POLICIES])
@pytest.mark.parametrize("kind", LAYOUT_KINDS)
def test_a_run_makes_a_service_trace_that_keeps_every_contract(decoder, kind, policy):
    """The specification takes the records, and says the same of every view, clock and metric (B6, A11)."""
    trace = recorded(decoder, policy, layout=kind).trace(LIMITS)
    assert service.first_broken(trace) is None
    assert (trace.metrics, trace.aggregate) == computed_metrics(trace)
    again = read(service, write(service, trace), "run.json")
    assert again == trace


def test_times_are_the_rounds_of_the_engine(decoder):
    """An output is told at the end of its round, as the engine's own clock has it (B6)."""
    recorder = ServiceRecorder(decoder, REQUESTS)
    run = Engine(decoder, REQUESTS, IterationLevel(), listen=recorder).run()
    metrics = recorder.trace(LIMITS).metrics
    assert [each.ttft for each in metrics] == [ended.ttft for ended in run.ended]
    assert [each.e2e for each in metrics] == [
        ended.times[-1] - ended.arrival for ended in run.ended
    ]


def test_policies_differ_in_metrics_and_in_no_record_of_rows(decoder):
    """Outputs and their tokens are the same under each; times, and so the metrics, are not (A11, B6)."""
    traces = [recorded(decoder, policy).trace(LIMITS) for policy in POLICIES]
    outputs = [
        {(r.request, r.output_index): r.token for r in trace.records if r.output_index is not None}
        for trace in traces
    ]
    assert outputs[0] == outputs[1] == outputs[2]
    assert len({trace.metrics for trace in traces}) == 3


def test_a_view_that_was_bent_breaks_its_contract(decoder):
    """The contracts are not kept by a trace whose view tells one row too many (B6)."""
    trace = recorded(decoder, IterationLevel()).trace(LIMITS)
    place = next(n for n, r in enumerate(trace.records) if r.operation == "publish_prefill")
    record = trace.records[place]
    view = {**record.view, "committed_tokens": record.view["committed_tokens"] + 1}
    records = list(trace.records)
    records[place] = attrs.evolve(record, view=view)
    broken = service.first_broken(attrs.evolve(trace, records=tuple(records)))
    assert broken.code == "COUNTERS"


@pytest.mark.parametrize(
    ("requests", "handles", "options", "found"),
    [
        (REQUESTS, 1, {}, "given away again"),
        ((attrs.evolve(REQUESTS[1], repair=True),), 1, {}, "a repair"),
        (REQUESTS[:1], 1, {"drafter": lambda tokens: (tokens[-1],)}, "drafts"),
    ],
)
def test_what_no_service_trace_tells_is_refused(decoder, requests, handles, options, found):
    """A handle used twice, a repair and drafts have no record, so that there is no trace."""
    recorder = recorded(decoder, ChunkedPrefill(), requests, handles, **options)
    with pytest.raises(DecodeError, match=found) as refusal:
        recorder.trace(LIMITS)
    assert refusal.value.code == "BAD_CONFIG"


@pytest.mark.parametrize("window", [None, 4])
def test_the_abi_of_a_decoder_keeps_its_contracts(decoder, cpu, window):
    """It is lawful, and another one for other weights or another window (B1)."""
    config = attrs.evolve(decoder.config, window=window)
    abi = cache_abi(Decoder(config, cpu))
    assert is_lawful(abi)
    assert abi.position_contract.window == window
    assert abi != cache_abi(Decoder(attrs.evolve(config, seed=2), cpu))
    with pytest.raises(DecodeError, match="a whole number") as refusal:
        cache_abi(Decoder(attrs.evolve(config, dtype=torch.float64), cpu))
    assert refusal.value.code == "BAD_CONFIG"
