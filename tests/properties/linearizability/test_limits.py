"""Limits bound what makes a search ready, not the search alone (C5)."""

from time import perf_counter

import attrs
import pytest

from kvspec.counterexamples.history_files import FOLDER, read_history
from kvspec.models.concrete import Event
from kvspec.models.explicit import cache
from kvspec.models.explicit.linearizer import LimitError, Limits
from kvspec.properties.linearizability import Cell, History, Operation, Read, Seen, Told
from kvspec.properties.linearizability.check import HOLDS, UNKNOWN, VIOLATED, Checker
from kvspec.properties.linearizability.result import check
from kvspec.spec.core import make_instance
from kvspec.spec.language import Instance


def large(handles: int) -> Instance:
    """An instance with so many handles, blocks and appends."""
    return make_instance(
        "LARGE", "many of everything", handles=handles, txns=handles, layers=4, blocks=handles,
        rows=0, longest=1, versions=1, generations=1,
    )  # fmt: skip


def looks(instance: Instance, layers: int) -> History:
    """Reads of which no two are of the same cells, one after another."""
    cells = [
        Cell("k_rows", (h, layer))
        for h in range(instance.sizes["Handle"])
        for layer in range(layers)
    ]
    operations = [
        Operation(0, Read((one, two)), Seen((0, 0)), 2 * n, 2 * n + 1)
        for n, (one, two) in enumerate((a, b) for a in cells[:24] for b in cells[24:48])
    ]
    return History(instance, tuple(operations))


def test_a_step_that_is_not_compiled_in_time_is_unknown(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One operation over many handles ends near its limit, though its step would take far longer (C5)."""
    monkeypatch.setenv("KVSPEC_CACHE", str(tmp_path))
    instance = large(32)
    event = Event("allocate", (("h", 0), ("b", 0), ("a", 0)))
    history = History(instance, (Operation(0, event, Told(accepted=True), 0, 1),))
    begun = perf_counter()
    result = check(history, seconds=0.2)
    assert perf_counter() - begun < 8
    assert result.verdict == UNKNOWN
    assert "is not compiled within 0.2 s" in result.reason
    assert list(tmp_path.glob("*.o")) == []


def test_a_long_source_is_compiled_apart_and_kept(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a process of its own compiled is loaded from the folder, and gives the verdict."""
    monkeypatch.setenv("KVSPEC_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "LONG_SOURCE", 1)
    monkeypatch.setattr(cache, "_loaded", {})
    history = read_history(FOLDER / "lost-update.json").history
    assert check(history, seconds=0.01).verdict == UNKNOWN
    monkeypatch.setattr(cache, "lower", None)  # nothing is compiled in this process
    assert check(history, seconds=120).verdict == VIOLATED
    assert len(list(tmp_path.glob("*.o"))) == 1


def test_reads_alone_need_no_step(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history without events is judged without compiling anything."""
    monkeypatch.setenv("KVSPEC_CACHE", str(tmp_path))
    instance = large(32)
    look = Read((Cell("k_rows", (0, 0)),))
    history = History(instance, (Operation(0, look, Seen((0,)), 0, 1),))
    assert check(history).verdict == HOLDS
    seen = attrs.evolve(history.operations[0], answer=Seen((1,)))
    assert check(attrs.evolve(history, operations=(seen,))).verdict == VIOLATED
    assert list(tmp_path.glob("*.o")) == []


def test_the_table_of_conflicts_counts_as_memory() -> None:
    """Kinds of operation whose table of conflicts has no room make the verdict unknown."""
    history = looks(large(12), 4)
    result = check(history, max_bytes=1 << 20)
    assert result.verdict == UNKNOWN
    assert "kinds of operation need" in result.reason
    assert check(history, max_bytes=1 << 25).verdict == HOLDS


def test_the_seconds_begin_before_the_arrays() -> None:
    """A limit that is over while the arrays are made gives no verdict, and no error."""
    result = check(looks(large(12), 4), seconds=0.001)
    assert (result.verdict, result.reason) == (UNKNOWN, "no answer within 0.001 s")


class Ending(Limits):
    """Limits that are reached when they are looked at for the last of some times."""

    left: list[int]

    def begun(self) -> Limits:
        """As they are."""
        return self

    def check(self) -> None:
        """Count down."""
        self.left[0] -= 1
        if self.left[0] < 0:
            raise LimitError("looked at too often")


@pytest.mark.parametrize("name", ["lost-update", "one-of-two-publishes"])
def test_what_was_cut_short_is_not_used_again(name: str) -> None:
    """Wherever making ready ends, the same checker gives the right verdict afterwards (C5)."""
    file = read_history(FOLDER / f"{name}.json")
    checker = Checker(file.history.instance)
    times, ended = 0, False
    while not ended:
        limits = Ending()
        object.__setattr__(limits, "left", [times])
        try:
            checker.pack(file.history, limits=limits)
            ended = True
        except LimitError:
            times += 1 + times // 4
        assert checker.judge(file.history).verdict == file.expected
        checker = Checker(file.history.instance) if ended else _emptied(checker)
    assert times > 20


def _emptied(checker: Checker) -> Checker:
    """A checker that has judged nothing, with the same compiled step."""
    other = Checker(checker.instance)
    other.stepper = checker.stepper
    return other
