"""The page on telemetry: its program runs as it stands, and leaves a log that holds."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("prometheus_client")
pytest.importorskip("opentelemetry.sdk")

from kvspec.models.documents.lines import read_header
from kvspec.properties.audit.stream import audit_lines

PAGE = Path(__file__).resolve().parents[3] / "docs" / "telemetry.md"


def test_the_program_of_the_page_runs_and_its_log_holds(tmp_path: Path) -> None:
    """It is taken from the page, and its log has a closing and passes the audit."""
    text = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"<!-- program -->\n```python\n(.*?)```", text, re.DOTALL)
    assert "..." not in code
    path = tmp_path / "program.py"
    path.write_text(code, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, path], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("token ")
    lines = (tmp_path / "run.jsonl").read_bytes().splitlines()
    found = audit_lines(read_header(lines[0], "log"), lines[1:], "log")
    assert (found.verdict, found.closed, found.summary.events) == ("holds", True, 11)
