"""Pictures of a history: a line for each client, a bar for each operation from its call to its answer.

A dot on a bar is where the operation took effect in the sequence shown; an operation that cannot follow
is marked, and so are the answers of the window. Moments are drawn in their order, at equal distances.
"""

from __future__ import annotations

from html import escape

import attrs

from kvspec.properties.linearizability.explain import answer_text, call_text
from kvspec.properties.linearizability.history import History
from kvspec.properties.linearizability.result import Result

TEXT_MOMENTS = 32
"""Moments that fit on a terminal."""
PICTURE_MOMENTS = 400
_STEP, _ROW, _LEFT, _TOP = 36, 58, 90, 56
_STYLE = """
text { font: 12px ui-monospace, monospace; fill: #1f2328 }
.small { font-size: 10px; fill: #57606a }
.line { stroke: #d0d7de }
.bar { fill: #ddf4ff; stroke: #0969da }
.open { stroke-dasharray: 4 3 }
.window { fill: #fff1e5; stroke: #bc4c00; stroke-width: 2 }
.stuck { fill: #ffebe9; stroke: #cf222e; stroke-width: 2 }
.point { fill: #1a7f37 }
.label { fill: #ffffff; font-size: 9px; text-anchor: middle }
""".strip()


@attrs.frozen
class _Bar:
    """An operation in a picture: places of its call, its answer and its effect, in columns."""

    place: int
    client: int
    begin: int
    end: int
    is_open: bool
    point: float | None
    kind: str


@attrs.frozen
class _Chart:
    """The bars of the moments shown, and how many moments were left out before and after."""

    bars: tuple[_Bar, ...]
    clients: tuple[int, ...]
    columns: int
    before: int
    after: int


def timeline(result: Result, moments: int = TEXT_MOMENTS) -> str:
    """The history as text, around what fails; `[--*--]` is an operation that takes effect at `*`."""
    chart = _chart(result, moments)
    width = 3
    lines = []
    for client in chart.clients:
        row = [" "] * (chart.columns * width + 2)
        for bar in (b for b in chart.bars if b.client == client):
            first, last = bar.begin * width, bar.end * width + 1
            fill = {"stuck": "!", "window": "="}.get(bar.kind, "-")
            row[first : last + 1] = [fill] * (last + 1 - first)
            row[first], row[last] = "[", ">" if bar.is_open else "]"
            label = str(bar.place)
            row[first + 1 : first + 1 + min(len(label), last - first - 1)] = label[
                : last - first - 1
            ]
            if bar.point is not None:
                at = first + 1 + len(label) if last - first > len(label) + 1 else last
                row[max(at, min(last - 1, round(bar.point * width) + 1))] = "*"
        lines.append(f"client {client:<3} {''.join(row).rstrip()}")
    if chart.before or chart.after:
        lines.append(f"({chart.before} moments before and {chart.after} after are left out)")
    lines.append("(* takes effect here in the longest order; = fail together; ! cannot follow)")
    history = result.history
    shown = sorted(bar.place for bar in chart.bars)
    lines.extend(
        f"{place:>4}  {call_text(history.operations[place])}: "
        f"{answer_text(history, history.operations[place])}"
        for place in shown
    )
    return "\n".join(lines)


def svg(result: Result, moments: int = PICTURE_MOMENTS) -> str:
    """The history as a picture in SVG that needs nothing else."""
    chart, history = _chart(result, moments), result.history
    rows = {client: number for number, client in enumerate(chart.clients)}
    width = _LEFT + (chart.columns + 2) * _STEP
    height = _TOP + len(rows) * _ROW + 34
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>',
        f"<title>{escape(_title(result))}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="24">{escape(_title(result))}</text>',
    ]
    for client, row in rows.items():
        y = _TOP + row * _ROW + 26
        out.append(f'<text x="12" y="{y + 4}">client {client}</text>')
        out.append(f'<line class="line" x1="{_LEFT}" y1="{y}" x2="{width - 12}" y2="{y}"/>')
    numbers = {place: number for number, place in enumerate(result.order, 1)}
    for bar in chart.bars:
        out.extend(_bar_svg(history, bar, rows[bar.client], numbers.get(bar.place)))
    left = f"; {chart.before} moments before and {chart.after} after are left out"
    told = "dots: where each takes effect, in order; red: cannot follow; orange: fail together"
    more = left if chart.before or chart.after else ""
    out.append(f'<text class="small" x="12" y="{height - 12}">{told}{more}</text>')
    return "\n".join((*out, "</svg>", ""))


