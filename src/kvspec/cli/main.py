"""The program `kvspec`: it reads the command line and ends with the exit code of the command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import App

import kvspec

app = App(
    name="kvspec",
    help="An executable, formally checked specification of the KV-cache lifecycle of LLM serving.",
    version=kvspec.__version__,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    app(list(sys.argv[1:] if argv is None else argv))
    return 0
