"""Identity: every field is compared in every tier, and a digest decides nothing."""

import pytest

from kvspec.models.concrete import Event, Machine
from kvspec.spec import identity

FIELDS = [field.name for field in identity.FIELDS]
CODES = {
    "tokens": "OTHER_TOKENS",
    "weights": "OTHER_WEIGHTS",
    "adapter": "OTHER_NAMES",
    "salt": "OTHER_NAMES",
    "mask": "OTHER_MASK",
    "images": "OTHER_IMAGES",
}
NAMED = ("adapter", "salt")
SIZES = {"tokens": 2, "weights": 2, "masks": 2, "images": 2, "names": 1, "loadings": 2}


class Tiers:
    """Two identities with chosen fields, each asked for by the request of its number."""

    def __init__(self, **fields):
        made = identity.make_instance("SCENARIO", "", requests=2, slots=2, objects=2, **SIZES)
        self.machine = Machine(made)
        self.state = next(
            state
            for state in self.machine.initial_states()
            if all(
                tuple(self.machine.value(state, name, i) for i in (0, 1))
                == fields.get(name, (None, None) if name in NAMED else (0, 0))
                for name in (*FIELDS, "adapter_epoch")
            )
        )
        for r in (0, 1):
            self.do("submit", r=r, i=r)

    def step(self, action, **values):
        """What an event does."""
        found = self.machine.step(self.state, Event(action, tuple(values.items())))
        self.state = found.state
        return found.code

    def do(self, action, **values):
        """An event that must be accepted."""
        assert self.step(action, **values) is None
        return self

    def __getitem__(self, read):
        """The value of a variable at an index."""
        return self.machine.value(self.state, *read)


def other(field):
    """Values of two identities that differ in the field."""
    return {field: (None, 0) if field in NAMED else (0, 1)}


def test_equal_fields_are_one_identity():
    """Two requests of the same fields share rows on the device and in the external tier."""
    tiers = Tiers().do("compute", r=0, s=0).do("match", r=1, s=0)
    assert tiers["reads", 1] == 0
    tiers = Tiers().do("compute", r=0, s=0).do("store", s=0, o=0).do("load", r=1, o=0, s=1)
    assert (tiers["slot_rows", 1], tiers["reads", 1]) == (0, 1)


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_is_compared_in_every_tier(field):
    """Identities that differ in one field alone share nothing, in either tier (A-B30, A-B32, A-B33)."""
    tiers = Tiers(**other(field)).do("compute", r=0, s=0)
    assert tiers.step("match", r=1, s=0) == CODES[field]
    assert tiers.do("store", s=0, o=0).step("load", r=1, o=0, s=1) == CODES[field]
    assert tiers.do("compute", r=1, s=1)["slot_rows", 1] == 1


def test_an_adapter_loaded_anew_is_another_one():
    """Rows of the former load of an adapter are not read under its name in either tier (A-B30, A-B32)."""
    tiers = Tiers(adapter=(0, 0), adapter_epoch=(0, 1)).do("compute", r=0, s=0)
    assert tiers.step("match", r=1, s=0) == "OTHER_LOADING"
    assert tiers.do("store", s=0, o=0).step("load", r=1, o=0, s=1) == "OTHER_LOADING"


def test_loads_mean_nothing_without_an_adapter():
    """Requests without an adapter set share rows whatever was loaded."""
    tiers = Tiers(adapter_epoch=(0, 1)).do("compute", r=0, s=0).do("match", r=1, s=0)
    assert tiers["reads", 1] == 0


def test_a_name_is_told_by_its_field():
    """An adapter and a salt of the same name are two identities (A-B33)."""
    tiers = Tiers(adapter=(0, None), salt=(None, 0)).do("compute", r=0, s=0)
    assert tiers.step("match", r=1, s=0) == "OTHER_NAMES"


def test_a_digest_is_given_once_and_decides_nothing():
    """Of two identities of one digest the tier keeps one, which the other does not find (A-B31)."""
    tiers = Tiers(images=(0, 1)).do("compute", r=0, s=0).do("compute", r=1, s=1)
    assert tiers["digest", 0] == tiers["digest", 1]
    assert tiers.do("store", s=0, o=0).step("store", s=1, o=1) == "DIGEST_TAKEN"
    tiers.do("close", r=1).do("evict_slot", s=1).do("submit", r=1, i=1)
    assert tiers.step("load", r=1, o=0, s=1) == "OTHER_IMAGES"
    assert tiers.do("evict_object", o=0).step("load", r=1, o=0, s=1) == "OBJECT_EMPTY"


def test_rows_that_are_read_are_not_evicted():
    """A slot is emptied when its last reader has closed."""
    tiers = Tiers().do("compute", r=0, s=0).do("match", r=1, s=0).do("close", r=0)
    assert tiers.step("evict_slot", s=0) == "SLOT_READ"
    tiers.do("close", r=1).do("evict_slot", s=0)
    assert tiers["slot_key", 0] is None
