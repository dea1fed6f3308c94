"""The table of events: five planes that share no field, and what each type may carry."""

import attrs
import pytest

from kvspec.spec.documents.event import (
    COMPONENTS,
    ENVELOPE,
    OPTIONAL,
    OUTCOMES,
    PLANES,
    TYPES,
    Event,
    make_event,
    plane_of,
)

FIELDS = [field.name for field in attrs.fields(Event)]
SEMANTIC_TYPES = (
    "request_allocate",
    "append_start",
    "append_publish",
    "failure",
    "output_emit",
    "fork",
    "truncate",
    "finish",
    "release",
)


def test_the_five_planes_share_the_fields_among_them():
    """Every field of an event is in one plane, and in one alone."""
    assert list(PLANES) == ["semantic", "operation", "allocator", "residency", "telemetry"]
    assert sorted(name for fields in PLANES.values() for name in fields) == sorted(FIELDS)
    assert {name: plane_of(name) for name in ("token_id", "used_slots", "tier")} == {
        "token_id": "semantic",
        "used_slots": "allocator",
        "tier": "residency",
    }


def test_there_are_nine_types_of_the_cache_and_two_observations():
    """The cache tells what it did; the other parts tell what they saw."""
    assert tuple(n for n, kind in TYPES.items() if kind.component == "cache") == SEMANTIC_TYPES
    assert [n for n, kind in TYPES.items() if kind.caused] == [
        "allocator_observe",
        "residency_observe",
    ]
    assert {kind.component for kind in TYPES.values()} == set(COMPONENTS)


@pytest.mark.parametrize("name", TYPES)
def test_a_type_carries_known_fields_of_its_own_planes(name):
    """No event of the cache carries what an observer saw, nor the other way round."""
    kind = TYPES[name]
    assert set(kind.carries) <= set(OPTIONAL)
    assert set(kind.outcomes) <= set(OUTCOMES)
    assert set(kind.causes) <= set(TYPES)
    seen = {plane_of(field) for field in kind.carries}
    allowed = {"semantic", "operation"} if kind.component == "cache" else {kind.component}
    assert seen <= allowed
    assert kind.meaning


def test_a_failure_and_an_output_name_no_result():
    """Neither makes a snapshot, so neither can carry one."""
    for name in ("failure", "output_emit", "append_start"):
        assert not {"result_snapshot", "committed_tokens"} & set(TYPES[name].carries)


def test_every_field_is_carried_by_some_type():
    """A field that no event can have would be dead."""
    carried = {field for kind in TYPES.values() for field in kind.carries}
    assert carried | set(ENVELOPE) | {"outcome", "caused_by_event_id"} == set(FIELDS)


def test_fields_that_are_not_given_are_null():
    """`make_event` takes what the event carries; the envelope must be whole."""
    whole = dict.fromkeys(ENVELOPE, "x")
    event = make_event(**whole, tier="gpu")
    assert event.tier == "gpu"
    assert {getattr(event, name) for name in OPTIONAL if name != "tier"} == {None}
    with pytest.raises(TypeError, match="event_id"):
        make_event(**{name: "x" for name in ENVELOPE if name != "event_id"})
