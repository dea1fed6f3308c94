"""`kvspec bench linearize`: how many histories a second are judged, shape by shape."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from kvspec.cli.verdicts import HOLDS, UNKNOWN, VIOLATED, Answer
from kvspec.models.explicit.linearizer import Limits
from kvspec.properties.linearizability.check import Checker
from kvspec.properties.linearizability.generate import Generator, Shape

SHAPES = (
    (Shape(4, 20), 100),
    (Shape(8, 20), 60),
    (Shape(8, 100), 10),
    (Shape(8, 100, 4), 20),
    (Shape(16, 10), 20),
)
"""Shapes of histories, and how many of each."""
SECONDS = 10.0
"""The most that one history may take."""


def bench_linearize() -> Answer:
    """Judge generated histories; every other one has a value of one read falsified."""
    from kvspec.report.tables import text_table

    found = [measure(shape, count) for shape, count in SHAPES]
    wrong = sum(each["wrong"] for each in found)
    unknown = sum(each["verdicts"][UNKNOWN] for each in found)
    verdict = VIOLATED if wrong else UNKNOWN if unknown else HOLDS
    rows = [
        (
            each["shape"],
            f"{each['histories']}",
            f"{each['verdicts'][HOLDS]} / {each['verdicts'][VIOLATED]} / {each['verdicts'][UNKNOWN]}",
            f"{each['searched_per_second']:,.0f}",
            f"{each['checked_per_second']:,.0f}",
            f"{each['configurations']:,.0f}",
            f"{each['prepare_seconds']:.2f} s",
        )
        for each in found
    ]
    head = (
        "clients x operations",
        "histories",
        "holds / violated / unknown",
        "searched a second",
        "with packing",
        "configurations each",
        "prepared once in",
    )
    told = {
        HOLDS: "no history that the specification made is called violated",
        VIOLATED: f"{wrong} histories that the specification made are called violated",
        UNKNOWN: f"{unknown} histories are not judged within {SECONDS:g} s each",
    }
    text = f"{text_table(head, rows, right=(1, 3, 4, 5, 6))}\n\n{verdict}: {told[verdict]}"
    return Answer("bench", verdict, {"verdict": verdict, "shapes": found}, text)


def measure(shape: Shape, count: int, seed: int = 7) -> dict[str, Any]:
    """Histories of one shape, judged one after the other.

    Preparation is apart: compiling the step, and what the trees say of each kind of operation.
    """
    generator = Generator(shape, seed)
    made = [generator.history() if n % 2 else generator.corrupted() for n in range(count)]
    start = perf_counter()
    checker = Checker(generator.instance)
    for _ in range(2):  # the second time, no history brings a kind of operation that is new
        packed = [checker.pack(history) for history in made]
    checker.decide(packed[0], Limits(seconds=SECONDS))
    prepared = perf_counter() - start
    start = perf_counter()
    packed = [checker.pack(history) for history in made]
    packing = perf_counter() - start
    start = perf_counter()
    found = [checker.decide(each, Limits(seconds=SECONDS), order=False) for each in packed]
    searching = perf_counter() - start
    verdicts = dict.fromkeys((HOLDS, VIOLATED, UNKNOWN), 0)
    for each in found:
        verdicts[each.verdict] += 1
    return {
        "shape": str(shape),
        "histories": count,
        "verdicts": verdicts,
        "wrong": sum(each.verdict == VIOLATED for each in found[1::2]),
        "configurations": sum(each.nodes for each in found) / count,
        "searched_per_second": count / searching,
        "checked_per_second": count / (searching + packing),
        "prepare_seconds": prepared,
    }
