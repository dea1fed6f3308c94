"""Rows that a fork shares with its parent: what is written or freed too early is found by default."""

from functools import cache

import pytest

from kvspec.properties.conformance.graph import build_graph
from kvspec.properties.conformance.run import run_conformance
from kvspec.properties.conformance.sharing import SHARED


@pytest.fixture(scope="module")
def suite(paged):
    """The report of the default suite on a cache, found once."""
    return cache(lambda name: run_conformance(getattr(paged, name)))


def broken(report):
    """What is broken, by rule."""
    return {found.rule.id: found.verdict for found in report.broken}


@pytest.mark.slow
def test_a_sound_paged_cache_keeps_all_that_it_offers(suite) -> None:
    """Blocks that are shared, copied on write and counted break nothing (F2)."""
    report = suite("PagedAdapter")
    assert report.verdict == "holds", report.table()
    assert report.results["cache/undamaged"].verdict == "kept"
    assert not report.of("unknown")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["NoCopyOnWrite", "HalfCopyOnWrite", "NoCountOfForks"])
def test_a_block_that_is_shared_wrongly_is_found_by_default(suite, name) -> None:
    """No copy on write, one for children alone, and a fork that is not counted are damage (F2)."""
    report = suite(name)
    assert broken(report) == {"cache/undamaged": "breaks"}
    trace = report.results["cache/undamaged"].trace
    assert trace.repeats
    assert (trace.instance, "was told" in trace.damage) == ("SHARED", True)


def test_contents_that_nobody_compares_are_told(paged) -> None:
    """Without damage() a missing copy on write is not seen, and the report says what to write."""
    report = run_conformance(paged.Unmeasured, instances=["TINY"])
    assert report.verdict == "holds"
    assert report.results["cache/undamaged"].verdict == "not offered"
    assert "contents of rows were not compared: write damage()" in report.table()
    measured = run_conformance(paged.NoCopyOnWrite, instances=["TINY"])
    assert "write damage()" not in measured.table()


def test_rules_that_were_not_judged_for_one_reason_are_one_line(paged) -> None:
    """A cache that shows little has a short report; with `every` each rule has a line of its own."""
    report = run_conformance(paged.PagedAdapter, instances=["TINY"])
    hidden = [r for r in report.of("not offered") if r.reason == "state is not observed"]
    assert len(hidden) >= 4
    short, whole = report.table(), report.table(every=True)
    assert "rules" in short
    assert "what they speak of is not observed" in short
    for found in report.of("not offered"):
        if found.rule.group not in report.not_offered:
            assert f"{found.rule.id} " in whole
    assert "cancel_txn/target" not in short
    assert len(short.splitlines()) < len(whole.splitlines()) / 2


def test_every_order_of_two_appends_after_a_fork_is_tried() -> None:
    """SHARED has each order of what parent and child do to shared rows, and no wrong call."""
    graph = build_graph(SHARED)
    assert all(graph.code(place, number) is None for place, number in graph.cases())
    found, line = set(), [(0, ())]
    seen = set(line)
    while line:
        place, told = line.pop()
        for number, target in enumerate(graph.targets[place]):
            if target < 0:
                continue
            event, now = graph.events[number], told
            if event.action == "fork":
                now = ("fork",)
            elif told and event.action in ("begin", "truncate", "release"):
                now = (*told, f"{event.action} {event.names['h']}")
            elif told and event.action == "allocate":
                now = (*told, "allocate")
            if (target, now) not in seen:
                seen.add((target, now))
                found.add(now)
                line.append((target, now))
    assert {
        ("fork", "begin 0", "begin 1"),
        ("fork", "begin 1", "begin 0"),
        ("fork", "truncate 0", "begin 0"),
        ("fork", "truncate 1", "begin 1", "truncate 0", "begin 0"),
        ("fork", "release 0", "begin 1"),
        ("fork", "release 1", "begin 0"),
        ("fork", "begin 0", "begin 1", "release 0"),
        ("fork", "release 0", "allocate", "begin 0", "begin 1"),
    } <= found
