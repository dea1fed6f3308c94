"""The specification beside something that runs: its formulas, and its machine as a follower.

Modelled: formulas of a system read in an observed state; what an action would do in it, or the code of the
guard that refuses it; a follower that takes the same events as the thing that runs, one after the other,
and compares every variable after each. Left out: concurrency; events come in one order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from kvspec.models.concrete.compiled import CUT, Cells, Compiled
from kvspec.models.concrete.evaluate import Bound
from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State, Value
from kvspec.models.concrete.text import show_event
from kvspec.models.decode.errors import DecodeError
from kvspec.spec.handles import Handle
from kvspec.spec.language import Expr, Instance, Symbol, type_of

_HANDLE: Final = Symbol(type_of(Handle), "the_handle", "parameter")


class RefusedBySpecError(DecodeError):
    """A step that the specification refuses in the state observed."""

    code = "REFUSED"

    def __init__(self, refusal: str, **told: str) -> None:
        super().__init__(**told)
        self.refusal = refusal


class Rules:
    """The guards, effects and formulas of an instance's system, applied to observed states.

    Attributes:
        instance: its sizes and bounds.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self._compiled = Compiled(instance)
        self._formulas: dict[Callable[[Expr], Expr], Callable[..., Any]] = {}

    @property
    def initial(self) -> State:
        """The initial state."""
        return self._compiled.restore(self._compiled.initial())

    def start(self) -> dict[str, tuple[Value, ...]]:
        """The initial values of each variable, by its name, in the system's order."""
        return dict(zip(self.instance.system.variables, self.initial.tables, strict=True))

    def cells(self, state: State) -> Cells:
        """The cells of a state, one for each variable at each index."""
        return self._compiled.flatten(state)

    def take(self, cells: Cells, action: str, values: Mapping[str, Bound]) -> str | None:
        """Take a step, changing the cells in place; the code of the refusal if there is one."""
        found = self.instance.system.action(action)
        order = [parameter.name for parameter in found.parameters]
        return self._compiled.steps[action](cells, *(values[name] for name in order))

    def after(self, state: State, variable: str, index: int, action: str, **values: Bound) -> Any:
        """The value that a variable of one index would have behind a step, which is not taken.

        Raises:
            RefusedBySpecError: the step would be refused, or leave the bounds.
        """
        cells = self.cells(state)
        code = self.take(cells, action, values)
        if code is not None:
            raise RefusedBySpecError(
                code,
                where=f"{action} {values}",
                found=f"a step refused with {code}",
                expected="a step that the specification accepts here",
                fix="look at the guard of that code",
            )
        layout = self._compiled.layout
        return cells[layout.place(self.instance.system.variables[variable], index)]

    def refusal(self, state: State, event: Event) -> str | None:
        """The code with which a step would be refused, or None; it is not taken."""
        return self.take(self.cells(state), event.action, event.names)

    def facts(
        self, state: State, formulas: Mapping[str, Callable[[Expr], Expr]], handle: int
    ) -> Mapping[str, Any]:
        """The values of formulas of one handle, by name; the answer cannot be written to."""
        cells, found = self.cells(state), {}
        for name, formula in formulas.items():
            if formula not in self._formulas:
                self._formulas[formula] = self._compiled.value(formula(_HANDLE), _HANDLE)
            found[name] = self._formulas[formula](cells, handle)
        return MappingProxyType(found)

    def shown(self, event: Event) -> str:
        """An event as a call."""
        return show_event(self._compiled.machine, event)

    def differences(self, found: Cells, expected: Cells) -> list[str]:
        """The variables, with what was found and expected, in which two states differ."""
        if found == expected:
            return []
        told = []
        for name, variable in self.instance.system.variables.items():
            layout = self._compiled.layout
            start, size = layout.base[name], layout.count(variable)
            pair = tuple(found[start : start + size]), tuple(expected[start : start + size])
            if pair[0] != pair[1]:
                told.append(f"{name} = {list(pair[0])}, expected {list(pair[1])}")
        return told


class Follower:
    """Takes every event that something says it carried out, and compares what it shows.

    After the first finding it looks no further: what follows would follow from it.

    Attributes:
        events: followed so far.
        finding: what went wrong first, or None.
    """

    def __init__(self, rules: Rules) -> None:
        self.events = 0
        self.finding: str | None = None
        self._rules = rules
        self._cells = rules.cells(rules.initial)

    @property
    def verdict(self) -> str:
        """``holds`` if all was as specified, ``violated`` if not, ``unknown`` if nothing happened."""
        if self.finding is not None:
            return "violated"
        return "holds" if self.events else "unknown"

    def take(self, events: Sequence[Event], observed: State) -> None:
        """Follow events that were carried out as one, and compare the state behind them."""
        for event in events:
            if self.finding is not None:
                return
            self.events += 1
            code = self._rules.take(self._cells, event.action, event.names)
            if code is not None:
                told = "leaves the bounds" if code == CUT else f"is refused with {code}"
                self.report(f"{self._rules.shown(event)} was carried out, and {told}")
        if self.finding is None:
            differing = self._rules.differences(self._rules.cells(observed), self._cells)
            if differing:
                named = self._rules.shown(events[-1]) if events else "nothing"
                self.report(f"after {named}: {'; '.join(differing)}")

    def report(self, finding: str) -> None:
        """Take down what went wrong, unless something did before."""
        if self.finding is None:
            self.finding = f"event {self.events}: {finding}"
