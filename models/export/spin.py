"""Spin on an instance: exhaustive, without partial-order reduction, and told in our figures.

Spin stores full state vectors (no hashing that loses states, no collapse), so its count of states
is exact. It prints one transition more than ours, since it counts the initial state as one. Two of
Spin's optimizations have to be off: it drops variables that are written and never read (`-o2`), and
then two states which differ in nothing else are one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Timer
from time import perf_counter

import attrs

from kvspec.models.export.promela import Model, build
from kvspec.spec.language import Instance, Property

_FIGURES = {
    "stored": r"^\s*(\S+) states, stored",
    "transitions": r"^\s*(\S+) transitions \(= ",
    "depth": r"depth reached (\S+), errors",
    "errors": r"errors: (\d+)",
    "vector": r"State-vector (\d+) byte",
}
_CUT_SHORT = re.compile(
    r"max search depth too small|reached -DMEMLIM bound|out of memory|cannot allocate"
    r"|VECTORSZ|Search not completed",
)
_STEP = re.compile(r"^\s*(\d+):\s+proc\s+\d+ \(\w+:\d+\) [^:\s]+:(\d+) \(state ")
_FAILED = re.compile(r"^spin: [^:\s]+:(\d+), Error: assertion violated", re.MULTILINE)


class SpinError(Exception):
    """Spin or the C compiler is missing, refused its input, or did not finish."""


@attrs.frozen
class SpinResult:
    """What Spin found, in the figures of the explicit engine.

    states, transitions, depth: as the instance's `expected` counts them. stored, printed: states
    and transitions as Spin prints them (see `Model.before` and `Model.first`; of the transitions
    one is Spin's initial state). seconds_cpu: of the search alone. violated: the claim that failed
    (`deadlock` for an `end` property). trail: the steps that lead there, as `show_event` writes
    them. After a violation the figures are those of the search so far.
    """

    states: int
    transitions: int
    depth: int
    seconds_cpu: float
    errors: int
    trail: tuple[str, ...]
    violated: str | None
    stored: int
    printed: int
    vector_bytes: int
    memory_bytes: int
    seconds_compile: float


def spin_absent() -> str | None:
    """Why Spin cannot be run here, or None if it can."""
    for program, package in (("spin", "spin"), ("gcc", "gcc")):
        if shutil.which(program) is None:
            return f"{program} is not on the path: install it (Debian: apt-get install {package})"
    return None


def run_spin(
    instance: Instance,
    *,
    bfs: bool = True,
    properties: Iterable[Property] = (),
    variant: int = 0,
    memory_mb: int = 16_384,
    depth_at_most: int = 10_000_000,
    seconds: float | None = None,
    optimize: int = 2,
) -> SpinResult:
    """Spin's exhaustive search of the instance, with the claims in `properties` asserted.

    bfs: breadth first, which gives shortest trails and our depth; else depth first, with a stack of
    at most `depth_at_most`. seconds: of wall time for the search. optimize: gcc's level; 0 compiles
    fastest and searches slowest. Raises SpinError when Spin or gcc is absent, refuses the model, or
    does not finish: a search cut short counts nothing.
    """
    absent = spin_absent()
    if absent is not None:
        raise SpinError(f"{absent}; expected spin and gcc, to search {instance!r}")
    model = build(instance, properties, variant=variant)
    with tempfile.TemporaryDirectory(prefix="kvspec-spin-") as folder:
        work = Path(folder)
        (work / "model.pml").write_text(model.text, encoding="utf-8")
        compiled = _compile(work, [f"-O{optimize}", *(["-DBFS"] if bfs else [])], memory_mb)
        command = ["./pan", "-n", "-E", "-w24", *([] if bfs else [f"-m{depth_at_most}"])]
        output, cpu, memory = _measure(command, work, seconds)
        return _result(model, output, (cpu, compiled, memory), work)


def bench_spin() -> SpinResult:
    """Spin, breadth first, on row 2,2,2,3,4 of the peer model: the figure that ours is held against."""
    from kvspec.spec.examples.peer import ROWS

    return run_spin(ROWS["2,2,2,3,4"])


def _compile(work: Path, flags: Sequence[str], memory_mb: int) -> float:
    """Make the search; seconds of wall time that it took."""
    start = perf_counter()
    _call(["spin", "-o1", "-o2", "-a", "model.pml"], work)
    search = work / "pan.c"  # prints 8 digits of a count and rounds the rest: have it print all
    text = search.read_text(encoding="utf-8").replace("%9.8g", "%.0f")
    search.write_text(text, encoding="utf-8")
    exact = ("-DSAFETY", "-DNOREDUCE", "-DNOCLAIM", "-DVECTORSZ=8192", f"-DMEMLIM={memory_mb}")
    _call(["gcc", "-w", *exact, *flags, "-o", "pan", "pan.c"], work)
    return perf_counter() - start


def _call(command: Sequence[str], work: Path) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(command, cwd=work, check=False, capture_output=True, text=True)  # noqa: S603
    said = f"{done.stdout}\n{done.stderr}".strip()
    if done.returncode != 0 or "syntax error" in said:
        raise SpinError(
            f"`{' '.join(command)}` ended with {done.returncode}, expected 0; it said: "
            f"{said[-2000:] or 'nothing'}: this is a fault of the export, please report it"
        )
    return said


def _measure(command: Sequence[str], work: Path, seconds: float | None) -> tuple[str, float, int]:
    """Output, seconds of CPU and bytes of memory of a command, from the system's own account."""
    log = work / "search.txt"
    with log.open("w", encoding="utf-8") as sink:
        search = subprocess.Popen(command, cwd=work, stdout=sink, stderr=subprocess.STDOUT)  # noqa: S603
        timer = Timer(seconds, search.kill) if seconds is not None else None
        if timer is not None:
            timer.start()
        _, status, usage = os.wait4(search.pid, 0)
        search.returncode = os.waitstatus_to_exitcode(status)
        if timer is not None:
            timer.cancel()
    output = log.read_text(encoding="utf-8")
    if search.returncode < 0:
        raise SpinError(
            f"Spin's search was ended by signal {-search.returncode} before it was complete (limit: "
            f"{seconds} s); it said: {output[-500:] or 'nothing'}: give it more time or a smaller instance"
        )
    return output, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def _result(model: Model, output: str, spent: tuple[float, float, int], work: Path) -> SpinResult:
    """Spin's figures, less what choosing initial values adds to them."""
    found: dict[str, int] = {}
    for name, pattern in _FIGURES.items():
        hit = re.search(pattern, output, re.MULTILINE)
        if hit is None:
            raise SpinError(f"no {name} in Spin's answer, expected /{pattern}/; it said: {output}")
        found[name] = int(float(hit.group(1)))
    cut = _CUT_SHORT.search(output)
    if cut and not found["errors"]:
        raise SpinError(
            f"Spin's search is not complete ({cut.group()}), after {found['stored']} states: give "
            "it more memory or depth, or a smaller instance"
        )
    violated, trail = _trail(model, work) if found["errors"] else (None, ())
    return SpinResult(
        states=found["stored"] - model.before,
        transitions=found["transitions"] - 1 - model.first,
        depth=max(0, found["depth"] - len(model.choices)),
        seconds_cpu=spent[0],
        errors=found["errors"],
        trail=trail,
        violated=violated,
        stored=found["stored"],
        printed=found["transitions"],
        vector_bytes=found["vector"],
        memory_bytes=spent[2],
        seconds_compile=spent[1],
    )


def _trail(model: Model, work: Path) -> tuple[str | None, tuple[str, ...]]:
    """The claim that failed and the steps before, read from Spin's replay of its trail."""
    said = _call(["spin", "-t", "-p", "model.pml"], work)
    steps: dict[int, str] = {}
    for line in said.splitlines():
        hit = _STEP.match(line)
        if hit and int(hit.group(2)) in model.labels:
            steps[int(hit.group(1))] = model.labels[int(hit.group(2))]
    failed = _FAILED.search(said)
    return (model.claims.get(int(failed.group(1))) if failed else None), tuple(steps.values())
