"""A scheduler ahead of a real decoder: all that it can do."""

import pytest
from graph_walks import answer_everything

from kvspec.models.concrete import Event
from kvspec.models.decode.mechanisms.run_ahead import Cache
from kvspec.models.explicit import explore
from kvspec.spec import run_ahead


def started(instance):
    """A cache, the instance, and the decoder, which no copy has of its own."""
    cache = Cache()
    cache.reset(instance)
    return cache, instance, cache.model


def test_the_sound_cache_does_all_that_a_small_instance_allows():
    """Every event in every state, with one step ahead of another, is taken or refused as specified."""
    small = run_ahead.make_instance("ONE_AHEAD", "", outputs=1, incarnations=1)
    assert answer_everything(*started(small)) == (101, 321)


@pytest.mark.slow
@pytest.mark.parametrize(
    "instance",
    [
        run_ahead.AHEAD,
        run_ahead.make_instance("OTHERS", "", handles=2, frames=1, outputs=1, slots=1),
    ],
    ids=lambda made: made.name,
)
def test_the_sound_cache_does_all_that_an_instance_allows(instance):
    """Every event in every state, two incarnations or two requests among them."""
    found = explore(instance, [])
    assert answer_everything(*started(instance)) == (found.states, found.transitions)


def test_a_preempted_request_goes_on_with_the_same_outputs():
    """The tokens after a preemption are those of an uncached run, though every row was computed twice."""

    def outputs(events):
        cache = Cache()
        cache.reset(run_ahead.make_instance("LIFE", "", slots=5, outputs=4, rows_a_step=2))
        for action, values in events:
            reply = cache.perform(Event(action, tuple(values.items())))
            assert reply.accepted, (action, reply)
        assert cache.damage() == []
        (request,) = cache.requests
        return request.client

    def steps(*rows, tag):
        begin = [("start", {"h": 0, "i": tag})]
        return begin + [
            event
            for n in rows
            for event in (
                ("dispatch", {"h": 0, "f": 0, "n": n}),
                ("settle", {"f": 0, "t": "ORDINARY"}),
            )
        ]

    submit = [("submit", {"h": 0, "p": 2})]
    straight = outputs([*submit, *steps(2, 1, 1, 1, tag=0)])
    late = ("dispatch", {"h": 0, "f": 1, "n": 1})
    off = [*steps(2, 1, tag=0), late, ("preempt", {"h": 0}), *steps(2, 1, 1, 1, tag=1)]
    assert outputs([*submit, *off, ("drain", {"f": 1})]) == straight
    assert len(straight) == 4
