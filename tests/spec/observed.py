"""Scenarios of systems that extend the core: any instance, stepped by name, members by their index."""

from kvspec.models.concrete import Event, Machine, evaluate


class Observed:
    """A state of an instance and the steps so far."""

    def __init__(self, made):
        self.machine = Machine(made)
        (self.state,) = self.machine.initial_states()

    def __getitem__(self, read):
        """`seen["phase", 0]` is the value of a variable at an index; `seen["gap"]` without one."""
        name, *index = read if isinstance(read, tuple) else (read,)
        return self.machine.value(self.state, name, *index)

    def outcome(self, action, **values):
        """What an event would do."""
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
        """An event that must be refused with the code."""
        found = self.outcome(action, **values)
        assert (found.kind, found.code) == ("refused", code)
        assert (found.state != self.state) == changes
        self.state = found.state
        return self

    def tells(self, formula, **names):
        """The value of a formula over bound members, given by index."""
        return evaluate(formula, self.machine.environment(self.state, names=names))
