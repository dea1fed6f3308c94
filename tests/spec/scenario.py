"""Scenarios: a cache of the core system, taken from step to step by name."""

from observed import Observed

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


class Cache(Observed):
    """A cache of the core system, whose refusals can be looked at."""

    def __init__(self, **sizes):
        super().__init__(core.make_instance("SCENARIO", "", **{**SIZES, **sizes}))

    def refuse(self, action, code, *, changes=False, **values):
        """An event that must be refused with the code, and change nothing but what `changes` allows."""
        return super().refuse(action, code, changes=changes, **values).refusal

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
