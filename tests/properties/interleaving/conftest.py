"""Lets the tests here import the helper beside them, and makes the checker ready once."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from kvspec.properties.interleaving.checking import linearizability  # after the path


@pytest.fixture(scope="session")
def check():
    """The linearizability checker as a judge; it keeps what it compiled."""
    return linearizability()
