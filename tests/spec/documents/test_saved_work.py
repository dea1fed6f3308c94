"""The ledger of saved work: its figures, counted by hand where that is possible."""

from fractions import Fraction

import attrs
import pytest

from kvspec.counterexamples.negative_cases import load_document
from kvspec.models.documents import convert, replaced
from kvspec.spec.documents.saved_work import OPERATIONS, SAVED_WORK, emitted, ratio_of
from kvspec.spec.documents.saved_work_record import Comparison

DOCUMENT = convert(SAVED_WORK, load_document("saved-work"), "saved-work.json")


def test_the_worked_rows():
    """P=2048, G=128: 270,272 rows without a cache, 2,175 with one, 268,097 saved, 124.26 times."""
    one = DOCUMENT.ledger.rows
    assert (DOCUMENT.ledger.prompt_tokens, DOCUMENT.ledger.outputs) == (2048, 128)
    assert (one.uncached, one.cached, one.saved) == (270_272, 2_175, 268_097)
    assert one.reduction_hundredths == 12_426


def test_the_worked_pairs():
    """285,562,176 pairs, 2,366,400, 283,195,776, 120.67 times."""
    one = DOCUMENT.ledger.pairs
    assert (one.uncached, one.cached, one.saved) == (285_562_176, 2_366_400, 283_195_776)
    assert one.reduction_hundredths == 12_067


@pytest.mark.parametrize("name", ["rows", "pairs"])
def test_a_reduction_is_exact(name):
    """The ratio is kept as a fraction, of which the hundredths are the nearest."""
    one = getattr(DOCUMENT.ledger, name)
    exact = Fraction(one.reduction)
    assert exact * one.cached == one.uncached
    assert abs(exact - Fraction(one.reduction_hundredths, 100)) <= Fraction(1, 200)


@pytest.mark.parametrize(
    ("uncached", "cached", "expected"),
    [(3, 2, ("3/2", 150)), (4, 2, ("2", 200)), (201, 200, ("201/200", 101)), (5, 3, ("5/3", 167))],
)
def test_rounding(uncached, cached, expected):
    """Hundredths are rounded to the nearest, halves up."""
    assert ratio_of(Comparison(uncached, cached, uncached - cached, "", 0)) == expected


def executed(prompt, outputs):
    """Rows and pairs of each call, without and with a cache, and the past rows that it reads."""
    uncached = cached = pairs = pairs_cached = read = 0
    committed = 0
    for call in range(outputs):
        length = prompt + call
        uncached += length
        pairs += sum(query + 1 for query in range(length))
        cached += length - committed
        pairs_cached += sum(query + 1 for query in range(committed, length))
        read += committed
        committed = length
    return uncached, cached, pairs, pairs_cached, read


@pytest.mark.parametrize(("prompt", "outputs"), [(1, 1), (4, 3), (5, 1), (3, 7), (2048, 128)])
def test_counts_are_those_of_the_calls(prompt, outputs):
    """Call by call, one row and one pair at a time: the ledger on file, sized anew, has these."""
    uncached, cached, pairs, pairs_cached, read = executed(prompt, outputs)
    rows = Comparison(uncached, cached, uncached - cached, "", 0)
    scores = Comparison(pairs, pairs_cached, pairs - pairs_cached, "", 0)
    made = attrs.evolve(
        DOCUMENT.ledger,
        prompt_tokens=prompt,
        outputs=outputs,
        rows=rounded(rows),
        pairs=rounded(scores),
        first_prefill=attrs.evolve(
            DOCUMENT.ledger.first_prefill, rows_uncached=prompt, rows_cached=prompt
        ),
        calls=attrs.evolve(DOCUMENT.ledger.calls, uncached=outputs, decodes=outputs - 1),
        cache_work=attrs.evolve(DOCUMENT.ledger.cache_work, rows_read=read, rows_written=cached),
    )
    assert SAVED_WORK.first_broken(attrs.evolve(DOCUMENT, ledger=made)) is None
    # Each row that is not executed again is read once instead.
    assert read == uncached - cached


def rounded(one):
    """A comparison with its reductions."""
    ratio, hundredths = ratio_of(one)
    return attrs.evolve(one, reduction=ratio, reduction_hundredths=hundredths)


def test_a_cache_adds_reads_of_the_past():
    """What disappears, what stays and what is new are told apart."""
    effects = {one.name: one.effect for one in DOCUMENT.ledger.operations}
    assert effects == OPERATIONS
    assert effects["historical K/V reads"] == "introduced"
    assert effects["the first prefill"] == "kept"
    assert set(effects.values()) == {"saved", "kept", "introduced"}


def test_the_worked_frontier():
    """P=4, G=3: committed 4, 5, 6; one token is ahead after each call and at the stop."""
    calls, stop = DOCUMENT.trace.calls, DOCUMENT.trace.stop
    assert [one.committed_length for one in calls] == [4, 5, 6]
    assert [one.frontier for one in calls] == [("y0",), ("y1",), ("y2",)]
    assert emitted(DOCUMENT.trace) == ("y0", "y1", "y2")
    assert (stop.outputs, stop.processed_outputs, stop.committed_length) == (3, 2, 6)
    assert len(stop.returned) == 7


def test_the_repair():
    """The last output becomes input, one row is published, the logits are discarded."""
    one = DOCUMENT.trace.repair
    assert (one.inputs, one.commits, one.emits) == (("y2",), ("y2",), ())
    assert (one.committed_length, one.logical_tokens, one.frontier) == (7, 7, ())
    assert one.logits == "discarded"


def test_the_speculative_correction():
    """Base 100, two drafts accepted, a correction: three tokens out, 102 committed, then 103."""
    s = DOCUMENT.speculation
    assert (s.base_committed, s.output_progress) == (100, 3)
    assert (s.committed_after_verification, s.committed_after_correction) == (102, 103)
    assert [row.token for row in s.rows if row.kept] == ["d0", "d1", "c"]


@pytest.mark.parametrize(
    ("path", "code"), [("/ledger/outputs", "SIZES"), ("/ledger/prompt_tokens", "ROWS_UNCACHED")]
)
def test_a_huge_request_is_told_at_once(path, code):
    """No sum over a trillion calls is begun."""
    changed = replaced(load_document("saved-work"), path, 10**12)
    broken = SAVED_WORK.first_broken(convert(SAVED_WORK, changed, "changed"))
    assert broken.code == code


def test_the_kind_is_whole_from_its_own_module():
    """Importing the kind brings the contracts of its counts and of its frontier."""
    assert next(iter(SAVED_WORK.contracts)) == "SIZES"
    assert list(SAVED_WORK.contracts)[-1] == "CORRECTED_COMMITTED"
