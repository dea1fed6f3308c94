"""`kvspec pins` hashes what is at hand, and says what it could not find (B8). No test needs a network."""

import hashlib
import json

import attrs
import pytest

from kvspec.cli import main
from kvspec.counterexamples.negative_cases import load_document
from kvspec.models.documents import convert
from kvspec.models.pins import check_pins
from kvspec.spec.documents.pins import (
    PinnedFile,
    PinnedProject,
    Pins,
    pins,
    pins_on_record,
    record_digest,
)

FILES = {"pkg/core/cache.py": b"rows = 0\n", "docs/cache.md": b"# Cache\n"}


def digest(text):
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(text).hexdigest()


@pytest.fixture
def record(monkeypatch):
    """A record of one small release, in the place of the real one."""
    files = tuple(PinnedFile(path, digest(text)) for path, text in FILES.items())
    found = Pins("2026-01-01", (PinnedProject("pkg", "v1.0", "0" * 40, files),))
    monkeypatch.setattr("kvspec.spec.documents.pins.pins_on_record", lambda: found)
    return found


def unpack(folder, *, layout="", files=FILES):
    """Write a release under a folder, its package within `layout`."""
    for path, text in files.items():
        target = folder / (path if path.startswith("docs/") else f"{layout}{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text)


@pytest.mark.parametrize("layout", ["", "python/", "src/"])
def test_a_release_that_is_meant_holds(record, tmp_path, capsys, layout):
    """In a wheel, an sdist or a checkout, each pinned file is found by the end of its path."""
    unpack(tmp_path / "pkg-1.0", layout=layout)
    assert main(["pins", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith("holds: 2 of 2 pins of 1 releases at hand\n")


def test_a_file_that_differs_is_told_with_both_digests(record, tmp_path, capsys):
    """Exit code 1, and what was expected, found and where."""
    unpack(tmp_path, files={**FILES, "pkg/core/cache.py": b"rows = 1\n"})
    assert main(["pins", str(tmp_path), "--json"]) == 1
    (release,) = json.loads(capsys.readouterr().out)["releases"]
    assert release["verdict"] == "violated"
    assert release["pins"][0] == {
        "path": "pkg/core/cache.py",
        "status": "differs",
        "expected": digest(b"rows = 0\n"),
        "found": digest(b"rows = 1\n"),
        "where": "pkg/core/cache.py",
    }


def test_a_file_that_is_not_there_is_no_success(record, tmp_path, capsys):
    """A release of which a file is missing was not checked in full: exit code 3."""
    unpack(tmp_path, files={"pkg/core/cache.py": FILES["pkg/core/cache.py"]})
    assert main(["pins", str(tmp_path)]) == 3
    assert "docs/cache.md      not found" in capsys.readouterr().out


def test_nothing_at_hand_is_no_success(record, tmp_path, capsys):
    """An empty folder checks nothing: exit code 3."""
    assert main(["pins", str(tmp_path)]) == 3
    assert "nothing was checked" in capsys.readouterr().out


def test_a_document_of_another_project_is_not_taken(record, tmp_path):
    """A page with the same path, but beside no source of the release, is not looked at."""
    unpack(tmp_path / "other", files={"docs/cache.md": b"# Another\n"})
    (release,) = check_pins(record, tmp_path)
    assert not release.at_hand
    unpack(tmp_path / "pkg-1.0")
    (release,) = check_pins(record, tmp_path)
    assert release.verdict == "holds"


def test_of_two_releases_the_one_that_is_meant_counts(record, tmp_path):
    """Beside a later release the pinned one is still found."""
    unpack(tmp_path / "a", files={**FILES, "pkg/core/cache.py": b"rows = 2\n"})
    unpack(tmp_path / "b")
    (release,) = check_pins(record, tmp_path)
    assert (release.verdict, release.pins[0].where) == ("holds", "b/pkg/core/cache.py")


def test_a_file_name_is_not_the_end_of_another(record, tmp_path):
    """`my_pkg/core/cache.py` is no `pkg/core/cache.py`."""
    unpack(tmp_path, files={"my_pkg/core/cache.py": b"?"})
    (release,) = check_pins(record, tmp_path)
    assert not release.at_hand


def test_a_folder_that_is_not_there_is_wrong_usage(tmp_path, capsys):
    """Exit code 2, and what to do."""
    assert main(["pins", str(tmp_path / "gone")]) == 2
    assert "unpack a wheel" in capsys.readouterr().err


def test_the_record_has_sixteen_files_of_four_projects():
    """Two of Transformers, seven of vLLM, three of SGLang, four of TensorRT-LLM; all contracts kept."""
    found = pins_on_record()
    counts = {p.project: len(p.files) for p in found.projects}
    assert counts == {"transformers": 2, "vllm": 7, "sglang": 3, "tensorrt_llm": 4}
    assert pins.first_broken(found) is None
    assert convert(pins, load_document("pins"), "pins.json") == found


def test_the_digest_of_the_record_moves_with_it():
    """What is bound to the record is bound to each of its digests."""
    from kvspec.spec.documents.canonical import digest as digest_of

    found = pins_on_record()
    assert record_digest() == digest_of(found)
    assert record_digest() != digest_of(attrs.evolve(found, checked_on="2026-01-01"))
