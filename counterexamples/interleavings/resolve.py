"""An interleaving held against the core system: from its document to a scenario, and back.

Every name and value is looked up: instance, actions, parameters, handles, threads, fault and layout. What
the run must give again (the history) is compared by `properties.interleaving`.
"""

from __future__ import annotations

import attrs

from kvspec.counterexamples.errors import TraceError
from kvspec.counterexamples.format import InstanceRecord
from kvspec.counterexamples.interleavings.format import (
    AnswerRecord,
    EventRecord,
    Interleaving,
    LookRecord,
    Scalar,
    StepRecord,
)
from kvspec.counterexamples.resolve import build_instance
from kvspec.models.backend import Reply
from kvspec.models.concrete import Event, Machine, parse_event
from kvspec.models.concrete.state import values_of
from kvspec.models.concrete.text import member_name, parameter_json, value_from_json, value_json
from kvspec.models.decode.concurrent import Look, looked_at
from kvspec.models.decode.concurrent_faults import CONCURRENCY_FAULTS
from kvspec.models.decode.concurrent_record import Asked, Call
from kvspec.models.decode.concurrent_scenarios import Scenario, SetupError
from kvspec.models.decode.kinds import LAYOUT_KINDS
from kvspec.models.interleaving import Step
from kvspec.properties.interleaving import Failing
from kvspec.properties.interleaving.replaying import plain_of
from kvspec.spec.handles import Layer, phase
from kvspec.spec.language import Instance

MOST_STEPS = 20_000
MOST_CLIENTS = 64


@attrs.frozen
class Resolved:
    """An interleaving with its scenario, schedule and recorded calls."""

    document: Interleaving
    scenario: Scenario
    planted: tuple[str, ...]
    schedule: tuple[Step, ...]
    asked: tuple[Asked, ...]
    where: str


def resolve(document: Interleaving, where: str = "the interleaving") -> Resolved:
    """The scenario, schedule and calls of a document, or a TraceError that says what does not exist."""
    _check_names(document, where)
    instance = build_instance("core", document.instance, where)
    machine = Machine(instance)
    clients = tuple(
        tuple(
            _call(machine, call, f"{where}, client {number}, call {place}")
            for place, call in enumerate(calls, 1)
        )
        for number, calls in enumerate(document.clients)
    )
    setup = tuple(
        _event(machine, each, f"{where}, setup event {number}")
        for number, each in enumerate(document.setup, 1)
    )
    scenario = Scenario(
        document.scenario, document.doc, instance, setup, clients, layout=document.layout
    )
    try:
        scenario.start()
    except SetupError as error:
        place = f"{where}, setup event {error.number}"
        raise TraceError(
            place, error.found, "an event that is accepted", "correct the setup"
        ) from error
    return Resolved(
        document,
        scenario,
        () if document.fault is None else (document.fault,),
        tuple(Step(step.thread, step.at) for step in document.schedule),
        _asked(document, clients, instance, where),
        where,
    )


def document_of(failing: Failing, provenance: str = "") -> Interleaving:
    """The document of a failing run."""
    scenario, run = failing.scenario, failing.recording.run
    machine, sizes = Machine(scenario.instance), scenario.instance
    return Interleaving(
        scenario=scenario.name,
        doc=scenario.doc,
        instance=InstanceRecord(
            name=None,
            sizes=dict(sizes.sizes),
            bounds=dict(sizes.bounds),
            constants=dict(sizes.constants),
        ),
        layout=failing.layout,
        fault=next(iter(failing.planted), None),
        setup=[_event_record(machine, each) for each in scenario.setup],
        clients=[[_call_record(machine, call) for call in calls] for calls in scenario.clients],
        preemptions=run.preemptions,
        schedule=[StepRecord(thread=step.thread, at=step.at) for step in run.steps],
        history=[_answer_record(each) for each in failing.recording.asked],
        reason=failing.reason,
        provenance=provenance,
    )


def _check_names(document: Interleaving, where: str) -> None:
    """Faults, layouts and threads that do not exist, and a schedule that is too long."""
    if document.fault is not None and document.fault not in CONCURRENCY_FAULTS:
        raise TraceError(
            f"{where}, fault",
            repr(document.fault),
            f"one of {', '.join(CONCURRENCY_FAULTS)}",
            "correct the name, or set it to null for a cache as it is",
        )
    if document.layout not in LAYOUT_KINDS:
        known = ", ".join(LAYOUT_KINDS)
        raise TraceError(f"{where}, layout", repr(document.layout), f"one of {known}", "correct it")
    threads = len(document.clients)
    for name, found, most in (
        ("clients", threads, MOST_CLIENTS),
        ("schedule", len(document.schedule), MOST_STEPS),
    ):
        if found > most:
            raise TraceError(f"{where}, {name}", f"{found:,}", f"at most {most:,}", "shorten it")
    for number, step in enumerate(document.schedule):
        if step.thread >= threads:
            raise TraceError(
                f"{where}, step {number} of the schedule",
                f"thread {step.thread}",
                f"a thread from 0 to {threads - 1}, one for each client",
                "correct the schedule",
            )


