"""Binding a closure to its evidence as it is now: for whoever changes a set of negative cases or a trace."""

from __future__ import annotations

import json
from typing import Any

from kvspec.counterexamples import negative_cases
from kvspec.models.documents import decode
from kvspec.properties.documents.evidence import codes_of, file_sha256


def bound(data: dict[str, Any]) -> dict[str, Any]:
    """A closure, as plain data, with the digests of its files and the codes of its evidence as they are now.

    A file or a case that is gone keeps what it had, and is then told when the document is checked.
    """
    bindings = [
        {**each, "sha256": file_sha256(each["file"]) or each["sha256"]} for each in data["bindings"]
    ]
    failures = [
        {**failure, "evidence": [_coded(each) for each in failure["evidence"]]}
        for failure in data["failures"]
    ]
    return {**data, "bindings": bindings, "failures": failures}


def _coded(evidence: dict[str, Any]) -> dict[str, Any]:
    code = codes_of(evidence["file"]).get(evidence["case"], evidence["code"])
    return {**evidence, "code": code}


def bind_closure() -> bool:
    """Bind the closure on file to its evidence; whether anything was changed."""
    path = negative_cases.DOCUMENTS / "closure.json"
    data = decode(path.read_text(encoding="utf-8"), path.name)
    made = bound(data)
    if made == data:
        return False
    path.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return True
