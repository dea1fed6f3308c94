"""Every kind of document that kvspec knows, and where the contracts of each are.

Kinds whose contracts need no engine are complete in `kvspec.spec.documents`; those that are replayed
against the specification have their contracts here.
"""

from kvspec.properties.documents.registry import codes, find_kind, kinds

__all__ = ["codes", "find_kind", "kinds"]
