"""The library's traces are found by looking, and each does what it says."""

import shutil
from pathlib import Path

import pytest

from kvspec.counterexamples.errors import UnknownNameError
from kvspec.counterexamples.files import dump_trace, read_trace, write_trace
from kvspec.counterexamples.format import Trace
from kvspec.counterexamples.lanes import lanes
from kvspec.counterexamples.library import library, library_path, library_trace
from kvspec.counterexamples.replay import replay


def test_traces_are_found_without_a_list(stale: Trace, tmp_path: Path) -> None:
    """Files in the folder and in folders below are found, in order, and others are not."""
    (tmp_path / "more").mkdir()
    write_trace(stale, tmp_path / "b.json")
    shutil.copy(tmp_path / "b.json", tmp_path / "more" / "a.v1.json")
    (tmp_path / "notes.txt").write_text("")
    assert [path.name for path in library(tmp_path)] == ["b.json", "a.v1.json"]
    assert library_path("a.v1", tmp_path) == tmp_path / "more" / "a.v1.json"
    assert library_trace("b.json", tmp_path) == stale
    with pytest.raises(UnknownNameError, match=r"no trace 'c' of the library; there are: b, a\.v1"):
        library_path("c", tmp_path)


@pytest.mark.parametrize("path", library(), ids=lambda path: path.name)
def test_every_trace_of_the_library_is_as_it_says(path: Path) -> None:
    """It is written canonically, replays on the specification, and can be drawn."""
    trace = read_trace(path)
    assert path.read_text(encoding="utf-8") == dump_trace(trace)
    found = replay(trace, where=path.name)
    assert found.passed, found.show()
    assert max(map(len, lanes(trace).splitlines())) <= 100
