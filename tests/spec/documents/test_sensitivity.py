import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvspec.counterexamples.negative_cases import load_document
from kvspec.models.documents import convert
from kvspec.properties.documents import find_kind
from kvspec.spec.documents.sensitivity import (
    FACTORS,
    Fixture,
    Geometry,
    Share,
    changed_controls,
    figures,
)

CLOSURE = convert(find_kind("closure"), load_document("closure"), "closure.json")
BASE = CLOSURE.sensitivity.base
SWEEPS = {sweep.control: figures(sweep.fixture) for sweep in CLOSURE.sensitivity.sweeps}

sizes = st.integers(1, 40)
geometries = st.builds(Geometry, *[sizes] * 6)
shares = st.builds(Share, st.integers(0, 99), st.integers(1, 4))
fixtures = st.builds(Fixture, geometries, st.lists(shares, min_size=1, max_size=5).map(tuple))


def with_geometry(fixture, **changes):
    """The fixture with other sizes."""
    return attrs.evolve(fixture, geometry=attrs.evolve(fixture.geometry, **changes))


def test_the_base_of_the_text():
    """From geometry, lengths and copies: 64, 512, 704, 640 and 128 bytes."""
    assert attrs.astuple(figures(BASE)) == (64, 512, 704, 640, 128)


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        ("cache_layers", (128, 1024, 1408, 1280, 256)),
        ("kv_heads", (128, 1024, 1408, 1280, 256)),
        ("head_width", (128, 1024, 1408, 1280, 256)),
        ("scalar_bytes", (32, 256, 352, 320, 64)),
        ("query_heads", (64, 512, 704, 640, 128)),
        ("context", (64, 832, 1024, 1280, 448)),
        ("concurrency", (64, 896, 1088, 1152, 256)),
    ],
)
def test_the_seven_sweeps(control, expected):
    """Each sweep gives the figures that were worked out by hand (docs/decisions/009)."""
    assert attrs.astuple(SWEEPS[control]) == expected


def test_there_is_a_sweep_of_every_control():
    """The document sweeps the seven controls."""
    assert list(SWEEPS) == list(FACTORS)
    assert len(SWEEPS) == 7


@given(fixtures, st.sampled_from(["cache_layers", "kv_heads", "head_width"]), st.integers(2, 5))
def test_bytes_are_linear_in_each_size(fixture, name, factor):
    """So many times a size makes every figure so many times as large."""
    changed = with_geometry(fixture, **{name: factor * getattr(fixture.geometry, name)})
    assert attrs.astuple(figures(changed)) == tuple(
        factor * one for one in attrs.astuple(figures(fixture))
    )


@given(fixtures, sizes)
def test_query_heads_are_in_no_figure(fixture, heads):
    """Any number of query heads gives the same bytes."""
    assert figures(with_geometry(fixture, query_heads=heads)) == figures(fixture)


@given(fixtures, shares)
def test_one_request_more(fixture, share):
    """It adds its own logical bytes, and to the rectangle also what it makes all others wider."""
    before = figures(fixture)
    after = figures(attrs.evolve(fixture, requests=(*fixture.requests, share)))
    longest = max(one.rows for one in fixture.requests)
    count, row = len(fixture.requests), before.token_bytes
    assert after.logical - before.logical == row * share.rows
    assert after.materialized - before.materialized == row * share.rows * share.copies
    wider = (count + 1) * max(longest, share.rows) - count * longest
    assert after.rectangular - before.rectangular == row * wider


@given(fixtures)
def test_one_copy_more(fixture):
    """It adds the rows of its request to the materialized bytes, and to nothing else."""
    first, *others = fixture.requests
    more = attrs.evolve(first, copies=first.copies + 1)
    before, after = figures(fixture), figures(attrs.evolve(fixture, requests=(more, *others)))
    added = before.token_bytes * first.rows
    assert after == attrs.evolve(before, materialized=before.materialized + added)


def test_changes_are_named():
    """Each change of the base is found, two of them as two."""
    a, b = BASE.requests
    longer, copied = attrs.evolve(a, rows=9), attrs.evolve(b, copies=1)
    assert changed_controls(BASE, BASE) == ()
    assert changed_controls(BASE, with_geometry(BASE, key_bytes=1)) == ("scalar_bytes",)
    assert changed_controls(BASE, with_geometry(BASE, kv_heads=1, head_width=8)) == (
        "kv_heads",
        "head_width",
    )
    assert changed_controls(BASE, attrs.evolve(BASE, requests=(longer, copied))) == (
        "context",
        "copies",
    )
    assert changed_controls(BASE, attrs.evolve(BASE, requests=(a, b, a))) == ("concurrency",)
    assert changed_controls(BASE, attrs.evolve(BASE, requests=(a,))) == ("requests",)
    assert changed_controls(BASE, attrs.evolve(BASE, requests=(longer, b, a))) == ("requests",)
