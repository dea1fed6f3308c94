"""The page on a broken rule can be understood without knowing the suite (F5)."""

import re

import attrs
import pytest

from kvspec.properties.conformance.run import run_conformance
from kvspec.properties.conformance.suite import part_named


@pytest.fixture
def stale(tested) -> str:
    """The page on a stale publication that is accepted."""
    return tested("AcceptsStale").pages["publish/STALE_SNAPSHOT"]


def part(page: str, label: str) -> str:
    """The text behind a label, in one line."""
    found = re.search(rf"^{label} +(.*(?:\n {{12}}.*)*)", page, re.MULTILINE)
    return " ".join(found.group(1).split()) if found else ""


def test_it_opens_with_the_verdict_in_words(stale) -> None:
    """Which rule, of which cache, and what the verdict means."""
    lines = stale.splitlines()
    assert lines[0] == "publish/STALE_SNAPSHOT: NOT ENFORCED"
    assert lines[2] == "accepts stale appends: a wrong call is accepted in silence."


def test_it_says_the_rule_in_the_specification_s_words(stale) -> None:
    """The meaning of the code, what a refusal may change, and the formula."""
    rule = part(stale, "The rule")
    assert "where the handle has another snapshot than at the begin" in rule
    assert "changes nothing but state, target" in rule
    assert "publish needs version[target[x]] = base_version[x]" in rule


def test_it_lists_the_calls_with_answers_and_meanings(stale) -> None:
    """Numbered calls from a reset; each action is explained where it first comes; the last is marked."""
    assert "after a reset for TINY (one request, one append, one layer, one batch row):" in stale
    calls = re.findall(r"^ +(\d+)\. (\w+)\(.*\) +(\w+)", stale, re.MULTILINE)
    assert [name for _, name, _ in calls] == [
        "allocate", "begin", "stage_k", "stage_v", "prepare", "truncate", "publish"
    ]  # fmt: skip
    assert {answer for _, _, answer in calls} == {"accepted"}
    assert stale.count("Give a free handle and an empty block to a new request") == 1
    assert re.search(r"7\. publish\(x=txn0\) +accepted   <- here", stale)


def test_it_says_what_was_found_and_what_was_expected(stale) -> None:
    """The answers, the values for which the guard fails, and a table of the cells that differ."""
    assert part(stale, "Found") == "accepted."
    expected = part(stale, "Expected")
    assert expected.startswith("refused with STALE_SNAPSHOT, since by the calls so far")
    assert "version[handle0] = 1" in expected
    assert re.search(r"^ +state\[txn0\] +PUBLISHED +REJECTED$", stale, re.MULTILINE)


def test_it_says_why_by_a_claim(stale) -> None:
    """What the guard protects is found in the specification: the claim that fails without it."""
    assert "The receipt of a published append is the snapshot after the captured one" in part(
        stale, "Why"
    )


def test_it_has_the_cache_s_own_words(stale) -> None:
    """describe() around the last call."""
    assert part(stale, "Before") == "the last call the cache says of itself: lengths (0,)"
    assert part(stale, "After") == "the last call the cache says of itself: lengths (1,)"


def test_it_says_how_to_see_it_again(stale) -> None:
    """The call that repeats it; for a cache that has a name, a command (see the command line's tests)."""
    again = part(stale, "See again")
    assert again == (
        "run_conformance(AcceptsStale, instances=['TINY'], only=['publish/STALE_SNAPSHOT'])"
    )
    assert part(stale, "Read more") == "kvspec show core publish"


@pytest.mark.parametrize(
    ("cache", "rule", "label", "text"),
    [
        ("Crashes", "evict/BLOCK_EMPTY", "Found", "raised KeyError: 0."),
        ("Crashes", "evict/BLOCK_EMPTY", "Notes", "list the exception in `refusals`"),
        ("WrongCode", "evict/STILL_OWNED", "Why", "A caller decides by the code"),
        ("WrongCode", "evict/STILL_OWNED", "Notes", "let the adapter give none"),
        ("Meddles", "truncate/BEYOND_COMMITTED", "Why", "takes it that nothing else has happened"),
        ("Refuses", "finish/accepted", "Why", "has no way on from here"),
        ("Refuses", "finish/accepted", "Expected", "accepted: no guard of it fails here."),
        ("Remembers", "cancel_request/phase", "Notes", "the cache remembers something"),
        ("EarlyLayer", "stage_k/keeps-the-rest", "Found", "then it shows something else:"),
        ("EarlyLayer", "stage_k/keeps-the-rest", "Why", "A held handle shows its committed"),
        ("Rots", "cache/undamaged", "Found", "logits at handle0: 0.25, differs from an uncached"),
        ("NotBlank", "cache/starts-blank", "Found", "reset"),
    ],
)
def test_each_way_of_breaking_has_its_words(tested, cache, rule, label, text) -> None:
    """A crash, a wrong code, a change on refusal, a refusal, a memory, a wrong state, damage."""
    assert text in part(tested(cache).pages[rule], label)


def test_lines_are_not_long(tested) -> None:
    """A page fits a terminal, but for a command."""
    for cache in ("AcceptsStale", "EarlyLayer", "Crashes"):
        for page in tested(cache).pages.values():
            lines = [line for line in page.splitlines() if not line.startswith("See again")]
            assert max(len(line) for line in lines) <= 110


@pytest.mark.parametrize("code", ["ABI_MISMATCH", "EMPTY_APPEND", "CONTEXT_FULL"])
def test_the_trace_of_a_guard_breaks_that_guard_alone(planted, code) -> None:
    """Where a call is as near in which no other guard fails, the page is about that one."""
    cache = type("Forgetful", (planted.Sound,), {"forgets": (("begin", code),)})
    part = attrs.evolve(part_named("KINDS"), quota=1)
    rule = f"begin/{code}"
    report = run_conformance(cache, instances=[part], only=[rule])
    trace = report.results[rule].trace
    assert trace.is_alone
    rows = 0 if code == "EMPTY_APPEND" else 2 if code == "CONTEXT_FULL" else 1
    assert f"n={rows})" in trace.calls[-1].text
