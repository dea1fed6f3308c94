"""The contracts of closures that look up evidence and ask the specification.

Evidence must be on file, unchanged since it was bound, and say what the document says of it. The shared
prefix is one block of the core system that the first request fills and the others get by a fork; the
drafts are an append of the serving system that is verified, and the correction is emitted and appended.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from kvspec.models.concrete import Refusal
from kvspec.properties.documents.evidence import codes_of, file_sha256
from kvspec.properties.documents.runs import Positions, Run, core_run, serving_run
from kvspec.spec.documents.closure import (
    Closure,
    RejectedSuffix,
    SharedPrefix,
    all_evidence,
    closure,
)
from kvspec.spec.documents.contracts import Finding, differs, requires

_REBIND: Final = "`python -m kvspec.counterexamples.rebind closure` binds the one on file anew"


@closure.contract(
    "FILE_DIGEST", "each bound file is on file, as it was when it was bound", do=_REBIND
)
def bound_files_are_unchanged(c: Closure) -> Iterator[Finding]:
    """Each bound file is on file, as it was when it was bound."""
    for n, binding in enumerate(c.bindings):
        expected = file_sha256(binding.file) or f"a file {binding.file} below counterexamples"
        yield from differs(f"/bindings/{n}/sha256", expected, binding.sha256)


@closure.contract("NO_CASE", "each piece of evidence is a case of its file")
def evidence_is_a_case_of_its_file(c: Closure) -> Iterator[Finding]:
    """Each piece of evidence is a case of its file."""
    for place, found in all_evidence(c):
        known = codes_of(found.file)
        expected = f"a case of {found.file}"
        yield from requires(found.case in known, f"{place}/case", expected, found.case)


@closure.contract("EVIDENCE_CODE", "each case fails with the code that is told", do=_REBIND)
def evidence_fails_with_its_code(c: Closure) -> Iterator[Finding]:
    """Each case fails with the code that is told."""
    for place, found in all_evidence(c):
        yield from differs(f"{place}/code", codes_of(found.file)[found.case], found.code)


def _shared(p: SharedPrefix) -> Run:
    """All requests own the block: the first has filled it, the others are its forks."""
    run = core_run(handles=len(p.requests), longest=1, appends=1)
    forks = tuple(n > 0 for n in range(len(p.requests)))
    refused = (
        run.step("allocate", h=0, b=0, a=0)
        or run.append(0, 0, 1)
        or run.step("fork", p=0, children=forks, n=1)
    )
    if refused:
        raise RuntimeError(f"the specification refuses to share a prefix: {refused}")
    return run


@lru_cache(maxsize=4)  # each contract asks anew
def replay_releases(
    p: SharedPrefix,
) -> tuple[list[tuple[tuple[str, ...], bool]], tuple[int, Refusal] | None]:
    """Owners, and whether the block could be freed, after each step; the first step refused."""
    run = _shared(p)
    found: list[tuple[tuple[str, ...], bool]] = []
    for n, step in enumerate(p.steps):
        if step.request is not None:
            handle = p.requests.index(step.request)
            refused = run.step("finish", h=handle) or run.step("release", h=handle)
            if refused:
                return found, (n, refused)
        owners = tuple(name for h, name in enumerate(p.requests) if run.value("owner", 0, h))
        found.append((owners, run.try_step("evict", b=0) is None))
    return found, None


@closure.contract("RELEASED_TWICE", "a request releases once: the specification takes each release")
def releases_are_accepted(c: Closure) -> Iterator[Finding]:
    """A request releases once: the specification takes each release."""
    _, refused = replay_releases(c.shared_prefix)
    if refused:
        place, refusal = refused
        yield Finding(f"/shared_prefix/steps/{place}", refusal.expected, refusal.found)


@closure.contract("OWNERS", "the owners after each step are those of the specification")
def owners_are_those_of_the_specification(c: Closure) -> Iterator[Finding]:
    """The owners after each step are those of the specification."""
    found, _ = replay_releases(c.shared_prefix)
    for n, (step, (owners, _)) in enumerate(zip(c.shared_prefix.steps, found, strict=True)):
        yield from differs(f"/shared_prefix/steps/{n}/owners", owners, step.owners)


@closure.contract("EVICTION", "the block may be freed exactly when the specification lets it")
def eviction_is_that_of_the_specification(c: Closure) -> Iterator[Finding]:
    """The block may be freed exactly when the specification lets it."""
    found, _ = replay_releases(c.shared_prefix)
    for n, (step, (_, eligible)) in enumerate(zip(c.shared_prefix.steps, found, strict=True)):
        place = f"/shared_prefix/steps/{n}/eviction_eligible"
        yield from differs(place, eligible, step.eviction_eligible)


@closure.contract("STILL_OWNED", "at the last step nobody owns the prefix any more")
def nobody_owns_the_prefix_at_the_end(c: Closure) -> Iterator[Finding]:
    """At the last step nobody owns the prefix any more."""
    steps = c.shared_prefix.steps
    left = steps[-1].owners if steps else c.shared_prefix.requests
    yield from differs(f"/shared_prefix/steps/{len(steps) - 1}/owners", (), left)


@lru_cache(maxsize=4)
def replay_drafts(s: RejectedSuffix) -> Refusal | tuple[int | None, int | None]:
    """Committed rows after the verdict on the drafts, and after the append of the correction."""
    verified, drafted, place = (
        s.base + s.accepted,
        s.base + len(s.drafts),
        s.correction_row.position,
    )
    at = Positions([s.base, verified, verified + 1, drafted, drafted + 1, place, place + 1])
    base, end = at.short(s.base), at.short(drafted)
    run = serving_run(longest=at.short(drafted + 1), appends=3)
    refused = (
        run.step("allocate", h=0, b=0, a=0, p=base)
        or run.append(0, 0, base, d=0)
        or run.stage(0, base, end - base, d=end - base)
        or run.step("verify", x=0, a=at.short(verified) - base)
        or run.publish()
    )
    after = at.true(run.committed(0))
    refused = refused or run.step("emit", h=0) or run.append(0, at.short(place), 1, d=0)
    return refused or (after, at.true(run.committed(0)))


@closure.contract("CORRECTION", "the correction's own append is what the specification accepts")
def correction_is_appended_where_rows_end(c: Closure) -> Iterator[Finding]:
    """The correction's own append is what the specification accepts."""
    s = c.rejected_suffix
    found = replay_drafts(s)
    place = "/rejected_suffix/correction_row/position"
    if isinstance(found, Refusal):
        refused = f"{s.correction_row.position}, refused with {found.code}"
        yield Finding(place, f"{s.committed_after_verification}, the next row", refused)
    else:
        names = ("committed_after_verification", "committed_after_repair")
        for name, expected in zip(names, found, strict=True):
            yield from differs(f"/rejected_suffix/{name}", expected, getattr(s, name))
