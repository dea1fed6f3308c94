"""A damaged cache is noticed before its code is loaded, and costs a compilation and nothing else."""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvspec.models.explicit import cache

SOURCE = "def triple(x):\n    return x * 3\n"
OTHER = "def triple(x):\n    return x * 5\n"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: Any) -> Path:
    """An empty cache, and a process that has loaded nothing."""
    place = tmp_path / "kept"
    monkeypatch.setenv("KVSPEC_CACHE", str(place))
    monkeypatch.setattr(cache, "_loaded", {})
    return place


def _compiled(monkeypatch: Any) -> list[str]:
    """What is compiled from now on, by a process that has loaded nothing."""
    made: list[str] = []
    compile_text = cache._compile

    def noting(text: str) -> bytes:
        made.append(text)
        return compile_text(text)

    monkeypatch.setattr(cache, "_compile", noting)
    monkeypatch.setattr(cache, "_loaded", {})
    return made


def _flip(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda _: b"",
    "seal alone": lambda content: content[: cache._SEAL],
    "cut in the seal": lambda content: content[:7],
    "cut in half": lambda content: content[: len(content) // 2],
    "one byte less": lambda content: content[:-1],
    "one byte more": lambda content: content + b"\0",
    "random": lambda content: random.Random(0).randbytes(len(content)),
    "zeros": lambda content: bytes(len(content)),
    "flipped in the seal": lambda content: _flip(content, 3),
    "flipped at the start of the code": lambda content: _flip(content, cache._SEAL),
    "flipped in the middle": lambda content: _flip(content, len(content) // 2),
    "flipped at the end": lambda content: _flip(content, len(content) - 1),
    "without a seal": lambda content: content[cache._SEAL :],
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_compiled_anew(kept: Path, monkeypatch: Any, kind: str) -> None:
    """Whatever the file holds is not loaded; it is made again, as it was."""
    assert cache.load(SOURCE)(14) == 42
    (path,) = kept.glob("*.o")
    sound = path.read_bytes()
    path.write_bytes(DAMAGE[kind](sound))
    assert cache._read(path) is None
    made = _compiled(monkeypatch)
    assert cache.load(SOURCE)(14) == 42
    assert len(made) == 1
    assert path.read_bytes() == sound


def test_swapped_files_are_compiled_anew(kept: Path, monkeypatch: Any) -> None:
    """Sound code under the name of another function is not run."""
    assert [cache.load(source)(1) for source in (SOURCE, OTHER)] == [3, 5]
    one, two = kept.glob("*.o")
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    made = _compiled(monkeypatch)
    assert [cache.load(source)(1) for source in (SOURCE, OTHER)] == [3, 5]
    assert len(made) == 2
    assert (one.read_bytes(), two.read_bytes()) == (first, second)


def test_a_folder_in_place_of_a_file_is_left_alone(kept: Path, monkeypatch: Any) -> None:
    """What cannot be kept is compiled each time, and no half file is left behind."""
    assert cache.load(SOURCE)(14) == 42
    (path,) = kept.glob("*.o")
    path.unlink()
    path.mkdir()
    made = _compiled(monkeypatch)
    assert cache.load(SOURCE)(14) == 42
    assert len(made) == 1
    assert path.is_dir()
    assert not list(kept.glob("*.tmp"))


def test_a_sound_file_is_not_compiled_again(kept: Path, monkeypatch: Any) -> None:
    """What was kept is used."""
    assert cache.load(SOURCE)(14) == 42
    made = _compiled(monkeypatch)
    assert cache.load(SOURCE)(14) == 42
    assert made == []
    assert sorted(path.suffix for path in kept.iterdir()) == [".o", ".py"]


def test_a_cache_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    """The temporary folder used instead is gone when the process ends."""
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    code = f"from kvspec.models.explicit import cache; print(cache.load({SOURCE!r})(14))"
    environment = {**os.environ, "KVSPEC_CACHE": str(blocked), "TMPDIR": str(temporary)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "42\n"
    assert list(temporary.iterdir()) == []
