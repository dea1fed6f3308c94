"""The format of an interleaving: one JSON document, complete in itself, from which a run can be had again.

It says which cache, with which fault, is brought where by which events, what each client asks, and in which
order their threads took their steps. The history and the reason are what came of it. A client and its
thread have the same number; `at` is the point at which the thread stood before its step.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from kvspec.counterexamples.format import InstanceRecord, Record

FORMAT: Final = "kvspec-interleaving"
VERSION: Final = 1

Natural = Annotated[int, msgspec.Meta(ge=0)]
Scalar = bool | int | str | None


class EventRecord(Record, frozen=True, kw_only=True, tag_field="kind", tag="event"):
    """An event of the core system."""

    action: str
    parameters: dict[str, Any]


class LookRecord(
    Record, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="look"
):
    """A read of a handle: phase, version, length, then K rows and V rows of each layer.

    with_rows: the rows themselves are read too, and an error if they are wrong.
    """

    handle: str
    with_rows: bool = False


class StepRecord(Record, frozen=True, kw_only=True):
    """A step: who took it, and the point at which the thread stood before it."""

    thread: Natural
    at: str


class AnswerRecord(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a client's next call, with the ticks of its call.

    accepted, code: of an event. seen: of a look. None of them: no answer came.
    """

    client: Natural
    invoked: Natural
    returned: Natural | None
    accepted: bool | None = None
    code: str | None = None
    seen: list[Scalar] | None = None


class Interleaving(Record, frozen=True, kw_only=True):
    """A run of several clients that violates the specification.

    scenario: what it is called; doc: what it is about. fault: of the cache that it was found on; null
    for a cache as it is. setup: accepted events before the clients begin. history: in the order of the
    calls. reason: why no order of atomic steps gives these answers.
    """

    format: Literal["kvspec-interleaving"] = FORMAT
    version: Literal[1] = VERSION
    scenario: str
    doc: str
    instance: InstanceRecord
    layout: str
    fault: str | None
    setup: list[EventRecord]
    clients: list[list[EventRecord | LookRecord]]
    preemptions: Natural
    schedule: list[StepRecord]
    history: list[AnswerRecord]
    reason: str
    provenance: str = ""


def plain(document: Interleaving) -> dict[str, Any]:
    """The document as plain dicts and lists, its fields in the order of the format."""
    found: dict[str, Any] = msgspec.to_builtins(document)
    return found
