"""Caches for the tests of `kvspec test`: the specification itself, and one that forgets a check."""

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