def _call(machine: Machine, record: EventRecord | LookRecord, where: str) -> Call:
    if isinstance(record, EventRecord):
        return _event(machine, record, where)
    kind = phase.domain[0]
    try:
        handle = value_from_json(kind, record.handle, machine.instance, where)
    except ValueError as error:
        raise _of_value(where, error) from error
    return Look(int(handle or 0), record.with_rows)


def _event(machine: Machine, record: EventRecord, where: str) -> Event:
    try:
        return parse_event(machine, record.action, record.parameters, where)
    except ValueError as error:
        raise _of_value(where, error) from error


def _of_value(where: str, error: ValueError) -> TraceError:
    """An error of `models.concrete.text` in parts: "place: found x, expected y"."""
    told = str(error).removeprefix(f"{where}: ").removeprefix("found ")
    found, _, expected = told.partition(", expected ")
    return TraceError(
        where, found, expected or "what the instance has", "correct it, or enlarge the instance"
    )


def _event_record(machine: Machine, event: Event) -> EventRecord:
    return EventRecord(action=event.action, parameters=parameter_json(machine, event))


def _call_record(machine: Machine, call: Call) -> EventRecord | LookRecord:
    if isinstance(call, Look):
        handle = member_name(phase.domain[0], call.handle)
        return LookRecord(handle=handle, with_rows=call.with_rows)
    return _event_record(machine, call)


def _answer_record(asked: Asked) -> AnswerRecord:
    answer = asked.answer
    if isinstance(answer, Reply):
        return AnswerRecord(
            client=asked.client,
            invoked=asked.invoked,
            returned=asked.returned,
            accepted=answer.accepted,
            code=answer.code,
        )
    seen = None if answer is None else list(answer)
    return AnswerRecord(
        client=asked.client, invoked=asked.invoked, returned=asked.returned, seen=seen
    )


def _asked(
    document: Interleaving,
    clients: tuple[tuple[Call, ...], ...],
    instance: Instance,
    where: str,
) -> tuple[Asked, ...]:
    """The recorded calls: each answer goes to the next call of its client."""
    found, done = [], [0] * len(clients)
    for number, record in enumerate(document.history, 1):
        place = f"{where}, history, call {number}"
        client = record.client
        if client >= len(clients) or done[client] >= len(clients[client]):
            raise TraceError(
                place,
                f"a call of client {client}",
                "the next call of a client of this document",
                "give each call one answer",
            )
        call = clients[client][done[client]]
        done[client] += 1
        found.append(
            Asked(client, call, _answer(record, call, instance, place), *_ticks(record, place))
        )
    return plain_of(tuple(found))


def _ticks(record: AnswerRecord, where: str) -> tuple[int, int | None]:
    if record.returned is not None and record.returned <= record.invoked:
        raise TraceError(
            where,
            f"a call that returns at {record.returned}",
            f"a tick after {record.invoked}, when it was made",
            "correct the ticks",
        )
    return record.invoked, record.returned


def _answer(
    record: AnswerRecord, call: Call, instance: Instance, where: str
) -> Reply | tuple[bool | int | str | None, ...] | None:
    """The answer, which must be one to such a call, and be there if the call returned."""
    is_look = isinstance(call, Look)
    has_reply, has_seen = record.accepted is not None, record.seen is not None
    wanted = has_seen if is_look else has_reply
    if wanted != (record.returned is not None) or (has_reply if is_look else has_seen):
        raise TraceError(
            where,
            "an answer of another kind, or one without a tick",
            "`seen` for a look, `accepted` and `code` for an event, none where nothing returned",
            "correct the answer",
        )
    if record.seen is not None and isinstance(call, Look):
        many = len(looked_at(call.handle, instance.sizes[Layer.__name__]))
        if len(record.seen) != many:
            raise TraceError(where, f"{len(record.seen)} values", f"{many}", "correct `seen`")
        _check_seen(record.seen, call, instance, where)
        return tuple(record.seen)
    return Reply(record.accepted, record.code) if record.accepted is not None else None


def _check_seen(seen: list[Scalar], call: Look, instance: Instance, where: str) -> None:
    """Values have the types of their variables: JSON's `true` is no 1, though Python calls them equal."""
    variables = instance.system.variables
    for value, (name, _) in zip(
        seen, looked_at(call.handle, instance.sizes[Layer.__name__]), strict=True
    ):
        kind = variables[name].type
        types = {type(value_json(kind, each)) for each in values_of(kind, instance)}
        if type(value) not in types:
            raise TraceError(
                f"{where}, {name}", repr(value), f"a value of {kind.name}", "correct `seen`"
            )
