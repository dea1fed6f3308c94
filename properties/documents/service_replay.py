"""A service trace taken to the serving system: the facts of the view after each record.

Each request runs on an instance of its own, since requests of a trace share nothing. A prefill begins an
append and its publication takes all steps that are hidden between; the last output stops the request, and
its release makes the stop final. A request that has not stopped is released as it is, and refused.
"""

from __future__ import annotations

from functools import lru_cache

import attrs

from kvspec.models.concrete import Refusal
from kvspec.models.concrete.state import Value
from kvspec.properties.documents.facts import facts
from kvspec.properties.documents.runs import Run, serving_run
from kvspec.spec.documents.byte_trajectory import Rows
from kvspec.spec.documents.service import Action, Served
from kvspec.spec.serving import service_view


@attrs.frozen
class Replay:
    """The specification's facts after each record, up to the first that it refuses, and why it does."""

    facts: tuple[dict[str, Value], ...]
    refused: tuple[int, Refusal] | None


@lru_cache(maxsize=4)  # each contract asks anew
def replay(requests: tuple[Served, ...], actions: tuple[Action, ...]) -> Replay:
    """Take the records to the specification, up to the first that it refuses."""
    runs = {request.name: _run(request, actions) for request in requests}
    prompts = {request.name: request.prompt_tokens for request in requests}
    found: list[dict[str, Value]] = []
    for n, action in enumerate(actions):
        run = runs[action.request]
        refusal = _take(run, action, prompts[action.request])
        if refusal:
            return Replay(tuple(found), (n, refusal))
        found.append(facts(run.machine, run.state, service_view, 0))
    return Replay(tuple(found), None)


def _run(request: Served, actions: tuple[Action, ...]) -> Run:
    """A run with room for all rows that are asked for, so that none is refused for lack of it."""
    own = [action for action in actions if action.request == request.name]
    ends = [action.rows.start + action.rows.count for action in own if action.rows]
    longest = max(request.prompt_tokens + request.output_tokens, *ends, 1)
    return serving_run(longest=longest, appends=len(own))


def _take(run: Run, action: Action, prompt: int) -> Refusal | None:
    rows = action.rows or Rows(0, 0)
    match action.operation:
        case "arrive":
            return run.step("allocate", h=0, b=0, a=0, p=prompt)
        case "begin_prefill":
            return run.step("begin", x=0, h=0, k=0, a=0, p=rows.start, n=rows.count, d=0)
        case "publish_prefill":
            return _publish(run, rows)
        case "publish_decode":
            return run.append(0, rows.start, rows.count, d=0)
        case "release":
            stopped = run.value("stopped", 0)
            return (run.step("finish", h=0) if stopped else None) or run.step("release", h=0)
    refused = run.step("emit", h=0)
    stops = action.operation == "emit_and_finish"
    return refused or (run.step("stop", h=0) if stops else None)


def _publish(run: Run, rows: Rows) -> Refusal | None:
    """Stage the rows in all layers, prepare, publish, and forget the append."""
    for layer in range(run.machine.instance.sizes["Layer"]):
        for position in range(rows.start, rows.start + rows.count):
            for action in ("stage_k", "stage_v"):
                refused = run.step(action, x=0, l=layer, p=position)
                if refused:
                    return refused
    return run.step("prepare", x=0) or run.publish()
