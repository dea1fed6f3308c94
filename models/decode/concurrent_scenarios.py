"""Scenarios: a few clients with a few calls each, on a cache that has come to a given point.

Modelled: an instance of the core system, events that lead to where the clients begin, and what each
client asks, in order. Left out: clients that choose by what they were told (`concurrent_clients`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from attrs import frozen

from kvspec.models.backend import Reply
from kvspec.models.concrete.machine import Event, Machine
from kvspec.models.concrete.state import State
from kvspec.models.decode.concurrent import ConcurrentBackend, Look
from kvspec.models.decode.concurrent_faults import (
    ABORT_LATE,
    AFTER_FREE,
    BLOCK_TWICE,
    CHECK_THEN_ACT,
    CHILD_BY_CHILD,
    EARLY_REUSE,
    LAYERS_APART,
    LOST_UPDATE,
    OVER_SHOWN,
    PREPARE_ALONE,
    SAME_LENGTH,
    STALE_READ,
    TORN,
)
from kvspec.models.decode.concurrent_record import Asked, Call, Recorder, call_text
from kvspec.models.interleaving import Run, Scheduler, Strategy
from kvspec.spec.core import make_instance, system
from kvspec.spec.language import Instance


class SetupError(ValueError):
    """An event of a setup is refused; ``number`` counts from 1, ``found`` tells the event and why."""

    def __init__(self, scenario: str, number: int, found: str) -> None:
        self.number = number
        self.found = found
        super().__init__(
            f"{scenario}, setup event {number}: found {found}, expected it to be accepted: "
            "change the setup"
        )


@frozen
class Scenario:
    """What several clients do.

    Attributes:
        name: what it is called.
        doc: what it is about, in a sentence.
        instance: of the core system.
        setup: accepted events that come first, one after the other.
        clients: the calls of each client.
        shows: faults that it brings to light.
        layout: how rows are stored, where nothing else is asked for.
        is_large: it has too many calls for all of its schedules to be run.
    """

    name: str
    doc: str
    instance: Instance
    setup: tuple[Event, ...]
    clients: tuple[tuple[Call, ...], ...]
    shows: tuple[str, ...] = ()
    layout: str = "dynamic"
    is_large: bool = False

    def start(self) -> State:
        """The state in which the clients begin, as the specification has it.

        Raises:
            SetupError: the specification refuses an event of the setup.
        """
        machine = Machine(self.instance)
        (state,) = machine.initial_states()
        for number, each in enumerate(self.setup, 1):
            outcome = machine.step(state, each)
            if outcome.kind != "accepted":
                why = outcome.refusal or "it leaves the bounds of the instance"
                raise SetupError(self.name, number, f"{call_text(each)} {outcome.kind} ({why})")
            state = outcome.state
        return state


@frozen
class Recording:
    """One run of a scenario: the calls with their answers, and the run of its threads."""

    asked: tuple[Asked, ...]
    run: Run


def run_scenario(
    scenario: Scenario,
    strategy: Strategy,
    planted: tuple[str, ...] = (),
    *,
    layout: str | None = None,
    device: str = "cpu",
    is_exposed: bool = False,
) -> Recording:
    """Run a scenario on a new backend, its clients one at a time as the strategy says.

    layout: how rows are stored; by default as the scenario has it. is_exposed: with the points of a
    cache that leaves its lock out.

    Raises:
        NotApplicableError: the strategy follows a schedule that does not apply.
        SetupError: the backend refuses an event of the setup.
    """
    scheduler = Scheduler(strategy)
    with one_compute_thread():
        backend = ConcurrentBackend(
            layout or scenario.layout,
            planted,
            scheduler=scheduler,
            is_exposed=is_exposed,
            device=device,
        )
        set_up(backend, scenario)
        recorder = Recorder(backend)
        bodies = [client(recorder, n, calls) for n, calls in enumerate(scenario.clients)]
        run = scheduler.run(bodies)
    return Recording(recorder.asked(), run)


@contextmanager
def one_compute_thread() -> Iterator[None]:
    """Within, kernels use the thread that calls them alone.

    A kernel for a handful of rows gains nothing from others, and each new client would bring a crowd.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def set_up(backend: ConcurrentBackend, scenario: Scenario) -> None:
    """Bring a backend to where the clients of a scenario begin."""
    backend.reset(scenario.instance)
    for number, each in enumerate(scenario.setup, 1):
        reply: Reply = backend.perform(each)
        if not reply.accepted:
            raise SetupError(scenario.name, number, f"{call_text(each)} refused ({reply.code})")


def client(recorder: Recorder, number: int, calls: Iterable[Call]) -> Any:
    """What a client's thread does: its calls in order."""

    def body() -> None:
        for call in calls:
            recorder.ask(number, call)

    return body


def event(action: str, **values: Any) -> Event:
    """An event of the core system by its action's parameters."""
    names = [parameter.name for parameter in system.action(action).parameters]
    return Event(action, tuple((name, values[name]) for name in names))


def appended(x: int, h: int, layers: int, *, p: int = 0, key: int = 0) -> tuple[Event, ...]:
    """The events of an append of one row, up to its last staged row."""
    return (
        event("begin", x=x, h=h, k=key, a=0, p=p, n=1),
        *(event("stage_k", x=x, l=layer, p=p) for layer in range(layers)),
        *(event("stage_v", x=x, l=layer, p=p) for layer in range(layers)),
    )


def prepared(x: int, h: int, layers: int, *, p: int = 0, key: int = 0) -> tuple[Event, ...]:
    """The events of an append of one row, ready to be published."""
    return (*appended(x, h, layers, p=p, key=key), event("prepare", x=x))


