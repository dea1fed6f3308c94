"""The window: few steps that stand for many, and one handle apart from the others."""

import pytest

from kvspec.models.concrete.compiled import Compiled
from kvspec.properties.audit.window import TXNS, Window, window
from kvspec.spec.core import make_instance
from kvspec.spec.handles import Handle, Phase
from kvspec.spec.language import Symbol, type_of
from kvspec.spec.numbering import snapshot_of as snapshot


def make(layers=1):
    """A window of its own, with small bounds."""
    return Compiled(
        make_instance(
            "W", "w", handles=2, txns=TXNS, layers=layers, longest=99, versions=99, generations=99
        )
    )


def begun(compiled, rows, first=0):
    """Cells with an append of so many rows open, on a handle of `first` rows."""
    cells = compiled.initial()
    steps = compiled.steps
    assert steps["allocate"](cells, 0, 0, 0) is None
    if first:
        assert steps["begin"](cells, 1, 0, 0, 0, 0, first) is None
        assert stage_each(compiled, cells, 1, 0, first) is None
        assert steps["prepare"](cells, 1) is None
        assert steps["publish"](cells, 1) is None
    assert steps["begin"](cells, 0, 0, 0, 0, first, rows) is None
    return cells


def stage_each(compiled, cells, x, first, end):
    """Every row of every layer, one after the other."""
    for layer in range(compiled.instance.sizes["Layer"]):
        for name in ("stage_k", "stage_v"):
            for position in range(first, end):
                code = compiled.steps[name](cells, x, layer, position)
                if code is not None:
                    return code
    return None


@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 40])
def test_the_jump_gives_what_the_staging_steps_give(rows, first):
    """Staging the first and the last row, with the end moved between, is staging all rows."""
    compiled = make()
    one, two = begun(compiled, rows, first), begun(compiled, rows, first)
    assert stage_each(compiled, one, 0, first, first + rows) is None
    assert compiled.steps["prepare"](one, 0) is None
    assert compiled.steps["publish"](one, 0) is None
    assert Window(compiled).publish(two, 0) is None
    assert one == two


def test_a_jump_that_is_too_short_is_refused():
    """The jump hides nothing: with an end that is not the interval's, preparing is refused."""
    compiled = make()
    cells, found = begun(compiled, 5), Window(compiled)
    cells[found.count[0]] = 4
    assert found._stage(cells, 0) is None
    cells[found.count[0]] = 5
    assert found.prepare[0](cells) == "K_INCOMPLETE"


def test_one_layer_stands_for_all():
    """With two layers, all staged, publication gives the same handle cells as with one."""
    one, two = make(1), make(2)
    cells, more = begun(one, 5), begun(two, 5)
    for compiled, each in ((one, cells), (two, more)):
        assert stage_each(compiled, each, 0, 0, 5) is None
        assert compiled.steps["prepare"](each, 0) is None
        assert compiled.steps["publish"](each, 0) is None
    h = Symbol(type_of(Handle), "h", "parameter")
    assert one.value(snapshot(h), h)(cells, 0) == two.value(snapshot(h), h)(more, 0) == 1


def test_a_child_lives_on_in_a_window_of_its_own():
    """After a fork, each of the two handles has the cells that it has in the common window."""
    w = window()
    parent, child = w.make(7), w.make(0)
    assert w.allocate(parent) is None
    assert w.begin[0](parent, 0, 5) is None
    assert w.publish(parent, 0) is None
    w.bring(parent, child)
    assert w.fork(parent, 3) is None
    together = list(parent)
    w.take(parent, child)
    assert child[w.phase] == Phase.DECODE_READY.value
    assert (child[w.generation], child[w.rows], w.snapshot_of(child, 0)) == (0, 3, 0)
    assert [child[zero] for zero, _, is_handle in w.pairs if not is_handle] == [
        together[one] for _, one, is_handle in w.pairs if not is_handle
    ]
    assert (parent[w.rows], w.snapshot_of(parent, 0)) == (5, 1)
    assert all(parent[one] == w.blank[one] for _, one, _ in w.pairs)


def test_a_child_that_is_in_use_is_refused():
    """A live handle brought in as the child is none that can be given away."""
    w = window()
    parent, child = w.make(0), w.make(0)
    assert (w.allocate(parent), w.allocate(child)) == (None, None)
    w.bring(parent, child)
    assert w.fork(parent, 0) == "CHILD_IN_USE"


def test_a_handle_is_used_again():
    """A second allocation evicts the block that the first left, and takes the next generation."""
    w = window()
    cells = w.make(3)
    for step in (w.allocate, w.finish, w.release):
        assert step(cells) is None
    assert w.snapshot_of(cells, 0) == 1
    assert w.allocate(cells) is None
    assert (cells[w.generation], w.snapshot_of(cells, 0)) == (4, 0)
    assert w.allocate(cells) == "HANDLE_LIVE"
