"""The planted caches, and what the suite makes of each, found once."""

import importlib.util
from functools import cache
from pathlib import Path

import attrs
import pytest

from kvspec.properties.conformance.run import run_conformance
from kvspec.properties.conformance.suite import part_named

WHOLE = ("AcceptsStale", "NoCodes", "Sound")
"""Caches for which every call in every state of an instance is tried."""


def loaded(name: str):
    """A module of caches of this folder, by its name."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def planted():
    """The module with the planted caches."""
    return loaded("planted_caches")


@pytest.fixture(scope="session")
def paged():
    """The module with the paged caches."""
    return loaded("paged_caches")


@pytest.fixture(scope="session")
def tested(planted):
    """The report on a planted cache, on instances by name."""

    @cache
    def report(name: str, instance: str):
        part = part_named(instance)
        if name not in WHOLE:
            part = attrs.evolve(part, quota=1)
        return run_conformance(getattr(planted, name), instances=[part])

    return lambda name, instance="TINY": report(name, instance)