CLIENTS: Final = make_instance(
    "CLIENTS",
    "three handles, two appends, two layers: for all scenarios, so that a checker is made ready once",
    handles=3,
    txns=2,
    layers=2,
    keys=2,
    longest=2,
    versions=4,
    generations=2,
)

_ALLOCATED: Final = (event("allocate", h=0, b=0, a=0),)
_PUBLISH: Final = event("publish", x=0)
_LOOK: Final = Look(0)

SCENARIOS: Final[dict[str, Scenario]] = {
    each.name: each
    for each in (
        Scenario(
            "publish-and-look",
            "a reader looks while an append of two layers is published",
            CLIENTS,
            (*_ALLOCATED, *prepared(0, 0, 2)),
            ((_PUBLISH,), (_LOOK, _LOOK)),
            (TORN, LAYERS_APART, AFTER_FREE),
        ),
        Scenario(
            "two-appends",
            "two appends on one snapshot are published at a time",
            CLIENTS,
            (*_ALLOCATED, *prepared(0, 0, 2), *prepared(1, 0, 2, key=1)),
            ((_PUBLISH,), (event("publish", x=1),)),
            (CHECK_THEN_ACT,),
        ),
        Scenario(
            "publish-and-finish",
            "a request ends while an append to it is published, and a reader looks",
            CLIENTS,
            (*_ALLOCATED, *prepared(0, 0, 2)),
            ((_PUBLISH, _LOOK), (event("finish", h=0),)),
            (LOST_UPDATE,),
        ),
        Scenario(
            "publish-and-truncate",
            "one append is published, another one's row is taken back, and a reader looks",
            CLIENTS,
            (*_ALLOCATED, *prepared(0, 0, 2), _PUBLISH, *prepared(1, 0, 2, p=1)),
            ((event("publish", x=1),), (event("truncate", h=0, n=0), _LOOK)),
        ),
        Scenario(
            "there-and-back",
            "a reader looks while a row is published and taken back, each by a client of its own",
            CLIENTS,
            (*_ALLOCATED, *prepared(0, 0, 2)),
            ((_LOOK,), (_PUBLISH,), (event("truncate", h=0, n=0),)),
            (SAME_LENGTH,),
        ),
        Scenario(
            "cancel-and-prepare",
            "a request is cancelled while another client sees that and prepares an append to it",
            CLIENTS,
            (*_ALLOCATED, *appended(0, 0, 2)),
            ((event("cancel_request", h=0),), (_LOOK, event("prepare", x=0))),
            (ABORT_LATE,),
        ),
        Scenario(
            "prepare-twice",
            "two clients declare one append complete at a time",
            CLIENTS,
            (*_ALLOCATED, *appended(0, 0, 2)),
            ((event("prepare", x=0),), (event("prepare", x=0),)),
            (PREPARE_ALONE,),
        ),
        Scenario(
            "release-and-look",
            "a reader looks while an ended request is released",
            CLIENTS,
            (*_ALLOCATED, *prepared(0, 0, 2), _PUBLISH, event("finish", h=0)),
            ((_LOOK, _LOOK), (event("release", h=0),)),
            (STALE_READ, AFTER_FREE),
        ),
        Scenario(
            "fork-and-look",
            "a reader looks at two children of one fork, one after the other",
            CLIENTS,
            _ALLOCATED,
            (
                (event("fork", p=0, children=(False, True, True), n=0),),
                (Look(1), Look(2)),
            ),
            (CHILD_BY_CHILD,),
        ),
        Scenario(
            "read-and-rewrite",
            "a reader is at the rows of a snapshot while its row is taken back and another written",
            CLIENTS,
            (*_ALLOCATED, *prepared(0, 0, 2), _PUBLISH),
            (
                (Look(0, with_rows=True),),
                (
                    event("truncate", h=0, n=0),
                    *prepared(1, 0, 2, key=1),
                    event("publish", x=1),
                    event("finish", h=0),
                    event("release", h=0),
                ),
            ),
            (OVER_SHOWN,),
            layout="static",
        ),
        Scenario(
            "read-and-reuse",
            "a reader is at the rows of a request while it is released and another one needs memory",
            CLIENTS,
            (
                *_ALLOCATED,
                event("fork", p=0, children=(False, True, False), n=0),
                *prepared(0, 0, 2),
                _PUBLISH,
                *prepared(1, 1, 2, key=1),
            ),
            (
                (Look(0, with_rows=True),),
                (event("finish", h=0), event("release", h=0), event("publish", x=1)),
            ),
            (EARLY_REUSE,),
            layout="paged",
        ),
        Scenario(
            "two-requests",
            "two requests ask for one block",
            CLIENTS,
            (),
            ((event("allocate", h=0, b=0, a=0),), (event("allocate", h=1, b=0, a=0), Look(1))),
            (BLOCK_TWICE,),
        ),
        Scenario(
            "busy",
            "four clients: two appends, a reader, and one who forks, ends and releases",
            CLIENTS,
            (*_ALLOCATED, *prepared(0, 0, 2), *appended(1, 0, 2, key=1)),
            (
                (_PUBLISH, _LOOK, event("forget", x=0)),
                (event("prepare", x=1), event("publish", x=1), Look(1), event("forget", x=1)),
                (_LOOK, Look(1), Look(2), _LOOK, Look(2), Look(1)),
                (
                    event("fork", p=0, children=(False, True, True), n=0),
                    event("truncate", h=0, n=0),
                    event("cancel_request", h=0),
                    event("release", h=0),
                    Look(2),
                ),
            ),
            is_large=True,
        ),
    )
}
"""The scenarios, by name."""
