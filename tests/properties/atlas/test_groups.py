"""The atlas as a whole: every group is there, each case changes one place, on the smallest instance."""

import attrs
import pytest

from kvspec.counterexamples.atlas_files import file_name, file_names, folder
from kvspec.counterexamples.files import read_trace
from kvspec.counterexamples.replay import replay
from kvspec.properties.atlas import Case, Group, groups
from kvspec.properties.atlas.run import run_case, search_sound, smaller, still_broken_on
from kvspec.properties.core import properties
from kvspec.properties.faults import drop_guard
from kvspec.spec import core, failures
from kvspec.spec.language import DefinitionError, same
from kvspec.spec.prefix import evict

# fmt: off
NUMBERS = [
    1, 2, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16, 18, 20, 21, 22, 23, 24, 26, 27, 30, 31, 32, 33, 35,
    37, 38, 39, 40, 41, 44, 45, 46, 47, 49, 50, 51, 53, 54, 56, 58, 59, 61, 62, 63, 64, 66, 67,
    69, 70, 73, 74, 75, 76, 77,
]
# fmt: on
KINDS = {
    "position and mask",
    "mixed schema or identity",
    "partial publication",
    "split reorder",
    "stale work, reuse under an outstanding access",
    "cancellation race",
    "output and commit frontier",
    "shared-prefix ownership",
    "rejected suffix kept",
    "accounting",
    "observation",
    "other",
}
CASES = {
    file_name(group, number).removesuffix(".json"): case
    for group in groups().values()
    for number, case in enumerate(group.cases, 1)
}


def test_every_group_is_there() -> None:
    """All 55 groups are in the atlas, and nothing else."""
    assert list(groups()) == [f"A-B{number:02}" for number in NUMBERS]
    assert len(groups()) == 55


def test_no_group_is_open() -> None:
    """Every group is expressed by at least one case."""
    assert [group.name for group in groups().values() if group.open] == []


@pytest.mark.parametrize("name", [f"A-B{number:02}" for number in NUMBERS])
def test_a_group_says_what_happened_and_where(name: str) -> None:
    """A group has a title, a known heading, a public source and its steps."""
    group = groups()[name]
    assert group.title
    assert group.kind in KINDS
    assert all(any(mark in source for mark in "#/") for source in group.sources)
    assert group.sources
    assert len(group.happened) >= 2


@pytest.mark.parametrize("name", CASES)
def test_a_case_changes_one_place(name: str) -> None:
    """The faulty system differs from the sound one in one guard or in one assigned variable."""
    fault = CASES[name].fault
    changed = []
    for action, old in fault.system.actions.items():
        new = fault.changed.actions[action]
        if old is new:
            continue
        pairs = zip(old.guards, new.guards, strict=True)
        changed += [g.code.name for g, h in pairs if not same(g.condition, h.condition)]
        effects = [(old.assignments, new.assignments)]
        effects += [(g.refusal, h.refusal) for g, h in zip(old.guards, new.guards, strict=True)]
        for before, after in effects:
            known = {done.variable.name: done for done in before}
            changed += [
                done.variable.name
                for done in after
                if done.variable.name not in known
                or not same(known[done.variable.name].value, done.value)
                or not all(map(same, done.index, known[done.variable.name].index))
            ]
    assert len(changed) == 1


@pytest.mark.parametrize("name", CASES)
def test_the_trace_of_a_case_is_on_file(name: str) -> None:
    """The stored trace is of this fault and claim, and plain Python takes it as told."""
    case, path = CASES[name], folder() / f"{name}.json"
    trace = read_trace(path)
    assert trace.mutation.name == case.fault.name
    assert trace.system == case.fault.system.name
    expected = "deadlock" if case.property.kind == "end" else case.claim
    assert trace.property.name == expected
    result = replay(trace, where=path.name)
    assert result.passed, result.show()


def test_no_other_trace_is_on_file() -> None:
    """Every stored trace is that of a case."""
    assert sorted(path.name for path in folder().glob("*.json")) == sorted(
        file_names(groups().values())
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_case_holds_on_the_smallest_instance(name: str) -> None:
    """The fault breaks the claim, the sound rule keeps all, and nothing smaller shows the fault."""
    case = CASES[name]
    result = run_case(case)
    assert result.verdict == "holds", (result.faulty.reason, result.sound.violations)
    assert case.instance.expected is not None
    assert still_broken_on(case) is None


def sample() -> Case:
    """Eviction of a block that somebody owns, on an instance larger than it need be."""
    fault = drop_guard(core.system, evict, failures.STILL_OWNED, "evicts what is owned")
    return Case(
        "an owned block is evicted", fault, properties, "owned_blocks_are_filled", core.TINY
    )


def test_a_case_that_the_fault_does_not_break_is_violated() -> None:
    """A claim that the faulty rule keeps makes the case fail, with a complete search."""
    result = run_case(attrs.evolve(sample(), claim="no_handle_is_in_two_rows"))
    assert (result.verdict, result.broken) == ("violated", None)


def test_a_case_on_a_larger_instance_is_noticed() -> None:
    """TINY has an append that eviction does not need: with none, the fault shows as well."""
    less = still_broken_on(sample())
    assert less is not None
    assert sum(less.sizes.values()) + sum(less.bounds.values()) + sum(less.constants.values()) == (
        sum(core.TINY.sizes.values())
        + sum(core.TINY.bounds.values())
        + sum(core.TINY.constants.values())
        - 1
    )


def test_a_sound_rule_that_breaks_a_claim_makes_the_case_fail() -> None:
    """The sound rule is searched for every claim, counts included."""
    wrong = attrs.evolve(core.TINY, expected=attrs.evolve(core.TINY.expected, states=1))
    case = attrs.evolve(sample(), instance=wrong)
    assert search_sound(case).verdict == "violated"
    assert run_case(case).verdict == "violated"


def test_every_number_of_an_instance_is_made_less() -> None:
    """Sizes, bounds and constants above 0 are each tried with one less."""
    found = core.TINY
    numbers = [*found.sizes.values(), *found.bounds.values(), *found.constants.values()]
    assert len(list(smaller(found))) == sum(value > 0 for value in numbers)


def test_a_group_has_cases_or_a_reason() -> None:
    """A group with neither, and one with both, is refused."""
    group = next(iter(groups().values()))
    with pytest.raises(DefinitionError, match="give cases, or the reason"):
        attrs.evolve(group, cases=())
    with pytest.raises(DefinitionError, match="give cases, or the reason"):
        attrs.evolve(group, open="it cannot be said")
    assert isinstance(attrs.evolve(group, cases=(), open="it cannot be said"), Group)
