"""Bounded model checking finds shortest runs, and says how far it looked where it finds none."""

from typing import Any

import attrs
import pytest

from kvspec.models.symbolic import bmc
from kvspec.spec.examples import peer
from kvspec.spec.language import limit

CLAIM = peer.properties["publication_is_of_the_captured_generation"]


def on(system: Any, row: str) -> Any:
    """An instance of a changed peer system."""
    return attrs.evolve(peer.ROWS[row], system=system, expected=None)


def test_the_planted_fault_takes_fourteen_steps(planted: Any) -> None:
    """Publish without the comparison of generations is found in 14 steps, two appends on one handle."""
    found = bmc(on(planted("publish", "STALE_GENERATION"), "1,2,2,3,4"), CLAIM, 16)
    assert (found.verdict, found.depth) == ("violated", 14)
    assert found.trace is not None
    assert [event.action for event, _ in found.trace.steps].count("publish") == 2
    assert len(found.trace.show().splitlines()) == 14


def test_one_layer_takes_ten_steps(planted: Any) -> None:
    """With one layer, four stage steps fewer."""
    found = bmc(on(planted("publish", "STALE_GENERATION"), "2,2,1,2,2"), CLAIM, 12)
    assert (found.verdict, found.depth) == ("violated", 10)


def test_no_violation_up_to_a_depth_is_unknown() -> None:
    """The sound system has no such run, and a bound is no proof."""
    depths = []
    found = bmc(peer.ROWS["1,1,1,2,2"], CLAIM, 6, progress=lambda depth, _: depths.append(depth))
    assert (found.verdict, found.depth, found.trace) == ("unknown", 6, None)
    assert found.reason == "no violation up to depth 6"
    assert depths == list(range(7))


def test_out_of_time_is_unknown() -> None:
    """Without time nothing is said of any depth."""
    found = bmc(peer.ROWS["1,1,1,2,2"], CLAIM, 6, seconds=0.0)
    assert (found.verdict, found.depth) == ("unknown", -1)
    assert "out of 0 s" in found.reason


def test_a_witness_is_reached() -> None:
    """The first publication with two layers takes begin, four stages, prepare and publish."""
    found = bmc(peer.ROWS["1,1,2,3,4"], peer.properties["reaches_a_publication"], 10)
    assert (found.verdict, found.depth) == ("holds", 7)


def test_limits_and_bounds_are_kept() -> None:
    """An event outside a limit is not tried, and a step beyond a bound is not taken."""

    @limit(peer.begin)
    def never() -> Any:
        return peer.max_length < 0

    limited = attrs.evolve(peer.ROWS["1,1,1,2,2"], limits=(never,))
    witness = peer.properties["reaches_a_publication"]
    assert bmc(limited, witness, 8).verdict == "unknown"
    flat = attrs.evolve(peer.ROWS["1,1,1,2,2"], bounds={"Length": 0, "Generation": 2})
    assert bmc(flat, witness, 8).verdict == "unknown"
    assert bmc(peer.ROWS["1,1,1,2,2"], witness, 8).depth == 5


def test_a_claim_of_another_kind_is_refused() -> None:
    """Progress is no property of runs up to a depth."""
    with pytest.raises(ValueError, match="takes invariants"):
        bmc(peer.ROWS["1,1,1,2,2"], peer.properties["every_begun_append_ends"], 3)


def test_an_instance_may_lack_members_of_a_sort() -> None:
    """Without appends nothing is published; without layers, nothing has to be staged."""
    witness = peer.properties["reaches_a_publication"]
    sizes = peer.ROWS["1,1,1,2,2"].sizes
    no_append = attrs.evolve(peer.ROWS["1,1,1,2,2"], sizes={**sizes, "Txn": 0})
    assert bmc(no_append, witness, 6).verdict == "unknown"
    no_layer = attrs.evolve(peer.ROWS["1,1,1,2,2"], sizes={**sizes, "Layer": 0})
    assert bmc(no_layer, witness, 6).depth == 3
    no_handle = attrs.evolve(peer.ROWS["1,1,1,2,2"], sizes={**sizes, "Handle": 0})
    assert bmc(no_handle, witness, 6).verdict == "unknown"
