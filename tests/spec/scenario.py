"""Scenarios: a cache of the core system, taken from step to step by name."""

from kvspec.models.concrete import Event, Machine
from kvspec.spec import core

SIZES = {
    "handles": 3,
    "txns": 2,
    "layers": 2,
    "abis": 2,
    "keys": 2,
    "blocks": 2,
    "rows": 3,
    "longest": 3,
    "versions": 5,
    "generations": 3,
    "rewinds": 2,
}


class Cache:
    """A state of an instance and what the steps so far led to; members are given by their index."""

    def __init__(self, **sizes):
        self.machine = Machine(core.make_instance("SCENARIO", "", **{**SIZES, **sizes}))
        (self.state,) = self.machine.initial_states()
        self.last = None

    def __getitem__(self, read):
        """`cache["phase", 0]` is the value of a variable at an index."""
        name, *index = read if isinstance(read, tuple) else (read,)
        return self.machine.value(self.state, name, *index)

    def outcome(self, action, **values):
        """What an event would do, without doing it."""
        wanted = self.machine.system.action(action).parameters
        assert set(values) == {p.name for p in wanted}
        return self.machine.step(
            self.state, Event(action, tuple((p.name, values[p.name]) for p in wanted))
        )

    def do(self, action, **values):
        """An event that must be accepted."""
        self.last = self.outcome(action, **values)
        assert self.last.kind == "accepted", self.last.refusal
        self.state = self.last.state
        return self

    def refuse(self, action, code, *, changes=False, **values):
        """An event that must be refused with the code, and change nothing but what `changes` allows."""
        self.last = self.outcome(action, **values)
        assert (self.last.kind, self.last.code) == ("refused", code)
        assert (self.last.state != self.state) == changes
        self.state = self.last.state
        return self.last.refusal

    def stage(self, txn, *, rows=None, layers=(0, 1)):
        """Stage all rows of an append's interval, K and V, layer by layer."""
        start = self["start", txn]
        for layer in layers:
            for row in range(start, start + (rows or self["count", txn])):
                self.do("stage_k", x=txn, l=layer, p=row)
                self.do("stage_v", x=txn, l=layer, p=row)
        return self

    def begin(self, txn=0, handle=0, key=0, abi=0, rows=1):
        """Begin an append where the handle's rows end."""
        return self.do("begin", x=txn, h=handle, k=key, a=abi, p=self["length", handle], n=rows)

    def prepared(self, txn=0, handle=0, key=0, rows=1):
        """An append that is complete and not yet published."""
        return self.begin(txn, handle, key, rows=rows).stage(txn).do("prepare", x=txn)

    def appended(self, txn=0, handle=0, key=0, rows=1):
        """An append that is published."""
        return self.prepared(txn, handle, key, rows).do("publish", x=txn)

    def shows(self, handle):
        """K and V rows that a reader finds in each layer."""
        layers = range(self.machine.instance.sizes["Layer"])
        return [(self["k_rows", handle, l], self["v_rows", handle, l]) for l in layers]

    def owners(self, block):
        """The handles that own a block."""
        handles = range(self.machine.instance.sizes["Handle"])
        return {h for h in handles if self["owner", block, h]}

    def row(self, row):
        """All companions of a batch row."""
        names = ("row_cache", "row_tokens", "row_sampler", "row_ancestry", "row_position")
        return tuple(self[name, row] for name in names)


def ready(**sizes):
    """A cache with one ready request without rows on handle 0 and block 0."""
    return Cache(**sizes).do("allocate", h=0, b=0, a=0)
