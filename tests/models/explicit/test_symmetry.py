"""Symmetry: the same verdicts and depths on fewer states, which stand for all."""

import importlib.util
from itertools import permutations
from math import factorial
from pathlib import Path

import attrs
import numpy as np
import pytest

from kvspec.models.explicit import compile_instance, explore
from kvspec.models.explicit.program import Program
from kvspec.models.explicit.swaps import neighbour_swaps
from kvspec.spec.examples import peer, two_phase_commit
from kvspec.spec.language import Const

_SPEC = importlib.util.spec_from_file_location(
    "explicit_small_systems_for_symmetry", Path(__file__).with_name("small_systems.py")
)
small = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(small)

SAFETY = tuple(c for c in peer.properties.by_name.values() if c.kind != "leads_to")


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_neighbour_swaps_go_through_all_permutations(size):
    """Each permutation once, and back to the first."""
    order, seen = list(range(size)), set()
    for swap in neighbour_swaps(size):
        seen.add(tuple(order))
        order[swap], order[swap + 1] = order[swap + 1], order[swap]
    assert len(seen) == factorial(size)
    assert order == list(range(size))


@pytest.mark.parametrize("row", ["1,1,2,3,4", "2,1,2,3,4", "1,2,2,3,4"])
@pytest.mark.parametrize("coverage", [False, True])
def test_quotients_of_the_peer_model_have_their_counts(row, coverage):
    """Swapping handles and transactions leaves the classes that other checkers count."""
    instance = peer.ROWS[row]
    result = explore(instance, SAFETY, symmetry=peer.SWAPPED, coverage=coverage)
    assert result.verdict == "holds"
    assert result.states == instance.expected.symmetric
    assert result.represented == instance.expected.states
    assert result.depth == instance.expected.depth


@pytest.mark.parametrize("word_bits", [62, 9])
def test_classes_are_those_of_all_permutations(word_bits):
    """Classes found by the engine are those found by permuting states in plain Python."""
    instance = attrs.evolve(peer.ROWS["1,1,1,2,2"], expected=None)
    instance = attrs.evolve(instance, sizes={"Handle": 2, "Txn": 1, "Layer": 2}, name="2,1,2")
    program = Program(instance, SAFETY, word_bits=word_bits)
    graph = program.graph()
    states = [graph.state(place) for place in range(len(graph))]
    classes = {frozenset(_permuted(instance, state)) for state in states}
    result = program.explore(symmetry=True)
    assert result.symmetric == ("Handle", "Layer")
    assert (result.states, result.represented) == (len(classes), len(states))


def _permuted(instance, state):
    """The state under all permutations of handles and layers."""
    sizes = instance.sizes
    for handles in permutations(range(sizes["Handle"])):
        for layers in permutations(range(sizes["Layer"])):
            yield attrs.evolve(
                state, tables=tuple(_tables(instance, state, {"Handle": handles, "Layer": layers}))
            )


def _tables(instance, state, moves):
    from kvspec.models.concrete.state import indices, position

    for variable, table in zip(instance.system.variables.values(), state.tables, strict=True):
        moved = list(table)
        for index, value in zip(indices(variable, instance), table, strict=True):
            to = [
                moves[k.name][i] if k.name in moves else i
                for k, i in zip(variable.domain, index, strict=True)
            ]
            kind = variable.type.of or variable.type
            if kind.name in moves and value is not None:
                value = moves[kind.name][value]  # noqa: PLW2901 - the value where it goes
            moved[position(variable, to, instance)] = value
        yield tuple(moved)


def test_three_members_are_permuted():
    """Two-phase commit with three managers: the classes stand for its 288 states."""
    result = explore(
        two_phase_commit.THREE, two_phase_commit.properties.by_name.values(), symmetry=True
    )
    assert (result.verdict, result.represented) == ("holds", 288)
    assert result.states < 100


def test_a_system_of_every_construct_has_the_same_verdict():
    """With map parameters and options, classes stand for all states."""
    instance = attrs.evolve(small.WIDE, limits=())
    claims = tuple(small.properties.by_name.values())
    program = compile_instance(instance, claims)
    plain = program.explore(stop_at_first=False)
    reduced = program.explore(stop_at_first=False, symmetry=(small.Row,))
    assert reduced.states < plain.states
    assert (reduced.represented, reduced.depth) == (plain.states, plain.depth)
    failed = [[v.property for v in result.violations] for result in (plain, reduced)]
    assert failed[0] == failed[1]


def test_a_named_member_rules_its_sort_out():
    """A pinned member makes its sort unsymmetric, and asking for it is an error."""
    row = peer.ROWS["2,1,2,3,4"]
    pinned = attrs.evolve(row, initial={"base": Const(peer.base.type, 0)}, expected=None)
    assert explore(pinned, symmetry=True, coverage=False).symmetric == ("Layer",)
    with pytest.raises(ValueError, match="names a member"):
        explore(pinned, symmetry=("Handle",), coverage=False)
    with pytest.raises(ValueError, match="no open sort"):
        explore(row, symmetry=("Length",), coverage=False)


def test_representatives_are_the_least_of_their_class():
    """What is canonical once is canonical again, also after a swap."""
    program = compile_instance(peer.ROWS["2,1,2,3,4"])
    swaps = program.swaps(True)
    graph = program.graph(max_states=5_000)
    once = graph.packed.reshape(-1).copy()
    swaps.canonical(once, len(graph))
    twice = once.copy()
    swaps.canonical(twice, len(graph))
    assert np.array_equal(once, twice)
    assert (once <= graph.packed.reshape(-1)).all()
