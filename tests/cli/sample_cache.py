"""Caches for the tests of `kvspec test`: the specification itself, and one that forgets a check."""

from kvspec.models.adapter import Adapter
from kvspec.models.backend import Reply
from kvspec.models.concrete import Machine


class Obedient:
    """A cache that does what the specification says."""

    def reset(self, instance):
        """Begin anew."""
        self.machine = Machine(instance)
        self.state = self.machine.initial_states()[0]

    def perform(self, event):
        """Take the step."""
        outcome = self.machine.step(self.state, event)
        self.state = outcome.state
        return Reply(outcome.kind == "accepted", outcome.code)

    def observe(self):
        """The state."""
        return self.state

    def damage(self):
        """None."""
        return []


class Forgetful(Obedient):
    """A cache that finishes a request and does not say so."""

    def perform(self, event):
        """Take the step, but for `finish`."""
        return Reply(accepted=True) if event.action == "finish" else super().perform(event)


class Unfinished:
    """Not a cache."""


class Adapted(Adapter):
    """What kvspec conform takes, and kvspec test does not."""


def layer_zero_alone():
    """The torch cache, but that a publication installs the rows of the first layer alone."""
    import attrs

    from kvspec.models.decode.backend import DecodeBackend

    class LayerZeroAlone(DecodeBackend):
        older = None

        def reset(self, instance):
            self.older, self.layers = None, instance.sizes["Layer"]
            self.names = list(instance.system.variables)
            super().reset(instance)

        def perform(self, event):
            before = super().observe()
            reply = super().perform(event)
            if event.action == "publish" and reply.accepted:
                self.older = before
            return reply

        def observe(self):
            state = super().observe()
            if self.older is None:
                return state
            tables = list(state.tables)
            for name in ("k_rows", "v_rows"):
                at = self.names.index(name)
                pairs = enumerate(zip(tables[at], self.older.tables[at], strict=True))
                tables[at] = tuple(old if i % self.layers else new for i, (new, old) in pairs)
            return attrs.evolve(state, tables=tuple(tables))

    return LayerZeroAlone(layout="static")
