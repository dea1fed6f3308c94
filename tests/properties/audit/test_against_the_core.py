"""The audit beside the core system: what that takes the audit takes, what it refuses is told by its code.

Three handles, three appends and two layers, in which every row of every layer is staged by a step of its
own, tell a log; the audit follows each handle in a window with one layer and few appends.
"""

from hypothesis import given
from hypothesis import strategies as st
from telling import Teller, audit

from kvspec.models.concrete import Event
from kvspec.models.concrete.compiled import Compiled
from kvspec.spec.append import (
    Txn,
    base_generation,
    base_version,
    count,
    is_ended,
    is_live,
    start,
    target,
)
from kvspec.spec.core import make_instance
from kvspec.spec.handles import Handle, generation, length, phase
from kvspec.spec.language import Symbol, exists, type_of
from kvspec.spec.numbering import snapshot_of as snapshot
from kvspec.spec.prefix import Block, filled, owner

HANDLES, TXNS, LAYERS, LARGE = 3, 3, 2, 10**6
CORE = Compiled(
    make_instance(
        "CORE",
        "the system that tells the log",
        handles=HANDLES,
        txns=TXNS,
        layers=LAYERS,
        blocks=HANDLES,
        longest=LARGE,
        versions=LARGE,
        generations=LARGE,
    )
)
H, X, B = (
    Symbol(type_of(sort), sort.__name__.lower(), "parameter") for sort in (Handle, Txn, Block)
)
PHASE, GENERATION, LENGTH = (CORE.value(of[H], H) for of in (phase, generation, length))
BASE, OF_GENERATION, START, COUNT = (
    CORE.value(of[X], X) for of in (base_version, base_generation, start, count)
)
TARGET = CORE.value(target[X], X)
SNAPSHOT = CORE.value(snapshot(H), H)
IS_LIVE, IS_ENDED = CORE.value(is_live(X), X), CORE.value(is_ended(X), X)
IS_OWNED = CORE.value(exists(Handle, lambda h: owner[B, h]), B)
IS_FILLED = CORE.value(filled[B], B)


class Core:
    """The core system, and the log that it tells. `took`: how many of its steps were accepted."""

    def __init__(self):
        self.cells = CORE.initial()
        self.tell = Teller()
        self.events = []
        self.names = {}
        self.of = {}
        self.outputs = [(0, 0)] * HANDLES
        self.fresh = 0
        self.took = 0

    def attempt(self, run, event, allowed=()):
        """Try steps; if they are taken their event is told, if not the audit must refuse it alike."""
        before = list(self.cells)
        code = run(self.cells)
        if code is None:
            self.took += 1
            self.events.append(event(self.tell))
            return True
        self.cells = before
        numbers = dict(self.tell.numbers)
        wrong = event(self.tell)
        self.tell.numbers = numbers
        found = audit(*self.events, wrong).findings
        assert [each.line for each in found] == [len(self.events) + 1]
        assert found[0].code in (code, *allowed)
        return False

    def of_handle(self, h):
        """Name, and the generation that events name."""
        return {"request": f"h{h}", "handle_generation": GENERATION(self.cells, h)}

    def strange(self, h):
        """What the audit may say of a handle of which it keeps nothing."""
        free = PHASE(self.cells, h) in ("VACANT", "RELEASED")
        return ("UNKNOWN_HANDLE", "STALE_GENERATION") if free else ()


def stage(cells, x):
    """Every row of every layer, one after the other."""
    for layer in range(LAYERS):
        for name in ("stage_k", "stage_v"):
            for position in range(START(cells, x), START(cells, x) + COUNT(cells, x)):
                code = CORE.steps[name](cells, x, layer, position)
                if code is not None:
                    return code
    return None


def publish(cells, x):
    """Stage, prepare and publish."""
    return stage(cells, x) or CORE.steps["prepare"](cells, x) or CORE.steps["publish"](cells, x)


def do_allocate(core, h, _x, _n):
    """Give the handle to a new request, with a block that nobody owns."""
    for b in range(HANDLES):
        if IS_FILLED(core.cells, b) and not IS_OWNED(core.cells, b):
            assert CORE.steps["evict"](core.cells, b) is None
    b = next((b for b in range(HANDLES) if not IS_FILLED(core.cells, b)), 0)
    told = core.of_handle(h)
    if core.attempt(lambda s: CORE.steps["allocate"](s, h, b, 0), lambda t: t.allocate(**told)):
        core.outputs[h] = (0, 0)


def do_start(core, h, x, n):
    """Begin an append, at the right position or one beside it."""
    if IS_ENDED(core.cells, x):
        assert CORE.steps["forget"](core.cells, x) is None
    if IS_LIVE(core.cells, x):
        return
    first = max(0, LENGTH(core.cells, h) + (1 if n == 5 else 0))
    rows, told = n % 5, core.of_handle(h)
    core.fresh += 1
    name, base = f"o{core.fresh}", SNAPSHOT(core.cells, h)
    if core.attempt(
        lambda s: CORE.steps["begin"](s, x, h, 0, 0, first, rows),
        lambda t: t.start(name, base, first, first + rows, **told),
        core.strange(h),
    ):
        core.names[x] = name
        core.of[x] = h


def ending(core, x):
    """The handle and the generation that the end of an append names, and what else may be told."""
    h = core.of[x]
    given = OF_GENERATION(core.cells, x)
    if not IS_LIVE(core.cells, x):
        given = GENERATION(core.cells, h)
    closed = () if IS_LIVE(core.cells, x) else ("UNKNOWN_OPERATION", *core.strange(h))
    return h, {"request": f"h{h}", "handle_generation": given}, closed


