"""Planted faults are found in histories that a faulty cache made (C5)."""

import re
from pathlib import Path

import attrs
import pytest

from kvspec.counterexamples.history_files import parse_history
from kvspec.models.concrete.compiled import CUT, Cells
from kvspec.properties.linearizability import Operation, Read, Told
from kvspec.properties.linearizability.check import HOLDS, VIOLATED, Checker
from kvspec.properties.linearizability.generate import Generator, Shape
from kvspec.properties.linearizability.result import check

SHAPE = Shape(3, 8)
SEEDS = range(24)
DOCUMENT = Path(__file__).parents[3] / "docs" / "linearizability.md"


class Prepared(Generator):
    """Clients that each have an append prepared, all on the same snapshot, when the history begins."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        super().__init__(shape, seed)
        cells, steps = self.compiled.flatten(self.start), self.compiled.steps
        for client in range(shape.clients):
            steps["begin"](cells, client, 0, 0, 0, 0, 1)
            for layer in range(self.instance.sizes["Layer"]):
                steps["stage_k"](cells, client, layer, 0)
                steps["stage_v"](cells, client, layer, 0)
            steps["prepare"](cells, client)
        self.start = self.compiled.restore(cells)


class Torn(Prepared):
    """A cache of which some actions take two moments: they decide in the first, write in the second.

    now: the share of their writes that they do in the first moment already.
    """

    actions: tuple[str, ...] = ()
    now = 0.0

    def _take(self, operation: Operation, cells: Cells) -> Operation | None:
        call = operation.call
        if isinstance(call, Read) or call.action not in self.actions:
            return super()._take(operation, cells)
        begun = self.__dict__.setdefault("begun", {})
        if operation.client not in begun:
            after = list(cells)
            code = self.compiled.steps[call.action](after, *(value for _, value in call.values))
            if code == CUT:
                return None
            writes = [n for n, value in enumerate(after) if value != cells[n]]
            early = round(len(writes) * self.now)
            for place in writes[:early]:
                cells[place] = after[place]
            begun[operation.client] = code, {place: after[place] for place in writes[early:]}
            return operation
        code, late = begun.pop(operation.client)
        for place, value in late.items():
            cells[place] = value
        return attrs.evolve(operation, answer=Told(code is None, code))


class NonAtomicPublish(Torn):
    """A publication is seen in part."""

    actions, now = ("publish",), 0.5


class CheckThenAct(Torn):
    """A publication compares, and writes later, whatever has happened between."""

    actions = ("publish",)


class LostUpdate(Torn):
    """A truncation counts the snapshot up from what it was when it looked."""

    actions = ("truncate",)


class StaleRead(Prepared):
    """Now and then a read is of the state at an earlier operation."""

    def _take(self, operation: Operation, cells: Cells) -> Operation | None:
        past = self.__dict__.setdefault("past", [])
        past.append(list(cells))
        if isinstance(operation.call, Read) and len(past) > 8 and self.random.random() < 0.2:
            return super()._take(operation, past[-8])
        return super()._take(operation, cells)


@pytest.mark.parametrize("fault", [NonAtomicPublish, CheckThenAct, LostUpdate, StaleRead])
def test_a_planted_fault_is_found(fault: type[Prepared]) -> None:
    """Of the histories that a faulty cache makes some fail, and the window has few operations."""
    sizes = []
    checker = Checker(fault(SHAPE).instance)
    for seed in SEEDS:
        history = fault(SHAPE, seed).history()
        if checker.decide(checker.pack(history)).verdict == VIOLATED and not sizes:
            window = check(history, checker=checker).window
            assert window is not None
            sizes.append(len(window.operations))
    assert sizes
    assert max(sizes) <= 8


def test_without_a_fault_all_hold() -> None:
    """The same clients on the specification itself, by the same seeds, make histories that hold."""
    checker = Checker(Prepared(SHAPE).instance)
    for seed in SEEDS:
        history = Prepared(SHAPE, seed).history()
        assert checker.decide(checker.pack(history)).verdict == HOLDS


def test_the_example_of_the_page_has_its_verdict() -> None:
    """The history in docs/linearizability.md is read, and judged as it says."""
    (text,) = re.findall(r"```json\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    file = parse_history(text)
    assert file.expected == check(file.history).verdict == VIOLATED
