"""Closure: every class of failure is closed by something that was tested, and every byte figure follows.

Modelled: nine classes of failure with the way, the owner and the refusals that close them, and references
to negative cases and traces of this project, each file bound by its digest; the release of a shared
prefix; a suffix of drafts of which some are rejected; and the sweeps of `sensitivity`.
Left out: how a prefix is freed, and any claim about capacity, latency, throughput, schedulers, allocators
or quantization: a document that makes one is refused.

Here are the fields and the contracts that need no engine. `kvspec.properties.documents.closure` looks up the
references, replays the two traces on the specification, and thus completes the kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Literal

import attrs

from kvspec.spec.documents import sensitivity
from kvspec.spec.documents.closure_rules import OWNERS, RULES, FailureName, Owner, Way
from kvspec.spec.documents.contracts import DocumentKind, Finding, differs, named, requires
from kvspec.spec.documents.sensitivity import Sensitivity
from kvspec.spec.formulas import committed_tokens

LEAST_REFERENCES = 17


@attrs.frozen
class Binding:
    """A file of evidence, below `counterexamples`, and the SHA-256 of its bytes."""

    file: str
    sha256: str


@attrs.frozen
class Evidence:
    """A case that was shown to fail. file: one of the bindings. code: that with which it fails.

    case: the name of a negative case, or of the mutant that a trace shows.
    """

    file: str
    case: str
    code: str


@attrs.frozen
class Failure:
    """A class of failures. codes: refusals of the specification. evidence: by file, then by case."""

    name: FailureName
    way: Way
    owner: Owner
    codes: tuple[str, ...]
    evidence: tuple[Evidence, ...]


@attrs.frozen
class OwnershipStep:
    """Who owns the prefix after a step. request: whose release it was, null for the first step.

    owners: in the order of the requests. eviction_eligible: whether the block could be freed now.
    """

    event: Literal["initial", "release"]
    request: str | None
    owners: tuple[str, ...]
    eviction_eligible: bool


@attrs.frozen
class SharedPrefix:
    """A prefix that several requests own, and what their releases leave.

    physical_mechanism_modelled: false, since how a block is freed is the allocator's own.
    """

    prefix: str
    requests: tuple[str, ...]
    steps: tuple[OwnershipStep, ...]
    physical_mechanism_modelled: bool


@attrs.frozen
class TokenRow:
    """The row at a position, and the token for which it was computed."""

    position: int
    token: str


@attrs.frozen
class RejectedSuffix:
    """Drafts of which the first few are accepted, and the token that is chosen instead of the next.

    base: committed rows before. emitted: what the user sees. published, discarded: rows of drafts that stay,
    and drafts whose rows go. correction_row: of the correction, by an append of its own.
    """

    base: int
    drafts: tuple[str, ...]
    accepted: int
    correction: str
    emitted: tuple[str, ...]
    published: tuple[TokenRow, ...]
    discarded: tuple[str, ...]
    committed_after_verification: int
    correction_row: TokenRow
    committed_after_repair: int


@attrs.frozen
class Claims:
    """What the document claims to be a result about. All of them must be false."""

    capacity: bool
    latency: bool
    throughput: bool
    scheduler: bool
    allocator: bool
    quantization: bool


@attrs.frozen
class Closure:
    """The whole document. references: how many pieces of evidence there are in all."""

    bindings: tuple[Binding, ...]
    references: int
    failures: tuple[Failure, ...]
    shared_prefix: SharedPrefix
    rejected_suffix: RejectedSuffix
    sensitivity: Sensitivity
    claims: Claims


closure = DocumentKind(
    "closure", Closure, "What closes each class of failures, and what each control does to bytes."
)
closure.frees("/shared_prefix/prefix", "a name of the prefix, to which nothing else refers")


def all_evidence(c: Closure) -> Iterator[tuple[str, Evidence]]:
    """Every piece of evidence with its place."""
    for n, failure in enumerate(c.failures):
        for k, found in enumerate(failure.evidence):
            yield f"/failures/{n}/evidence/{k}", found


@closure.contract("CLAIM", "nothing is claimed that only a measurement could show")
def nothing_measured_is_claimed(c: Closure) -> Iterator[Finding]:
    """Nothing is claimed that only a measurement could show."""
    for name, found in attrs.asdict(c.claims).items():
        yield from differs(f"/claims/{name}", False, found)


@closure.contract("BINDING_ORDER", "each file is bound once, in the order of their names")
def files_are_bound_once(c: Closure) -> Iterator[Finding]:
    """Each file is bound once, in the order of their names."""
    for n, (one, two) in enumerate(pairwise(binding.file for binding in c.bindings)):
        yield from requires(one < two, f"/bindings/{n + 1}/file", f"a name after {one}", two)


@closure.contract("FAILURES", "the nine classes of failures are there, each once, in their order")
def failures_are_the_nine(c: Closure) -> Iterator[Finding]:
    """The nine classes of failures are there, each once, in their order."""
    yield from named("/failures", RULES, (failure.name for failure in c.failures))


@closure.contract("WAY", "each class is closed in its own way")
def failures_are_closed_in_their_way(c: Closure) -> Iterator[Finding]:
    """Each class is closed in its own way."""
    for n, failure in enumerate(c.failures):
        yield from differs(f"/failures/{n}/way", RULES[failure.name].way, failure.way)


@closure.contract("OWNER", "the owner follows from the way in which a failure is closed")
def owners_follow_from_the_way(c: Closure) -> Iterator[Finding]:
    """The owner follows from the way in which a failure is closed."""
    for n, failure in enumerate(c.failures):
        yield from differs(f"/failures/{n}/owner", OWNERS[failure.way], failure.owner)


@closure.contract(
    "CODES", "the refusals of a class are those of the specification, as they are told"
)
def codes_are_those_of_the_specification(c: Closure) -> Iterator[Finding]:
    """The refusals of a class are those of the specification, as they are told."""
    for n, failure in enumerate(c.failures):
        expected = tuple(code.name for code in RULES[failure.name].codes)
        yield from differs(f"/failures/{n}/codes", expected, failure.codes)


@closure.contract("EVIDENCE_ORDER", "evidence of a class is in the order of its files and cases")
def evidence_is_in_order(c: Closure) -> Iterator[Finding]:
    """Evidence of a class is in the order of its files and cases."""
    for n, failure in enumerate(c.failures):
        keys = [(found.file, found.case) for found in failure.evidence]
        for k, (one, two) in enumerate(pairwise(keys)):
            place = f"/failures/{n}/evidence/{k + 1}"
            yield from requires(one <= two, place, f"a case after {one[1]}", two[1])


@closure.contract("EVIDENCE_TWICE", "no case is evidence twice")
def evidence_is_named_once(c: Closure) -> Iterator[Finding]:
    """No case is evidence twice."""
    seen: set[tuple[str, str]] = set()
    for place, found in all_evidence(c):
        key = (found.file, found.case)
        yield from requires(key not in seen, place, "a case that is named once", found.case)
        seen.add(key)


@closure.contract("UNBOUND_FILE", "the files of evidence are the bound ones, and all of them")
def evidence_is_in_bound_files(c: Closure) -> Iterator[Finding]:
    """The files of evidence are the bound ones, and all of them."""
    bound = [binding.file for binding in c.bindings]
    for place, found in all_evidence(c):
        yield from requires(found.file in bound, f"{place}/file", "a bound file", found.file)
    used = {found.file for _, found in all_evidence(c)}
    for n, file in enumerate(bound):
        yield from requires(file in used, f"/bindings/{n}/file", "a file of evidence", file)


@closure.contract("REFERENCES", f"there are as many references as told, {LEAST_REFERENCES} or more")
def references_are_counted(c: Closure) -> Iterator[Finding]:
    """There are as many references as told, and enough of them."""
    found = sum(1 for _ in all_evidence(c))
    yield from differs("/references", found, c.references)
    yield from requires(
        found >= LEAST_REFERENCES, "/references", f"at least {LEAST_REFERENCES}", found
    )


@closure.contract("CODE_WITHOUT_TRACE", "a trace shows each refusal of a class")
def each_code_has_a_trace(c: Closure) -> Iterator[Finding]:
    """A trace shows each refusal of a class."""
    for n, failure in enumerate(c.failures):
        shown = {e.code for e in failure.evidence if e.file.startswith("library/")}
        for k, code in enumerate(failure.codes):
            yield from requires(
                code in shown, f"/failures/{n}/codes/{k}", "a code that a trace shows", code
            )
        for code in sorted(shown):
            expected = f"one of {', '.join(failure.codes)}"
            yield from requires(code in failure.codes, f"/failures/{n}/evidence", expected, code)


@closure.contract("PHYSICAL_MECHANISM", "how a prefix is freed is the allocator's and not modelled")
def freeing_is_not_modelled(c: Closure) -> Iterator[Finding]:
    """How a prefix is freed is the allocator's and not modelled."""
    found = c.shared_prefix.physical_mechanism_modelled
    yield from differs("/shared_prefix/physical_mechanism_modelled", False, found)


