"""Counterexamples: the trace format, its reader and writer, replay, pictures, and a library of traces.

Reading order: `format` (the document), `resolve` (a trace held against its system), `record` (from an
engine's result to a trace), `replay` and `results`, `diagram` with `lanes` and `pictures`, `reproduce`
(a trace as a test), `itf` (the format of other tools), `systems` (what can be named).
"""

from kvspec.counterexamples.errors import ReplayError, TraceError, UnknownNameError
from kvspec.counterexamples.files import dump_trace, parse_trace, read_trace, write_trace
from kvspec.counterexamples.format import Broken, Mutation, Trace
from kvspec.counterexamples.itf import from_itf, to_itf
from kvspec.counterexamples.record import run_events, trace_of
from kvspec.counterexamples.reproduce import as_test
from kvspec.counterexamples.resolve import resolve
from kvspec.counterexamples.systems import find_instance, find_system, known_systems

__all__ = [
    "Broken",
    "Mutation",
    "ReplayError",
    "Trace",
    "TraceError",
    "UnknownNameError",
    "as_test",
    "dump_trace",
    "find_instance",
    "find_system",
    "from_itf",
    "known_systems",
    "parse_trace",
    "read_trace",
    "resolve",
    "run_events",
    "to_itf",
    "trace_of",
    "write_trace",
]
