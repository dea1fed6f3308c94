"""Stepper: one event applied to one packed state, as a compiled function for any event of an instance.

The function takes its parameters from an array, so it is compiled once for an instance and serves
every history over it.

    step(st, lo, out, hi, ev, at, variant) -> 0 accepted, n refused with code n, -1 - (either) cut

st, lo: the words of the state, from there on. out, hi: where the words after go; all are written,
except by a step that is cut. ev, at: the event's row, its action and then its parameters, maps taken
apart. Codes are numbered from 1 in the order of `Stepper.codes`.
"""

from __future__ import annotations

from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State
from kvspec.models.explicit.cache import Compiled, load, load_within
from kvspec.models.explicit.expand import slots
from kvspec.models.explicit.folding import Val, constant
from kvspec.models.explicit.packing import Layout, codes, encode, make_layout
from kvspec.models.explicit.terms import Terms
from kvspec.models.explicit.updates import Update
from kvspec.models.explicit.writer import Writer
from kvspec.spec.language.actions import Action, Assignment, Guard
from kvspec.spec.language.expr import MapSymbol
from kvspec.spec.language.instances import Instance

SIGNATURE = "st, lo, out, hi, ev, at, variant"
ACCEPTED = 0
READ = -1
"""The action of a row that reads cells and takes no step."""


class Stepper:
    """The packing of an instance's states and events, and its compiled step."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.layout = make_layout(instance)
        actions = instance.system.actions
        self.numbers = {name: number for number, name in enumerate(actions)}
        self.codes = tuple(
            sorted({guard.code.name for action in actions.values() for guard in action.guards})
        )
        self.code_numbers = {name: number for number, name in enumerate(self.codes, 1)}
        self._step: Compiled | None = None
        self.width = max(3, *(1 + len(slots(a, self.layout)) for a in actions.values()))

    @property
    def step(self) -> Compiled:
        """The compiled step."""
        if self._step is None:
            self._step = load(self.source())
        return self._step

    @property
    def address(self) -> int:
        """Where the compiled step is; 0 until it is compiled."""
        return 0 if self._step is None else self._step.address

    def compiles_within(self, seconds: float | None) -> bool:
        """Whether the step is compiled, or was now within so many seconds; None: however long it takes."""
        if self._step is None:
            source = self.source()
            self._step = load(source) if seconds is None else load_within(source, seconds)
        return self._step is not None

    def source(self) -> str:
        """The generated source of the step, to be read."""
        return _StepWriter(self).source()

    def pack(self, state: State) -> tuple[int, ...]:
        """The words of a state."""
        variables = self.instance.system.variables.values()
        return self.layout.pack(
            {
                variable.name: [encode(variable.type, value) for value in values]
                for variable, values in zip(variables, state.tables, strict=True)
            }
        )

    def row(self, event: Event) -> list[int]:
        """The row of an event: its action's number, its parameters as codes, zeros to the width."""
        action = self.instance.system.action(event.action)
        found, names = [self.numbers[event.action]], event.names
        for parameter in action.parameters:
            value = names[parameter.name]
            if isinstance(parameter, MapSymbol):
                values = value if isinstance(value, tuple) else (value,)
                found.extend(encode(parameter.codomain, item) for item in values)
            else:
                found.append(encode(parameter.type, value))  # type: ignore[arg-type]
        return found + [0] * (self.width - len(found))

    def place(self, variable: str, index: tuple[int, ...]) -> tuple[int, int, int]:
        """Word, shift and mask of a cell; its index by the numbers of its members."""
        field = self.layout.fields[variable]
        element = sum(part * stride for part, stride in zip(index, field.strides, strict=True))
        word, shift = field.place(element) if field.width else (0, 0)
        return word, shift, field.mask


class _StepWriter:
    """Writes the source of the step of one instance."""

    def __init__(self, stepper: Stepper) -> None:
        self.stepper = stepper
        self.layout: Layout = stepper.layout
        self.out = Writer(1)
        self.terms = Terms(self.layout, self.out)

    def source(self) -> str:
        """The source of the function."""
        for action in self.layout.instance.system.actions.values():
            with self.out.block(f"if a == {self.stepper.numbers[action.name]}:"):
                self._action(action)
        head = Writer()
        head.put(f"def step({SIGNATURE}):")
        head.depth = 1
        head.put("a = ev[at]")
        for word in range(self.layout.words):
            head.put(f"s{word} = st[lo + {word}]")
        for name, text in self.terms.used.items():
            head.put(f"{name} = {text}")
        return head.text() + self.out.text() + "    return 0\n"

    def _action(self, action: Action) -> None:
        for parameter in action.parameters:
            if isinstance(parameter, MapSymbol):
                self.terms.maps[parameter.name] = []
        for number, slot in enumerate(slots(action, self.layout), 1):
            values = codes(slot.type, self.layout.instance)
            known = len(values) == 1
            value = (
                constant(values[0]) if known else self._parameter(number, max(values, default=0))
            )
            if isinstance(slot.symbol, MapSymbol):
                self.terms.maps[slot.symbol.name].append(value)
            else:
                self.terms.env[id(slot.symbol)] = value
        self._ordered(list(action.guards), action)

    def _parameter(self, number: int, top: int) -> Val:
        return Val(self.out.named(f"ev[at + {number}]"), 0, top)

    def _ordered(self, guards: list[Guard], action: Action) -> None:
        """The guards in order; what a failing one does; the step if all hold."""
        if not guards:
            self._step(action.assignments, ACCEPTED)
            return
        guard = guards[0]
        condition = self.terms.formula(guard.condition)
        with self.terms.case(condition) as possible:
            if possible:
                self._ordered(guards[1:], action)
        if condition is not True:
            self._step(guard.refusal, self.stepper.code_numbers[guard.code.name])

    def _step(self, assignments: tuple[Assignment, ...], answer: int) -> None:
        with self.out.scope():
            update = Update(self.terms)
            for done in assignments:
                update.assign(done)
            within = update.write()
            with self.terms.case(within) as possible:
                if possible:
                    for word in range(self.layout.words):
                        self.out.put(f"out[hi + {word}] = t{word}")
                    self.out.put(f"return {answer}")
            if within is not True:
                self.out.put(f"return {-1 - answer}")
