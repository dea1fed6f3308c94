"""Logs of the decode backend under audit: sound ones hold, each fault has a code of its own."""

import io
import json
import time
from contextlib import suppress

import pytest

pytest.importorskip("torch")

from kvspec.models.decode import FAULTS, LAYOUT_KINDS, DecodeBackend
from kvspec.models.decode.recording import UnexpectedReplyError, record
from kvspec.models.documents.lines import read_header
from kvspec.models.telemetry.audit_log import AuditLog
from kvspec.models.telemetry.channel import Channel
from kvspec.models.telemetry.faults import TELEMETRY_FAULTS
from kvspec.models.telemetry.telemetry import Telemetry
from kvspec.properties.audit.stream import Audited, audit_lines
from kvspec.spec.documents.event import TYPES


def lines_of(*faults: str, layout: str = "dynamic", **options: int) -> list[bytes]:
    """The log of a recording with faults of telemetry, as lines."""
    stream = io.StringIO()
    telemetry = Telemetry([AuditLog(stream)], faults=faults)
    record(DecodeBackend(layout, device="cpu", telemetry=telemetry), **options)
    telemetry.close()
    return stream.getvalue().encode().splitlines()


def audit(lines: list[bytes], *, is_open: bool = False) -> Audited:
    """The audit of a log."""
    return audit_lines(read_header(lines[0], "log"), lines[1:], "log", is_open=is_open)


@pytest.mark.parametrize("layout", LAYOUT_KINDS)
@pytest.mark.parametrize(("requests", "steps", "seed"), [(4, 6, 0), (1, 1, 0), (12, 4, 7)])
def test_the_log_of_a_real_run_passes(layout: str, requests: int, steps: int, seed: int) -> None:
    """The specification takes every event, and the log comes to what the cache holds at the end."""
    found = audit(lines_of(layout=layout, requests=requests, steps=steps, seed=seed))
    assert (found.verdict, found.codes, found.closed) == ("holds", {}, True), found.findings
    assert found.summary.events > 10
    assert not found.summary.unjudged


CODES = {
    "emit-before-publish": "PREMATURE_SUCCESS",
    "lose-event": "SEQUENCE_GAP",
    "lose-tail": "EVENT_LOST",
    "forge-event": "EVENT_ID_REUSED",
    "reorder-events": "REORDERED",
    "clock-back": "CLOCK_REGRESSION",
    "finish-as-release": "NOT_TERMINAL",
}


@pytest.mark.parametrize(("fault", "code"), CODES.items())
def test_each_fault_has_a_code_of_its_own(fault: str, code: str) -> None:
    """The log violates its rule, and no other fault's."""
    found = audit(lines_of(fault))
    assert found.verdict == "violated"
    assert found.codes.keys() & set(CODES.values()) == {code}


def test_every_fault_is_audited() -> None:
    """Beside those with a code there is a duplicate, which breaks no rule, and a label in the header."""
    assert TELEMETRY_FAULTS.keys() - CODES.keys() == {"duplicate-event", "request-id-label"}


def test_a_duplicate_is_counted_and_breaks_no_rule() -> None:
    """Delivered twice, byte for byte, an event counts once."""
    sound, found = audit(lines_of()), audit(lines_of("duplicate-event"))
    assert (found.verdict, found.codes) == ("holds", {})
    assert (sound.summary.duplicates, found.summary.duplicates) == (0, 1)
    assert found.summary.types == sound.summary.types


def test_a_metric_by_request_is_found_in_the_header() -> None:
    """The header tells the families, so a log betrays a label that nothing refused."""
    metrics = pytest.importorskip("kvspec.models.telemetry.metrics")
    stream = io.StringIO()
    families = metrics.Metrics("m", "e", per="request_id", check=metrics.check_nothing)
    telemetry = Telemetry([AuditLog(stream)], families)
    record(DecodeBackend(device="cpu", telemetry=telemetry), requests=1, steps=1)
    telemetry.close()
    found = audit(stream.getvalue().encode().splitlines())
    assert (found.verdict, found.codes) == ("violated", {"METRIC_CARDINALITY": 1})


