"""Scenarios: any instance, taken from step to step by name, members given by their index."""

from kvspec.models.concrete import Event, Machine, evaluate


class Observed:
    """A state of an instance and what the steps so far led to; refusal: the last one."""

    def __init__(self, made):
        self.machine = Machine(made)
        (self.state,) = self.machine.initial_states()
        self.refusal = None

    def __getitem__(self, read):
        """`seen["phase", 0]` is the value of a variable at an index; `seen["gap"]` without one."""
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
        found = self.outcome(action, **values)
        assert found.kind == "accepted", found.refusal
        self.state = found.state
        return self

    def refuse(self, action, code, *, changes=False, **values):
        """An event that must be refused with the code, and change nothing but what `changes` allows."""
        found = self.outcome(action, **values)
        assert (found.kind, found.code) == ("refused", code)
        assert (found.state != self.state) == changes
        self.state, self.refusal = found.state, found.refusal
        return self

    def stage(self, txn, *, rows=None, layers=None):
        """Stage all rows of an append's interval, K and V, layer by layer."""
        start = self["start", txn]
        for layer in range(self.machine.instance.sizes["Layer"]) if layers is None else layers:
            for row in range(start, start + (rows or self["count", txn])):
                self.do("stage_k", x=txn, l=layer, p=row)
                self.do("stage_v", x=txn, l=layer, p=row)
        return self

    def tells(self, formula, **names):
        """The value of a formula over bound members, given by index."""
        return evaluate(formula, self.machine.environment(self.state, names=names))
