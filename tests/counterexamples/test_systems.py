"""Systems and instances are found by name, and a look-up that fails lists what exists."""

import sys
import types

import attrs
import pytest

from kvspec.counterexamples import systems
from kvspec.counterexamples.errors import UnknownNameError
from kvspec.counterexamples.systems import find_instance, find_system, known_systems
from kvspec.properties.core import properties
from kvspec.spec import core
from kvspec.spec.examples import peer
from kvspec.spec.language import DefinitionError


def test_core_and_the_examples_are_known() -> None:
    """The core system and the peer model are there, each with all of its instances."""
    assert {"core", "peer"} <= set(known_systems())
    assert find_system("core").system is core.system
    assert find_instance("core", "TINY") is core.TINY
    assert find_system("peer").instances == peer.ROWS
    assert find_instance(find_system("peer"), "1,1,2,3,4") is peer.ROWS["1,1,2,3,4"]


def test_claims_are_found_beside_the_system_or_under_properties() -> None:
    """The peer model has its claims beside it, the core system in a module of its own name."""
    assert find_system("peer").properties() is peer.properties
    assert find_system("core").properties() is properties


def test_every_instance_is_of_its_system() -> None:
    """No instance is listed under another system, and each is found by its own name."""
    for known in known_systems().values():
        assert known.properties().system is known.system
        for name, instance in known.instances.items():
            assert (instance.name, instance.system) == (name, known.system)


def test_a_look_up_that_fails_lists_what_exists() -> None:
    """Both look-ups name the kind of thing, what was asked for, and what there is."""
    with pytest.raises(
        UnknownNameError, match=r"found no system 'moon'; there are: .*core, .*peer"
    ):
        find_system("moon")
    with pytest.raises(UnknownNameError) as caught:
        find_instance("core", "HUGE")
    assert str(caught.value).startswith("found no instance 'HUGE' of system core; there are: TINY")
    assert isinstance(caught.value, LookupError)


def test_two_systems_of_one_name_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are unique, or nobody knows which system a trace speaks of."""
    module = types.ModuleType("kvspec.spec.second")
    module.system = attrs.evolve(core.system)
    names = [*systems._module_names(), "kvspec.spec.second"]
    monkeypatch.setitem(sys.modules, "kvspec.spec.second", module)
    monkeypatch.setattr(systems, "_module_names", lambda: names)
    with pytest.raises(
        DefinitionError, match=r"two systems are named core, in kvspec\.spec\.core and"
    ):
        known_systems.__wrapped__()


def test_two_instances_of_one_name_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance's name says which sizes are meant."""
    module = types.ModuleType("kvspec.spec.second")
    module.more = [attrs.evolve(core.TINY)]
    names = [*systems._module_names(), "kvspec.spec.second"]
    monkeypatch.setitem(sys.modules, "kvspec.spec.second", module)
    monkeypatch.setattr(systems, "_module_names", lambda: names)
    with pytest.raises(DefinitionError, match="two instances of core are named TINY"):
        known_systems.__wrapped__()
