"""The graph that the suite goes by is the specification's."""

import pytest

from kvspec.properties.conformance.errors import AdapterError
from kvspec.properties.conformance.graph import build_graph
from kvspec.properties.conformance.run import every_rule, run_conformance
from kvspec.properties.conformance.suite import SUITE, part_named
from kvspec.properties.stateful import SpecBackend
from kvspec.spec.core import REUSE, SMALL, TINY


@pytest.mark.parametrize("instance", [TINY, REUSE], ids=lambda i: i.name)
def test_states_and_transitions_are_those_of_the_search(instance) -> None:
    """Two ways of counting an instance agree (C6)."""
    graph = build_graph(instance)
    expected = instance.expected
    found = (len(graph.states), graph.count_transitions(), max(graph.depth))
    assert found == (expected.states, expected.transitions, expected.depth)


def test_every_case_is_what_the_interpreter_says() -> None:
    """Outcome, code and next state of each case of an instance are the machine's."""
    graph = build_graph(TINY)
    machine = graph.compiled.machine
    cases = list(graph.cases())
    assert len(cases) == 4330
    for place, number in cases[::7]:
        told = machine.step(graph.state(place), graph.events[number])
        assert told.code == graph.code(place, number)
        assert told.state == graph.state(graph.targets[place][number])


def test_a_guard_is_alone_where_the_step_without_it_is_accepted() -> None:
    """A stale publication of a ready handle fails one guard, of an ended one two."""
    graph = build_graph(TINY)
    number = next(n for n, event in enumerate(graph.events) if event.action == "publish")
    stale = [p for p, n in graph.cases() if n == number and graph.code(p, n) == "STALE_SNAPSHOT"]
    names = list(TINY.system.variables)
    phase = names.index("phase")
    phases = {(graph.alone[p][number], graph.state(p).tables[phase][0]) for p in stale}
    assert phases == {(1, "DECODE_READY"), (0, "FINISHED")}


def test_an_instance_that_is_too_large_is_refused() -> None:
    """The message names a smaller one."""
    with pytest.raises(AdapterError, match="choose a smaller one, such as TINY"):
        build_graph(SMALL, most=1_000)


def test_an_unknown_instance_lists_those_that_exist() -> None:
    """A look-up that fails says what there is."""
    with pytest.raises(AdapterError, match="TINY, LONG, KINDS, PAIR, ROWS"):
        part_named("HUGE")


@pytest.mark.slow
def test_every_rule_arises_in_the_suite_and_every_guard_alone() -> None:
    """The default instances reach all rules, each guard where no other one fails (C4)."""
    report = run_conformance(SpecBackend)
    assert (
        report.summary
        == f"SpecBackend: holds: {len(every_rule())} kept of {len(every_rule())} rules"
    )
    guards = [found for found in report.results.values() if found.rule.kind == "guard"]
    assert len(guards) == sum(len(a.guards) for a in TINY.system.actions.values())
    assert [found.rule.id for found in guards if not found.alone] == []
    assert [part.name for part in report.parts] == [part.instance.name for part in SUITE]
