import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvspec.counterexamples.negative_cases import load_document
from kvspec.models.documents import convert, replaced
from kvspec.properties.documents import find_kind
from kvspec.properties.documents.byte_trajectory import LEDGERS, REFUSALS, completed, replay
from kvspec.spec.documents.byte_trajectory import (
    ByteEvent,
    Request,
    Rows,
    computed_byte_time,
    computed_ledger,
)
from kvspec.spec.failures import CODES

KIND = find_kind("byte-trajectory")
DATA = load_document("byte-trajectory")
FIXTURE = convert(KIND, DATA, "byte-trajectory.json")

# Section 0x02: rows of A and B, then logical, materialized, reserved, physical and temporary bytes.
TEXT = (
    ((0, None), (0, 0, 0, 0, 0)),
    ((4, None), (256, 256, 512, 528, 96)),
    ((4, 0), (256, 256, 512, 528, 0)),
    ((4, 2), (384, 512, 1024, 1072, 96)),
    ((5, 2), (448, 576, 1024, 1072, 32)),
    ((5, 3), (512, 704, 1024, 1072, 32)),
    ((5, 3), (512, 704, 1024, 1072, 0)),
    ((None, 3), (192, 384, 512, 544, 0)),
    ((None, 4), (256, 512, 512, 544, 32)),
    ((None, 4), (256, 512, 512, 544, 0)),
    ((None, None), (0, 0, 0, 0, 0)),
)


def blank():
    """The trajectory without what is computed: events and sizes alone."""
    events = tuple(attrs.evolve(event, committed=(), ledger=None) for event in FIXTURE.events)
    return attrs.evolve(FIXTURE, events=events)


@st.composite
def trajectories(draw):
    """Any lives of up to three requests, interleaved, with any sizes."""
    names = ["A", "B", "C"][: draw(st.integers(1, 3))]
    requests, lives = [], []
    for name in names:
        placed = draw(st.lists(st.sampled_from(FIXTURE.tiers), min_size=1, max_size=3))
        tiers = tuple(sorted(placed, key=FIXTURE.tiers.index))
        prefill, decodes = draw(st.integers(1, 4)), draw(st.integers(0, 3))
        room = prefill + decodes + draw(st.integers(0, 3))
        requests.append(Request(name, len(tiers), tiers, room))
        steps = [("arrive", None), ("prefill_publish", Rows(0, prefill))]
        steps += [("decode_publish", Rows(prefill + n, 1)) for n in range(decodes)]
        lives.append([(name, *step) for step in (*steps, ("finish", None), ("release", None))])
    turns = draw(st.permutations([n for n, life in enumerate(lives) for _ in life]))
    time, events = -1, []
    for turn in turns:
        time += draw(st.integers(1, 5))
        name, operation, rows = lives[turn].pop(0)
        events.append(ByteEvent(time, name, operation, rows, draw(st.integers(0, 99)), (), None))
    return attrs.evolve(
        FIXTURE,
        metadata_per_copy=draw(st.integers(0, 32)),
        requests=tuple(requests),
        events=tuple(events),
    )


@given(trajectories())
def test_any_legal_lives_are_a_trajectory(drawn):
    """Whatever the lives and sizes, the document that follows from them keeps every contract."""
    assert KIND.first_broken(completed(drawn)) is None


@given(trajectories(), st.data())
def test_a_life_without_one_of_its_events_is_refused(drawn, data):
    """No event can be left out: the document then breaks a contract."""
    whole = completed(drawn)
    place = data.draw(st.integers(0, len(whole.events) - 1))
    left = (*whole.events[:place], *whole.events[place + 1 :])
    assert KIND.first_broken(attrs.evolve(whole, events=left)) is not None


def test_the_fixture_follows_from_its_sizes_and_events():
    """All else in the fixture is computed from these."""
    assert completed(blank()) == FIXTURE
    with pytest.raises(ValueError, match=r"event 0 .*NOT_TERMINAL"):
        completed(attrs.evolve(FIXTURE, events=FIXTURE.events[7:]))


def test_every_figure_of_the_text_is_computed():
    """From sizes and events alone, the eleven events give the rows and bytes of the text."""
    committed = replay(blank()).committed
    assert len(committed) == len(TEXT) == 11
    for event, rows, (text_rows, text_bytes) in zip(FIXTURE.events, committed, TEXT, strict=True):
        found = computed_ledger(FIXTURE, attrs.evolve(event, committed=rows))
        assert rows == text_rows
        figures = (found.logical, found.materialized, found.reserved, found.physical)
        assert (*figures, found.workspace) == text_bytes


