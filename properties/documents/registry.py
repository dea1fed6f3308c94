"""The registry: kinds of documents by name, found where they are defined, and all their error codes."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache

from kvspec.spec.documents.contracts import DocumentKind
from kvspec.spec.language import DefinitionError

_FOLDERS = ("kvspec.spec.documents", "kvspec.properties.documents")


@cache
def kinds() -> dict[str, DocumentKind]:
    """Every kind of document by name."""
    found: dict[str, DocumentKind] = {}
    for name in sorted(_modules()):
        module = importlib.import_module(name)
        for value in vars(module).values():
            if isinstance(value, DocumentKind) and found.setdefault(value.name, value) is not value:
                raise DefinitionError(f"two kinds of document are named {value.name}: rename one")
    return found


def find_kind(name: str) -> DocumentKind:
    """The kind of that name, or an error that lists all of them."""
    if name not in kinds():
        raise LookupError(f"found no kind of document {name!r}; there are: {', '.join(kinds())}")
    return kinds()[name]


def codes() -> dict[str, dict[str, str]]:
    """Every error code of every kind, with the meaning of its contract, in the order they are told."""
    return {
        name: {contract.code: contract.meaning for contract in kind.contracts.values()}
        for name, kind in kinds().items()
    }


def _modules() -> Iterator[str]:
    for folder in _FOLDERS:
        package = importlib.import_module(folder)
        for found in pkgutil.iter_modules(package.__path__, f"{folder}."):
            if found.name != __name__:
                yield found.name
