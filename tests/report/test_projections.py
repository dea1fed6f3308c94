"""`kvspec projections` and its page: current, complete, and without any ranking (B8)."""

import json
from pathlib import Path

import attrs
import pytest

from kvspec.cli import main
from kvspec.cli.projections import answer, page
from kvspec.properties.projection_suite import Told, instance_of, suite
from kvspec.properties.projections import check
from kvspec.report import projections as report
from kvspec.spec.projections import STATUSES
from kvspec.spec.runtimes import receipt_views, views
from kvspec.spec.runtimes.believed import BELIEVED
from kvspec.spec.runtimes.dimensions import DIMENSIONS, LAYOUTS

pytestmark = pytest.mark.slow  # every projection is checked, once

PAGE = Path(__file__).resolve().parents[2] / "docs" / "projections.md"


@pytest.fixture(scope="module")
def told():
    """Every projection that is told about, checked."""
    return list(suite())


def test_the_page_is_current(told):
    """docs/projections.md is what the models and the views say today."""
    assert PAGE.read_text(encoding="utf-8") == page(told), "run make docs"


def test_every_verdict_is_as_its_role_asks(told):
    """Views hold or claim nothing, receipts hold, beliefs fail where they are said to."""
    assert {t.verdict for t in told} == {"holds"}
    assert [t.role for t in told].count("believed") == len(BELIEVED)
    assert answer(told).verdict == "holds"


def test_a_belief_that_holds_is_a_violation():
    """A projection that was believed wrong and commutes is told."""
    view = views.vllm
    found = Told("believed", check(view, instance_of(view)), "committed")
    assert found.verdict == "violated"
    assert answer([found]).verdict == "violated"


def test_receipts_that_collapse_are_a_violation():
    """A total projection has no two states that look alike; one that has is told."""
    one = check(views.vllm, instance_of(views.vllm))
    assert one.verdict == "holds"
    assert Told("receipts", one).verdict == "violated"


def test_the_page_names_every_dimension_status_and_runtime(told):
    """Nothing that is compared is left out."""
    text = page(told)
    for name in (*STATUSES, *LAYOUTS):
        assert name in text
    for name in DIMENSIONS:
        assert f"| {name.replace('_', ' ')}: " in text
    for t in told:
        told_of = t.found.projection.doc if t.role == "believed" else f"{t.found.pairs:,}"
        assert told_of in text


def test_nothing_is_counted_or_ranked(told):
    """No line sums up statuses, and no runtime is called better than another."""
    text = page(told).lower()
    assert not {"score", "best", "winner", "better", "rank 1"} & set(text.split())
    rows = [line for line in text.splitlines() if line.startswith("| ") and "total" in line]
    assert rows == []


def test_json_has_the_runs_that_look_alike(told):
    """A program gets both runs of each pair, and what is required after each."""
    (vllm,) = [d for d in report.data(told) if d["projection"] == "vllm"]
    one, two = vllm["collapses"]["committed"]
    assert one["shown"] == two["shown"]
    assert (one["required"], two["required"]) == (["0"], ["1"])
    assert vllm["differences"]["committed"]["run"][-1] == "schedule_prefill(h=handle0)"


def test_the_command_writes_the_page(tmp_path, capsys):
    """`kvspec projections --json --markdown FILE` answers and writes."""
    assert main(["projections", "--json", "--markdown", str(tmp_path / "page.md")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], len(found["projections"])) == ("holds", 17)
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")


def test_a_changed_fact_changes_the_page(told):
    """The page is made of what was found, and not written by hand."""
    other = [attrs.evolve(t, found=attrs.evolve(t.found, pairs=t.found.pairs + 1)) for t in told]
    assert page(other) != page(told)


def test_total_projections_are_those_with_receipts():
    """No view is total; each with receipts is."""
    assert [v.is_total for v in views.VIEWS] == [False] * 4
    assert [v.is_total for v in receipt_views.WITH_RECEIPTS] == [True] * 4
