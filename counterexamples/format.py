"""The trace format: one JSON document, complete in itself, that says what happened and what should have.

A trace is a run of a system: an initial state, then steps, each with its outcome and the whole state
after it. For a mutant the steps are those of the mutated rule, and `sound` says where the
specification departs from it. States are numbered from 0 (the initial one); state n is the one after
step n. Values are written as everywhere in this project: `handle0`, `null` for none, an object for a map.

`read_trace` and `write_trace` are in `files`, the check against a system in `resolve`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, get_args

import msgspec

FORMAT: Final = "kvspec-trace"
VERSION: Final = 1
LARGEST_SORT = 256
LARGEST_BOUND = 10_000

Kind = Literal[
    "invariant",
    "lemma",
    "step",
    "leads_to",
    "witness",
    "deadlock",
    "refinement",
    "conformance",
]
"""What a trace can show: a claim broken (or a witness reached), a deadlock, a step that refines nothing,
or a backend that differs from the specification."""

KINDS: tuple[str, ...] = get_args(Kind)

Size = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_SORT)]
Bound = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_BOUND)]
StateJson = dict[str, Any]


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the parts of a trace: a field that is not of the format is an error."""


class InstanceRecord(Record, frozen=True, kw_only=True):
    """The instance: `name` is null, or names one of the system, which must then have these sizes.

    sizes: members of each open sort. bounds: largest value of each sort of naturals.
    """

    name: str | None
    sizes: dict[str, Size]
    bounds: dict[str, Bound]
    constants: dict[str, Annotated[int, msgspec.Meta(ge=0)]]


class Mutation(Record, frozen=True, kw_only=True):
    """The change that was made to the specification to get these steps."""

    name: str
    description: str


class Broken(Record, frozen=True, kw_only=True):
    """What the trace shows to fail, or the witness that it reaches."""

    name: str
    kind: Kind


DEADLOCK = Broken(name="deadlock", kind="deadlock")
"""A state in which nothing goes on and nothing has ended, which is broken without a claim of its own."""


class StepRecord(Record, frozen=True, kw_only=True):
    """A step: an action with its parameters, how it went, and the whole state after it."""

    action: str
    parameters: dict[str, Any]
    outcome: Literal["accepted", "refused"]
    code: str | None
    state: StateJson


class Departure(Record, frozen=True, kw_only=True):
    """Where the specification departs from the steps: there it refuses, or accepts and does otherwise.

    step: from 1. outcome "cut": what the specification does would leave the bounds of the instance.
    """

    step: Annotated[int, msgspec.Meta(ge=1)]
    outcome: Literal["accepted", "refused", "cut"]
    code: str | None


class Trace(Record, frozen=True, kw_only=True):
    """A trace. The steps are those of `mutation`, or of the specification itself where that is null.

    sound: null if the specification takes every step just so. loop: the number of the state to which
    the last step leads back, so that the steps after it repeat for ever. seed: of the random choices
    that led here. provenance: what made it (command, engine), for a reader.
    """

    format: Literal["kvspec-trace"] = FORMAT
    version: Literal[1] = VERSION
    system: str
    instance: InstanceRecord
    mutation: Mutation | None
    property: Broken | None
    initial: StateJson
    steps: list[StepRecord]
    sound: Departure | None
    loop: Annotated[int, msgspec.Meta(ge=0)] | None = None
    seed: int | None = None
    provenance: str = ""


def trace_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a trace, made from the classes above."""
    schema = msgspec.json.schema(Trace)
    definitions = schema["$defs"]
    definitions["Trace"]["required"] = ["format", "version", *definitions["Trace"]["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{FORMAT} version {VERSION}",
        **schema,
    }


def plain(trace: Trace) -> dict[str, Any]:
    """The trace as plain dicts and lists: fields in the order of the format, all other keys sorted."""
    found: dict[str, Any] = msgspec.to_builtins(trace, order="deterministic")
    return found