def do_publish(core, _h, x, _n):
    """Publish an append, whatever has become of its handle."""
    if x not in core.names:
        return
    _, told, closed = ending(core, x)
    base, rows = BASE(core.cells, x), START(core.cells, x) + COUNT(core.cells, x)
    name = core.names[x]
    core.attempt(lambda s: publish(s, x), lambda t: t.publish(name, base, rows, **told), closed)


def do_conflict(core, _h, x, _n):
    """An append whose publication is refused is told as a conflict, and is rejected."""
    if x not in core.names or not IS_LIVE(core.cells, x):
        return
    _, told, _ = ending(core, x)
    base, after = BASE(core.cells, x), list(core.cells)
    code = publish(after, x)
    if code is not None:
        core.cells = after
        lost = {"outcome": "conflict", "reason": code}
        core.events.append(core.tell.fail(core.names[x], base, **told, **lost))


def do_fail(core, _h, x, _n):
    """Abort an append."""
    if x not in core.names:
        return
    _, told, closed = ending(core, x)
    base, name = BASE(core.cells, x), core.names[x]
    core.attempt(
        lambda s: CORE.steps["cancel_txn"](s, x), lambda t: t.fail(name, base, **told), closed
    )


def do_fork(core, h, x, n):
    """Fork to another handle, or to the handle itself."""
    c = x % HANDLES
    children = tuple(each == c for each in range(HANDLES))
    rows, base, told = min(n, 4), SNAPSHOT(core.cells, h), core.of_handle(h)
    kid = {"child_generation": GENERATION(core.cells, c)}
    core.attempt(
        lambda s: CORE.steps["fork"](s, h, children, rows),
        lambda t: t.fork(base, f"h{c}", rows, **told, **kid),
        core.strange(h),
    )


def do_truncate(core, h, _x, n):
    """Cut a handle to n rows."""
    base, told = SNAPSHOT(core.cells, h), core.of_handle(h)
    core.attempt(
        lambda s: CORE.steps["truncate"](s, h, n),
        lambda t: t.truncate(base, n, **told),
        core.strange(h),
    )


def do_end(core, h, _x, n):
    """Finish or cancel a request."""
    name, outcome = ("finish", "success") if n % 2 else ("cancel_request", "cancelled")
    base, rows, told = SNAPSHOT(core.cells, h), LENGTH(core.cells, h), core.of_handle(h)
    core.attempt(
        lambda s: CORE.steps[name](s, h),
        lambda t: t.finish(base, rows, outcome=outcome, **told),
        core.strange(h),
    )


def do_release(core, h, _x, _n):
    """Release a handle."""
    base, told = SNAPSHOT(core.cells, h), core.of_handle(h)
    core.attempt(
        lambda s: CORE.steps["release"](s, h), lambda t: t.release(base, **told), core.strange(h)
    )


STEPS = {
    "allocate": do_allocate,
    "start": do_start,
    "publish": do_publish,
    "conflict": do_conflict,
    "fail": do_fail,
    "fork": do_fork,
    "truncate": do_truncate,
    "end": do_end,
    "release": do_release,
}
WEIGHTED = (*STEPS, "allocate", "start", "start", "publish", "publish")
moves = st.tuples(
    st.sampled_from(WEIGHTED),
    st.integers(0, HANDLES - 1),
    st.integers(0, TXNS - 1),
    st.integers(0, 5),
)


@given(st.lists(moves, min_size=10, max_size=60))
def test_the_audit_does_as_the_core_does(history):
    """Whatever the core takes, the audit takes; whatever it refuses is told with the same code."""
    core = Core()
    for kind, h, x, n in history:
        STEPS[kind](core, h, x, n)
    found = audit(*core.events)
    assert found.codes == {}
    assert found.verdict == ("holds" if core.events else "unknown")


def interpreted(name):
    """The compiled step, held to the interpreted one of the same instance."""
    names = [parameter.name for parameter in CORE.instance.system.action(name).parameters]
    step, twin = CORE.steps[name], Compiled(CORE.instance)

    def run(cells, *values):
        event = Event(name, tuple(zip(names, values, strict=True)))
        assert twin.disagreement(twin.restore(cells), event) is None
        return step(cells, *values)

    return run


def test_a_history_reaches_the_races(monkeypatch):
    """One fixed history: a lost race, a publication after release, a child that outlives its parent."""
    monkeypatch.setattr(CORE, "steps", {name: interpreted(name) for name in CORE.steps})
    core = Core()
    for kind, h, x, n in (
        ("allocate", 0, 0, 0),
        ("start", 0, 0, 4),
        ("start", 0, 1, 2),
        ("publish", 0, 0, 0),
        ("publish", 0, 1, 0),
        ("conflict", 0, 1, 0),
        ("fork", 0, 1, 3),
        ("start", 0, 2, 1),
        ("end", 0, 0, 1),
        ("release", 0, 0, 0),
        ("publish", 0, 2, 0),
        ("conflict", 0, 2, 0),
        ("truncate", 1, 0, 1),
        ("allocate", 0, 0, 0),
        ("end", 1, 0, 0),
        ("release", 1, 0, 0),
    ):
        STEPS[kind](core, h, x, n)
    told = [(each.event_type, each.reason) for each in core.events]
    assert ("failure", "STALE_SNAPSHOT") in told
    assert ("failure", "STALE_GENERATION") in told
    assert core.took == 12
    assert audit(*core.events).codes == {}
