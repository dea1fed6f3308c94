"""Receipts: the three counters that a wrapper of a runtime has to own for each handle.

None of the four runtimes keeps them: how often the handle was released, how many snapshots the request has
had, and how many rows were committed by the last one. A wrapper writes them at the runtime's own steps, as
an observer that hinders none. `begun`, `published`, `cut` and `released` say what is written at which kind
of step; each runtime has a module that says which of its steps are of that kind.
"""

from __future__ import annotations

import attrs

from kvspec.spec.handles import Generation, Handle, Length, Version
from kvspec.spec.language import Expr, Module, Step, Variable


@attrs.frozen(eq=False)
class Receipts:
    """The wrapper's module with its counters, each a table over handles."""

    module: Module
    generations: Variable
    snapshots: Variable
    rows: Variable

    @staticmethod
    def of(runtime: Module) -> Receipts:
        """The counters of a wrapper of that runtime."""
        module = Module(
            f"{runtime.name}_receipts", f"What a wrapper of {runtime.name} owns.", uses=(runtime,)
        )
        return Receipts(
            module,
            module.variable(
                "generations",
                Handle,
                to=Generation,
                init=0,
                meaning="releases of the handle so far",
            ),
            module.variable(
                "snapshots", Handle, to=Version, init=0, meaning="receipts of the request so far"
            ),
            module.variable(
                "receipt_rows", Handle, to=Length, init=0, meaning="rows of the last receipt"
            ),
        )

    def begun(self, step: Step, h: Expr) -> None:
        """A request begins without snapshots."""
        step.assign(self.snapshots[h], 0)

    def published(self, step: Step, h: Expr, rows: Expr | int) -> None:
        """A step of the request makes a snapshot of so many rows."""
        step.assign(self.snapshots[h], self.snapshots[h] + 1)
        step.assign(self.rows[h], rows)

    def released(self, step: Step, h: Expr) -> None:
        """The request is released: that is a snapshot without rows, and fences the generation."""
        self.published(step, h, 0)
        step.assign(self.generations[h], self.generations[h] + 1)

    def can_begin(self, h: Expr) -> Expr:
        """Within the bounds of an instance, a release of one request more can be counted."""
        return self.generations[h] < Generation.top

    def can_publish(self, h: Expr) -> Expr:
        """Within the bounds of an instance, a snapshot can be counted, and after it that of a release."""
        return self.snapshots[h] + 1 < Version.top
