"""Adapters for the tests: the specification itself as a cache, and caches with one planted fault each."""

from typing import ClassVar

import attrs

from kvspec.models.adapter import Adapter, RefusedByCacheError
from kvspec.models.backend import Damage
from kvspec.models.concrete import Event, Machine
from kvspec.models.concrete.state import State
from kvspec.spec.core import system


class Sound(Adapter):
    """Does what the specification says, and shows everything."""

    name = "sound"
    forgets = ()  # guards that are not checked, as (action, code)

    def reset(self, instance):
        """Begin anew; what a fault leads to has room beyond the bounds of the instance."""
        bounds = {name: bound + 3 for name, bound in instance.bounds.items()}
        roomy = attrs.evolve(instance, bounds=bounds, limits=(), system=self.altered(instance))
        self.machine = Machine(roomy)
        self.state = self.machine.initial_states()[0]

    def altered(self, instance):
        """The system without the guards that are forgotten."""
        actions = dict(instance.system.actions)
        for name, code in self.forgets:
            kept = tuple(g for g in actions[name].guards if g.code.name != code)
            actions[name] = attrs.evolve(actions[name], guards=kept)
        return attrs.evolve(instance.system, actions=actions)

    def step(self, action, values):
        """Carry out an action, or refuse."""
        outcome = self.machine.step(self.state, Event(action, tuple(values.items())))
        self.state = outcome.state
        if outcome.refusal is not None:
            raise RefusedByCacheError(outcome.code, outcome.refusal.found)

    def observe(self):
        """All variables."""
        return self.seen()

    def seen(self):
        """All variables."""
        return dict(zip(self.machine.system.variables, self.state.tables, strict=True))

    def damage(self):
        """Nothing to measure, and measured."""
        return []

    def describe(self):
        """The lengths."""
        return f"lengths {self.seen()['length']}"

    def put(self, variable, place, value):
        """Overwrite a cell."""
        order = list(self.machine.system.variables)
        tables = [list(table) for table in self.state.tables]
        tables[order.index(variable)][place] = value
        self.state = State(tuple(tuple(table) for table in tables))


def _method(name):
    def call(self, **values):
        self.step(name, values)

    return call


for _name in system.actions:
    setattr(Sound, _name, _method(_name))


class EarlyLayer(Sound):
    """The K rows of layer 0 can be read as soon as they are staged."""

    name = "early layer"

    def stage_k(self, x, l, p):
        """Stage, and show."""
        self.step("stage_k", {"x": x, "l": l, "p": p})
        handle = self.seen()["target"][x]
        if l == 0 and handle is not None:
            layers = self.machine.instance.sizes["Layer"]
            self.put("k_rows", handle * layers, p + 1)


class ForgetsGeneration(Sound):
    """Release leaves the generation as it was."""

    name = "forgets the generation"

    def release(self, h):
        """Release."""
        before = self.seen()["generation"][h]
        self.step("release", {"h": h})
        self.put("generation", h, before)


class HidesGeneration(ForgetsGeneration):
    """The same, and the generation cannot be seen from outside."""

    name = "hides the generation"

    def observe(self):
        """All but the generations."""
        hidden = ("generation", "base_generation")
        return {name: value for name, value in self.seen().items() if name not in hidden}


class AcceptsStale(Sound):
    """Publishes an append whose handle has another snapshot by now."""

    name = "accepts stale appends"
    forgets = (("publish", "STALE_SNAPSHOT"),)


class WrongCode(Sound):
    """Refuses what it must, but says that the handle is in use where the block is."""

    name = "wrong code"

    def step(self, action, values):
        """Change the code."""
        try:
            super().step(action, values)
        except RefusedByCacheError as refusal:
            if (action, refusal.code) == ("evict", "STILL_OWNED"):
                raise RefusedByCacheError("BLOCK_EMPTY") from None
            raise


class NoCodes(Sound):
    """Refuses with an exception of its own, without a code."""

    name = "no codes"
    refusals = (PermissionError,)

    def step(self, action, values):
        """Hide the code."""
        try:
            super().step(action, values)
        except RefusedByCacheError:
            raise PermissionError("no") from None


class Meddles(Sound):
    """A truncation that is refused as too long cuts the rows all the same."""

    name = "meddles"

    def truncate(self, h, n):
        """Cut, then look."""
        try:
            self.step("truncate", {"h": h, "n": n})
        except RefusedByCacheError as refusal:
            if refusal.code == "BEYOND_COMMITTED":
                self.put("version", h, self.seen()["version"][h] + 1)
            raise