def _bar_svg(history: History, bar: _Bar, row: int, number: int | None) -> list[str]:
    operation = history.operations[bar.place]
    x, y = _LEFT + bar.begin * _STEP, _TOP + row * _ROW + 14
    wide = max((bar.end - bar.begin) * _STEP, 14)
    kind = f"bar {bar.kind}" + (" open" if bar.is_open else "")
    call, answer = call_text(operation), answer_text(history, operation)
    most = max(3, wide // 6)
    found = [
        f"<g><title>{bar.place}: {escape(f'{call}: {answer}')}</title>",
        f'<rect class="{kind}" x="{x}" y="{y}" width="{wide}" height="24" rx="4"/>',
        f'<text class="small" x="{x}" y="{y - 4}">{escape(_short(call, most))}</text>',
        f'<text class="small" x="{x}" y="{y + 36}">{escape(_short(answer, most))}</text>',
    ]
    if bar.point is not None and number is not None:
        at = x + 8 + (bar.point - bar.begin) * _STEP
        at = min(at, x + wide - 6)
        found.append(f'<circle class="point" cx="{at:g}" cy="{y + 12}" r="8"/>')
        found.append(f'<text class="label" x="{at:g}" y="{y + 15}">{number}</text>')
    return [*found, "</g>"]


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _title(result: Result) -> str:
    count = len(result.history.operations)
    told = {"holds": "linearizable", "violated": "not linearizable", "unknown": "unknown"}
    return f"{count} operations on {result.history.instance.system.name}: {told[result.verdict]}"


def _chart(result: Result, moments: int) -> _Chart:
    """The bars around what fails, or from the beginning."""
    operations = result.history.operations
    ticks = sorted(
        {tick for o in operations for tick in (o.invoked, o.returned) if tick is not None}
    )
    column = {tick: number for number, tick in enumerate(ticks)}
    stuck = {each.place for each in result.stuck}
    window = set(result.window.operations) if result.window else set()
    low, high = _shown(result, column, stuck | window, moments)
    points = _points(result, column)
    bars = []
    for place, operation in enumerate(operations):
        begin = column[operation.invoked]
        end = len(ticks) if operation.returned is None else column[operation.returned]
        if begin < high and end >= low:
            kind = "stuck" if place in stuck else "window" if place in window else ""
            point = points.get(place)
            bars.append(
                _Bar(
                    place,
                    operation.client,
                    max(begin, low) - low,
                    min(end, high) - low,
                    operation.returned is None or end > high,
                    None if point is None else max(point - low, 0.0),
                    kind,
                )
            )
    clients = tuple(sorted({bar.client for bar in bars}))
    return _Chart(tuple(bars), clients, high - low + 1, low, max(0, len(ticks) - high))


def _shown(
    result: Result, column: dict[int, int], marked: set[int], moments: int
) -> tuple[int, int]:
    """The first column shown, and the one after the last."""
    count = len(column)
    if count <= moments or not marked:
        return 0, min(count, moments)
    operations = result.history.operations
    ends = [column.get(operations[p].returned or -1, count) for p in marked]
    high = min(count, max(ends) + 2)
    return max(0, high - moments), high


def _points(result: Result, column: dict[int, int]) -> dict[int, float]:
    """Where each operation of the sequence takes effect: at the last call of those up to it."""
    found: dict[int, float] = {}
    moment, since = -1, 0
    for place in result.order:
        begin = column[result.history.operations[place].invoked]
        moment, since = (begin, 0) if begin > moment else (moment, since + 1)
        found[place] = moment + min(since, 9) / 10
    return found
