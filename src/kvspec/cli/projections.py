"""`kvspec projections`: what runtimes say of the canonical lifecycle, checked step by step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kvspec.cli.output import CheckOutput, check_outputs, check_writable, deliver
from kvspec.cli.verdicts import Answer, Check, worst

if TYPE_CHECKING:
    from kvspec.properties.projection_suite import Told


def projections(
    *,
    markdown: Path | None = None,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Run the model of each runtime beside the canonical lifecycle, and compare after every step.

    What a runtime claims must commute; with a wrapper's receipts everything must. Each mistaken projection
    must fail. With --json, the shortest runs are told that a projection cannot tell apart.

    Args:
        markdown: write all of it to this file as a page.
        output: how the answer is told.
    """
    from kvspec.properties.projection_suite import suite

    check_outputs(output)
    check_writable(markdown, "--markdown of kvspec projections")
    told = list(suite())
    if markdown is not None:
        markdown.write_text(page(told), encoding="utf-8")
    return deliver(answer(told, markdown), output)


def page(told: list[Told]) -> str:
    """The page, with the canonical run of the comparison on file."""
    from kvspec.counterexamples.negative_cases import load_document
    from kvspec.models.documents import convert
    from kvspec.properties.documents import find_kind
    from kvspec.report import projections as report

    document = convert(find_kind("projections"), load_document("projections"), "projections.json")
    return report.page(document, told)


def answer(told: list[Told], markdown: Path | None = None) -> Answer:
    """The verdicts, for machines and for people."""
    from kvspec.report import projections as report

    verdict = worst(t.verdict for t in told)
    wrong = sum(t.role == "believed" for t in told)
    text = (
        f"{report.text(told)}\n\n{verdict}: {len(told)} projections; a believed one holds if it is "
        f"refuted, as {wrong} must be; one that claims nothing is compared in nothing"
    )
    if markdown is not None:
        text += f"\nwrote {markdown}"
    checks = tuple(
        Check(f"projections {t.role}", t.found.projection.name, t.verdict, message=t.found.reason)
        for t in told
    )
    data = {"verdict": verdict, "projections": report.data(told)}
    return Answer("projections", verdict, data, text, checks)
