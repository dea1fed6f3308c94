"""Hand-offs of real rows: orders and formats, rows that lack a layer, a gone taker, all that they can do."""

import pytest
from graph_walks import sample

from kvspec.models.concrete import Event
from kvspec.models.decode.mechanisms.handoff import Cache
from kvspec.properties.handoff import handoff as claims
from kvspec.spec import handoff as spec

P, D = 0, 1
ALL = (True, True)
LARGE = spec.make_instance("LARGE", "", layers=2, formats=2, tokens=2, lacking=True)
TO_ONE = ("accept.drop-guard.LAYERS_MISMATCH", "accept.drop-guard.FORMAT_MISMATCH")


def does(cache, action, **names):
    """The answer to an event."""
    return cache.perform(Event(action, tuple(names.items())))


def offered(*faults, order=(0, 1), filled=ALL, written=0):
    """The rows of a finished prompt with one token are on offer, and a fresh request is there."""
    cache = Cache(faults)
    cache.reset(LARGE)
    for action, names in (
        ("allocate", {"h": P, "b": 0, "a": 0}),
        ("allocate", {"h": D, "b": 1, "a": 0}),
        ("emit", {"h": P, "s": "ORDINARY"}),
        ("finish", {"h": P}),
        ("offer", {"k": 0, "h": P, "o": order, "filled": filled, "f": written}),
    ):
        assert does(cache, action, **names).accepted
    return cache


def taken(cache, places=(0, 1), read=0):
    """The fresh request has taken over."""
    assert does(cache, "accept", k=0, g=D, m=places, f=read).accepted
    assert does(cache, "complete", k=0).accepted
    assert does(cache, "take_over", k=0).accepted
    return cache


@pytest.mark.parametrize("written", [0, 1])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_rows_come_as_they_were_in_any_order_and_format(order, written):
    """Layers are looked up where they stand, and the taker's logits are those of an uncached run."""
    cache = taken(offered(order=order, written=written), places=order, read=written)
    assert cache.damage() == []
    assert cache.read(D).ids == cache.read(P).ids


@pytest.mark.parametrize(
    ("order", "filled", "written", "read", "code"),
    [
        ((1, 0), ALL, 0, 0, "LAYERS_MISMATCH"),
        ((0, 1), (True, False), 0, 0, "LAYERS_MISMATCH"),
        ((0, 1), ALL, 1, 0, "FORMAT_MISMATCH"),
    ],
)
def test_what_does_not_fit_is_refused_or_gives_other_logits(order, filled, written, read, code):
    """The sound cache refuses before a byte moves; without its check rows and logits are off."""
    sound = offered(order=order, filled=filled, written=written)
    before = sound.observe()
    assert does(sound, "accept", k=0, g=D, m=(0, 1), f=read).code == code
    assert sound.observe() == before
    assert sound.damage() == []
    harms = taken(offered(*TO_ONE, order=order, filled=filled, written=written), read=read).damage()
    assert {harm.kind for harm in harms} == {"owner", "logits"}
    assert all(harm.amount > 0.1 for harm in harms)


def test_a_taker_that_has_ended_keeps_its_own_rows():
    """Bytes that come for a request that was cancelled are not put into its block, and stay retained."""
    cache = offered()
    assert does(cache, "accept", k=0, g=D, m=(0, 1), f=0).accepted
    assert does(cache, "cancel_request", h=D).accepted
    assert does(cache, "complete", k=0).accepted
    assert does(cache, "take_over", k=0).code == "CONSUMER_GONE"
    assert cache.damage() == []
    assert cache.retained == [True, False]


@pytest.mark.parametrize(
    ("instance", "walks", "share"),
    [
        (spec.FORKS, 120, 0.05),
        pytest.param(spec.LAYOUTS, 600, 0.03, marks=pytest.mark.slow),
        pytest.param(spec.OFFERS, 600, 0.03, marks=pytest.mark.slow),
        pytest.param(spec.ROWS, 1_200, 0.03, marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_sound_cache_does_as_specified(instance, walks, share):
    """Many transitions of an instance go as specified, and refusals as well, without damage."""
    report = sample(Cache(), instance, claims, walks=walks, examples=20)
    assert report.holds, report.text()
    assert report.touched >= share * report.transitions
