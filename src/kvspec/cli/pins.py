"""`kvspec pins`: are the releases at hand those that the models of runtimes speak of?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from kvspec.cli.errors import UsageError
from kvspec.cli.output import CheckOutput, check_outputs, deliver
from kvspec.cli.verdicts import HOLDS, UNKNOWN, VIOLATED, Answer, Check, worst

if TYPE_CHECKING:
    from kvspec.models.pins import PinResult, ReleaseResult

_VERDICTS = {"holds": HOLDS, "differs": VIOLATED, "not found": UNKNOWN}


def pins(
    folder: Path,
    *,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Hash the pinned source files of the runtimes that are unpacked under a folder.

    A release is at hand if one of its pinned files is found, in an unpacked wheel, an sdist or a checkout.
    Every pin of a release at hand must be found and hold; releases that are not at hand are left out, and
    without any nothing was checked (exit code 3). Nothing is fetched.

    Args:
        folder: where to search, with all folders in it.
        output: how the answer is told.
    """
    from kvspec.models.pins import check_pins
    from kvspec.spec.documents.pins import pins_on_record

    check_outputs(output)
    if not folder.is_dir():
        raise UsageError(
            f"there is no folder {folder}",
            "a file" if folder.exists() else "nothing",
            "a folder with unpacked releases",
            "FOLDER of kvspec pins",
            "unpack a wheel, an sdist or a checkout and name the folder",
        )
    return deliver(answer(check_pins(pins_on_record(), folder.resolve())), output)


def answer(releases: list[ReleaseResult]) -> Answer:
    """What was found, for machines and for people."""
    there = [release for release in releases if release.at_hand]
    verdict = worst(release.verdict for release in there)
    lines = [line for release in releases for line in _lines(release)]
    found = [pin.status for release in there for pin in release.pins]
    ending = f"{found.count('holds')} of {len(found)} pins of {len(there)} releases at hand"
    if not there:
        ending = "no release is at hand, so nothing was checked: unpack one and name its folder"
    data: dict[str, Any] = {
        "verdict": verdict,
        "releases": [
            {**attrs.asdict(r), "at_hand": r.at_hand, "verdict": r.verdict} for r in releases
        ],
    }
    checks = tuple(
        Check(f"pins {r.project} {r.release}", pin.path, _VERDICTS[pin.status], message=_told(pin))
        for r in there
        for pin in r.pins
    )
    return Answer("pins", verdict, data, "\n".join((*lines, "", f"{verdict}: {ending}")), checks)


def _lines(release: ReleaseResult) -> list[str]:
    head = f"{release.project} {release.release}"
    if not release.at_hand:
        return [f"{head}: not at hand ({len(release.pins)} pins)"]
    width = max(len(pin.path) for pin in release.pins)
    pins = [f"  {pin.path:{width}}  {_told(pin)}" for pin in release.pins]
    return [f"{head}: {release.verdict}", *pins]


def _told(pin: PinResult) -> str:
    if pin.status == "differs":
        return f"differs: expected {pin.expected}, found {pin.found} in {pin.where}"
    return pin.status