@closure.contract("SHARERS", "a shared prefix has two requests or more, each named once")
def a_prefix_is_shared(c: Closure) -> Iterator[Finding]:
    """A shared prefix has two requests or more, each named once."""
    found = c.shared_prefix.requests
    yield from requires(len(found) >= 2, "/shared_prefix/requests", "two or more", found)
    for n, name in enumerate(found):
        place = f"/shared_prefix/requests/{n}"
        yield from requires(name not in found[:n], place, "a request named once", name)


@closure.contract(
    "OWNERSHIP_STEPS", "the first step has no request, and each later one is a release of one"
)
def steps_are_releases(c: Closure) -> Iterator[Finding]:
    """The first step has no request, and each later one is a release of one."""
    p = c.shared_prefix
    for n, step in enumerate(p.steps):
        place = f"/shared_prefix/steps/{n}"
        yield from differs(f"{place}/event", "release" if n else "initial", step.event)
        known = step.request in p.requests if n else step.request is None
        expected = f"one of {', '.join(p.requests)}" if n else "null"
        yield from requires(known, f"{place}/request", expected, step.request)


@closure.contract(
    "SUFFIX", "some drafts are accepted and some are not, and no token is named twice"
)
def some_drafts_are_rejected(c: Closure) -> Iterator[Finding]:
    """Some drafts are accepted and some are not, and no token is named twice."""
    s = c.rejected_suffix
    tokens = (*s.drafts, s.correction)
    yield from requires(s.base >= 1, "/rejected_suffix/base", "at least 1", s.base)
    yield from requires(
        0 < s.accepted < len(s.drafts),
        "/rejected_suffix/accepted",
        f"from 1 to {len(s.drafts) - 1}",
        s.accepted,
    )
    yield from requires(
        len(set(tokens)) == len(tokens), "/rejected_suffix/drafts", "different tokens", tokens
    )


