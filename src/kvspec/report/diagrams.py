"""Transition diagrams of enumerations as text, Mermaid and Graphviz, from the moves that were found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvspec.report.moves import Move
from kvspec.report.tables import text_table

FORMATS = ("text", "mermaid", "dot")


def labels(moves: Iterable[Move]) -> dict[tuple[str, str], list[str]]:
    """For each pair of members, the steps that lead from the first to the second."""
    pairs: dict[tuple[str, str], dict[str, list[str | None]]] = {}
    for move in moves:
        pair = (move.before, move.after)
        pairs.setdefault(pair, {}).setdefault(move.action, []).append(move.code)
    return {
        pair: [text for name, codes in by.items() for text in _outcomes(name, codes)]
        for pair, by in pairs.items()
    }


def _outcomes(action: str, codes: list[str | None]) -> list[str]:
    """An action that is accepted, and the same one refused."""
    refused = [code for code in codes if code]
    accepted = [action] if None in codes else []
    return accepted + ([f"{action} refused ({', '.join(refused)})"] if refused else [])


def diagram(moves: Sequence[Move], start: Sequence[str], form: str) -> str:
    """The diagram of one variable's moves; `start` are the members that it starts from."""
    return {"text": _text, "mermaid": _mermaid, "dot": _dot}[form](moves, start)


def _text(moves: Sequence[Move], start: Sequence[str]) -> str:
    rows = [("(start)", "", member) for member in start]
    for (before, after), steps in labels(moves).items():
        rows.extend((before, step, after) for step in steps)
    return text_table(("from", "step", "to"), rows)


def _mermaid(moves: Sequence[Move], start: Sequence[str]) -> str:
    lines = ["stateDiagram-v2", *(f"    [*] --> {member}" for member in start)]
    lines.extend(
        f"    {before} --> {after}: {', '.join(steps)}"
        for (before, after), steps in labels(moves).items()
    )
    return "\n".join(lines)


def _dot(moves: Sequence[Move], start: Sequence[str]) -> str:
    name = moves[0].variable if moves else "nothing"
    lines = [f"digraph {name} {{", "    node [shape=box, style=rounded];"]
    lines.append('    start [shape=point, label=""];')
    lines.extend(f"    start -> {member};" for member in start)
    for (before, after), steps in labels(moves).items():
        text = "\\n".join(steps)
        lines.append(f'    {before} -> {after} [label="{text}"];')
    return "\n".join((*lines, "}"))
