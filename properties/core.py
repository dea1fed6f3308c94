"""All claims about the core system, in reading order."""

from kvspec.properties import invariants, progress, steps
from kvspec.properties.claims import core as properties

__all__ = ["invariants", "progress", "properties", "steps"]
