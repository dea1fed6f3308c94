import attrs
from hypothesis import given
from hypothesis import strategies as st

from kvspec.spec.documents.byte_ledger import Holding, ledger, rectangle

TIERS = ("gpu", "host", "disk")
KEPT = ("logical", "materialized", "reserved", "allocator", "physical", "resident")

holdings = st.lists(
    st.tuples(
        st.integers(1, 99), st.integers(0, 99), st.lists(st.sampled_from(TIERS), min_size=1)
    ).map(lambda drawn: Holding(drawn[0], drawn[0] + drawn[1], tuple(drawn[2]))),
    max_size=5,
)
some = holdings.filter(bool)
bytes_of_a_row = st.integers(1, 999)
charges = st.integers(0, 99)


def test_lengths_five_and_two():
    """Lengths 5 and 2 of 64 bytes a row: 448 bytes, padded 640, of which 192 are of no row."""
    found = rectangle([5, 2], [1, 1], 64)
    assert (found.logical, found.rectangular, found.phantom) == (448, 640, 192)


def test_nobody_holds_anything():
    """Without requests every ledger is 0, in every tier."""
    found = attrs.asdict(ledger([], TIERS, 64, 16, 0))
    assert found.pop("resident") == tuple({"tier": tier, "bytes_held": 0} for tier in TIERS)
    assert set(found.values()) == {0}


@given(holdings, bytes_of_a_row, charges, charges)
def test_tiers_are_parts_of_physical_bytes(held, row, metadata, workspace):
    """Bytes in the tiers add up to physical bytes, and no ledger is below the one it contains."""
    found = ledger(held, TIERS, row, metadata, workspace)
    assert sum(part.bytes_held for part in found.resident) == found.physical
    assert found.logical <= found.materialized <= found.reserved <= found.physical
    assert found.physical + workspace == found.instantaneous


@given(some, bytes_of_a_row, charges, st.sampled_from(TIERS))
def test_a_replica_leaves_logical_bytes_alone(held, row, metadata, tier):
    """One more copy of a request: its rows and room once more, metadata once more, logical as before."""
    first = held[0]
    more = [attrs.evolve(first, copy_tiers=(*first.copy_tiers, tier)), *held[1:]]
    before, after = (ledger(each, TIERS, row, metadata, 0) for each in (held, more))
    assert after.logical == before.logical
    assert after.materialized == before.materialized + first.rows * row
    assert after.physical == before.physical + first.capacity * row + metadata


@given(some, bytes_of_a_row, charges, st.integers(1, 9))
def test_more_room_is_slack(held, row, metadata, room):
    """More reserved rows move slack and physical bytes, and no row."""
    first = held[0]
    more = [attrs.evolve(first, capacity=first.capacity + room), *held[1:]]
    before, after = (ledger(each, TIERS, row, metadata, 0) for each in (held, more))
    added = len(first.copy_tiers) * room * row
    assert (after.logical, after.materialized) == (before.logical, before.materialized)
    assert after.reservation_slack == before.reservation_slack + added
    assert after.physical == before.physical + added


@given(holdings, bytes_of_a_row, charges, charges)
def test_workspace_is_of_the_instant_alone(held, row, metadata, workspace):
    """Workspace moves instantaneous bytes and nothing that stays."""
    before, after = (
        ledger(held, TIERS, row, metadata, 0),
        ledger(held, TIERS, row, metadata, workspace),
    )
    assert [getattr(before, name) for name in KEPT] == [getattr(after, name) for name in KEPT]
    assert after.instantaneous - before.instantaneous == workspace


@given(holdings, bytes_of_a_row, st.integers(2, 5))
def test_bytes_of_rows_scale_with_the_row(held, row, factor):
    """A row of so many times the bytes makes every ledger of rows so many times as large."""
    one, other = ledger(held, TIERS, row, 0, 0), ledger(held, TIERS, factor * row, 0, 0)
    for name in ("logical", "materialized", "reserved", "physical"):
        assert getattr(other, name) == factor * getattr(one, name)
