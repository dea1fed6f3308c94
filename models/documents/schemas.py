"""The JSON Schema of a kind of document, made from its attrs classes."""

from __future__ import annotations

from typing import Any

import msgspec

from kvspec.spec.documents.contracts import DocumentKind


def schema(kind: DocumentKind) -> dict[str, Any]:
    """JSON Schema (2020-12) of a kind: what reading accepts; contracts ask for more."""
    made = msgspec.json.schema(kind.document)
    definitions = made["$defs"]
    for definition in definitions.values():
        if definition.get("type") == "object" and "properties" in definition:
            definition["additionalProperties"] = False
    top = definitions[kind.document.__name__]
    top["properties"] = {
        "document": {"const": kind.name},
        "version": {"const": kind.version},
        **top["properties"],
    }
    top["required"] = ["document", "version", *top["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"kvspec {kind.name} version {kind.version}",
        **made,
    }
