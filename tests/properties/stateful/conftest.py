"""What the stateful tests share: the peer model's small row, its claims and its plan."""

import pytest

from kvspec.properties.stateful import Plan, make_plan
from kvspec.spec.examples import peer
from kvspec.spec.language import Instance, Property


@pytest.fixture(scope="session")
def row() -> Instance:
    """One handle, one transaction, two layers: 828 states, 3,188 transitions."""
    return peer.ROWS["1,1,2,3,4"]


@pytest.fixture(scope="session")
def claims() -> list[Property]:
    """The claims about the peer model."""
    return list(peer.properties.by_name.values())


@pytest.fixture(scope="session")
def plan(row: Instance, claims: list[Property]) -> Plan:
    """The plan of the default size for that row."""
    return make_plan(row, claims)
