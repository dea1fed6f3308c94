"""Named faults: one place of a rule changed, under a name (the atlas)."""

import pytest

from kvspec.properties import faults
from kvspec.properties.core import properties
from kvspec.properties.mutation import mutate
from kvspec.spec import core, failures, serving
from kvspec.spec.append import begin, publish, receipt, state
from kvspec.spec.handles import generation, length, version
from kvspec.spec.language import DefinitionError, same
from kvspec.spec.lifecycle import finish, truncate
from kvspec.spec.prefix import evict, filled, owner


def places(fault):
    """The places in which the faulty system differs from the sound one."""
    found = []
    for name, old in fault.system.actions.items():
        new = fault.changed.actions[name]
        for before, after in zip(old.guards, new.guards, strict=True):
            if not same(before.condition, after.condition):
                found.append((name, before.code.name))
            found += _assigned(name, before.refusal, after.refusal)
        found += _assigned(name, old.assignments, new.assignments)
    return found


def _assigned(name, before, after):
    old = {done.variable.name: done for done in before}
    return [
        (name, done.variable.name)
        for done in after
        if done.variable.name not in old or not same(old[done.variable.name].value, done.value)
    ]


MADE = {
    "drop": (
        faults.drop_guard(core.system, evict, failures.STILL_OWNED, "evicts an owned block"),
        ("evict", "STILL_OWNED"),
    ),
    "mutant": (
        faults.mutant(core.system, "publish.plus-one.receipt", "tells one more"),
        ("publish", "receipt"),
    ),
    "loosen": (
        faults.loosen(
            core.system,
            truncate,
            failures.BEYOND_COMMITTED,
            lambda h, n: n <= length[h] + 1,
            name="counts-one-more",
            says="takes one row more than there is",
        ),
        ("truncate", "BEYOND_COMMITTED"),
    ),
    "put": (
        faults.put(
            core.system,
            truncate,
            length,
            lambda n: n + 1,
            name="keeps-one-more",
            says="keeps one row more",
        ),
        ("truncate", "length"),
    ),
    "put in a refusal": (
        faults.put(
            core.system,
            publish,
            state,
            lambda x: state[x],
            name="keeps-a-stale-append",
            says="leaves a stale append prepared",
            refused=failures.STALE_SNAPSHOT,
        ),
        ("publish", "state"),
    ),
    "also": (
        faults.also(
            core.system,
            finish,
            lambda step, h: step.assign(generation[h], generation[h] + 1),
            name="releases-too",
            says="advances the generation at once",
        ),
        ("finish", "generation"),
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_a_fault_changes_one_place(name: str) -> None:
    """Every way to make a fault changes that place, and no other."""
    fault, place = MADE[name]
    assert places(fault) == [place]
    assert fault.action == place[0]
    assert place[1] in (fault.code, fault.variable)


def test_a_dropped_guard_is_the_mutant_of_that_name() -> None:
    """A fault that `mutation` makes as well has its name and its formula."""
    fault = MADE["drop"][0]
    mutated = mutate(core.system)
    mutant = mutated.named("evict.drop-guard.STILL_OWNED")
    selected = mutated.select(mutant).action("evict")
    for one, other in zip(fault.changed.action("evict").guards, selected.guards, strict=True):
        assert same(one.condition, other.condition)
    assert fault.name == mutant.name


def test_members_of_every_are_named_as_they_are_printed() -> None:
    """What is assigned for all members of a sort may use them."""
    fault = faults.put(
        core.system,
        core.system.actions["release"],
        owner,
        lambda h, block_0: owner[block_0, h],
        name="keeps-its-blocks",
        says="keeps its claims",
    )
    assert places(fault) == [("release", "owner")]


WRONG = {
    "no such mutant": (
        lambda: faults.mutant(core.system, "evict.drop-guard.NOTHING", "does nothing"),
        "no mutant evict.drop-guard.NOTHING; near are evict",
    ),
    "a variable that is not assigned": (
        lambda: faults.put(core.system, evict, length, lambda: 0, name="x", says="x"),
        "evict assigns no length; it assigns filled",
    ),
    "a parameter that is not there": (
        lambda: faults.put(core.system, evict, filled, lambda h: True, name="x", says="x"),
        "uses h, which it does not have: it has b",
    ),
    "two effects": (
        lambda: faults.also(
            core.system,
            finish,
            lambda step, h: (step.assign(version[h], 0), step.assign(generation[h], 0)),
            name="x",
            says="x",
        ),
        "a fault changes one place, so add one assignment",
    ),
    "an effect that is there": (
        lambda: faults.also(
            core.system,
            truncate,
            lambda step, h: step.assign(length[h], 0),
            name="x",
            says="x",
        ),
        r"truncate assigns length already: use put\(\)",
    ),
    "an action of another system": (
        lambda: faults.put(
            serving.system, core.system.actions["begin"], receipt, lambda x: 0, name="x", says="x"
        ),
        "begin assigns no receipt|begin is no action of serving",
    ),
    "an instance of another system": (
        lambda: MADE["drop"][0].on(serving.CHAT),
        "is a fault of core, and CHAT is an instance of serving",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_that_cannot_be_is_refused(name: str) -> None:
    """The error says what was found and what there is."""
    make, message = WRONG[name]
    with pytest.raises(DefinitionError, match=message):
        make()


def test_the_sound_system_stays_as_it_is() -> None:
    """Making a fault leaves actions of the system alone."""
    assert core.system.actions["evict"] is MADE["drop"][0].system.actions["evict"]
    assert properties.system is core.system
    assert begin.guards is core.system.actions["begin"].guards
