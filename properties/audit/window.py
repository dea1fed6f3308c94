"""The window: the least instance of the core system in which the history of one handle can be followed.

Handle 0 is the one spoken of, handle 1 a child at the moment of its fork, and there are few transactions
and one layer. Lengths, snapshots and generations are bounded by far more than a log has. A live handle
keeps the cells of its own window and nothing else. Steps that no event tells are taken here: staging,
preparing, forgetting ended transactions, and evicting a block before a handle is used again.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from kvspec.models.concrete.compiled import Cells, Compiled
from kvspec.spec.append import Txn, count, is_live, k_end, start, state, target, v_end
from kvspec.spec.append import base_generation as captured_generation
from kvspec.spec.append import base_version as captured_version
from kvspec.spec.core import make_instance
from kvspec.spec.frontier import emit, emitted, prompt
from kvspec.spec.handles import Handle, Length, generation, k_rows, phase
from kvspec.spec.language import Expr, Read, Symbol, Variable, exists, type_of
from kvspec.spec.language.expr import lift, rewrite
from kvspec.spec.numbering import snapshot_of
from kvspec.spec.prefix import filled

TXNS: Final = 4
"""Appends of one request that can be open at a time."""

LARGEST: Final = 2**53
WINDOW: Final = make_instance(
    "WINDOW",
    "a handle, a child of it, and a few appends, within bounds that no log reaches",
    handles=2,
    txns=TXNS,
    layers=1,
    longest=LARGEST,
    versions=LARGEST,
    generations=LARGEST,
)

LOGITS: Final = emit.guard("NO_LOGITS")
"""The guard of an output that asks for rows: at least those of the outputs before, and of a prompt."""

EMITS: Final = emit.guard("HANDLE_TERMINAL")
"""The guard of the frontier's `emit` that asks for nothing beyond the core; the others need a prompt."""


OUTPUTS: Final = Symbol(type_of(Length), "outputs", "parameter")


def _of_a_short_prompt() -> Expr:
    """The guard of an output for a prompt of one token, which asks for the fewest rows."""

    def known(node: Expr) -> Expr:
        if isinstance(node, Read) and node.variable is prompt:
            return lift(1)
        return OUTPUTS if isinstance(node, Read) and node.variable is emitted else node

    return rewrite(LOGITS.condition, known)


class Window:
    """The steps of the window as functions of cells, and where some of the cells are.

    Each step gives None or the code with which the specification refuses. x is a transaction.
    """

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        layout = compiled.layout
        step = compiled.step_for
        slots = range(TXNS)
        self.blank: Cells = compiled.initial()
        self.before: Cells = self.blank
        self.allocate_step = step("allocate", h=0, b=0, a=0)
        self.evict = step("evict", b=0)
        self.fork = step("fork", p=0, children=(False, True))
        self.truncate = step("truncate", h=0)
        self.finish = step("finish", h=0)
        self.cancel_request = step("cancel_request", h=0)
        self.release = step("release", h=0)
        self.begin = [step("begin", x=x, h=0, k=0, a=0) for x in slots]
        self.stage_k = [step("stage_k", x=x, l=0) for x in slots]
        self.stage_v = [step("stage_v", x=x, l=0) for x in slots]
        self.prepare = [step("prepare", x=x) for x in slots]
        self.publish_step = [step("publish", x=x) for x in slots]
        self.cancel_txn = [step("cancel_txn", x=x) for x in slots]
        self.forget = [step("forget", x=x) for x in slots]
        self.phase = layout.place(phase, 0)
        self.generation = layout.place(generation, 0)
        self.rows = layout.place(k_rows, 0, 0)
        self.state = self._each(state)
        self.start = self._each(start)
        self.count = self._each(count)
        self.base_version = self._each(captured_version)
        self.base_generation = self._each(captured_generation)
        self.k_end = [layout.place(k_end, x, 0) for x in slots]
        self.v_end = [layout.place(v_end, x, 0) for x in slots]
        self.filled = layout.place(filled, 0)
        x = Symbol(type_of(Txn), "x", "parameter")
        h = Symbol(type_of(Handle), "h", "parameter")
        self.is_live = compiled.value(is_live(x), x)
        self.has_live = compiled.value(exists(Txn, lambda x: is_live(x) & (target[x] == h)), h)
        self.snapshot_of = compiled.value(snapshot_of(h), h)
        self.can_emit = compiled.value(EMITS.condition, *emit.parameters)
        self.has_logits = compiled.value(_of_a_short_prompt(), *emit.parameters, OUTPUTS)
        self.pairs = tuple(self._pairs())

    def _each(self, variable: Variable) -> list[int]:
        return [self.compiled.layout.place(variable, x) for x in range(TXNS)]

    def _pairs(self) -> list[tuple[int, int, bool]]:
        """Cells of handle 0 and of handle 1 that mean the same, and whether they hold a handle."""
        found, layout, own = [], self.compiled.layout, type_of(Handle)
        for variable in self.compiled.instance.system.variables.values():
            if variable.domain.count(own) != 1:
                continue
            sizes = [self.compiled.instance.members(kind) for kind in variable.domain]
            if any(
                size != 1 for kind, size in zip(variable.domain, sizes, strict=True) if kind != own
            ):
                raise ValueError(f"{variable} has more than one cell a handle in the window")
            zero, one = (
                layout.place(variable, *(h if kind == own else 0 for kind in variable.domain))
                for h in (0, 1)
            )
            found.append((zero, one, variable.type.of == own))
        return found

    def make(self, generation_now: int) -> Cells:
        """A vacant handle of a generation."""
        cells = list(self.blank)
        cells[self.generation] = generation_now
        return cells

    def allocate(self, cells: Cells) -> str | None:
        """Allocate; a block that a former generation left behind is evicted first."""
        if cells[self.filled]:
            self.evict(cells)
        return self.allocate_step(cells)

    def publish(self, cells: Cells, x: int) -> str | None:
        """Stage all rows of an append, prepare it, publish it.

        `before` has the cells on which it was published, or was refused: a refusal may have an effect.
        """
        code = self._stage(cells, x) or self.prepare[x](cells)
        if code is not None:
            self.before = cells
            return code
        self.before = cells.copy()
        return self.publish_step[x](cells)

    def _stage(self, cells: Cells, x: int) -> str | None:
        """Stage the first and the last K and V row; rows between them only move the end along."""
        first = cells[self.start[x]]
        last = first + cells[self.count[x]] - 1
        for stage, end in ((self.stage_k[x], self.k_end[x]), (self.stage_v[x], self.v_end[x])):
            code = stage(cells, first)
            if code is not None:
                return code
            if last != first:
                cells[end] = last
                code = stage(cells, last)
                if code is not None:
                    return code
        return None

    def bring(self, cells: Cells, child: Cells) -> None:
        """Put the handle of another window in as handle 1."""
        for zero, one, is_handle in self.pairs:
            value = child[zero]
            cells[one] = 1 - value if is_handle and isinstance(value, int) else value

    def take(self, cells: Cells, child: Cells) -> None:
        """Put handle 1 into a window of its own, and leave it blank here."""
        for zero, one, is_handle in self.pairs:
            value = cells[one]
            child[zero] = 1 - value if is_handle and isinstance(value, int) else value
            cells[one] = self.blank[one]
        child[self.filled] = cells[self.filled]


@cache
def window() -> Window:
    """The window, compiled once."""
    return Window(Compiled(WINDOW))
