"""Tests of the transactional backend under the schedules of an engine's policies."""

import pytest
import torch

from kvspec.models.concrete.machine import Event
from kvspec.models.decode import LAYOUT_KINDS, Decoder, DecoderConfig, make_backend
from kvspec.models.decode.engine import Engine
from kvspec.models.decode.engine_requests import Request
from kvspec.models.decode.policies import POLICIES
from kvspec.spec import core

REQUESTS = (
    Request((3, 14, 15, 9), 3),
    Request((5, 3), 4, arrival=1),
    Request((8, 9, 7), 2, repair=True),
)
SIZES = {
    "handles": 2,
    "txns": 2,
    "layers": 2,
    "blocks": 2,
    "longest": 8,
    "versions": 9,
    "generations": 3,
}
INSTANCE = core.make_instance("SCHEDULED", "the requests of an engine", **SIZES)


def scheduled(decoder, policy):
    """The events of a run that the core system knows, each with the core's variables behind it."""
    heard = []

    def listen(engine, event):
        action = core.system.actions.get(event.action)
        if action is not None:
            names = [parameter.name for parameter in action.parameters]
            known = Event(event.action, tuple((name, event.names[name]) for name in names))
            told = dict(zip(engine.tables.initial, engine.state().tables, strict=True))
            heard.append((known, {name: told[name] for name in core.system.variables}))

    run = Engine(decoder, REQUESTS, policy, handles=2, listen=listen).run()
    assert run.verdict == "holds"
    return heard


def first_difference(backend, steps):
    """The first event that the backend refuses, or behind which it shows something else."""
    backend.reset(INSTANCE)
    for place, (event, expected) in enumerate(steps):
        if not backend.perform(event).accepted:
            return event
        # Parts of a layer are staged for all rows at once by the engine, and row by row here.
        following = steps[place + 1][0].action if place + 1 < len(steps) else None
        if event.action in {"stage_k", "stage_v"} and following == event.action:
            continue
        if dict(zip(core.system.variables, backend.observe().tables, strict=True)) != expected:
            return event
    return None


@pytest.mark.parametrize("kind", LAYOUT_KINDS)
@pytest.mark.parametrize("policy", POLICIES, ids=[policy.name for policy in POLICIES])
def test_the_backend_takes_the_steps_of_every_schedule(cpu, policy, kind):
    """Every step is accepted on real rows, and every variable is what the engine showed (A11, D3)."""
    decoder = Decoder(DecoderConfig(dtype=torch.float64), cpu)
    backend = make_backend(kind, device=cpu)
    steps = scheduled(decoder, policy)
    assert first_difference(backend, steps) is None
    assert backend.damage() == []
    assert {event.action for event, _ in steps} >= {"publish", "release", "evict"}


@pytest.mark.parametrize("action", ["allocate", "stage_v", "publish", "forget", "evict"])
def test_a_schedule_with_a_step_left_out_is_not_taken(cpu, action):
    """The same comparison fails at the next step that needs the one left out, or shows it."""
    decoder = Decoder(DecoderConfig(dtype=torch.float64), cpu)
    steps = scheduled(decoder, POLICIES[1])
    place = next(n for n, (event, _) in enumerate(steps) if event.action == action)
    assert (
        first_difference(make_backend(device=cpu), steps[:place] + steps[place + 1 :]) is not None
    )
