"""Source pins against files: are the releases at hand those of which the specification speaks?

A folder is searched for each pinned path, as the end of a file's path: that finds it in an unpacked wheel
(`vllm/v1/request.py`), in an sdist and in a checkout (`python/sglang/srt/...`). Documents under `docs/` are
looked for only beside other files of the same release, since many projects have a file of such a name.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import attrs

from kvspec.spec.documents.pins import PinnedProject, Pins

_SKIPPED: Final = {".git", "__pycache__"}
_DOCUMENTS: Final = "docs/"


@attrs.frozen
class PinResult:
    """One pin. status: `holds`, `differs` or `not found`. found: the digest, empty if there is no file.

    where: the file, from the folder searched; of several with the path, one that holds if there is one.
    """

    path: str
    status: str
    expected: str
    found: str = ""
    where: str = ""


@attrs.frozen
class ReleaseResult:
    """The pins of one release."""

    project: str
    release: str
    commit: str
    pins: tuple[PinResult, ...]

    @property
    def at_hand(self) -> bool:
        """Some file of the release was found."""
        return any(pin.status != "not found" for pin in self.pins)

    @property
    def verdict(self) -> str:
        """`violated` if a file differs, `holds` if every file is there and none does, else `unknown`."""
        found = {pin.status for pin in self.pins}
        if "differs" in found:
            return "violated"
        return "holds" if found == {"holds"} else "unknown"


def check_pins(pins: Pins, folder: Path) -> list[ReleaseResult]:
    """Hash the pinned files under a folder, release by release."""
    names = {file.path.rpartition("/")[2] for p in pins.projects for file in p.files}
    files = sorted(_files(folder, names))
    return [_release(project, folder, files) for project in pins.projects]


def _files(folder: Path, names: set[str]) -> Iterable[Path]:
    """The files under a folder with one of these names, without following links."""
    for top, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _SKIPPED]
        yield from (Path(top, name) for name in files if name in names)


def _release(project: PinnedProject, folder: Path, files: list[Path]) -> ReleaseResult:
    own: dict[str, list[Path]] = {}
    for file in project.files:
        if not file.path.startswith(_DOCUMENTS):
            own[file.path] = [path for path in files if _ends_with(path, file.path)]
    sources = [path for found in own.values() for path in found]
    for file in project.files:
        if file.path.startswith(_DOCUMENTS):
            found = [path for path in files if _ends_with(path, file.path)]
            own[file.path] = [path for path in found if _is_beside(path, file.path, sources)]
    results = tuple(_pin(file.path, file.sha256, folder, own[file.path]) for file in project.files)
    return ReleaseResult(project.project, project.release, project.commit, results)


def _ends_with(path: Path, end: str) -> bool:
    return path.as_posix().endswith(f"/{end}")


def _is_beside(path: Path, end: str, sources: list[Path]) -> bool:
    """Whether a document is in the same checkout as a source file of the release."""
    top = path.as_posix().removesuffix(end)
    return any(source.as_posix().startswith(top) for source in sources)


def _pin(path: str, expected: str, folder: Path, found: list[Path]) -> PinResult:
    """The result of one pin, of all files that may be it."""
    told = PinResult(path, "not found", expected)
    for file in found:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        where = file.relative_to(folder).as_posix()
        if digest == expected:
            return PinResult(path, "holds", expected, digest, where)
        told = PinResult(path, "differs", expected, digest, where)
    return told
