"""Systems and instances are found by name, and a look-up that fails lists what exists."""

import sys
import types

import attrs
import pytest

from kvspec.counterexamples import systems
from kvspec.counterexamples.errors import TraceError, UnknownNameError
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


def test_a_system_of_another_package_is_found_by_its_address(monkeypatch) -> None:
    """`module:attribute` names one's own, with the instances and the claims beside it."""
    module = types.ModuleType("of_somebody")
    module.mine, module.here, module.claims = peer.system, peer.ROWS, peer.properties
    module.other = core.TINY
    monkeypatch.setitem(sys.modules, "of_somebody", module)
    found = find_system("of_somebody:mine")
    assert (found.name, found.key) == ("peer", "of_somebody:mine")
    assert found.system is peer.system
    assert found.instances == peer.ROWS
    assert found.properties() is peer.properties
    assert find_system("core").key == "core"


TWICE = """
from kvspec.properties.locks import locks as first
from kvspec.spec.language import Properties
from kvspec.spec.locks import system
second = Properties(system)
"""


@pytest.mark.parametrize(
    ("text", "address", "told"),
    [
        ("", "fresh:system", "no System system in fresh"),
        ("system = 3", "fresh:system", "no System system in fresh"),
        ("x = y", "fresh:system", "NameError: name 'y' is not defined"),
        ("def", "fresh:system", "SyntaxError"),
        ("import sys; sys.exit(0)", "fresh:system", "SystemExit: 0"),
        ("import nothing_of_the_kind", "fresh:system", "No module named 'nothing_of_the_kind'"),
        ("import kvspec.nothing", "fresh:system", "No module named 'kvspec.nothing'"),
        ("from kvspec.spec.locks import system", "fresh:system", "0 Properties of it in fresh"),
        (TWICE, "fresh:system", "2 Properties of it in fresh"),
        ("", "./fresh.py:system", "expected module:system"),
        ("", "fresh:system.name", "expected module:system"),
        ("", "missing_module:system", "no module missing_module"),
        ("", ":system", "expected module:system"),
        ("", "fresh:", "expected module:system"),
    ],
)
def test_an_address_that_leads_nowhere_is_an_error_of_input(
    tmp_path, monkeypatch, text: str, address: str, told: str
) -> None:
    """A module that is not there, cannot be imported or lacks the system is told as that."""
    (tmp_path / "fresh.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "fresh", raising=False)
    with pytest.raises(TraceError) as caught:
        find_system(address)
    assert told in str(caught.value)
    monkeypatch.delitem(sys.modules, "fresh", raising=False)
