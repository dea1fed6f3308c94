"""Plan: what a run of an instance should do, computed from its state graph before anything is drawn.

A plan is a function of the instance, the claims and the sizes asked for, so that replay and shrinking
see the same one. It is kept on disk, in the folder of the explicit engine, under a name of its content.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs

from kvspec.models.concrete import Machine
from kvspec.properties.stateful.goals import Pair, find_goals
from kvspec.properties.stateful.walks import Cover, Walk
from kvspec.spec.language import Instance, Property

_FORMAT = 2
KINDS = ("invariant", "lemma", "step")
"""The kinds of claims that a run checks."""


@attrs.frozen
class Plan:
    """Walks over an instance and what is to be reached.

    walks: events by number; the first `goals` of them lead to the goals. pairs: actions with None where
    some state accepts them, and with each code with which some state refuses them. states,
    transitions: of the instance, as far as it was explored. planned: transitions that the walks take.
    whole: the instance was explored to its end. checked: claims that hold of all its states and steps.
    """

    walks: tuple[Walk, ...]
    goals: int
    pairs: frozenset[Pair]
    states: int
    transitions: int
    planned: int
    whole: bool
    checked: frozenset[str]

    @property
    def actions(self) -> list[str]:
        """The actions that some state accepts."""
        return sorted(action for action, code in self.pairs if code is None)

    @property
    def refusals(self) -> list[tuple[str, str]]:
        """Each action with each code with which some state refuses it."""
        return sorted((action, code) for action, code in self.pairs if code is not None)


def make_plan(
    instance: Instance,
    properties: Iterable[Property] = (),
    *,
    length: int = 50,
    most: int = 1200,
    max_states: int = 1_000_000,
) -> Plan:
    """The plan for an instance: at most so many walks of at most so many events.

    max_states: a larger instance is planned on so many of its states, nearest first.
    """
    claims = [claim for claim in properties if claim.kind in KINDS]
    sizes = (length, most, max_states)
    path = _folder() / f"plan-{_digest(instance, claims, sizes)}.json"
    try:
        return _from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        plan = _compute(instance, claims, *sizes)
    _write(path, json.dumps(_to_json(plan), separators=(",", ":")))
    return plan


def _compute(
    instance: Instance, claims: list[Property], length: int, most: int, max_states: int
) -> Plan:
    from kvspec.models.explicit import compile_instance

    program = compile_instance(instance, claims)
    graph = program.graph(max_states=max_states)
    goals = find_goals(graph)
    cover = Cover(graph, length)
    cover.reach(goals, most)
    count = len(cover.walks)
    cover.complete(most)
    return Plan(
        walks=tuple(cover.walks),
        goals=count,
        pairs=frozenset(goal.pair for goal in goals),
        states=len(graph),
        transitions=len(graph.source),
        planned=cover.covered,
        whole=graph.complete,
        checked=frozenset(_checked(program, claims, max_states) if graph.complete else ()),
    )


def _checked(program: Any, claims: list[Property], max_states: int) -> Iterator[str]:
    """The claims that hold of every state and step of the instance."""
    if claims:
        found = program.explore(max_states=max_states, stop_at_first=False, deadlock=False)
        broken = {violation.property for violation in found.violations}
        if found.complete:
            yield from (claim.name for claim in claims if claim.name not in broken)


def _folder() -> Path:
    from kvspec.models.explicit.cache import folder

    return folder()


def _digest(instance: Instance, claims: list[Property], sizes: tuple[int, ...]) -> str:
    """A name for everything that a plan depends on, the code that computes it included."""
    from kvspec.models import explicit

    parts = [str(_FORMAT), str(sizes), *_text(instance), *map(repr, claims)]
    parts.append(repr(Machine(instance).events()))
    here, engine = Path(__file__).parent, Path(str(explicit.__file__)).parent
    sources = [here / "goals.py", here / "walks.py", *sorted(engine.glob("*.py"))]
    parts += [path.read_text(encoding="utf-8") for path in sources]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def _text(instance: Instance) -> Iterator[str]:
    yield repr(instance)
    yield repr(sorted(instance.constants.items()))
    yield from (repr(limit) for limit in instance.limits)
    yield from (f"{name} = {value!r}" for name, value in sorted(instance.initial.items()))
    for variable in instance.system.variables.values():
        yield f"{variable.signature} = {variable.initial!r}"
    for action in instance.system.actions.values():
        yield repr(action)
    for kind in instance.system.sorts().values():
        yield f"{kind.kind} {kind.name} {kind.members}"


def _to_json(plan: Plan) -> dict[str, Any]:
    found = attrs.asdict(plan)
    found["pairs"] = sorted(plan.pairs, key=lambda pair: (pair[0], pair[1] or ""))
    found["checked"] = sorted(plan.checked)
    return found


def _from_json(given: dict[str, Any]) -> Plan:
    return Plan(
        walks=tuple(tuple(walk) for walk in given["walks"]),
        pairs=frozenset((action, code) for action, code in given["pairs"]),
        goals=given["goals"],
        states=given["states"],
        transitions=given["transitions"],
        planned=given["planned"],
        whole=given["whole"],
        checked=frozenset(given["checked"]),
    )


def _write(path: Path, text: str) -> None:
    """Write in one step, so that another process never reads half a file."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with open(handle, "w", encoding="utf-8") as file:  # noqa: PTH123 - a handle is no path
        file.write(text)
    Path(temporary).replace(path)
