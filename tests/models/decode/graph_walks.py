"""A sound torch cache taken over the state graph of an instance, each answer held against the rule."""

from copy import deepcopy
from typing import Any

from kvspec.models.backend import Placed
from kvspec.models.concrete import Machine
from kvspec.properties.stateful import StatefulReport, make_plan, run
from kvspec.spec.language import Instance, Properties


def answer_everything(cache: Any, instance: Instance, *shared: object) -> tuple[int, int]:
    """How many states and transitions a cache comes through: every event in every state is tried.

    A cache of a system with several initial states begins in each of them. An event that must be
    refused without effect is tried on the cache itself, which it may not change, any other on a copy;
    what is `shared`, such as the decoder, is not copied.
    """
    machine, reached, taken = Machine(instance), {}, 0
    kept = {id(each): each for each in shared}
    cache.reset(instance)
    for start in machine.initial_states():
        begun = deepcopy(cache, dict(kept))
        if isinstance(begun, Placed):
            begun.begin_in(start)
        assert begun.observe() == start
        assert begun.damage() == []
        reached[start] = begun
    waiting = list(reached)
    events = machine.events()
    for state in waiting:
        for event in events:
            if not machine.within_limits(state, event):
                continue
            wanted, made = machine.step(state, event), reached[state]
            if wanted.kind == "accepted" or wanted.state != state:
                made = deepcopy(made, dict(kept))
            reply = made.perform(event)
            assert (reply.accepted, reply.code) == (wanted.kind == "accepted", wanted.code), event
            assert made.observe() == wanted.state, event
            taken += made is not reached[state]
            if wanted.state not in reached:
                assert made.damage() == [], event
                reached[wanted.state] = made
                waiting.append(wanted.state)
    return len(reached), taken


def sample(
    cache: Any, instance: Instance, claims: Properties, *, walks: int, examples: int
) -> StatefulReport:
    """The report of so many planned walks, each step compared and without damage."""
    listed = list(claims.by_name.values())
    plan = make_plan(instance, listed, most=walks)
    return run(instance, listed, lambda: cache, max_examples=examples, profile="ci", plan=plan)
