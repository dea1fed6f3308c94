"""The atlas on the torch caches: the sound one does as specified, the faulty one shows its damage."""

import re
from importlib import import_module
from types import ModuleType

import pytest

from kvspec.counterexamples import find_system
from kvspec.counterexamples.atlas_files import file_name, folder
from kvspec.counterexamples.files import read_trace
from kvspec.counterexamples.replay import replay
from kvspec.counterexamples.targets import SOUND, faulty_backend, has_fault, sound_backend
from kvspec.properties.atlas import groups
from kvspec.properties.mutation import mutate

CASES = {
    f"{group.name}-{number}": (case, folder() / file_name(group, number))
    for group in groups().values()
    for number, case in enumerate(group.cases, 1)
}
DAMAGE = {
    "A-B01-1": {"rows", "logits"},
    "A-B01-2": {"owner"},
    "A-B01-3": {"owner"},
    "A-B02-1": {"rows", "logits"},
    "A-B02-2": {"rows", "logits"},
    "A-B06-1": {"layers"},
    "A-B06-2": {"logits", "layers"},
    "A-B06-3": {"logits", "layers"},
    "A-B07-1": {"logits"},
    "A-B07-2": {"logits"},
    "A-B07-3": {"logits"},
    "A-B07-4": {"owner"},
    "A-B08-1": {"logits"},
    "A-B08-2": {"logits"},
    "A-B09-1": {"rows", "logits"},
    "A-B09-2": {"rows"},
    "A-B09-3": {"rows", "logits"},
    "A-B09-4": {"owner"},
    "A-B10-1": {"rows"},
    "A-B10-2": {"logits"},
    "A-B11-1": {"rows"},
    "A-B11-2": {"rows"},
    "A-B11-3": {"rows"},
    "A-B11-4": {"rows"},
    "A-B11-5": {"rows"},
    "A-B11-6": {"owner"},
    "A-B11-7": {"rows"},
    "A-B13-1": {"owner"},
    "A-B13-2": {"owner"},
    "A-B14-1": {"owner"},
    "A-B14-2": {"owner"},
    "A-B15-1": {"rows"},
    "A-B15-2": {"rows"},
    "A-B16-1": {"owner"},
    "A-B16-2": {"rows", "logits"},
    "A-B16-3": {"logits"},
    "A-B16-4": {"rows", "logits"},
    "A-B16-5": {"owner"},
    "A-B18-1": {"owner"},
    "A-B18-2": {"owner"},
    "A-B18-3": {"owner"},
    "A-B20-1": {"rows", "logits"},
    "A-B20-2": {"rows", "logits"},
    "A-B20-3": {"rows", "logits"},
    "A-B20-4": {"rows", "logits"},
    "A-B20-5": {"owner"},
    "A-B21-1": {"rows"},
    "A-B21-2": {"rows", "logits"},
    "A-B22-1": {"layers"},
    "A-B22-3": {"rows", "logits"},
    "A-B22-4": {"layers"},
    "A-B22-5": {"layers"},
    "A-B23-1": {"rows"},
    "A-B23-2": {"rows", "logits"},
    "A-B23-3": {"rows"},
    "A-B24-1": {"rows"},
    "A-B24-2": {"rows", "logits"},
    "A-B26-1": {"rows"},
    "A-B26-2": {"rows", "logits"},
    "A-B27-1": {"rows", "logits"},
    "A-B27-2": {"logits"},
    "A-B27-3": {"owner"},
    "A-B30-1": {"rows", "logits"},
    "A-B30-2": {"rows", "logits"},
    "A-B30-3": {"rows", "logits"},
    "A-B31-1": {"rows", "logits"},
    "A-B31-2": {"rows", "logits"},
    "A-B31-3": {"rows", "logits"},
    "A-B32-1": {"rows"},
    "A-B32-2": {"rows", "logits"},
    "A-B32-3": {"rows", "logits"},
    "A-B32-4": {"rows", "logits"},
    "A-B32-5": {"rows", "logits"},
    "A-B33-1": {"rows", "logits"},
    "A-B33-2": {"rows", "logits"},
    "A-B33-3": {"rows", "logits"},
    "A-B33-4": {"rows", "logits"},
    "A-B35-1": {"owner", "logits"},
    "A-B35-2": {"owner", "logits"},
    "A-B35-3": {"owner", "logits"},
    "A-B37-1": {"order"},
    "A-B37-2": {"order"},
    "A-B37-3": {"order"},
    "A-B38-1": {"rows", "logits"},
    "A-B38-2": {"rows", "logits"},
    "A-B39-1": {"rows", "logits"},
    "A-B39-2": {"rows", "logits"},
    "A-B39-3": {"logits"},
    "A-B40-1": {"logits"},
    "A-B40-2": {"logits"},
    "A-B41-1": {"logits"},
    "A-B41-2": {"logits"},
    "A-B44-1": {"rows", "logits"},
    "A-B44-2": {"rows", "logits"},
    "A-B45-1": {"logits"},
    "A-B45-2": {"logits"},
    "A-B45-3": {"logits"},
    "A-B45-4": {"logits"},
    "A-B45-5": {"logits"},
    "A-B46-1": {"logits"},
    "A-B46-2": {"rows"},
    "A-B46-3": {"logits"},
    "A-B46-4": {"logits"},
    "A-B46-5": {"rows"},
    "A-B47-1": {"rows", "logits"},
    "A-B47-2": {"rows", "logits"},
    "A-B49-1": {"rows", "logits"},
    "A-B49-2": {"layers"},
    "A-B49-3": {"rows"},
    "A-B50-1": {"logits"},
    "A-B50-2": {"logits"},
    "A-B51-1": {"receipt"},
    "A-B51-2": {"receipt"},
    "A-B51-3": {"receipt"},
    "A-B51-4": {"receipt"},
    "A-B53-1": {"rows", "logits"},
    "A-B53-2": {"rows", "logits"},
    "A-B54-1": {"rows", "logits", "owner"},
    "A-B54-2": {"rows", "logits", "owner"},
    "A-B54-3": {"rows", "logits", "owner"},
    "A-B56-1": {"owner"},
    "A-B56-2": {"owner"},
    "A-B58-1": {"rows"},
    "A-B58-2": {"rows", "logits"},
    "A-B58-3": {"owner"},
    "A-B59-1": {"rows"},
    "A-B59-4": {"owner"},
    "A-B61-1": {"owner"},
    "A-B61-2": {"rows", "owner"},
    "A-B61-3": {"layers"},
    "A-B62-1": {"owner"},
    "A-B62-2": {"owner"},
    "A-B62-3": {"rows"},
    "A-B62-4": {"rows"},
    "A-B62-5": {"rows"},
    "A-B62-6": {"rows"},
    "A-B63-1": {"owner"},
    "A-B63-2": {"owner"},
    "A-B64-1": {"waits"},
    "A-B64-2": {"waits"},
    "A-B66-1": {"gauge"},
    "A-B66-2": {"gauge"},
    "A-B66-3": {"gauge"},
    "A-B66-4": {"gauge"},
    "A-B67-1": {"gauge"},
    "A-B70-1": {"rows"},
    "A-B70-2": {"rows"},
    "A-B70-3": {"rows"},
    "A-B70-4": {"rows"},
    "A-B70-5": {"rows"},
    "A-B70-6": {"rows"},
    "A-B70-7": {"rows"},
    "A-B73-1": {"logits"},
    "A-B74-1": {"logits"},
    "A-B74-2": {"logits"},
    "A-B74-3": {"logits"},
    "A-B74-4": {"owner"},
    "A-B74-5": {"owner"},
    "A-B75-1": {"waits"},
    "A-B76-1": {"rows", "logits"},
    "A-B76-2": {"rows", "logits"},
    "A-B76-3": {"rows", "logits"},
    "A-B76-4": {"rows", "logits"},
    "A-B76-5": {"rows", "logits"},
    "A-B77-1": {"owner"},
    "A-B77-2": {"owner"},
    "A-B77-3": {"owner"},
    "A-B77-4": {"owner"},
}
"""What is measured at the end of each case for which a cache has the mechanism."""
WITHOUT_ROWS = {
    "A-B06-4": "a request is preempted for ever",
    "A-B08-3": "a changed row is never uploaded",
    "A-B13-3": "a second reason to end is on record",
    "A-B15-3": "the word for an end is written a second time",
    "A-B20-6": "its instance has an append, which this cache lacks",
    "A-B22-2": "ranks wait for ever",
    "A-B22-6": "a rank waits for ever",
    "A-B40-3": "a shift waits for ever",
    "A-B59-2": "a receiver waits for ever",
    "A-B59-3": "a receiver waits for ever",
    "A-B59-5": "a send waits for ever",
    "A-B67-2": "a record is missing",
    "A-B67-3": "a record is missing",
    "A-B67-4": "a record is written twice",
    "A-B69-1": "a label is a client's",
    "A-B69-2": "a label is a client's",
}
"""Cases of systems with a cache that it does not show, and why: no row is harmed by what never comes."""
IN_OTHER_WORDS = {"A-B11-6", "A-B39-1", "A-B39-2", "A-B39-3", "A-B44-1", "A-B53-1"}
"""Cases in which the faulty cache comes to another state than the faulty rule: a real cache has its fault in
one place as well, and what follows from it there is more than one variable.
"""
MECHANISMS = sorted(system for system, cache in SOUND.items() if ".mechanisms." in cache)


