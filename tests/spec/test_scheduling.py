"""Phase is a projection, and no decision of a scheduler enters the view (A11)."""

import attrs
import pytest
from observed import Observed

from kvspec.models.explicit import explore
from kvspec.models.symbolic import prove
from kvspec.properties.scheduling import (
    DECISIONS,
    decisions_leave_the_cache_alone,
)
from kvspec.properties.scheduling import (
    scheduling as claims,
)
from kvspec.properties.serving import serving as cache_claims
from kvspec.spec import scheduling, serving
from kvspec.spec.handles import Handle, length
from kvspec.spec.language import DefinitionError, Module, Properties, Step, Symbol, System, type_of
from kvspec.spec.language.refinement import STUTTER, call, refinement

H = Symbol(type_of(Handle), "h", "parameter")


def test_every_decision_is_a_step_beside_the_cache():
    """The search of any scheduler is complete and no decision changes a field of the view (A11)."""
    found = explore(scheduling.DECISIONS, claims.by_name.values())
    assert found.verdict == "holds"
    assert found.states == scheduling.DECISIONS.expected.states
    assert {w.property for w in found.witnesses} == {w.name for w in claims.of_kind("witness")}


def test_a_decision_writes_none_of_the_cache():
    """What a decision assigns is a variable of the scheduler's own module (A11)."""
    own = set(scheduling.scheduling.variables)
    assert {done.variable.name for action in DECISIONS for done in action.assignments} == own
    assert own.isdisjoint(serving.system.variables)


def test_the_system_beside_any_scheduler_is_the_serving_system():
    """Each of its steps is one of the serving system or none, proved for all sizes (A11, C2)."""
    only = ["refines:decisions_leave_the_cache_alone:*"]
    report = prove(
        scheduling.system, claims, [decisions_leave_the_cache_alone], only=only, workers=0
    )
    assert report.verdict == "holds"
    assert len(report.items) > 1_000


@pytest.mark.parametrize("name", serving.POLICY_FIELDS)
def test_a_view_has_no_field_of_a_policy(name):
    """A decision is refused as a field by its name, whatever is behind it (A11)."""
    with pytest.raises(DefinitionError, match=f"{name} is a decision of a scheduler"):
        serving.view_field(name, length[H])


@pytest.mark.parametrize("variable", scheduling.scheduling.variables.values(), ids=str)
def test_a_view_reads_no_decision(variable):
    """A formula that reads a variable of a scheduler is refused, under any name (A11)."""
    index = (H,) if variable.domain else ()
    with pytest.raises(
        DefinitionError, match=f"urgency reads {variable.name} of module scheduling"
    ):
        serving.view_field("urgency", variable[index])


def test_the_view_has_the_facts_of_the_interface():
    """Every field is a formula over the serving system, and none is a decision (A11)."""
    fields = serving.service_view(H)
    assert set(fields).isdisjoint(serving.POLICY_FIELDS)
    assert {"phase", "eligible_work", "committed_tokens", "output_frontier_count"} <= set(fields)


def test_a_scheduler_that_cuts_rows_is_caught():
    """A victim that loses rows in the very decision breaks the view and the refinement (A11)."""
    meddling = Module(
        "meddling", "A scheduler that cuts.", uses=serving.system.modules, writes=(length,)
    )

    @meddling.action
    def preempt(step: Step, h: Handle) -> None:
        """Take all rows of a victim at once."""
        step.assign(length[h], 0)

    system = System.of("meddled", "Serving, and a scheduler.", *serving.system.modules, meddling)
    actions = serving.system.actions
    broken = refinement(
        "decisions_leave_the_cache_alone",
        concrete=system,
        abstract=serving.system,
        mapping={v: (lambda *i, v=v: v[i]) for v in serving.system.variables.values()},
        steps={
            **{action: call(action, *action.parameters) for action in actions.values()},
            **{
                (action, g.code): call(action, *action.parameters, refused=g.code)
                for action in actions.values()
                for g in action.guards
                if g.refusal
            },
            preempt: STUTTER,
        },
    )
    only = ["refines:*:preempt*"]
    given = Properties(system, given=cache_claims)
    assert prove(system, given, [broken], only=only, workers=0).verdict == "violated"


def test_decisions_ask_the_view_first():
    """What waits can be admitted, and what has no work is not chosen (A11)."""
    seen = Observed(attrs.evolve(scheduling.DECISIONS, expected=None))
    seen.refuse("admit", "NOT_WAITING", h=0).refuse("choose_next", "NOTHING_ELIGIBLE", h=0)
    seen.do("allocate", h=0, b=0, a=0, p=1).do("admit", h=0).do("choose_chunk", h=0, n=1)
    seen.refuse("choose_chunk", "CHUNK_TOO_LONG", h=0, n=2).refuse(
        "choose_chunk", "EMPTY_CHUNK", h=0, n=0
    )
    seen.do("choose_next", h=0).do("preempt", h=0)
    assert (seen["admitted", 0], seen["preempted", 0], seen["run_next"]) == (False, True, 0)
