"""The fourteen-event trace: its figures, its binding to the manifest, and how it is judged."""

import attrs
import pytest

from kvspec.counterexamples.negative_cases import load_document
from kvspec.models.documents import convert
from kvspec.properties.audit.rules import OWN
from kvspec.properties.documents import find_kind
from kvspec.properties.documents.event_log import LATER, REFUSED, event_log
from kvspec.spec.documents.event import TYPES
from kvspec.spec.documents.log import PINNED


@pytest.fixture(scope="module")
def log():
    """The valid document."""
    return convert(event_log, load_document("event-log"), "event-log.json")


def test_the_trace_has_fourteen_events_of_the_cache(log):
    """Each of the nine types is there; six observations follow publications and the release."""
    own = [each for each in log.events if each.source_component == "cache"]
    assert [each.local_sequence for each in own] == list(range(14))
    assert {each.event_type for each in log.events} == set(TYPES)
    assert len(log.events) == 14 + 3 + 3


def test_the_observations_have_the_figures_of_the_text(log):
    """Two blocks and eight slots hold four and then five rows, of 64 bytes each; then nothing."""
    seen = [(e.allocated_blocks, e.allocated_slots, e.used_slots) for e in log.expected.allocator]
    assert seen == [(2, 8, 4), (2, 8, 5), (0, 0, 0)]
    assert [each.resident_payload_bytes for each in log.expected.residency] == [256, 320, 0]


def test_parent_and_child_end_as_the_text_says(log):
    """The parent ends at generation 8 and snapshot 3, the child at generation 1 and snapshot 2."""
    ends = [attrs.astuple(each) for each in log.expected.handles]
    assert ends == [("R", 7, 8, "RELEASED", 3, 0), ("R.branch", 0, 1, "RELEASED", 2, 0)]


def test_the_log_is_bound_to_the_manifest_on_file(log):
    """Its ABI and digest are those of the valid manifest, and its source is the pinned release."""
    manifest = convert(find_kind("manifest"), load_document("manifest"), "manifest.json")
    assert log.header.cache_abi_sha256 == manifest.digests.cache_abi_sha256
    assert log.cache_abi.cache_schema == manifest.cache_schema
    assert log.header.source is not None
    assert (log.header.source.release, log.header.source.commit) == PINNED["vllm"]


def test_what_comes_first_is_told(log):
    """A later finding that follows from an earlier one does not hide it."""
    events = list(log.events)
    events[2] = attrs.evolve(events[2], result_snapshot=2)
    broken = event_log.first_broken(attrs.evolve(log, events=tuple(events)))
    assert (broken.code, broken.findings[0].path) == (
        "RESULT_SNAPSHOT",
        "/events/2/result_snapshot",
    )


def test_every_rule_of_the_audit_is_told_by_a_contract():
    """Those that one change cannot break are told as HISTORY, with their own code."""
    assert {*OWN, *REFUSED} - set(LATER) <= set(event_log.contracts)
    assert not set(LATER) & set(event_log.contracts)


def test_reordering_is_told_as_history(log):
    """Two events of one source in the other order, with the result that is expected of them."""
    events = list(log.events)
    events[6], events[7] = events[7], events[6]
    broken = event_log.first_broken(attrs.evolve(log, events=tuple(events)))
    assert broken.code == "HISTORY"
    assert "REORDERED" in str(broken.findings[0].expected)
