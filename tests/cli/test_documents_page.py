"""The page on documents of one's own: its documents are lawful, and its commands do what it says."""

import json
import re
import shlex
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "documents.md"
TEXT = PAGE.read_text(encoding="utf-8")
FILES = dict(re.findall(r"`([\w.]+)`:\n\n```json\n(.*?)```", TEXT, re.DOTALL))
COMMANDS = re.findall(r"^    kvspec (.*)$", TEXT, re.MULTILINE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the documents of the page, as whoever follows it has it."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_of_the_page_hold(kvspec, folder):
    """Whoever copies the documents and runs the commands, one after the other, sees each of them hold."""
    assert set(FILES) == {"manifest.json", "trajectory.json", "service.json"}
    assert len(COMMANDS) == 10
    for command in COMMANDS:
        words, _, target = command.partition(" > ")
        ran = kvspec(*shlex.split(words))
        assert (ran.code, ran.err) == (0, ""), command
        if target:
            (folder / target).write_text(ran.out, encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "command", "part", "item", "code"),
    [
        ("trajectory.json", "ledger", "events", 0, "HANDLE_TERMINAL"),
        ("service.json", "service", "records", 2, "NO_LOGITS"),
    ],
)
def test_a_step_that_is_left_out_is_told(kvspec, folder, name, command, part, item, code):
    """Without a step that others rest on, the first that no cache can take is told, and no more."""
    data = json.loads(FILES[name])
    del data[part][item]
    (folder / name).write_text(json.dumps(data, indent=2), encoding="utf-8")
    ran = kvspec(command, name, "--bind")
    assert (ran.code, ran.out) == (1, "")
    assert f"breaks {code}" in ran.err
    assert f"/{part}/" in ran.err
