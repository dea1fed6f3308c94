"""The rules are the specification's, each once, with a sentence and a place."""

from collections import Counter
from pathlib import Path

import pytest

from kvspec.properties.conformance.graph import build_graph
from kvspec.properties.conformance.rules import assigned, rests_on
from kvspec.properties.conformance.run import every_rule
from kvspec.properties.conformance.suite import SUITE
from kvspec.properties.conformance.why import protects
from kvspec.properties.core import properties
from kvspec.spec.core import system

NO_CLAIM_NEAR = {"reorder/NOT_A_PERMUTATION"}
"""Guards without which no claim fails within a few steps of the nearest case."""


def test_there_is_a_rule_for_each_part_of_the_text() -> None:
    """As many rules of each kind as the specification has guards, assignments, actions and claims."""
    actions = list(system.actions.values())
    assert Counter(rule.kind for rule in every_rule().values()) == {
        "accepted": len(actions),
        "keeps": len(actions),
        "guard": sum(len(action.guards) for action in actions),
        "effect": sum(len(assigned(action)) for action in actions),
        "claim": len(properties.of_kind("invariant", "step")),
        "cache": 3,
    }


def test_identifiers_are_made_of_names_of_the_text() -> None:
    """An identifier can be written in a file and chosen with -k: no spaces, one slash."""
    for name, rule in every_rule().items():
        group, slash, rest = name.partition("/")
        assert slash
        assert rest
        assert not set(" #") & set(name)
        assert group in system.actions or group in ("claim", "cache")
        assert rule.id == name


def test_each_rule_reads_aloud_and_has_its_place() -> None:
    """The sentence is the specification's, and so are file and line."""
    rules = every_rule()
    for rule in rules.values():
        assert len(rule.sentence.split()) > 3
        assert (rule.place is None) == (rule.kind == "cache")
        if rule.place is not None:
            assert Path(rule.place[0]).suffix == ".py"
            assert rule.place[1] > 1
    assert rules["publish/length"].sentence == (
        "after publish, length (committed length) is as specified"
    )
    assert rules["release/ROW_HOLDS_HANDLE"].sentence == (
        "release is refused with ROW_HOLDS_HANDLE where a batch row still carries the handle, and "
        "changes nothing"
    )


def test_a_rule_rests_on_what_decides_it() -> None:
    """A guard rests on what it and those before it read, an effect on what its value reads."""
    rules = every_rule()
    assert rests_on(rules["publish/STALE_GENERATION"]) >= {"state", "generation", "base_generation"}
    assert "version" not in rests_on(rules["publish/STALE_GENERATION"])
    assert rests_on(rules["publish/length"]) == {"start", "count", "length", "target"}
    assert rests_on(rules["publish/keeps-the-rest"]) == frozenset()


@pytest.mark.slow
def test_the_claim_that_a_guard_protects_is_found() -> None:
    """For every guard but one the page can say what breaks without it, by a claim of the specification."""
    rules, found = every_rule(), {}
    for part in SUITE:
        graph = build_graph(part.instance)
        for place, number in graph.cases():
            name = f"{graph.events[number].action}/{graph.code(place, number)}"
            if graph.alone[place][number] and name not in found:
                found[name] = protects(rules[name], graph, place, number)
    assert len(found) == sum(len(action.guards) for action in system.actions.values())
    assert {name for name, claim in found.items() if claim is None} == NO_CLAIM_NEAR
