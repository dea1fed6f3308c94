"""The canonical run of a comparison, replayed step by step on the canonical lifecycle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvspec.models.concrete import Event, Machine, State
from kvspec.spec import canonical_lifecycle as sigma
from kvspec.spec.documents.contracts import Finding, differs
from kvspec.spec.documents.projections import projections
from kvspec.spec.documents.projections_record import Projections
from kvspec.spec.language import instance

__all__ = ["projections", "replayed"]

MOST_PROMPT_TOKENS: Final = 4_096
"""A longer prompt is refused: the run is an example, and its table of lengths is held in memory."""
_ARGUMENTS: Final = {"allocate": ("h", "r", "n"), "decode_publish": ("h", "n")}


def _machine(prompt_tokens: int) -> Machine:
    """One handle and one request, with room for the prompt and one row more, up to a limit."""
    room = min(max(prompt_tokens, 0), MOST_PROMPT_TOKENS) + 1
    sizes = {"Handle": 1, "Request": 1, "Length": room, "Version": 3, "Generation": 1}
    known = sigma.system.sorts()
    made = instance(
        "run",
        sigma.system,
        {kind: sizes[name] for name, kind in known.items() if kind.kind != "enum"},
        constants={sigma.longest: room},
    )
    return Machine(made)


def _event(operation: str, prompt_tokens: int) -> Event:
    values = {"h": 0, "r": 0, "n": prompt_tokens if operation == "allocate" else 1}
    return Event(operation, tuple((n, values[n]) for n in _ARGUMENTS.get(operation, ("h",))))


def replayed(p: Projections) -> Iterator[tuple[str, Machine, State | None]]:
    """For each row its path, and the state after its operation; None, and no more, if it is refused."""
    machine = _machine(p.prompt_tokens)
    (state,) = machine.initial_states()
    for n, row in enumerate(p.lifecycle):
        outcome = machine.step(state, _event(row.operation, p.prompt_tokens))
        if outcome.kind != "accepted":
            yield f"/lifecycle/{n}", machine, None
            return
        state = outcome.state
        yield f"/lifecycle/{n}", machine, state


@projections.contract(
    "LIFECYCLE_REPLAY", "each row of the canonical run is the vector after its operation"
)
def rows_are_the_vector(p: Projections) -> Iterator[Finding]:
    """What the rows say is what the specification does."""
    for (path, machine, state), row in zip(replayed(p), p.lifecycle, strict=False):
        if state is None:
            yield Finding(path, "an operation that is accepted", row.operation)
            return
        for name, found in (
            ("snapshot", row.snapshot),
            ("outputs", row.outputs),
            ("committed", row.committed),
            ("stage", row.phase),
            ("terminal", row.terminal),
            ("closed", row.closed),
        ):
            shown = "phase" if name == "stage" else name
            yield from differs(f"{path}/{shown}", machine.value(state, name, 0), found)
