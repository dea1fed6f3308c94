"""Tests of layouts whose device fails beneath them: what is refused leaves everything as it was."""

import pytest

from kvspec.models.decode import LAYOUT_KINDS, DecodeError, Part, WorkerStream, allocate, run_now
from kvspec.models.decode.kinds import StoreSizes, open_store


@pytest.fixture(params=LAYOUT_KINDS)
def store(request, shape):
    """A way to open empty layouts of one store of each kind."""
    return open_store(request.param, shape, StoreSizes(16, layouts=2))


@pytest.fixture
def layout(store):
    """An empty layout of each kind."""
    return store()


@pytest.fixture
def failed():
    """A stream whose work has raised, so that nothing can be waited for on it."""

    def lost():
        raise RuntimeError("device lost")

    with WorkerStream("lost") as stream:
        with pytest.raises(DecodeError, match="device lost"):
            stream.launch(lost).wait()
        yield stream
        stream.close()


def filled(constant, layout, value, count):
    """An open append whose rows all hold ``value``."""
    staging = layout.begin(count)
    constant.stage(staging, value)
    return staging


def refused(stream, change):
    """Try a change while a failed stream is current; the refusal is kept as a caller might."""
    with stream.current(), pytest.raises(DecodeError) as refusal:
        change()
    assert refusal.value.code == "STREAM_FAILED"
    return refusal


def audited(layout):
    """What is wrong with the store's book-keeping, where it has some that can be checked."""
    pool = getattr(layout, "pool", None)
    return [] if pool is None else pool.audit()


def in_store(layout):
    """What a store counts: references to blocks, or layers on the device."""
    if layout.name == "paged":
        return layout.pool.references
    return layout.room.layers if layout.name == "offloaded" else None


def test_an_install_that_fails_while_it_lands_changes_nothing(store, layout, failed, constant):
    """The append stays open with its rows and blocks, others stay out of them, and a retry succeeds."""
    layout.install(filled(constant, layout, 1, 3))
    staging, before = filled(constant, layout, 2, 2), in_store(layout)
    kept = refused(failed, lambda: layout.install(staging))
    assert not staging.is_closed
    assert (in_store(layout), audited(layout)) == (before, [])
    assert constant.shown(layout) == constant.whole([1, 1, 1])
    assert staging.view(1).keys[0, 0, :, 0].tolist() == [1, 1, 1, 2, 2]
    other = store()
    other.install(filled(constant, other, 7, 2))
    layout.install(staging)
    assert constant.shown(layout) == constant.whole([1, 1, 1, 2, 2])
    assert constant.shown(other) == constant.whole([7, 7])
    assert audited(layout) == []
    del kept


def test_an_append_whose_install_failed_can_be_discarded(layout, failed, constant):
    """What it held goes back: the next append lands where it would have landed."""
    layout.install(filled(constant, layout, 1, 3))
    before = in_store(layout)
    staging = filled(constant, layout, 2, 2)
    refused(failed, lambda: layout.install(staging))
    staging.discard()
    assert (audited(layout), in_store(layout)) == ([], before)
    buffer = getattr(layout.snapshot(), "buffer", None)
    layout.install(filled(constant, layout, 3, 2))
    assert constant.shown(layout) == constant.whole([1, 1, 1, 3, 3])
    assert getattr(layout.snapshot(), "buffer", None) is buffer


def test_a_failed_install_gives_back_the_room_that_it_took(shape, failed, constant):
    """An append beside the buffer of a static layout takes room to land, and leaves it when that fails."""
    layout = allocate("static", shape, capacity=16)
    tenant, beside = filled(constant, layout, 1, 2), filled(constant, layout, 2, 2)
    tenant.discard()
    buffer = layout.snapshot().buffer
    refused(failed, lambda: layout.install(beside))
    layout.install(filled(constant, layout, 3, 2))
    assert layout.snapshot().buffer is buffer
    assert constant.shown(layout) == constant.whole([3, 3])


@pytest.mark.parametrize("verb", ["truncate", "fork"])
def test_a_cut_or_fork_that_fails_changes_nothing(layout, failed, constant, verb):
    """All rows stay visible, and the store counts what it counted before."""
    layout.install(filled(constant, layout, 1, 3))
    before = in_store(layout)
    kept = refused(failed, lambda: getattr(layout, verb)(1))
    assert constant.shown(layout) == constant.whole([1, 1, 1])
    assert audited(layout) == []
    assert in_store(layout) == before
    del kept


