"""All claims about the core system, in reading order."""

from kvspec.properties import (
    append_claims,
    batch_claims,
    handle_claims,
    ownership_claims,
    progress,
    publication_claims,
    retry_claims,
)
from kvspec.properties.claims import core as properties

__all__ = [
    "append_claims",
    "batch_claims",
    "handle_claims",
    "ownership_claims",
    "progress",
    "properties",
    "publication_claims",
    "retry_claims",
]
