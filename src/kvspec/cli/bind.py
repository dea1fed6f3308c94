"""`--bind`: a document with all that follows from its inputs made anew, alone on standard output."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import attrs

from kvspec.cli.check import answer
from kvspec.cli.documents import read_bound, read_kind
from kvspec.cli.output import Output, write_files
from kvspec.cli.verdicts import EXIT_CODES

if TYPE_CHECKING:
    from kvspec.spec.documents.contracts import DocumentKind


def deliver_bound(file: str, command: str, output: Output, kind: DocumentKind | None = None) -> int:
    """Print the document, or on standard error what is wrong with its inputs; give the exit code."""
    from kvspec.models.documents import write

    given = read_bound(file) if kind is None else read_kind(file, kind, bind=True)
    found = attrs.evolve(answer([given]), command=command)
    write_files(found, output)
    if given.checked.broken is None:
        print(write(given.checked.kind, given.checked.document), end="")
    else:
        print(json.dumps(found.data, indent=2) if output.json else found.text, file=sys.stderr)
    return EXIT_CODES[found.verdict]
