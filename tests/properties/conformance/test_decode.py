"""The torch cache of this project keeps every rule, and its faults break the rules they are named after."""

import pytest

from kvspec.properties.conformance.run import run_conformance
from kvspec.properties.conformance.suite import SUITE

pytest.importorskip("torch")

FAULTS = (
    ("publish.drop-guard.STALE_SNAPSHOT", "publish/STALE_SNAPSHOT", "not enforced"),
    ("publish.drop-guard.STALE_GENERATION", "publish/STALE_GENERATION", "not enforced"),
    ("prepare.drop-guard.V_INCOMPLETE", "prepare/V_INCOMPLETE", "not enforced"),
    ("release.drop-guard.ROW_HOLDS_HANDLE", "release/ROW_HOLDS_HANDLE", "not enforced"),
    ("truncate.drop-assignment.version", "truncate/version", "breaks"),
    ("release.drop-assignment.generation", "release/generation", "breaks"),
    ("release.keeps-rows", "release/k_rows", "breaks"),
    ("cancel_request.drop-assignment.state", "cancel_request/state", "breaks"),
    ("leave.drop-assignment.row_sampler", "leave/row_sampler", "breaks"),
    ("retry.appends-again", "retry/keeps-the-rest", "breaks"),
)


def decode(*faults: str):
    """A factory of the torch cache with faults."""
    from kvspec.models.decode.backend import DecodeBackend

    return lambda: DecodeBackend(faults=faults)


@pytest.mark.slow
def test_the_torch_cache_keeps_every_rule() -> None:
    """A backend needs no adapter, and ours conforms on the whole suite (B4)."""
    report = run_conformance(decode())
    assert report.verdict == "holds"
    assert {found.verdict for found in report.results.values()} == {"kept"}
    assert len(report.parts) == len(SUITE)


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "rule", "verdict"), FAULTS, ids=[f[0] for f in FAULTS])
def test_a_fault_is_found_by_the_rule_it_is_named_after(fault, rule, verdict) -> None:
    """A forgotten check is not enforced, a forgotten update breaks."""
    report = run_conformance(decode(fault), instances=["TINY", "KINDS"])
    assert report.results[rule].verdict == verdict
    assert report.results[rule].trace.repeats


def test_a_fault_is_found_on_one_instance() -> None:
    """The quick form of the above: a stale publication, on the smallest instance."""
    fault, rule, verdict = FAULTS[0]
    report = run_conformance(decode(fault), instances=["TINY"], only=[rule])
    assert report.results[rule].verdict == verdict
