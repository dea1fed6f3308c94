"""Scenarios of the serving system: one or two requests with prompts, outputs and drafts, stepped by name."""

from observed import Observed

from kvspec.spec import serving
from kvspec.spec.handles import Handle
from kvspec.spec.language import Symbol, type_of

H = Symbol(type_of(Handle), "h", "parameter")
SIZES = {
    "handles": 2,
    "txns": 2,
    "layers": 2,
    "blocks": 2,
    "longest": 8,
    "versions": 9,
    "generations": 2,
}


class Served(Observed):
    """A cache of the serving system. Appends have transaction 0 and handle 0 unless others are named."""

    def __init__(self, **sizes):
        super().__init__(serving.make_instance("SCENARIO", "", **{**SIZES, **sizes}))

    def begin(self, rows=1, drafts=0, txn=0, handle=0):
        """Begin an append where the handle's rows end, its last rows for drafts."""
        start = self["length", handle]
        return self.do("begin", x=txn, h=handle, k=0, a=0, p=start, n=rows, d=drafts)

    def prepare(self, txn=0):
        """Stage all rows of an append and declare it complete."""
        return self.stage(txn).do("prepare", x=txn)

    def publish(self, txn=0):
        """Publish a prepared append and forget it."""
        return self.do("publish", x=txn).do("forget", x=txn)

    def append(self, rows=1, drafts=0, txn=0, handle=0):
        """Publish an append of rows for known tokens."""
        return self.begin(rows, drafts, txn, handle).prepare(txn).publish(txn)

    def emit(self, handle=0):
        """Emit an output."""
        return self.do("emit", h=handle)

    def view(self, handle=0):
        """The service view of a handle."""
        fields = serving.service_view(H)
        return {name: self.tells(formula, h=handle) for name, formula in fields.items()}

    def phase(self, handle=0):
        """The service phase of a handle."""
        return self.view(handle)["phase"]

    def counts(self, handle=0):
        """Outputs emitted, those processed, and rows committed."""
        view = self.view(handle)
        names = ("emitted_output_tokens", "processed_generated_tokens", "committed_tokens")
        return tuple(view[name] for name in names)


def request(prompt=4, **sizes):
    """A cache with one request that has just arrived, on handle 0 and block 0."""
    return Served(**sizes).do("allocate", h=0, b=0, a=0, p=prompt)


def prefilled(prompt=4, **sizes):
    """A request whose prompt has its rows."""
    return request(prompt, **sizes).append(prompt)
