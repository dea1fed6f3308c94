"""A store of prefixes by identity over real rows: what a field changes, further faults, all it can do."""

from importlib.resources import files
from pathlib import Path

import attrs
import pytest
from graph_walks import answer_everything

from kvspec.counterexamples import library
from kvspec.counterexamples.files import read_trace
from kvspec.counterexamples.mutants import file_name
from kvspec.counterexamples.replay import replay
from kvspec.counterexamples.targets import faulty_backend, sound_backend
from kvspec.models.concrete import Event, Machine
from kvspec.models.decode.mechanisms.identity import Cache
from kvspec.models.decode.mechanisms.identity_rows import ROWS, Identity, Rooms
from kvspec.models.decode.mechanisms.slot_rows import is_apart
from kvspec.properties.atlas.identity import ONE_NAME, STORED_IMAGES, TWO_IMAGES, TWO_MASKS
from kvspec.spec import identity as spec

LIBRARY = Path(str(files(library))) / "identity"
OWN = Identity(0, 0, 0, 0, 0, 0, 0)
PLAIN = Identity(0, 0, None, 0, None, 0, 0)


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"tokens": 1}, ROWS),
        ({"weights": 1}, ROWS),
        ({"adapter": None}, ROWS),
        ({"adapter": 1}, ROWS),
        ({"loading": 1}, ROWS),
        ({"mask": 1}, ROWS),
        # What comes before an image, and before an embedding, is not changed by it.
        ({"mask": 2}, ROWS - 2),
        ({"images": 1}, ROWS - 1),
    ],
)
def test_every_field_but_the_salt_changes_rows_and_logits(changes, wrong):
    """Rows of an identity that differs in one field are wrong from there on, and logits with them."""
    rooms = Rooms(1)
    rooms.compute(0, attrs.evolve(OWN, **changes))
    assert rooms.wrong_rows(0, OWN) == wrong
    assert is_apart(rooms.logits(0, OWN), OWN.run().logits)


def test_rows_of_another_salt_are_the_same_and_told_by_what_is_beside_them():
    """No byte tells one tenant's rows from another's, and a copy keeps whose they are."""
    rooms, other = Rooms(2), attrs.evolve(OWN, salt=1)
    rooms.compute(0, other)
    rooms.copy(0, 1)
    assert rooms.wrong_rows(1, OWN) == 0
    assert not is_apart(rooms.logits(1, OWN), OWN.run().logits)
    assert rooms.holds(1) == other


@pytest.mark.parametrize(
    ("fault", "kinds"),
    [
        ("match.drop-guard.OTHER_TOKENS", {"rows", "logits"}),
        ("match.drop-guard.OTHER_WEIGHTS", {"rows", "logits"}),
        ("load.drop-guard.OTHER_TOKENS", {"rows", "logits"}),
        ("evict_slot.drop-guard.SLOT_READ", {"owner"}),
    ],
)
def test_faults_without_a_case_show_damage_on_their_mutant(fault, kinds):
    """A fault that no case of the atlas has goes the way of the mutant of its name, and does harm."""
    trace = read_trace(LIBRARY / file_name(fault))
    assert replay(trace, sound_backend("identity")).passed
    found = replay(trace, faulty_backend("identity", fault), faulty=True)
    assert found.outcome == "damage_shown", found.message
    assert {harm.kind for harm in found.steps[-1].damage} == kinds


def test_rows_are_computed_over_those_that_another_reads():
    """Without asking whether the slot is empty, a request writes over rows of other tokens that are read."""
    instance = spec.make_instance("SCENARIO", "", tokens=2, requests=2)
    start = next(
        state
        for state in Machine(instance).initial_states()
        if state.tables[list(instance.system.variables).index("tokens")] == (0, 1)
    )
    cache = Cache(faults=("compute.drop-guard.SLOT_IN_USE",))
    cache.reset(instance)
    cache.begin_in(start)
    for action, values in (
        ("submit", (("r", 0), ("i", 0))),
        ("submit", (("r", 1), ("i", 1))),
        ("compute", (("r", 0), ("s", 0))),
        ("compute", (("r", 1), ("s", 0))),
    ):
        assert cache.damage() == []
        assert cache.perform(Event(action, values)).accepted
    assert {(harm.kind, harm.where) for harm in cache.damage()} == {
        ("rows", "request0"),
        ("logits", "request0"),
    }


class Fixed(Cache):
    """A store whose identities are what they are after a reset."""

    def begin_in(self, initial):
        """Nothing: it does not take on another state."""


def test_a_cache_that_does_not_begin_where_the_trace_does_is_told():
    """A trace of identities that differ is not replayed on a store where they are the same."""
    trace = read_trace(LIBRARY / file_name("match.drop-guard.OTHER_TOKENS"))
    found = replay(trace, Fixed())
    assert found.outcome == "disagrees"
    assert found.message.startswith(
        "after reset tokens[identity1]: expected tokens1, found tokens0"
    )


class Unplaced:
    """A store that can only be reset."""

    def __init__(self):
        cache = Cache()
        self.reset, self.perform = cache.reset, cache.perform
        self.observe, self.damage = cache.observe, cache.damage


def test_a_cache_that_can_only_be_reset_cannot_replay_another_beginning():
    """That is no disagreement: the cache is told what it lacks."""
    trace = read_trace(LIBRARY / file_name("match.drop-guard.OTHER_TOKENS"))
    found = replay(trace, Unplaced())
    assert found.outcome == "not_replayable"
    assert "has no begin_in" in found.message


def models_of(instance):
    """The decoders of all identities that an instance can have."""
    cache, found = Cache(), {PLAIN.model}
    cache.reset(instance)
    for start in Machine(instance).initial_states():
        cache.begin_in(start)
        found |= {identity.model for identity in cache._known}
    return found


@pytest.mark.parametrize(
    "instance",
    [
        ONE_NAME,
        TWO_IMAGES,
        TWO_MASKS,
        STORED_IMAGES,
        pytest.param(spec.READERS, marks=pytest.mark.slow),
        pytest.param(spec.LOADINGS, marks=pytest.mark.slow),
    ],
    ids=lambda made: made.name,
)
def test_the_sound_store_does_all_that_a_small_instance_allows(instance):
    """From every start, in every state, every event has the specified answer and state, and no damage."""
    found = answer_everything(Cache(), instance, *models_of(instance))
    assert found == (instance.expected.states, instance.expected.transitions)


def test_an_instance_with_more_values_than_inputs_is_refused():
    """The message says which field has too many."""
    with pytest.raises(ValueError, match="9 members of Mask, and this cache has inputs for 8"):
        Cache().reset(spec.make_instance("SCENARIO", "", masks=9))
