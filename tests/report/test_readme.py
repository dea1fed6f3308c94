"""The README: its parts are current, its commands and its code work as printed."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kvspec.cli import main
from kvspec.cli.main import COMMANDS, app
from kvspec.report.readme import FIXED, MEASURED, PartsError, outdated, parts_of, regenerate

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
PRINTED = sorted(set(re.findall(r"`(kvspec [a-z][^`]*)`", TEXT)))
QUICK = ("explore core", "show", "export", "report")


def test_every_part_is_current() -> None:
    """Diagrams and picture are those of today's specification; the tables name every instance and claim."""
    assert set(parts_of(TEXT)) == {*FIXED, *MEASURED}
    assert outdated(README) == [], "run make docs"


def test_every_command_has_its_line() -> None:
    """The table of commands is complete."""
    assert {line.split()[1] for line in PRINTED} >= set(COMMANDS)


@pytest.mark.parametrize("line", PRINTED)
def test_every_printed_command_is_understood(line: str) -> None:
    """The command line takes what the README prints."""
    app.parse_args(shlex.split(line)[1:], exit_on_error=False, print_error=False)


@pytest.mark.parametrize(
    "line", [p for p in PRINTED if p.removeprefix("kvspec ").startswith(QUICK)]
)
def test_quick_commands_run(line: str, capsys, monkeypatch) -> None:
    """Those that take seconds are run as printed."""
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(line)[1:]) in (0, 1)
    assert capsys.readouterr().out


def test_make_targets_exist() -> None:
    """`make verify` and the others that the README names are targets."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^    )make ([a-z-]+)", TEXT, re.MULTILINE)) <= targets


def test_the_claim_of_the_readme_runs_and_holds(tmp_path: Path) -> None:
    """The snippet is run as it stands, and says that the claim is proved."""
    (code,) = re.findall(r"<!-- snippet -->\n```python\n(.*?)```", TEXT, re.DOTALL)
    path = tmp_path / "claim.py"
    path.write_text(code, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, path], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "holds"


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#:]+)\)", TEXT))))
def test_every_link_leads_somewhere(link: str) -> None:
    """Files that the README points to are there."""
    assert (ROOT / link).exists()


def test_a_stale_part_is_noticed_and_mended(tmp_path: Path, capsys) -> None:
    """`--check` tells which part is old; without it the part is written anew."""
    path = tmp_path / "page.md"
    text = "# Page\n\n<!-- kvspec phases -->\nold\n<!-- end phases -->\n\nend\n"
    path.write_text(text, encoding="utf-8")
    assert outdated(path) == ["phases"]
    assert main(["report", "--readme", str(path), "--check"]) == 1
    assert "phases" in capsys.readouterr().out
    path.write_text(regenerate(text, None), encoding="utf-8")
    assert outdated(path) == []
    assert path.read_text(encoding="utf-8").endswith("<!-- end phases -->\n\nend\n")
    assert main(["report", "--readme", str(path), "--check"]) == 0


def test_an_unknown_part_is_an_error() -> None:
    """A part that nobody makes is told, with the names of those that are made."""
    with pytest.raises(PartsError, match="phases"):
        parts_of("<!-- kvspec nonsense -->\n<!-- end nonsense -->")
