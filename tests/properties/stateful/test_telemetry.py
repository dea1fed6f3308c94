"""The stateful tests with telemetry attached: the backend does what it did, and its log passes the audit."""

import io

import pytest

pytest.importorskip("torch")

from kvspec.models.decode.backend import DecodeBackend
from kvspec.models.documents.lines import read_header
from kvspec.models.telemetry.audit_log import AuditLog
from kvspec.models.telemetry.telemetry import Telemetry
from kvspec.properties.audit.stream import Audited, audit_lines
from kvspec.properties.core import properties
from kvspec.properties.stateful import StatefulReport, make_plan, run
from kvspec.spec import core
from kvspec.spec.language import Instance

CLAIMS = list(properties.by_name.values())
ROOM = 1 << 20


def hold(
    instance: Instance, *faults: str, walks: int, examples: int
) -> tuple[StatefulReport, Telemetry, Audited]:
    """One run of a backend that tells all it does, and the audit of what it told."""
    stream = io.StringIO()
    telemetry = Telemetry([AuditLog(stream)], capacity=ROOM)
    backend = DecodeBackend(device="cpu", faults=faults, telemetry=telemetry)
    plan = make_plan(instance, CLAIMS, most=walks)
    report = run(instance, CLAIMS, lambda: backend, max_examples=examples, profile="ci", plan=plan)
    telemetry.end(backend.closing())
    telemetry.close()
    lines = stream.getvalue().encode().splitlines()
    return report, telemetry, audit_lines(read_header(lines[0], "log"), lines[1:], "log")


def test_a_backend_with_telemetry_does_all_that_tiny_allows() -> None:
    """Every one of TINY's 519 transitions, and the log of all of them is a lawful history."""
    report, telemetry, found = hold(core.TINY, walks=1200, examples=40)
    assert report.holds, report.text()
    assert report.touched == report.transitions == 519
    assert (telemetry.errors, telemetry.first_error) == (0, "")
    assert not telemetry.channel.dropped
    assert not telemetry.channel.failures
    assert found.verdict == "holds", found.findings
    assert found.summary.events > 1000
    assert not found.summary.unjudged


@pytest.mark.slow
@pytest.mark.parametrize(
    "instance", [core.RACE, core.LAYERS, core.BRANCH, core.FAN_OUT], ids=lambda value: value.name
)
def test_larger_instances_leave_lawful_logs(instance: Instance) -> None:
    """Conflicts, forks to several children, and handles of several generations among them."""
    report, telemetry, found = hold(instance, walks=100, examples=24)
    assert report.holds, report.text()
    assert (telemetry.errors, telemetry.first_error) == (0, "")
    assert found.verdict == "holds", found.findings


@pytest.mark.slow
def test_a_cache_that_changes_without_telling_is_found_by_its_closing() -> None:
    """An unsound backend's log shows it: a retry that appends once more is told by nothing else."""
    report, _, found = hold(core.RACE, "retry.appends-again", walks=100, examples=12)
    assert report.verdict == "violated"
    assert found.verdict == "violated"
    assert found.codes.keys() & {"EVENT_LOST", "BASE_SNAPSHOT", "COMMITTED_TOKENS"}, found.codes
