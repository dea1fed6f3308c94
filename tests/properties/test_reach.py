"""Labels of counterexamples to induction."""

import attrs

from kvspec.models.symbolic import prove
from kvspec.properties.reach import search_reaches
from kvspec.spec.examples.peer import properties, system
from kvspec.spec.language import Properties, System


def without_guard(action: str, code: str) -> System:
    """The peer system whose action lacks a guard."""
    changed = system.action(action)
    guards = tuple(guard for guard in changed.guards if guard.code.name != code)
    return attrs.evolve(
        system, actions={**system.actions, action: attrs.evolve(changed, guards=guards)}
    )


def test_a_broken_rule_fails_from_a_state_that_is_reached():
    """C2: what a planted fault breaks is labelled reachable where a search gets there."""
    report = prove(
        without_guard("prepare", "LAYER_INCOMPLETE"),
        properties,
        only=["*:prepare"],
        reach=search_reaches,
    )
    labels = [item.counterexample.label for item in report.items if item.verdict == "failed"]
    assert "reachable" in labels


def test_a_claim_that_is_not_inductive_fails_from_a_state_that_is_not_reached():
    """C2: without the lemmas a true claim fails, from a state that no search reaches."""
    alone = Properties(system)
    kept = properties["a_published_append_staged_every_layer"]
    alone.by_name[kept.name] = kept
    report = prove(system, alone, only=["inductive:*:publish"], reach=search_reaches)
    (failed,) = [item for item in report.items if item.verdict == "failed"]
    assert failed.counterexample.label.startswith("not reached on ")
