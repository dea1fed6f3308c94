"""Negative cases: one-field mutations of a valid document, each with the code with which it must fail.

`documents/KIND.json` is the valid document, `negatives/KIND.json` the set of its mutations. `check_set`
shows that the document passes, that each mutation changes one field, and that it fails with exactly its
code; `codes_not_reached` tells which contracts no mutation breaks.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final, Literal

import attrs
import msgspec

from kvspec.models.documents import DocumentError, changed_paths, convert, decode, removed, replaced
from kvspec.properties.documents import find_kind, kinds
from kvspec.spec.documents.contracts import DocumentKind

_HERE: Final = Path(__file__).parent
DOCUMENTS: Final = _HERE / "documents"
NEGATIVES: Final = _HERE / "negatives"


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One mutation. path: a JSON pointer into the document. value: what stands there in its place.

    removed: the field or item is taken out, and `value` is null. why: one line, for a reader.
    """

    name: str
    path: str
    value: Any
    code: str
    why: str
    removed: bool = False


class NegativeSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The mutations of one valid document; `base_sha256` is the digest of the document's file."""

    format: Literal["kvspec-negatives"] = "kvspec-negatives"
    version: Literal[1] = 1
    document: str
    base_sha256: str
    cases: list[Case]


@attrs.frozen
class CaseResult:
    """How a mutation went. found: the code with which it failed, or None if it passed."""

    kind: str
    case: str
    expected: str
    found: str | None
    problem: str | None

    @property
    def holds(self) -> bool:
        """The mutation changes one field and fails with exactly its code."""
        return self.problem is None


def file_digest(path: Path) -> str:
    """SHA-256 of the bytes of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def load_document(kind: str) -> dict[str, Any]:
    """The valid document of a kind, as plain data."""
    path = DOCUMENTS / f"{kind}.json"
    found: dict[str, Any] = decode(path.read_text(encoding="utf-8"), path.name)
    return found


def documents_of(kind: str) -> dict[str, dict[str, Any]]:
    """Every valid document of a kind by file name, the one that its negative cases change first.

    The others are the files `KIND-*.json` whose field `document` names the kind.
    """
    found = {f"{kind}.json": load_document(kind)}
    for path in sorted(DOCUMENTS.glob(f"{kind}-*.json")):
        data = decode(path.read_text(encoding="utf-8"), path.name)
        if data.get("document") == kind:
            found[path.name] = data
    return found


def load_set(kind: str) -> NegativeSet:
    """The negative cases of a kind."""
    return msgspec.json.decode((NEGATIVES / f"{kind}.json").read_bytes(), type=NegativeSet)


def write_set(kind: str, cases: list[Case]) -> None:
    """Write the negative cases of a kind, bound to the valid document as it is now."""
    made = NegativeSet(
        document=kind, base_sha256=file_digest(DOCUMENTS / f"{kind}.json"), cases=cases
    )
    text = msgspec.json.format(msgspec.json.encode(made), indent=2).decode()
    (NEGATIVES / f"{kind}.json").write_text(text + "\n", encoding="utf-8")


def rebind(kind: str) -> NegativeSet:
    """Bind the cases of a kind to its valid document as it is now, and give them."""
    write_set(kind, load_set(kind).cases)
    return load_set(kind)


def verdict(kind: DocumentKind, data: Any) -> str | None:
    """The code with which plain data fails to be a document that keeps its contracts, or None."""
    try:
        document = convert(kind, data, kind.name)
    except DocumentError as error:
        return error.code
    broken = kind.first_broken(document)
    return broken.code if broken else None


def mutated(data: Any, case: Case) -> Any:
    """A copy of the document with the one field of the case changed."""
    return removed(data, case.path) if case.removed else replaced(data, case.path, case.value)


def check_case(kind: DocumentKind, data: Any, case: Case) -> CaseResult:
    """Whether a mutation changes one field and fails with exactly its code."""
    changed = mutated(data, case)
    found = verdict(kind, changed)
    problem = None
    if not case.removed and changed_paths(data, changed) != [case.path]:
        problem = f"it changes {changed_paths(data, changed) or 'nothing'}, not just {case.path}"
    elif found != case.code:
        problem = f"it {f'fails with {found}' if found else 'passes'}, expected {case.code}"
    return CaseResult(kind.name, case.name, case.code, found, problem)


def check_valid(kind: DocumentKind, file: str, data: Any) -> CaseResult:
    """Whether a valid document of the kind keeps its contracts: the case `unchanged FILE`."""
    code = verdict(kind, data)
    problem = None if code is None else f"the valid document fails with {code}"
    return CaseResult(kind.name, f"unchanged {file}", "none", code, problem)


def set_problem(name: str, found: NegativeSet) -> str | None:
    """What is wrong with the set as a whole."""
    if found.base_sha256 != file_digest(DOCUMENTS / f"{name}.json"):
        return "the set was made from another version of the document: make it again"
    names = [case.name for case in found.cases]
    twice = sorted({one for one in names if names.count(one) > 1})
    return f"two cases are named {', '.join(twice)}" if twice else None


def check_set(name: str) -> list[CaseResult]:
    """The set as a whole, the valid documents, and then each mutation of the first of them."""
    kind, data, found = find_kind(name), load_document(name), load_set(name)
    problem = set_problem(name, found)
    return [
        CaseResult(name, "the set", "none", None, problem),
        *(check_valid(kind, file, one) for file, one in documents_of(name).items()),
        *(check_case(kind, data, case) for case in found.cases),
    ]


def codes_not_reached(name: str) -> list[str]:
    """The contracts of a kind that none of its negative cases breaks."""
    reached = {case.code for case in load_set(name).cases}
    return [code for code in find_kind(name).contracts if code not in reached]


def kinds_with_cases() -> list[str]:
    """The kinds that have a set of negative cases on file."""
    return [name for name in kinds() if (NEGATIVES / f"{name}.json").exists()]
