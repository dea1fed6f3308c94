"""The JSON Schema of a trace as a file: `python -m kvspec.counterexamples.schema` writes it anew."""

from __future__ import annotations

from pathlib import Path

from kvspec.counterexamples.files import write_text
from kvspec.counterexamples.format import trace_schema
from kvspec.counterexamples.writing import to_text

SCHEMA = Path(__file__).resolve().parent / "schema.json"

if __name__ == "__main__":
    write_text(to_text(trace_schema()), SCHEMA)
