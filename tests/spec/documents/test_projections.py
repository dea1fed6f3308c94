"""The comparison of runtimes: what its contracts ask, and that nothing of it is typed by hand (B8)."""

import attrs
import pytest

from kvspec.counterexamples.negative_cases import load_document
from kvspec.models.documents import convert
from kvspec.properties.documents.projections import projections, replayed
from kvspec.spec.documents.projections_record import OPERATIONS, Row, architectures
from kvspec.spec.runtimes.dimensions import (
    CANONICAL_FAMILY,
    DIMENSIONS,
    FAMILIES,
    PHYSICAL,
    SILENT_FAMILY,
)
from kvspec.spec.runtimes.views import VIEWS

ROWS = (
    Row("allocate", 0, 0, 0, "NEW", terminal=False, closed=False),
    Row("prefill_publish", 1, 0, 4, "DECODE_READY", terminal=False, closed=False),
    Row("output_emit", 1, 1, 4, "DECODE_READY", terminal=False, closed=False),
    Row("decode_publish", 2, 1, 5, "DECODE_READY", terminal=False, closed=False),
    Row("finish", 2, 1, 5, "FINISHED_RETAINED", terminal=True, closed=False),
    Row("release", 3, 0, 0, "RELEASED", terminal=True, closed=True),
)


@pytest.fixture
def document():
    """The comparison on file."""
    return convert(projections, load_document("projections"), "projections.json")


def code(document):
    """The code of the first broken contract."""
    broken = projections.first_broken(document)
    return broken.code if broken else None


def test_the_comparison_has_its_sizes(document):
    """Four runtimes, twelve dimensions, five families, six steps; all contracts kept."""
    sizes = len(document.architectures), len(document.dimensions), len(document.families)
    assert (*sizes, len(document.lifecycle)) == (4, 12, 5, 6)
    assert {len(a.facts) for a in document.architectures} == {12}
    assert code(document) is None


def test_the_run_has_the_rows_of_the_text(document):
    """Snapshot, O, K and phase after each of the six operations."""
    assert document.lifecycle == ROWS
    assert document.prompt_tokens == 4


def test_facts_are_those_of_the_views(document):
    """But for notes, the document is what the views, the models and the pins say."""
    assert document.architectures == architectures()


def test_every_step_of_a_runtime_is_of_a_family_or_allocates():
    """No step is left out but the one with which a request begins."""
    for view, found in zip(VIEWS, architectures(), strict=True):
        told = {o.call for family in found.families for o in family.operations}
        (left,) = set(view.steps) - told
        (match,) = view.steps[left]
        assert match.action.name == "allocate"


def test_families_name_steps_that_exist():
    """No family is kept for a step that no runtime has, and each family is known."""
    assert set(SILENT_FAMILY) <= {call for view in VIEWS for call in view.steps}
    assert {*SILENT_FAMILY.values(), *CANONICAL_FAMILY.values()} == set(FAMILIES)


def test_the_two_planes_share_no_name():
    """What is moved in memory has other names than what is moved of a request."""
    assert not set(PHYSICAL.values()) & set(DIMENSIONS)


def test_a_refused_operation_ends_the_replay(document):
    """Two prefills in a row: the second is told, and the run ends there."""
    rows = (document.lifecycle[0], document.lifecycle[1], document.lifecycle[1])
    broken = attrs.evolve(document, lifecycle=rows)
    steps = list(replayed(broken))
    assert [path for path, _, _ in steps] == ["/lifecycle/0", "/lifecycle/1", "/lifecycle/2"]
    assert steps[-1][2] is None


def test_the_order_of_the_run_is_fixed(document):
    """Emission comes before the row of the emitted token."""
    first, second, third, fourth, *rest = document.lifecycle
    assert [row.operation for row in document.lifecycle] == list(OPERATIONS)
    swapped = attrs.evolve(document, lifecycle=(first, second, fourth, third, *rest))
    assert code(swapped) == "LIFECYCLE_ORDER"


@pytest.mark.parametrize("value", [0, -3, 2**40])
def test_any_number_of_prompt_tokens_is_answered(document, value):
    """A prompt that cannot be is told, and one that is long does not take long."""
    assert code(attrs.evolve(document, prompt_tokens=value)) == "LIFECYCLE_REPLAY"
