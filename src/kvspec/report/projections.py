"""The page of projections: which fact stands where, what commutes, and what no adapter can tell apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kvspec.properties.projection_suite import Told
from kvspec.properties.projections import Collapse, Difference, Sight
from kvspec.report.tables import markdown_table, text_table
from kvspec.spec.documents.projections_record import Fact, Projections, architectures
from kvspec.spec.projections import NAMES, STATUSES
from kvspec.spec.runtimes.dimensions import DIMENSIONS, FAMILIES, LAYOUTS

_DIMENSION = {variable.name: name for name, variable in NAMES.items()}
_INTRO = """# Four runtimes and the canonical lifecycle

Made by `kvspec projections --markdown docs/projections.md`; a test keeps it current.

What four runtimes say of a request and its cache, at one release each, and where they say nothing. The
runtimes are models in `spec/runtimes/` of what the pinned sources say; none was run, and none is ranked: a
status says what kind of evidence there is, not how good a runtime is. `kvspec pins FOLDER` tells whether
sources at hand are those that are meant."""


def page(document: Projections, told: Sequence[Told]) -> str:
    """The whole page."""
    parts = (
        _INTRO,
        "## Statuses",
        markdown_table(("Status", "What it says"), [(f"`{n}`", m) for n, m in STATUSES.items()]),
        "## Facts",
        _facts(),
        *_notes(),
        "## What each step does",
        (
            "The operation of the canonical lifecycle that a step stands for (`or`: one of them), and what "
            "the step moves in each plane. A family without a row is one of which the runtime has nothing."
        ),
        *_families(),
        "## What commutes",
        (
            "A runtime and the canonical lifecycle run side by side through every step of a small "
            "instance. A claimed coordinate (direct or derived) must agree after each, where it is known. "
            "A comparison is one coordinate of one handle after one transition. Steps beyond four "
            "snapshots or one generation are left out."
        ),
        _verdicts(told),
        "## Where a near correspondence parts from the fact",
        _differences(each for each in told if each.role == "view"),
        "## What no adapter can tell apart",
        (
            "Two runs, the shortest there are, after which a runtime looks the same through its whole "
            "projection, and the canonical vectors differ in the coordinate. The remedy is a field that a "
            "wrapper owns."
        ),
        *_collapses(told),
        "## What is believed, and its shortest refutation",
        _believed(told),
        "## The remedy",
        (
            "Three counters that a wrapper owns (generation, snapshot, committed rows), written at steps "
            "that the runtime has anyway, make each projection total: no two states collapse. Around "
            "Transformers the wrapper also notes which request holds a row, and knows the token ids. That "
            "each is then a refinement of the canonical lifecycle is proved for all sizes, by `kvspec "
            "prove vllm_receipts` and likewise for the others."
        ),
        "## The canonical run",
        _run(document),
    )
    return "\n\n".join(parts) + "\n"


def text(told: Sequence[Told]) -> str:
    """The verdicts for a terminal."""
    rows = [(t.verdict, t.role, *_figures(t), _outcome(t)) for t in told]
    head = ("", "role", "projection", "pairs", "transitions", "comparisons", "outcome")
    return text_table(head, rows, right=(3, 4, 5))


def data(told: Sequence[Told]) -> list[dict[str, Any]]:
    """The same for a program, with runs."""
    return [
        {
            "projection": t.found.projection.name,
            "role": t.role,
            "instance": f"{t.found.instance.system.name}/{t.found.instance.name}",
            "verdict": t.verdict,
            "commutes": t.found.verdict,
            "reason": t.found.reason,
            "pairs": t.found.pairs,
            "transitions": t.found.transitions,
            "left": t.found.left,
            "compared": t.found.compared,
            "claimed": list(t.claimed),
            "breaches": list(t.found.breaches),
            "differences": {n: _sight(d.sight, n) for n, d in t.found.differences.items()},
            "collapses": {
                n: [_sight(c.one, n), _sight(c.two, n)] for n, c in t.found.collapses.items()
            },
        }
        for t in told
    ]


def _sight(sight: Sight, coordinate: str) -> dict[str, Any]:
    shown, required = sight.shown[coordinate], sight.required[coordinate]
    return {"run": list(sight.run), "shown": list(shown), "required": list(required)}


def _fact(fact: Fact) -> str:
    where = f": {fact.source}" if fact.source else f" ({fact.owner})"
    return f"`{fact.status}`{where}"


def _facts() -> str:
    found = architectures()
    head = ("Dimension", *(f"{a.name} {a.release}" for a in found))
    layout = ("*layout*", *(f"*{LAYOUTS[a.name]}*" for a in found))
    rows = [
        (f"{name.replace('_', ' ')}: {meaning}", *(_fact(a.facts[n]) for a in found))
        for n, (name, meaning) in enumerate(DIMENSIONS.items())
    ]
    return markdown_table(head, (layout, *rows))


def _notes() -> Iterable[str]:
    for a in architectures():
        notes = [f"- {f.dimension.replace('_', ' ')}: {f.note}" for f in a.facts if f.note]
        yield f"Notes on {a.name}:\n\n" + "\n".join(notes)


def _families() -> Iterable[str]:
    for a in architectures():
        rows = [
            (
                f"{family.family}: {FAMILIES[family.family]}" if k == 0 else "",
                f"`{o.call}`",
                " or ".join(f"`{name}`" for name in o.canonical) or "none",
                ", ".join(name.replace("_", " ") for name in o.semantic) or "nothing",
                ", ".join(name.replace("_", " ") for name in o.physical) or "nothing",
            )
            for family in a.families
            for k, o in enumerate(family.operations)
        ]
        head = ("Family", "Step", "Stands for", "Moves of the request", "Moves of memory")
        yield f"### {a.name}"
        yield markdown_table(head, rows)


def _figures(t: Told) -> tuple[str, str, str, str]:
    found = t.found
    compared = sum(found.compared[name] for name in t.claimed)
    return (found.projection.name, f"{found.pairs:,}", f"{found.transitions:,}", f"{compared:,}")


def _outcome(t: Told) -> str:
    if t.role == "believed":
        return f"fails in {_names(t.found.breaches)}"
    if not t.claimed:
        return "claims nothing"
    claimed = "all" if len(t.claimed) == len(t.found.projection.seen) else _names(t.claimed)
    return f"{t.found.verdict}: {claimed}"


def _names(coordinates: Iterable[str]) -> str:
    return ", ".join(_DIMENSION[name].replace("_", " ") for name in coordinates)


def _verdicts(told: Sequence[Told]) -> str:
    rows = [(*_figures(t), f"{t.found.left:,}", _outcome(t)) for t in told if t.role != "believed"]
    head = ("Projection", "Pairs", "Transitions", "Comparisons", "Left out", "Verdict and claims")
    return markdown_table(head, rows, right=(1, 2, 3, 4))


def _steps(sight: Sight) -> str:
    return ", ".join(f"`{step}`" for step in sight.run) or "the start"


def _apart(difference: Difference) -> tuple[str, str, str]:
    sight, name = difference.sight, difference.coordinate
    return _steps(sight), ", ".join(sight.shown[name]), ", ".join(sight.required[name])


def _differences(told: Iterable[Told]) -> str:
    rows = []
    for t in told:
        for name, seen in t.found.projection.seen.items():
            if seen.fact.status != "near_correspondence":
                continue
            first = (t.found.projection.name, _names([name]), seen.fact.source)
            difference = t.found.differences.get(name)
            apart = _apart(difference) if difference else ("never in this model", "", "")
            rows.append((*first, *apart))
    head = ("Runtime", "Dimension", "Source", "Shortest run", "Shown", "Fact")
    return markdown_table(head, rows)


def _collapses(told: Iterable[Told]) -> Iterable[str]:
    for t in told:
        if t.role == "view":
            yield f"### {t.found.projection.name}"
            head = ("Dimension", "One run", "There", "The other run", "There")
            rows = [_collapse(name, c) for name, c in t.found.collapses.items()]
            yield markdown_table(head, rows)


def _collapse(name: str, c: Collapse) -> tuple[str, ...]:
    one, two = ", ".join(c.one.required[name]), ", ".join(c.two.required[name])
    return (_names([name]), _steps(c.one), one, _steps(c.two), two)


def _believed(told: Iterable[Told]) -> str:
    rows = []
    for t in told:
        if t.role == "believed":
            where = t.found.differences[t.fails_in]
            rows.append((t.found.projection.doc, _names([t.fails_in]), *_apart(where)))
    return markdown_table(("Belief", "Fails in", "Shortest run", "Shown", "Fact"), rows)


def _run(document: Projections) -> str:
    rows = [
        (f"`{r.operation}`", f"{r.snapshot}", f"{r.outputs}", f"{r.committed}", r.phase)
        for r in document.lifecycle
    ]
    head = ("Operation", "Snapshot", "O", "K", "Phase")
    return (
        f"A prompt of {document.prompt_tokens} tokens, replayed on the canonical lifecycle.\n\n"
        f"{markdown_table(head, rows, right=(1, 2, 3))}"
    )
