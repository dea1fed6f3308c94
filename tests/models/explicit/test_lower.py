"""Generated source means the same to Python, to numba and to the lowering used here."""

import numba
import numpy as np
import pytest

from kvspec.models.explicit import cache
from kvspec.models.explicit.packing import MARK
from kvspec.models.explicit.program import Program
from kvspec.spec.examples import peer, two_phase_commit

SOURCE = '''def mixed(st, lo, hi, variant, out, tally):
    """Every construct of generated source."""
    k = 0
    for i in range(lo, hi):
        s0 = st[i]
        if (s0 & 1) == 0:
            continue
        q = True
        for b in range(3):
            if not ((s0 >> b) & 1 != 0):
                q = False
                break
        x = (s0 // 3 - 2 * variant) if (q | (variant == 2)) else (s0 ^ ~7)
        y = max(x, -x)
        if (q and x != y) or not (q == (variant < 1)):
            tally[0] += 1
        elif (x <= y) & (x > -100):
            tally[1] |= x << 2
        else:
            pass
        out[k] = y
        k += 1
    return k
'''


@pytest.mark.parametrize("variant", [0, 1, 2])
def test_every_construct_means_what_it_means_in_python(variant):
    """The lowered function and the Python one write the same."""
    names = {}
    exec(SOURCE, names)  # noqa: S102 - the source stands above
    st = np.array([*range(40), MARK + 7, MARK + 5, MARK - 1], np.int64)
    results = []
    for function in (names["mixed"], cache.load(SOURCE)):
        out, tally = np.zeros(50, np.int64), np.zeros(2, np.int64)
        made = function(st, 0, len(st), variant, out, tally)
        results.append((made, out.tolist(), tally.tolist()))
    assert results[0] == results[1]


def test_what_is_not_lowered_is_named():
    """A construct beyond the subset is refused with its text."""
    with pytest.raises(TypeError, match="while"):
        cache.load("def f(st):\n    while True:\n        pass\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("instance", "properties"),
    [
        (peer.ROWS["1,1,2,3,4"], peer.properties),
        (two_phase_commit.THREE, two_phase_commit.properties),
    ],
)
def test_expand_is_the_same_under_numba(instance, properties):
    """Successors, counts and events of all states agree with those that numba's code gives."""
    program = Program(instance, properties.by_name.values())
    graph = program.graph()
    names = {}
    exec(program.source(full=True), names)  # noqa: S102 - the source generated for the engine
    compiled = numba.njit(error_model="numpy")(names["expand"])
    packed = np.ascontiguousarray(graph.packed.reshape(-1))
    results = []
    for function in (compiled, program.expand_full):
        size = len(graph) * sum(program.event_counts)
        out, src, ev = (np.zeros(size, np.int64) for _ in range(3))
        dead, tally = np.zeros(len(graph), np.int64), np.zeros(program.tally.size, np.int64)
        made = function(packed, 0, len(graph), 0, 0, out, dead, tally, src, ev)
        results.append([made, *(array.tolist() for array in (out, src, ev, dead, tally))])
    assert results[0] == results[1]


def test_the_cache_is_found_again(tmp_path, monkeypatch):
    """A second process would find the object file: its name depends on the source."""
    monkeypatch.setenv("KVSPEC_CACHE", str(tmp_path))
    source = "def g(st, lo):\n    return st[lo] + 41\n"
    cache._loaded.clear()
    assert cache.load(source)(np.array([1, 2]), 0) == 42
    (path,) = tmp_path.glob("*.o")
    assert path.with_suffix(".py").read_text() == source
    before = path.stat().st_mtime_ns
    cache._loaded.clear()
    assert cache.load(source)(np.array([1, 2]), 1) == 43
    assert path.stat().st_mtime_ns == before
