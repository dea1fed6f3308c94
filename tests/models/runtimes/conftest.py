"""What the tests of Transformers' caches share; they run where Transformers is (make adapters)."""

import pytest

REASON = "Transformers is an extra: make adapters runs this with both releases"


@pytest.fixture(scope="session")
def lib():
    """The installed release."""
    pytest.importorskip("transformers", reason=REASON)
    from kvspec.models.runtimes.transformers_api import library

    return library()


@pytest.fixture(scope="session")
def llama(lib):
    """A decoder of two layers."""
    from kvspec.models.runtimes.transformers_model import tiny_llama

    return tiny_llama(2)
