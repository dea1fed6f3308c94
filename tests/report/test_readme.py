"""The README: its parts are current, its commands and its code work as printed."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kvspec.cli import main
from kvspec.cli.main import COMMANDS, app
from kvspec.report.measured import wrong_cells
from kvspec.report.readme import FIXED, PartsError, outdated, parts_of, regenerate

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
RESULTS = ROOT / "docs" / "results.md"
TEXT = README.read_text(encoding="utf-8")
PRINTED = sorted(set(re.findall(r"`(kvspec [a-z][^`]*)`", TEXT)))
QUICK = ("explore core", "show", "export", "report")


def test_every_part_is_current() -> None:
    """Diagrams and picture are those of today's specification; the tables name every instance and claim."""
    assert set(parts_of(TEXT)) == {*FIXED, "summary"}
    assert set(parts_of(RESULTS.read_text(encoding="utf-8"))) == {"results", "claims"}
    assert outdated(README) == [], "run make docs"
    assert outdated(RESULTS) == [], "run make docs"


def test_numbers_told_in_prose_are_those_of_the_code() -> None:
    """How many rules a cache is held against, and how many faults need two threads."""
    from kvspec.models.decode.concurrent_faults import CONCURRENCY_FAULTS
    from kvspec.properties.conformance.run import every_rule

    prose = " ".join(TEXT.split())
    assert f"against {len(every_rule())} rules read from the specification" in prose
    words = {12: "twelve", 13: "thirteen", 14: "fourteen", 15: "fifteen"}
    assert f"{words[len(CONCURRENCY_FAULTS)]} faults that need two threads" in prose


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


def _rows_with(text: str, cell: str) -> str:
    """The first row of a table that has this in it."""
    return next(line for line in text.splitlines() if line.startswith("| ") and cell in line)


@pytest.mark.parametrize(
    ("part", "cell", "pattern", "new"),
    [
        ("summary", "| core |", r"\d+ instances", "99 instances"),
        ("summary", "| core |", r"[\d,]+ states", "9 states"),
        ("summary", "| core |", r"\d+ of \d+ killed", "9 of 9 killed"),
        ("summary", "| core |", r"[\d,]+ of [\d,]+ obl", "some obl"),
        ("summary", "| ownership |", r"\d+ of \d+ cases", "1 of 1 cases"),
        ("summary", "| ownership |", r"holds", "unknown"),
        ("summary", "| ownership |", r".*\n", ""),
        ("summary", "documents", r"\d+ kinds", "1 kinds"),
        ("results", "killed", r"\d+ of \d+ killed", "999 of 999 killed"),
        ("results", "killed", r"0 equivalent", "1 equivalent"),
        ("results", "obligations", r"[\d,]+ of [\d,]+ obl", "9 of 9 obl"),
        ("results", "replays", r"\d+ of \d+ replays", "5 of 5 replays"),
        ("results", "replays", r"\d+ of", "842 of"),
        ("results", "taken", r"\d+ of \d+", "9 of 9"),
        ("results", "core/RACE", r"[\d,]+ states", "7,277 states"),
        ("results", "core/RACE", r"[\d,]+ transitions", "43,547 transitions"),
        ("results", "core/RACE", r"holds", "violated"),
        ("results", "core/RACE", r"core/RACE", "core/RACES"),
        ("results", "core/RACE", r"\d+\.\d s", "soon"),
        ("results", "core/RACE", r".*\n", ""),
        ("results", "core/RACE", r"(.*\n)", r"\1\1"),
        ("claims", "`nothing_staged_is_seen`", r"\d+ of \d+", "1 of 1"),
        ("claims", "`nothing_staged_is_seen`", r"\d+ of \d+", "searched only"),
        ("claims", "`nothing_staged_is_seen`", r"holds", "unknown"),
        ("claims", "`nothing_staged_is_seen`", r"step", "invariant"),
        ("claims", "`nothing_staged_is_seen`", r"A step", "No step"),
        ("claims", "`nothing_staged_is_seen`", r"\d[\d,]+", "0"),
        ("claims", "`nothing_staged_is_seen`", r".*\n", ""),
    ],
)
def test_a_false_cell_is_noticed(part: str, cell: str, pattern: str, new: str) -> None:
    """A number or a verdict that is not today's is found without a run."""
    table = parts_of(TEXT if part == "summary" else RESULTS.read_text(encoding="utf-8"))[part]
    row = _rows_with(table, cell) + "\n"
    changed = re.sub(pattern, new, row, count=1)
    assert changed != row
    assert wrong_cells(part, table.replace(row, changed, 1))


def test_what_was_not_run_again_is_said(capsys) -> None:
    """A check does not claim more than it looked at."""
    assert main(["report", "--readme", str(README), "--readme", str(RESULTS), "--check"]) == 0
    told = capsys.readouterr().out
    assert told.count("not run again: times") == 2


def test_a_check_needs_a_file(capsys) -> None:
    """Nothing is checked without a file, so that is no success."""
    assert main(["report", "--check"]) == 2
    assert "--readme" in capsys.readouterr().err


def test_an_unknown_part_is_an_error() -> None:
    """A part that nobody makes is told, with the names of those that are made."""
    with pytest.raises(PartsError, match="phases"):
        parts_of("<!-- kvspec nonsense -->\n<!-- end nonsense -->")