def test_an_audit_sees_an_open_append_whose_blocks_were_given_away(shape, constant):
    """Its blocks are free, or another's, while it still writes to them; a closed append needs none."""
    layout = allocate("paged", shape, capacity=16)
    staging = filled(constant, layout, 1, 2)
    (block,) = staging.lease.blocks
    staging.lease.give_back()
    assert f"block {block} is free and has 1 holders" in layout.pool.audit()
    other = filled(constant, layout, 2, 2)
    assert other.lease.blocks == (block,)
    assert any(f"block {block} has two writers" in text for text in layout.pool.audit())
    staging.discard()
    assert layout.pool.audit() == []


class LostOnce:
    """A submit function whose first writes are taken, and then refused; they land when told to."""

    def __init__(self, failing=1):
        self.failing = failing
        self.late = []

    def __call__(self, write, device):
        """Take the first writes and raise; run those that follow."""
        if len(self.late) < self.failing:
            self.late.append(write)
            raise RuntimeError("no answer")
        return run_now(write, device)

    def land(self):
        """Let the writes land that were refused."""
        for write in self.late:
            write()


def retried(constant, layout, value, count, submit, cell=(0, Part.KEY)):
    """An open append of ``value`` one part of which was first started with 99 in vain."""
    staging = layout.begin(count, submit)
    for _ in range(submit.failing):
        with pytest.raises(RuntimeError, match="no answer"):
            staging.stage(*cell, constant.rows(99, layout.shape, count))
    constant.stage(staging, value)
    return staging


@pytest.mark.parametrize("held", [0, 3])
@pytest.mark.parametrize("failing", [1, 2])
def test_a_write_whose_start_failed_is_never_published(layout, constant, held, failing):
    """A part that is staged again shows its second rows, whenever the first write lands."""
    for moment in ("staged", "viewed", "installed"):
        each = layout.fork(0)
        if held:
            each.install(filled(constant, each, 1, held))
        submit = LostOnce(failing)
        staging = retried(constant, each, 2, 2, submit)
        if moment == "staged":
            submit.land()
        assert staging.view(0).keys[0, 0, :, 0].tolist() == [1] * held + [2, 2]
        if moment == "viewed":
            submit.land()
        each.install(staging)
        each.install(filled(constant, each, 3, 1))
        submit.land()
        assert constant.shown(each) == constant.whole([1] * held + [2, 2, 3])
        assert audited(each) == []
        each.release()


@pytest.mark.parametrize("end", ["discarded", "dropped"])
def test_a_write_whose_start_failed_reaches_no_later_append(store, layout, constant, end):
    """After a retry the append is discarded or dropped, and the late write meets nobody's rows."""
    layout.install(filled(constant, layout, 1, 1))
    submit = LostOnce()
    staging = retried(constant, layout, 2, 2, submit)
    if end == "discarded":
        staging.discard()
    del staging
    other = store()
    for value, each in ((3, layout), (4, other), (5, layout), (6, other)):
        each.install(filled(constant, each, value, 2))
    submit.land()
    assert constant.shown(layout) == constant.whole([1, 3, 3, 5, 5])
    assert constant.shown(other) == constant.whole([4, 4, 6, 6])
    assert audited(layout) == []


def test_a_retried_append_whose_blocks_do_not_suffice_stays_open(shape, constant):
    """To land outside its spoilt blocks a paged append needs others; without them it is refused whole."""
    layout = open_store("paged", shape, StoreSizes(16, blocks=3, block_size=2))()
    staging = retried(constant, layout, 1, 4, LostOnce())
    before = layout.pool.references
    with pytest.raises(DecodeError) as refusal:
        layout.install(staging)
    assert refusal.value.code == "CAPACITY_EXCEEDED"
    assert (layout.pool.references, layout.pool.audit()) == (before, [])
    assert staging.view(0).keys[0, 0, :, 0].tolist() == [1, 1, 1, 1]
    staging.discard()
    layout.install(filled(constant, layout, 2, 2))
    assert constant.shown(layout) == constant.whole([2, 2])
