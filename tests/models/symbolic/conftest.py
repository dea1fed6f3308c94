"""The peer system with one guard less, and systems made for one test each."""

from collections.abc import Callable

import attrs
import pytest

from kvspec.spec.examples import peer
from kvspec.spec.language import Action, System


def without(action: Action, code: str) -> Action:
    """The action without the guard that refuses with `code`."""
    return attrs.evolve(action, guards=tuple(g for g in action.guards if g.code.name != code))


@pytest.fixture(scope="session")
def planted() -> Callable[[str, str], System]:
    """Gives the peer system whose action lacks a guard."""

    def plant(action: str, code: str) -> System:
        changed = without(peer.system.action(action), code)
        return attrs.evolve(peer.system, actions={**peer.system.actions, action: changed})

    return plant
