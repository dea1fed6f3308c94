"""The caches at hand by name: each is the torch cache in the layout that its name says."""

import pytest

from kvspec.cli import backends

pytest.importorskip("torch")


@pytest.mark.parametrize("layout", ["static", "window", "offloaded"])
def test_a_factory_makes_the_cache_of_its_name(layout: str) -> None:
    """The factory's cache has the layout, and its decoder a window exactly where rows are dropped."""
    cache = getattr(backends, f"{layout}_cache")()
    assert cache.layout == layout
    assert (cache.window is not None) == (layout == "window")
    assert cache.faults == frozenset()
