"""The stored histories as a stage of `kvspec verify`."""

import json
import shutil

import pytest

from kvspec.cli.histories import stored_histories
from kvspec.cli.verdicts import HOLDS, UNKNOWN, VIOLATED
from kvspec.counterexamples import history_files


def test_stored_histories_come_out_as_they_must() -> None:
    """(C5) Each stored history has the verdict that its file expects, of both kinds."""
    found = stored_histories()
    assert found.verdict == HOLDS, found.text
    assert {each["expected"] for each in found.data["histories"]} == {HOLDS, VIOLATED}


def test_another_verdict_is_told(tmp_path, monkeypatch) -> None:
    """A history with the wrong verdict on file, or none, is named, and the stage is violated."""
    for name in ("lost-update.json", "publish-seen-whole.json"):
        shutil.copy(history_files.FOLDER / name, tmp_path)
    for path in tmp_path.iterdir():
        data = json.loads(path.read_text(encoding="utf-8"))
        data["expected"] = "holds" if data["expected"] == "violated" else None
        path.write_text(json.dumps(data), encoding="utf-8")
    monkeypatch.setattr(history_files, "FOLDER", tmp_path)
    found = stored_histories()
    assert found.verdict == VIOLATED
    assert "lost-update.json: found violated, expected holds" in found.text
    assert "publish-seen-whole.json: found holds, expected None" in found.text


@pytest.mark.parametrize(("kept", "lost"), [(HOLDS, VIOLATED), (VIOLATED, HOLDS)])
def test_histories_of_one_kind_are_no_pass(tmp_path, monkeypatch, kept: str, lost: str) -> None:
    """Where all must hold, or none, nothing shows that the checker tells them apart (C5)."""
    for path in history_files.FOLDER.glob("*.json"):
        if json.loads(path.read_text(encoding="utf-8"))["expected"] == kept:
            shutil.copy(path, tmp_path)
    monkeypatch.setattr(history_files, "FOLDER", tmp_path)
    found = stored_histories()
    assert (found.verdict, found.data["missing"]) == (UNKNOWN, [lost])
    assert f"{lost}: found no history that must be {lost}, expected one" in found.text


def test_no_history_is_no_pass(tmp_path, monkeypatch) -> None:
    """Where nothing is stored, nothing was checked."""
    monkeypatch.setattr(history_files, "FOLDER", tmp_path)
    assert stored_histories().verdict == UNKNOWN