@closure.contract("EMITTED", "emitted are the accepted drafts, and then the correction")
def accepted_drafts_and_correction_are_emitted(c: Closure) -> Iterator[Finding]:
    """Emitted are the accepted drafts, and then the correction."""
    s = c.rejected_suffix
    expected = (*s.drafts[: s.accepted], s.correction)
    yield from differs("/rejected_suffix/emitted", expected, s.emitted)


@closure.contract(
    "ACCEPTED_ROWS", "the rows of accepted drafts alone are published, after the base"
)
def accepted_rows_are_published(c: Closure) -> Iterator[Finding]:
    """The rows of accepted drafts alone are published, after the base."""
    s = c.rejected_suffix
    accepted = enumerate(s.drafts[: s.accepted], s.base)
    expected = tuple(TokenRow(position, token) for position, token in accepted)
    yield from differs("/rejected_suffix/published", expected, s.published)
    yield from differs("/rejected_suffix/discarded", s.drafts[s.accepted :], s.discarded)


@closure.contract("RELABELLED_ROW", "the correction's row is computed for the correction")
def no_row_is_relabelled(c: Closure) -> Iterator[Finding]:
    """The correction's row is computed for the correction."""
    s = c.rejected_suffix
    yield from differs(
        "/rejected_suffix/correction_row/token", s.correction, s.correction_row.token
    )


@closure.contract(
    "COMMITTED", "committed rows are the base, the accepted drafts, and then the correction"
)
def committed_rows_follow(c: Closure) -> Iterator[Finding]:
    """Committed rows are the base, the accepted drafts, and then the correction."""
    s = c.rejected_suffix
    verified = committed_tokens(s.base, s.accepted)
    repaired = committed_tokens(s.base, s.accepted + 1)
    place = "/rejected_suffix"
    yield from differs(
        f"{place}/committed_after_verification", verified, s.committed_after_verification
    )
    yield from differs(f"{place}/committed_after_repair", repaired, s.committed_after_repair)


_SWEEPS: dict[str, tuple[str, Callable[[Sensitivity], Iterator[Finding]]]] = {
    "SIZE": (
        "sizes are positive and there are requests",
        sensitivity.sizes_are_positive,
    ),
    "NO_COPY": ("every request has a copy", sensitivity.requests_have_copies),
    "HEAD_GEOMETRY": ("K/V heads divide query heads", sensitivity.heads_form_groups),
    "BASE_FIGURES": (
        "the figures of the base follow from it",
        sensitivity.base_figures_are_computed,
    ),
    "SWEEPS": (
        "there is one sweep of each control, in their order",
        sensitivity.sweeps_are_the_seven,
    ),
    "ONE_CONTROL": (
        "a sweep changes its own control and nothing else",
        sensitivity.each_sweep_changes_its_control_alone,
    ),
    "FACTOR": (
        "sizes are doubled and widths of scalars are halved",
        sensitivity.each_sweep_changes_by_its_factor,
    ),
    "QUERY_HEADS": (
        "query heads leave all bytes alone",
        sensitivity.query_heads_leave_bytes_alone,
    ),
    "SWEEP_FIGURES": (
        "the figures of a sweep follow from its fixture",
        sensitivity.sweep_figures_are_computed,
    ),
}


def _of_sensitivity(
    check: Callable[[Sensitivity], Iterator[Finding]],
) -> Callable[[Closure], Iterator[Finding]]:
    return lambda c: check(c.sensitivity)


for _code, (_meaning, _check) in _SWEEPS.items():
    closure.contract(_code, _meaning)(_of_sensitivity(_check))
