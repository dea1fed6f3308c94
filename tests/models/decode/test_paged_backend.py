"""The pool of blocks under the decode backend: forks, cuts and releases keep its books in order."""

from kvspec.models.concrete import Event
from kvspec.models.decode import make_backend
from kvspec.spec import core

INSTANCE = core.make_instance(
    "FAMILY",
    "a request, its children, and the requests that come after",
    handles=3,
    txns=1,
    layers=2,
    longest=4,
    versions=8,
    blocks=3,
    generations=3,
)
NAMES = {
    name: [parameter.name for parameter in action.parameters]
    for name, action in INSTANCE.system.actions.items()
}


class Driven:
    """A backend over the paged layout whose pool is audited after every event."""

    def __init__(self):
        self.backend = make_backend("paged")
        self.backend.reset(INSTANCE)
        self.tables = self.backend._held()
        self.pool = self.tables.store().pool

    def do(self, action, *values):
        """Perform an event that must be accepted."""
        event = Event(action, tuple(zip(NAMES[action], values, strict=True)))
        reply = self.backend.perform(event)
        assert reply.accepted, (event, reply)
        assert self.pool.audit() == []
        assert self.backend.damage() == []

    def append(self, handle, start, count):
        """Begin, stage, prepare, publish and forget an append."""
        self.do("begin", 0, handle, 0, 0, start, count)
        for layer in range(2):
            for place in range(start, start + count):
                self.do("stage_k", 0, layer, place)
                self.do("stage_v", 0, layer, place)
        for action in ("prepare", "publish", "forget"):
            self.do(action, 0)

    def table(self, handle):
        """The blocks of a handle's rows."""
        return self.tables.slots[handle].layout.snapshot().table

    def end(self, handle):
        """Finish and release a request."""
        self.do("finish", handle)
        self.do("release", handle)


def test_the_backend_keeps_its_pool_in_order():
    """Two children share their parent's block, part from it by copies, and outlive it (D2)."""
    driven = Driven()
    driven.do("allocate", 0, 0, 0)
    driven.append(0, 0, 1)
    driven.do("fork", 0, (False, True, True), 1)
    assert driven.table(0) == driven.table(1) == driven.table(2)
    for handle in (0, 1, 2):
        driven.append(handle, 1, 2)
    assert len({driven.table(handle)[0] for handle in (0, 1, 2)}) == 3
    driven.do("truncate", 1, 0)
    driven.end(0)
    driven.append(1, 0, 3)
    driven.do("allocate", 0, 1, 0)
    driven.append(0, 0, 4)
    for handle in (0, 1, 2):
        driven.end(handle)
    assert driven.pool.free_count == driven.pool.blocks
    assert driven.pool.taken == 10