class OffByOne(Sound):
    """A truncation to nothing leaves a row."""

    name = "off by one"

    def truncate(self, h, n):
        """Cut one row too few."""
        had = self.seen()["length"][h]
        self.step("truncate", {"h": h, "n": n})
        if had > n:
            self.put("length", h, n + 1)


class Crashes(Sound):
    """Freeing an empty block is a KeyError, and so is finishing a request with an open append."""

    name = "crashes"

    def evict(self, b):
        """Free."""
        if not self.seen()["filled"][b]:
            raise KeyError(b)
        self.step("evict", {"b": b})


class Refuses(Sound):
    """No request can be finished while an append is open, which the specification allows."""

    name = "refuses"

    def finish(self, h):
        """Refuse to end what has work."""
        if "OPEN" in self.seen()["state"]:
            raise RefusedByCacheError("BUSY")
        self.step("finish", {"h": h})


class Flickers(Sound):
    """Every fifth leave is forgotten, counted over all runs."""

    name = "flickers"
    calls = 0

    def leave(self, h):
        """Leave, or not."""
        Flickers.calls += 1
        before = self.state
        self.step("leave", {"h": h})
        if Flickers.calls % 5 == 0:
            self.state = before


class Remembers(Sound):
    """After a fork that names no child the next cancellation is counted as a finish."""

    name = "remembers"
    sour = False

    def reset(self, instance):
        """Forget."""
        super().reset(instance)
        self.sour = False

    def fork(self, p, children, n):
        """Refuse, and remember."""
        try:
            self.step("fork", {"p": p, "children": children, "n": n})
        except RefusedByCacheError as refusal:
            self.sour = self.sour or refusal.code == "NO_CHILD"
            raise

    def cancel_request(self, h):
        """Cancel."""
        self.step("cancel_request", {"h": h})
        if self.sour:
            self.put("phase", h, "FINISHED")


class Rots(Sound):
    """After a release the numbers of what is left are wrong."""

    name = "rots"

    def damage(self):
        """A wrong logit where a handle was released."""
        if "RELEASED" in self.seen()["phase"]:
            return [Damage("logits", "handle0", 0.25, "differs from an uncached run")]
        return []


class NotBlank(Sound):
    """Begins with a handle that is ready."""

    name = "not blank"

    def reset(self, instance):
        """Begin anew, nearly."""
        super().reset(instance)
        self.put("phase", 0, "DECODE_READY")


class LayerByLayer(Adapter):
    """A list of rows for each layer, as a plain decoder keeps them: what is staged can be read at once."""

    name = "lists of rows"
    not_offered: ClassVar = {
        name: "one request, whose rows are appended in place"
        for name in system.actions
        if name not in ("allocate", "begin", "stage_k", "stage_v", "prepare", "publish", "truncate")
    }

    def reset(self, instance):
        """No rows."""
        self.layers, self.is_open = instance.sizes["Layer"], False
        self.rows = [[0, 0] for _ in range(self.layers)]

    def observe(self):
        """The rows of each layer."""
        return {
            "k_rows": tuple(k for k, _ in self.rows),
            "v_rows": tuple(v for _, v in self.rows),
        }

    def can_try(self, action, values):
        """Layers come in order."""
        if action in ("stage_k", "stage_v") and values["l"] > 0:
            return self.rows[values["l"] - 1][action == "stage_v"] == values["p"] + 1
        return True

    def allocate(self, h, b, a):
        """Nothing to do, once."""
        if self.is_open:
            raise RefusedByCacheError
        self.is_open = True

    def begin(self, x, h, k, a, p, n):
        """Nothing is kept of it."""

    def stage_k(self, x, l, p):
        """Append a row, wherever it should stand."""
        self.rows[l][0] += 1

    def stage_v(self, x, l, p):
        """Append a row, wherever it should stand."""
        self.rows[l][1] += 1

    def prepare(self, x):
        """Nothing to do."""

    def publish(self, x):
        """Nothing to do: the rows are there."""

    def truncate(self, h, n):
        """Cut every layer."""
        for row in self.rows:
            row[:] = [min(row[0], n), min(row[1], n)]


class TruncatesLate(Sound):
    """Truncates only where rows are and no append is on record; with two layers it checks nothing."""

    name = "truncates late"

    def can_try(self, action, values):
        """Rows, and no append."""
        seen = self.seen()
        return action != "truncate" or (
            seen["length"][values["h"]] > 0 and set(seen["state"]) == {"IDLE"}
        )

    def truncate(self, h, n):
        """Accept what is too long in silence, in two layers."""
        if n <= self.seen()["length"][h] or self.machine.instance.sizes["Layer"] == 1:
            self.step("truncate", {"h": h, "n": n})