def test_the_instant_that_the_text_takes_apart():
    """After event 5: overhead 192, slack 320, metadata 48, GPU 800 and host 272, with workspace 1,104."""
    found = computed_ledger(FIXTURE, FIXTURE.events[5])
    assert (found.replication_overhead, found.reservation_slack, found.allocator) == (192, 320, 48)
    assert [(part.tier, part.bytes_held) for part in found.resident] == [
        ("gpu", 800),
        ("host", 272),
    ]
    assert found.instantaneous == 1104


def test_the_two_peaks_are_at_two_events():
    """The peak of physical bytes is 1,072, and with workspace 1,168 during the prefill of B."""
    found = [computed_ledger(FIXTURE, event) for event in FIXTURE.events]
    assert max(each.physical for each in found) == FIXTURE.peak_physical == 1072
    assert max(each.instantaneous for each in found) == FIXTURE.peak_instantaneous == 1168
    assert [n for n, each in enumerate(found) if each.instantaneous == 1168] == [3]


def test_the_fixture_is_bound_to_the_manifest():
    """Its cache ABI is that of the manifest, and so is the digest."""
    manifest = load_document("manifest")
    assert DATA["cache_abi_sha256"] == manifest["digests"]["cache_abi_sha256"]
    assert DATA["cache_abi"] == {part: manifest[part] for part in DATA["cache_abi"]}
    assert DATA["token_bytes"] == manifest["ledger"]["token_bytes"]


def test_a_late_release_grows_the_area():
    """The area under the logical bytes grows by what is held, for each tick that a release is late."""
    late = attrs.evolve(
        FIXTURE, events=(*FIXTURE.events[:-1], attrs.evolve(FIXTURE.events[-1], time=17))
    )
    held = FIXTURE.events[-2].ledger.logical
    assert computed_byte_time(late) - computed_byte_time(FIXTURE) == 7 * held > 0


def test_refusals_are_those_of_the_specification():
    """Every code of legality is a code of the specification, and its contract tells the meaning there."""
    for code in REFUSALS:
        assert CODES[code].meaning in KIND.contracts[code].meaning


def test_every_ledger_has_a_contract():
    """No field of the ledger is left unchecked."""
    fields = {field.name for field in attrs.fields(type(FIXTURE.events[0].ledger))}
    assert {field for field, _ in LEDGERS.values()} == fields


def test_a_request_of_many_layers_is_replayed():
    """Eighty layers and a thousand rows are no matter: hidden steps are those of two layers."""
    deep = replaced(DATA, "/cache_abi/cache_schema/layers", 80)
    deep = replaced(deep, "/requests/0/reserved_tokens", 1000)
    t = convert(KIND, deep, "deep")
    long = attrs.evolve(t.events[1], rows=Rows(0, 990))
    found = replay(attrs.evolve(t, events=(t.events[0], long)))
    assert found.refused is None
    assert found.committed[-1] == (990, None)


@pytest.mark.parametrize(
    ("place", "rows", "code"),
    [(3, Rows(0, 5), "CONTEXT_FULL"), (4, Rows(3, 1), "POSITION_MISMATCH")],
)
def test_a_refusal_tells_the_event(place, rows, code):
    """The replay stops at the event that the specification refuses, with its code and what it found."""
    events = list(FIXTURE.events)
    events[place] = attrs.evolve(events[place], rows=rows)
    at, refusal = replay(attrs.evolve(FIXTURE, events=tuple(events))).refused
    assert (at, refusal.code) == (place, code)
    assert refusal.found


def test_a_million_rows_are_replayed_at_once():
    """Long stretches are shortened, and the rows told are still the document's."""
    million = 1_000_000
    long = replaced(DATA, "/requests/0/reserved_tokens", million + 1)
    t = convert(KIND, long, "long")
    rows = {1: Rows(0, million), 4: Rows(million, 1)}
    events = [attrs.evolve(event, rows=rows.get(n, event.rows)) for n, event in enumerate(t.events)]
    found = replay(attrs.evolve(t, events=tuple(events)))
    assert found.refused is None
    assert [each[0] for each in found.committed[:6]] == [0, *[million] * 3, *[million + 1] * 2]
    events[4] = attrs.evolve(events[4], rows=Rows(million + 1, 1))
    at, refusal = replay(attrs.evolve(t, events=tuple(events))).refused
    assert (at, refusal.code) == (4, "POSITION_MISMATCH")
    assert f"after {million} rows" in refusal.found
