"""The decode backend with a sliding window: what is dropped, what is refused, and harm in numbers."""

import pytest
import torch

from kvspec.models.concrete import Event, Machine
from kvspec.models.decode import (
    LAYOUT_KINDS,
    DecodeBackend,
    DecodeError,
    LayoutFaults,
    agrees,
    make_backend,
)
from kvspec.models.decode.backend_lives import allocated, resident_bytes
from kvspec.spec import core

INSTANCE = core.make_instance(
    "WINDOW",
    "two handles of up to eight rows in two layers, of which a truncation takes one back",
    handles=2,
    txns=1,
    layers=2,
    longest=8,
    versions=12,
    rewinds=1,
)
MACHINE = Machine(INSTANCE)
NAMES = {
    name: [parameter.name for parameter in action.parameters]
    for name, action in INSTANCE.system.actions.items()
}


def event(action: str, *values: object) -> Event:
    """An event by the values of its parameters."""
    return Event(action, tuple(zip(NAMES[action], values, strict=True)))


def do(backend: DecodeBackend, action: str, *values: object) -> None:
    """Perform an event that must be accepted."""
    reply = backend.perform(event(action, *values))
    assert reply.accepted, (action, values, reply)


def begun(layout: str, window: int | None) -> DecodeBackend:
    """A backend with a request and no rows."""
    backend = make_backend(layout, window=window)
    backend.reset(INSTANCE)
    do(backend, "allocate", 0, 0, 0)
    return backend


def publish(backend: DecodeBackend, h: int, start: int, count: int) -> None:
    """An append, published and forgotten."""
    do(backend, "begin", 0, h, 0, 0, start, count)
    for place in range(start, start + count):
        for layer in (0, 1):
            do(backend, "stage_k", 0, layer, place)
            do(backend, "stage_v", 0, layer, place)
    do(backend, "prepare", 0)
    do(backend, "publish", 0)
    do(backend, "forget", 0)


@pytest.mark.parametrize("window", [1, 2, 3, 5])
@pytest.mark.parametrize("layout", LAYOUT_KINDS)
def test_rows_and_logits_are_those_of_an_uncached_run(layout: str, window: int) -> None:
    """With a window any layout is sound; the windowed one keeps w + r rows, at their own positions (D2)."""
    backend = begun(layout, window)
    for start, count in ((0, 1), (1, 1), (2, 4), (6, 1), (7, 1)):
        publish(backend, 0, start, count)
        length = start + count
        view = backend.read(0)
        # One row more than an append needs: the last token's logits are read at its own position.
        kept = min(length, window + 1) if layout == "window" else length
        assert view.lengths() == [(length, length)] * 2
        assert view.layers()[1][0].shape[2] == 2 + kept
        places = [0, 1, *range(2 + length - kept, 2 + length)]
        assert [each.tolist() for each in view.positions()] == [places] * 2
        assert backend.damage() == []
        assert agrees(backend.logits(0), backend.uncached_logits(0))


def test_a_window_changes_the_logits() -> None:
    """The prompt's rows, in their block, are out of sight of a query that has gone far enough."""
    logits = []
    for window in (None, 3):
        backend = begun("window", window)
        publish(backend, 0, 0, 8)
        logits.append(backend.logits(0))
    assert not agrees(logits[1], logits[0])


def test_memory_that_is_told_is_that_of_the_rows_that_are_kept() -> None:
    """Bytes and slots in use of a request with eight rows are those of the three that are left."""
    backend = begun("window", 2)
    publish(backend, 0, 0, 8)
    tables = backend._held()
    row = 2 * 4 * torch.float32.itemsize
    assert resident_bytes(tables, tables.slots[0].entry) == 3 * 4 * row
    assert allocated(tables, 0) == {
        "allocated_blocks": 4,
        "allocated_slots": 3,
        "used_slots": 3,
    }


@pytest.mark.parametrize(
    "refused",
    [("truncate", 0, 6), ("fork", 0, (False, True), 5)],
    ids=["second-truncation", "fork"],
)
def test_what_is_gone_is_refused_where_the_core_system_would_go_on(
    refused: tuple[object, ...],
) -> None:
    """A second truncation in a row and a deep fork are refused with CANNOT_REWIND, and change nothing."""
    backend = begun("window", 2)
    publish(backend, 0, 0, 8)
    do(backend, "truncate", 0, 7)
    before = backend.observe()
    rows = backend.read(0).entry.rows
    step = event(str(refused[0]), *refused[1:])
    assert MACHINE.step(before, step).kind == "accepted"
    reply = backend.perform(step)
    assert (reply.accepted, reply.code) == (False, "CANNOT_REWIND")
    assert backend.observe() == before
    assert backend.read(0).entry.rows is rows
    assert backend.damage() == []
    publish(backend, 0, 7, 1)
    assert backend.damage() == []


def test_a_fork_within_the_window_goes_its_own_way() -> None:
    """Parent and child drop rows of their own, and both stay right."""
    backend = begun("window", 2)
    publish(backend, 0, 0, 6)
    do(backend, "fork", 0, (False, True), 5)
    publish(backend, 0, 6, 2)
    publish(backend, 1, 5, 3)
    assert backend.damage() == []
    for handle in (0, 1):
        assert [pair[0] for pair in backend.read(handle).entry.rows.kept()] == [3, 3]
        assert agrees(backend.logits(handle), backend.uncached_logits(handle))


@pytest.mark.parametrize("layout", ["window", "offloaded"])
def test_a_reader_keeps_the_rows_of_its_snapshot(layout: str) -> None:
    """A view taken before later publications, truncation and release reads the rows that it saw (D3)."""
    backend = begun(layout, 2)
    publish(backend, 0, 0, 4)
    view = backend.read(0)
    held = [[part.clone() for part in pair] for pair in view.layers()]
    publish(backend, 0, 4, 4)
    do(backend, "truncate", 0, 7)
    do(backend, "finish", 0)
    do(backend, "release", 0)
    for before, now in zip(held, view.layers(), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(before, now, strict=True))


@pytest.mark.parametrize(
    ("fault", "window", "kinds"),
    [("window_early", 1, {"logits"}), ("row_as_position", 2, {"logits", "rows"})],
)
def test_a_window_that_is_off_is_measured(
    fault: str, window: int, kinds: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same events leave no damage without the fault, and wrong logits with it (D4)."""
    for faults in (LayoutFaults(), LayoutFaults(**{fault: True})):
        monkeypatch.setattr(
            "kvspec.models.decode.backend.layout_faults", lambda _, held=faults: held
        )
        backend = begun("window", window)
        publish(backend, 0, 0, 8)
        do(backend, "truncate", 0, 7)
        damage = backend.damage()
        assert {harm.kind for harm in damage} == (kinds if faults != LayoutFaults() else set())
        assert all(harm.amount > 0.1 for harm in damage)


def test_a_backend_without_its_check_goes_back_to_what_is_gone() -> None:
    """With the check of the core system left out, the layout goes back too, and the logits are wrong (D4)."""
    fault = "truncate.drop-guard.CANNOT_REWIND"
    backend = make_backend("window", (fault,), window=2)
    backend.reset(INSTANCE)
    do(backend, "allocate", 0, 0, 0)
    publish(backend, 0, 0, 8)
    do(backend, "truncate", 0, 4)
    assert "logits" in {harm.kind for harm in backend.damage()}


def test_a_window_has_a_key_at_least() -> None:
    """A window of zero is refused when the decoder is made."""
    with pytest.raises(DecodeError, match="window = 0"):
        begun("window", 0)