def test_success_told_too_early_and_success_lost_are_told_apart() -> None:
    """Both logs are lawful histories: only the closing convicts them, of opposite things."""
    for fault, cache, log in (
        ("emit-before-publish", "snapshot 0 with 0 tokens", "snapshot 1 with 4 tokens"),
        ("lose-tail", "RELEASED at snapshot 7", "DECODE_READY at snapshot 1"),
    ):
        lines = lines_of(fault)
        assert audit(lines[:-1], is_open=True).verdict == "holds"
        told = next(each for each in audit(lines).findings if each.field == "handles")
        assert cache in told.expected
        assert log in told.found


def test_a_log_that_comes_to_other_rows_than_the_cache_differs() -> None:
    """Same snapshot, other content: neither too early nor lost."""
    lines = lines_of(requests=1, steps=1)
    published = next(n for n, line in enumerate(lines) if b'"append_publish"' in line)
    closing = json.loads(lines[-1])
    (end,) = closing["closing"]["handles"]
    end.update(phase="DECODE_READY", snapshot=1, end_generation=0, committed_tokens=99)
    told = [json.loads(line)["source_instance"] for line in lines[1 : published + 1]]
    closing["closing"]["sources"] = [
        {"source_instance": name, "next_sequence": told.count(name)} for name in sorted(set(told))
    ]
    found = audit([*lines[: published + 1], json.dumps(closing).encode()])
    assert found.codes == {"STATE_DIFFERS": 1}


CACHE_FAULTS = {
    "publish.drop-guard.STALE_SNAPSHOT": "STALE_SNAPSHOT",
    "publish.drop-assignment.k_rows": "FREED_EARLY",
    "publish.drop-assignment.v_rows": "RESIDENT_BYTES",
    "truncate.layer-local": "RESIDENT_BYTES",
    "truncate.drop-assignment.version": "RESULT_SNAPSHOT",
    "fork.shared-rows": "USED_SLOTS",
    "release.keeps-rows": "USED_SLOTS",
    "release.drop-assignment.generation": "RESULT_GENERATION",
}


@pytest.mark.parametrize(("fault", "code"), CACHE_FAULTS.items())
def test_a_faulty_cache_is_convicted_by_its_own_log(fault: str, code: str) -> None:
    """The instrument tells what it finds on the tables, so a log tells on a cache that broke a rule."""
    stream = io.StringIO()
    telemetry = Telemetry([AuditLog(stream)])
    backend = DecodeBackend(device="cpu", faults=(fault,), telemetry=telemetry)
    with suppress(UnexpectedReplyError):
        record(backend, requests=3, steps=4)
    telemetry.close()
    assert telemetry.errors == 0
    found = audit(stream.getvalue().encode().splitlines())
    assert found.verdict == "violated"
    assert code in found.codes, found.codes


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_of_the_cache_troubles_its_telemetry(fault: str) -> None:
    """Whatever an unsound cache does, the instrument raises nothing and the log can be read."""
    stream = io.StringIO()
    telemetry = Telemetry([AuditLog(stream)])
    with suppress(UnexpectedReplyError):
        record(
            DecodeBackend(device="cpu", faults=(fault,), telemetry=telemetry), requests=3, steps=4
        )
    telemetry.close()
    assert (telemetry.errors, telemetry.first_error) == (0, "")
    assert audit(stream.getvalue().encode().splitlines()).summary.events > 10


class Slow:
    """An exporter that takes its time with the first record, until so many others were dropped."""

    name = "slow"

    def __init__(self, least: int) -> None:
        self.least = least
        self.channel: Channel | None = None

    def export(self, item: object) -> None:
        """Return once enough was dropped."""
        until = time.monotonic() + 30
        while sum(self.channel.dropped.values()) < self.least and time.monotonic() < until:
            time.sleep(0.001)

    def close(self) -> None:
        """Nothing is kept."""


def test_what_is_dropped_shows_as_a_gap_of_the_same_size() -> None:
    """A channel with too little room counts what it drops by kind, and the audit misses as many."""
    stream, slow = io.StringIO(), Slow(least=25)
    telemetry = Telemetry([slow, AuditLog(stream)], capacity=40)
    slow.channel = telemetry.channel
    record(DecodeBackend(device="cpu", telemetry=telemetry), requests=6, steps=6)
    telemetry.close()
    dropped = telemetry.channel.dropped
    assert sum(dropped.values()) >= 25
    assert dropped.keys() <= TYPES.keys()
    found = audit(stream.getvalue().encode().splitlines())
    assert found.verdict == "violated"
    assert "SEQUENCE_GAP" in found.codes
    assert found.summary.lost == sum(dropped.values())
