"""The generated parts of a Markdown file: made anew between their markers, and compared.

A part stands between `<!-- kvspec NAME -->` and `<!-- end NAME -->`. Parts of `FIXED` follow from the
specification alone; those of `MEASURED` hold times as well, and need the results of `kvspec verify`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvspec.report.moves import Move

FIXED = ("phases", "appends", "service", "picture", "figures")
MEASURED = ("summary", "results", "claims")
_PART = re.compile(r"<!-- kvspec (\w+) -->\n(.*?)<!-- end \1 -->", re.DOTALL)


class PartsError(ValueError):
    """A file has no parts, or one that nobody makes."""


def parts_of(text: str) -> dict[str, str]:
    """The parts of a file, as they are."""
    found: dict[str, str] = dict(_PART.findall(text))
    unknown = [name for name in found if name not in FIXED + MEASURED]
    if unknown or not found:
        raise PartsError(
            f"found {', '.join(unknown) or 'no part'}, expected parts named "
            f"{', '.join(FIXED + MEASURED)}, each as `<!-- kvspec NAME -->` to `<!-- end NAME -->`"
        )
    return found


def regenerate(text: str, results: Mapping[str, Any] | None) -> str:
    """The text with its parts made anew; measured parts stay if there are no results."""
    names = parts_of(text)
    made = {name: make_part(name, results) for name in names if results or name in FIXED}

    def put(hit: re.Match[str]) -> str:
        name = hit.group(1)
        body = made.get(name)
        whole: str = hit.group(0)
        return whole if body is None else f"<!-- kvspec {name} -->\n{body}<!-- end {name} -->"

    return _PART.sub(put, text)


def outdated(path: Path) -> list[str]:
    """The parts of a file that are not what the specification gives now; `differences` tells more."""
    return list(differences(path))


def differences(path: Path) -> dict[str, list[str]]:
    """For each part that is not current, what is wrong in it; `UNCHECKED` is not looked at."""
    from kvspec.report.measured import wrong_cells

    found = parts_of(path.read_text(encoding="utf-8"))
    wrong = {
        name: ["not what the specification gives"]
        for name in FIXED
        if name in found and found[name] != make_part(name, None)
    }
    for name in MEASURED:
        if name in found and (cells := wrong_cells(name, found[name])):
            wrong[name] = cells
    return wrong


def make_part(name: str, results: Mapping[str, Any] | None) -> str:
    """The text of a part, which begins and ends with an empty line."""
    if name in ("phases", "appends"):
        variable = {"phases": "phase", "appends": "state"}[name]
        return f"\n```mermaid\n{core_diagram(variable, 'mermaid')}\n```\n\n"
    if name == "service":
        return f"\n```mermaid\n{service_diagram('mermaid')}\n```\n\n"
    if name == "figures":
        from kvspec.report.figures import figure_markdown

        return f"\n{figure_markdown()}\n\n"
    if name == "picture":
        from kvspec.report.pictures import publication_picture

        return f"\n```text\n{publication_picture().rstrip()}\n```\n\n"
    if results is None:
        raise PartsError(f"the part {name} needs the results of kvspec verify")
    if name == "summary":
        from kvspec.report.results import summary_markdown

        return f"\n{summary_markdown(results['results'])}\n\n"
    if name == "results":
        from kvspec.report.results import result_markdown

        return f"\n{result_markdown(results['results'])}\n\n"
    from kvspec.report.claims import claim_markdown

    return f"\n{claim_markdown(results['results'])}\n\n"


def service_diagram(form: str) -> str:
    """The transition diagram of the service phases."""
    from kvspec.report.diagrams import diagram

    return diagram(service_moves(), ["NO_REQUEST"], form)


def service_moves() -> list[Move]:
    """The moves of the service phase of a request, on instances on which all of them happen."""
    from kvspec.report.moves import projected_moves
    from kvspec.spec.handles import Handle
    from kvspec.spec.serving import make_instance, service_phase

    drawn = [
        make_instance("LONG", "an append of two rows", layers=0),
        make_instance("FORKS", "two requests of a row", handles=2, longest=1, versions=1, layers=0),
        make_instance("PAIRS", "two appends of a row", txns=2, longest=1, layers=0),
    ]
    return projected_moves(drawn, "service_phase", Handle, service_phase)


def core_diagram(variable: str, form: str) -> str:
    """The transition diagram of one variable of the core system."""
    from kvspec.report.diagrams import diagram
    from kvspec.report.moves import instances_to_draw, moves_of, starts
    from kvspec.spec import core

    drawn = instances_to_draw(core.system, ())
    moves = [move for move in moves_of(drawn) if move.variable == variable]
    return diagram(moves, starts(drawn[-1], variable), form)
