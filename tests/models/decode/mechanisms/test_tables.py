"""A table on the device: all that a small instance allows."""

from graph_walks import answer_everything

from kvspec.models.decode.mechanisms.tables import Cache, shared_model
from kvspec.spec.tables import ONE_BUFFER


def test_the_sound_table_does_all_that_a_small_instance_allows():
    """In every state every event has the specified answer, the specified state after it, and no damage."""
    found = answer_everything(Cache(), ONE_BUFFER, shared_model())
    assert found == (ONE_BUFFER.expected.states, ONE_BUFFER.expected.transitions)