def mechanism(system: str) -> ModuleType:
    """The module of a system's cache."""
    return import_module(SOUND[system].partition(":")[0])


def test_every_case_of_a_system_with_a_cache_is_shown_or_says_why() -> None:
    """The cases whose fault a cache can be given are those of which the damage is stated."""
    there = {n: case.fault for n, (case, _) in CASES.items() if case.fault.system.name in SOUND}
    can = {n for n, fault in there.items() if has_fault(fault.system.name, fault.name)}
    assert can == DAMAGE.keys()
    assert there.keys() - can == WITHOUT_ROWS.keys()


@pytest.mark.parametrize("system", MECHANISMS)
def test_every_fault_is_one_of_the_specification(system: str) -> None:
    """A fault has the name of a case or of a mutant; a name that no fault has gives none."""
    module = mechanism(system)
    known = {case.fault.name for case, _ in CASES.values() if case.fault.system.name == system}
    mutants = {mutant.name for mutant in mutate(find_system(system).system).mutants}
    assert module.FAULTS.keys() <= known | mutants
    assert {module.fault_for(name) for name in module.FAULTS} == module.FAULTS.keys()
    assert module.fault_for("nothing.of-the-kind") is None


@pytest.mark.parametrize("system", MECHANISMS)
def test_an_unknown_fault_is_refused(system: str) -> None:
    """The message tells what was found and lists the faults that there are."""
    module = mechanism(system)
    told = "found the faults nothing, expected names out of " + ", ".join(module.FAULTS)
    with pytest.raises(ValueError, match=re.escape(told)):
        module.Cache(faults=("nothing",))


@pytest.mark.parametrize("name", DAMAGE)
def test_the_sound_cache_does_as_specified(name: str) -> None:
    """At the departing step it refuses with the same code, or does what the sound rule does, undamaged."""
    case, path = CASES[name]
    cache = sound_backend(case.fault.system.name)
    assert cache is not None
    found = replay(read_trace(path), cache)
    assert found.passed, found.message
    assert not any(step.damage for step in found.steps)


@pytest.mark.parametrize(("name", "kinds"), DAMAGE.items())
def test_the_faulty_cache_shows_damage(name: str, kinds: set[str]) -> None:
    """With the fault it takes every step of the trace, and the harm is measured at the end."""
    case, path = CASES[name]
    fault, system = case.fault, case.fault.system.name
    cache = faulty_backend(system, fault.name)
    assert cache is not None
    found = replay(read_trace(path), cache, faulty=True, faulty_system=fault.changed)
    assert found.outcome == "damage_shown", found.message
    assert found.differs_from_mutant == (name in IN_OTHER_WORDS)
    harms = found.steps[-1].damage
    assert {harm.kind for harm in harms} == kinds
    assert all(harm.amount > 1e-2 for harm in harms)
