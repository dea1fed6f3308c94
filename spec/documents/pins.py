"""Source pins: which files of which release the models of runtimes speak of, by SHA-256.

A path is given from the project's own folder on, as in a wheel (`vllm/v1/request.py`), or from the top of
the checkout for what no wheel has (`docs/...`). The pins on record are `spec/runtimes/pins.json`; a document
of this kind that differs from them is of other sources.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import attrs

from kvspec.spec import runtimes
from kvspec.spec.documents.cache_abi import DIGEST_FORM, have_digest_form
from kvspec.spec.documents.canonical import digest
from kvspec.spec.documents.contracts import DocumentKind, Finding, differs, named, requires

PROJECTS: Final = ("transformers", "vllm", "sglang", "tensorrt_llm")
_RECORD: Final = Path(runtimes.__file__).with_name("pins.json")
_HEX: Final = re.compile(r"[0-9a-f]+")
_RELEASE: Final = re.compile(r"v[0-9]+(\.[0-9]+)+")


@attrs.frozen
class PinnedFile:
    """A file of a release. path: with `/`. sha256: of its bytes."""

    path: str
    sha256: str


@attrs.frozen
class PinnedProject:
    """A release of a project and the files of it that were compared."""

    project: str
    release: str
    commit: str
    files: tuple[PinnedFile, ...]


@attrs.frozen
class Pins:
    """Every project, and the day on which the releases were looked at."""

    checked_on: str
    projects: tuple[PinnedProject, ...]


pins = DocumentKind("pins", Pins, "Which source files of which releases are meant, by digest.")


@lru_cache(maxsize=1)
def pins_on_record() -> Pins:
    """The pins that come with the specification."""
    data: dict[str, Any] = json.loads(_RECORD.read_text(encoding="utf-8"))
    found = tuple(
        PinnedProject(
            p["project"],
            p["release"],
            p["commit"],
            tuple(PinnedFile(f["path"], f["sha256"]) for f in p["files"]),
        )
        for p in data["projects"]
    )
    return Pins(data["checked_on"], found)


@lru_cache(maxsize=1)
def record_digest() -> str:
    """SHA-256 of the pins on record, in canonical form."""
    return digest(pins_on_record())


def pinned(project: str) -> PinnedProject | None:
    """The pins on record of a project, or None if there are none."""
    return next((p for p in pins_on_record().projects if p.project == project), None)


@pins.contract("PROJECTS", "the four projects are there, each once, in order")
def projects_listed(found: Pins) -> Iterator[Finding]:
    """One entry for each runtime."""
    yield from named("/projects", PROJECTS, (p.project for p in found.projects))


@pins.contract("RELEASE_FORM", "a release is a version tag such as v1.2.1, and no branch")
def releases_are_versions(found: Pins) -> Iterator[Finding]:
    """A branch moves on, and a pin to it pins nothing."""
    for n, p in enumerate(found.projects):
        path = f"/projects/{n}/release"
        yield from requires(_RELEASE.fullmatch(p.release), path, "a version tag", p.release)


@pins.contract("COMMIT_FORM", "a commit is 40 lower-case hexadecimal digits")
def commits_are_whole(found: Pins) -> Iterator[Finding]:
    """A shortened commit can become ambiguous."""
    for n, p in enumerate(found.projects):
        is_whole = len(p.commit) == 40 and _HEX.fullmatch(p.commit)
        yield from requires(is_whole, f"/projects/{n}/commit", "40 hexadecimal digits", p.commit)


@pins.contract("DIGEST_FORM", DIGEST_FORM)
def digests_are_whole(found: Pins) -> Iterator[Finding]:
    """SHA-256 has 256 bits."""
    yield from have_digest_form(
        {
            f"/projects/{n}/files/{m}/sha256": file.sha256
            for n, p in enumerate(found.projects)
            for m, file in enumerate(p.files)
        }
    )


@pins.contract("PATHS", "the files of a project are named by relative paths, each once")
def paths_are_relative(found: Pins) -> Iterator[Finding]:
    """A path must not lead out of the release."""
    for n, p in enumerate(found.projects):
        names = [file.path for file in p.files]
        yield from requires(names, f"/projects/{n}/files", "a file at least", names)
        for m, name in enumerate(names):
            steps = name.split("/")
            is_good = all(s not in ("", ".", "..") for s in steps) and name not in names[:m]
            yield from requires(is_good, f"/projects/{n}/files/{m}/path", "a path of its own", name)


@pins.contract("ON_RECORD", "the pins are those of which the models of the runtimes speak")
def pins_are_those_on_record(found: Pins) -> Iterator[Finding]:
    """The record is `spec/runtimes/pins.json`."""
    wanted = pins_on_record()
    yield from differs("/checked_on", wanted.checked_on, found.checked_on)
    for n, (one, two) in enumerate(zip(wanted.projects, found.projects, strict=True)):
        for name in ("release", "commit", "files"):
            yield from differs(f"/projects/{n}/{name}", getattr(one, name), getattr(two, name))
