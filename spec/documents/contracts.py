"""The frame of a kind of document: its class, its contracts in order, and the fields that are free.

    manifest = DocumentKind("manifest", Manifest, "What a request and its cache are.")

    @manifest.contract("PROMPT_DIGEST", "the prompt's digest is that of its token ids")
    def prompt_digest(m: Manifest) -> Iterator[Finding]:
        yield from differs("/input/prompt_sha256", digest(m.input.token_ids), m.input.prompt_sha256)

A contract yields a finding for each place where it is broken and nothing where it is kept. Only the
first broken contract is told, since a later one may rely on it (a ledger is computed from sizes that
an earlier contract found positive).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import attrs

from kvspec.spec.language import DefinitionError

Check = TypeVar("Check", bound=Callable[[Any], Iterable["Finding"]])


@attrs.frozen
class Finding:
    """A place where a contract is broken. path: a JSON pointer, such as `/events/3/length`."""

    path: str
    expected: object
    found: object


def differs(path: str, expected: object, found: object) -> Iterator[Finding]:
    """A finding at `path` unless the two are equal."""
    if expected != found:
        yield Finding(path, expected, found)


def requires(condition: object, path: str, expected: object, found: object) -> Iterator[Finding]:
    """A finding at `path` unless the condition holds; `expected` says in words what it asks."""
    if not condition:
        yield Finding(path, expected, found)


def named(path: str, expected: Iterable[str], found: Iterable[str]) -> Iterator[Finding]:
    """A finding at `path` unless the objects that are listed there have these names, in this order."""
    wanted, have = list(expected), list(found)
    told = f"an object for each of {', '.join(wanted)}, in this order"
    shown = f"objects for {', '.join(have)}" if have else "no object"
    yield from requires(wanted == have, path, told, shown)


@attrs.frozen
class Contract:
    """What must hold of a document. code: unique within its kind. meaning: one clause, for a reader.

    derived: it asks alone that something is what follows from the rest; whoever binds the document anew
    keeps it. No other contract relies on it. do: what to do where it is broken, if there is more to say
    than that it must be mended.
    """

    code: str
    meaning: str
    check: Callable[[Any], Iterable[Finding]]
    derived: bool = False
    do: str = ""


@attrs.frozen
class Broken:
    """The first contract that a document breaks, and the places where it does."""

    contract: Contract
    findings: tuple[Finding, ...]

    @property
    def code(self) -> str:
        """The error code of the contract."""
        return self.contract.code

    def __str__(self) -> str:
        first = self.findings[0]
        more = f" (and {len(self.findings) - 1} more)" if len(self.findings) > 1 else ""
        return (
            f"{self.code} at {first.path}: expected {first.expected!r}, found {first.found!r}; "
            f"the contract: {self.contract.meaning}{more}"
        )


def _same(document: Any) -> Any:
    return document


@attrs.frozen
class Binding:
    """How all of a document that follows from the rest is made anew.

    paths: of what follows, `*` for an item. nullable: what may be left out where it is null. prepare:
    makes what needs no lawful document; complete: the rest, of one that keeps all contracts that are
    not derived.
    """

    paths: tuple[str, ...]
    complete: Callable[[Any], Any]
    prepare: Callable[[Any], Any] = _same
    nullable: tuple[str, ...] = ()


def _findings(contract: Contract, document: Any) -> tuple[Finding, ...]:
    """Where the contract is broken; one that asks a formula for illegal numbers is broken as a whole."""
    try:
        return tuple(contract.check(document))
    except ValueError as error:
        return (Finding("", "numbers that the formulas take", str(error)),)


class DocumentKind:
    """A kind of document.

    name: as in the field `document` of its JSON. document: the attrs class. doc: one line for a reader.
    version: of the format. All fields of the class and of those within it are required. binding: how it
    is made from its inputs, if it can be.
    """

    def __init__(self, name: str, document: type[Any], doc: str, version: int = 1) -> None:
        self.name = name
        self.document = document
        self.doc = doc
        self.version = version
        self.contracts: dict[str, Contract] = {}
        self.free: dict[str, str] = {}
        self.binding: Binding | None = None

    def contract(
        self, code: str, meaning: str, *, derived: bool = False, do: str = ""
    ) -> Callable[[Check], Check]:
        """Decorator: the function of a document yields where this contract is broken."""

        def add(check: Check) -> Check:
            if code in self.contracts:
                raise DefinitionError(
                    f"{self.name} has two contracts {code}: give each its own code"
                )
            self.contracts[code] = Contract(code, meaning, check, derived, do)
            return check

        return add

    def frees(self, pattern: str, reason: str) -> None:
        """Any value of the right type is legal at these paths, for this reason.

        pattern: a JSON pointer in which `*` stands for one step: `/events/*/wall_time`.
        """
        self.free[pattern] = reason

    def first_broken(self, document: Any, *, derived: bool = True) -> Broken | None:
        """The first contract that the document breaks, or None if it keeps all; derived: these as well."""
        if not isinstance(document, self.document):
            raise TypeError(f"{self.name} checks {self.document.__name__}, found {document!r}")
        for contract in self.contracts.values():
            if contract.derived and not derived:
                continue
            findings = _findings(contract, document)
            if findings:
                return Broken(contract, findings)
        return None

    def is_free(self, path: str) -> bool:
        """Whether the field at a JSON pointer is on the list of free fields, or within one of them."""
        steps = path.split("/")
        return any(_covers(pattern.split("/"), steps) for pattern in self.free)

    def __repr__(self) -> str:
        return f"DocumentKind({self.name})"


def _covers(pattern: list[str], steps: list[str]) -> bool:
    pairs = zip(pattern, steps, strict=False)
    return len(pattern) <= len(steps) and all(p in ("*", s) for p, s in pairs)
