"""Known failures: a strict file, whose entries excuse what they name and are reported when stale (F2)."""

import attrs
import pytest

from kvspec.properties.conformance.errors import AdapterError
from kvspec.properties.conformance.run import every_rule, run_conformance
from kvspec.properties.conformance.xfails import Xfail, excused, read_xfails

STALE = "publish/STALE_SNAPSHOT"
CLAIMS = (
    "claim/a_receipt_names_the_snapshot_after_the_base",
    "claim/publication_is_of_the_captured_snapshot",
)


@pytest.fixture
def judged(tested, tmp_path):
    """The report on a cache with the known failures of a text."""

    def judge(text: str, cache: str = "AcceptsStale"):
        path = tmp_path / "known.txt"
        path.write_text(text, encoding="utf-8")
        return excused(tested(cache), read_xfails(path), every_rule())

    return judge


def test_what_is_known_is_excused_with_its_reason(judged) -> None:
    """With every broken rule excused the verdict holds, and the table shows the reason."""
    lines = [f"{rule}  # fenced elsewhere, see issue 12" for rule in (STALE, *CLAIMS)]
    report = judged("\n".join(["# our own list", "", *lines]))
    assert report.verdict == "holds"
    assert report.results[STALE].known == "fenced elsewhere, see issue 12"
    assert "[known: fenced elsewhere, see issue 12]" in report.table()
    assert "3 known" in report.summary


def test_what_is_not_listed_still_fails(judged) -> None:
    """One excuse does not cover another rule."""
    assert judged(f"{STALE}  # known").verdict == "violated"


def test_a_rule_that_could_not_be_judged_can_be_excused(judged) -> None:
    """Unknown is no pass either, so it can be known."""
    report = judged("publish/k_rows  # hidden by early rows", "EarlyLayer")
    assert report.results["publish/k_rows"].known is not None
    assert not report.stale


def test_a_run_that_was_cut_is_not_excused(planted) -> None:
    """What was not tried for want of time stays unknown, whatever is listed, and its lines are not stale."""
    entries = [Xfail(rule, "all", f"known.txt:{n}") for n, rule in enumerate(every_rule(), 1)]
    cut = run_conformance(planted.AcceptsStale, instances=["TINY"], budget=1e-6)
    report = excused(cut, entries, every_rule())
    assert report.verdict == "unknown"
    assert not report.stale
    assert {found.known for found in report.results.values()} == {None}


def test_excuses_alone_are_no_verdict(tested) -> None:
    """Where nothing was kept nor broken nothing holds, though every unknown rule is excused."""
    report = tested("EarlyLayer")
    rule = "publish/k_rows"
    alone = attrs.evolve(report, results={rule: report.results[rule]})
    found = excused(alone, [Xfail(rule, "hidden", "known.txt:1")], every_rule())
    assert found.results[rule].known == "hidden"
    assert found.verdict == "unknown"


def test_a_mark_of_the_encoding_is_no_part_of_the_list(tmp_path) -> None:
    """A byte order mark, as some editors write it, is passed over."""
    path = tmp_path / "known.txt"
    path.write_text(f"{STALE}  # known", encoding="utf-8-sig")
    assert [entry.rule for entry in read_xfails(path)] == [STALE]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "publish/STALE_SNAPSHOOT # typo",
            "there is no rule publish/STALE_SNAPSHOOT; did you mean",
        ),
        ("publish/length # once", "publish/length is kept, so that there is nothing to excuse"),
        ("fork/accepted # once", "fork/accepted is out of reach"),
    ],
)
def test_an_entry_that_excuses_nothing_is_stale(judged, line, told) -> None:
    """A rule that does not exist, is kept or does not arise: told with file and line, and a failure."""
    report = judged(f"# list\n{line}", "Sound")
    assert report.verdict == "violated"
    (stale,) = report.stale.values()
    assert told in stale
    assert "known.txt:2: " in stale
    assert "STALE: " in report.table()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("publish/length", "gives no reason"),
        ("publish/length #  ", "gives no reason"),
        ("publish/length, publish/version # two", "no rule's identifier"),
        ("length # where", "no rule's identifier"),
        ("a/b # one\na/b # two", "a/b a second time"),
    ],
)
def test_a_line_that_cannot_be_read_is_an_error(tmp_path, text, found) -> None:
    """The message names file and line and shows what a line looks like."""
    path = tmp_path / "known.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(AdapterError) as caught:
        read_xfails(path)
    assert found in caught.value.found
    assert caught.value.where == f"{path}:{len(text.splitlines())}"


def test_a_file_that_is_not_there_is_an_error(tmp_path) -> None:
    """The message names it."""
    with pytest.raises(AdapterError, match=r"none\.txt cannot be read"):
        read_xfails(tmp_path / "none.txt")
