"""The suite's verdicts on Transformers' caches are on file; the wrapper needs no file (F2, F4)."""

from pathlib import Path

import attrs
import pytest

from kvspec.models import runtimes
from kvspec.properties.conformance.run import every_rule, run_conformance
from kvspec.properties.conformance.xfails import Xfail, excused, read_xfails

pytestmark = pytest.mark.slow

KNOWN = Path(runtimes.__file__).parent / "known"
ADAPTERS = "kvspec.models.runtimes.transformers_adapter"


@pytest.fixture(scope="module", params=["dynamic", "static"])
def cache(request, lib):
    """A cache of the library: its report, and its known failures."""
    report = run_conformance(f"{ADAPTERS}:{request.param}_cache")
    return report, read_xfails(KNOWN / f"transformers_{lib.major}_{request.param}.txt")


def test_known_failures_are_all_that_is_found(cache):
    """With the file of the release and the cache nothing is left to report, and no entry is stale (F2)."""
    report, known = cache
    found = excused(report, known, every_rule())
    assert found.verdict == "holds", found.table()
    assert not found.stale
    assert report.verdict == "violated"


def test_an_entry_that_is_no_longer_true_fails(cache):
    """A rule that the cache keeps cannot be excused: the entry is told as stale (F2)."""
    report, known = cache
    kept = report.of("kept")[0].rule.id
    found = excused(
        report, (*known, Xfail(kept, "of another release", "known.txt:99")), every_rule()
    )
    assert found.verdict == "violated"
    assert list(found.stale) == [kept]


def test_every_known_failure_is_needed(cache):
    """Without any one of the entries the verdict is not `holds`."""
    report, known = cache
    assert known
    for entry in known:
        rest = [other for other in known if other is not entry]
        assert excused(report, rest, every_rule()).verdict != "holds", entry


def test_breaks_are_told_from_what_is_not_enforced(cache):
    """Its own forward pass shows uneven layers; a wrong position is accepted in silence (F4)."""
    report, _ = cache
    verdicts = {name: found.verdict for name, found in report.results.items()}
    assert verdicts["claim/every_layer_shows_the_committed_k_rows"] == "breaks"
    assert verdicts["stage_v/keeps-the-rest"] == "breaks"
    assert verdicts["begin/POSITION_MISMATCH"] == "not enforced"
    assert verdicts["publish/STALE_GENERATION"] == "not enforced"
    assert verdicts["allocate/accepted"] == "kept"


def test_the_releases_differ_in_a_crop_past_the_last_row(cache, lib):
    """4.57.0 accepts it in silence where it has a crop; 5.24 refuses, without a code."""
    report, _ = cache
    found = report.results["truncate/BEYOND_COMMITTED"]
    if lib.has_static_crop:
        assert (found.verdict, found.untold > 0) == ("kept", True)
    elif "Static" in report.name:
        assert found.verdict == "not offered"
    else:
        assert found.verdict == "not enforced"


def test_the_page_on_a_break_has_the_figures(cache):
    """What the cache says of itself is on the page, in rows of each layer."""
    report, _ = cache
    assert "get_seq_length() 5" in report.pages["stage_v/keeps-the-rest"]


def test_the_wrapper_keeps_every_rule(lib):
    """The wrapper with transactions offers every action and keeps every rule (F4)."""
    report = run_conformance("kvspec.models.runtimes.transactional_adapter:transactional_cache")
    assert report.verdict == "holds", report.table()
    assert not report.not_offered
    assert not report.filled
    assert {found.verdict for found in report.results.values()} == {"kept"}


def test_a_wrapper_that_compares_no_snapshot_is_caught(lib):
    """The suite does not hold the wrapper for sound whatever it does: without one comparison it fails."""
    from kvspec.models.runtimes.transactional import TransactionalCache
    from kvspec.models.runtimes.transactional_adapter import TransactionalAdapter

    class Careless(TransactionalCache):
        def publish(self, x):
            append = self.appends[x]
            if append.state == "PREPARED":
                found = self.requests[append.target].snapshot.version
                append.base = attrs.evolve(append.base, version=found)
            super().publish(x)

    class CarelessAdapter(TransactionalAdapter):
        def reset(self, instance):
            super().reset(instance)
            self.cache.__class__ = Careless

    report = run_conformance(CarelessAdapter, instances=["TINY"])
    assert report.verdict == "violated"
    assert report.results["publish/STALE_SNAPSHOT"].verdict == "not enforced"
