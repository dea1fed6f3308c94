"""Replay: a trace run again, step by step, against the specification or against a cache.

Against the specification every step is taken by the plain-Python machine, up to the one at which the
trace says that the specification departs. All steps of a mutation are taken by the machine that has it,
too: neither the departing step nor those after it are believed. A sound cache must do what the
specification does, change nothing that a refusal does not change, and show no damage. A faulty cache
must accept what the mutated rule accepts, and the damage is then shown in numbers.
"""

from __future__ import annotations

from typing import Literal

import attrs

from kvspec.counterexamples.claims import broken_at, is_stuck
from kvspec.counterexamples.errors import TraceError, UnknownNameError
from kvspec.counterexamples.fairness import unfair, with_limits
from kvspec.counterexamples.faulty import faulty_machine
from kvspec.counterexamples.format import Departure, Trace
from kvspec.counterexamples.resolve import Resolved, is_initial, resolve
from kvspec.counterexamples.results import Replay, ReplayStep
from kvspec.counterexamples.systems import find_system
from kvspec.models.backend import Backend, Damage, Placed, Reply
from kvspec.models.concrete import Machine, Outcome, State, evaluate, show_event, show_state
from kvspec.models.concrete.text import cells
from kvspec.spec.language import Property, System

FORMULAS = ("invariant", "lemma", "step", "leads_to", "witness")


def replay(
    trace: Trace | Resolved,
    target: Backend | Literal["spec"] = "spec",
    *,
    faulty: bool = False,
    system: System | None = None,
    faulty_system: System | None = None,
    where: str = "the trace",
) -> Replay:
    """Run a trace against the specification or a backend; the result says whether it went as told.

    faulty: the backend has the fault of the trace's mutation switched on. system: as for `resolve`.
    faulty_system: the system with the trace's mutation, if it is none of `properties.mutation`'s.
    """
    found = trace if isinstance(trace, Resolved) else resolve(trace, where, system)
    _check_claim(found)
    against_spec = _against_spec(found, faulty_machine(found, faulty_system))
    if target == "spec":
        return against_spec
    if not against_spec.passed:
        return attrs.evolve(
            against_spec,
            target=_name(target),
            message=f"the specification no longer agrees with this trace: {against_spec.message}",
        )
    if faulty:
        return _against_faulty(found, target)
    return _against_sound(found, target)


def damage_text(found: Damage) -> str:
    """Damage on one line: its kind, place and amount, and what it means."""
    return f"{found.kind} at {found.where}: {found.amount:g} ({found.text})"


def _against_spec(found: Resolved, mutant: Machine | None) -> Replay:
    machine, sound = found.machine, found.trace.sound
    run = _Run(found, "the specification")
    before = found.initial
    for number, step in enumerate(found.steps, 1):
        outcome = machine.step(before, step.event)
        if sound is not None and sound.step == number:
            return _departs(run, sound, mutant, before, outcome)
        notes = _differences(machine, step.state, outcome.state)
        agrees = (outcome.kind, outcome.code) == (step.outcome, step.code) and not notes
        run.add(
            before, outcome.state, _said(step.outcome, step.code), _told(outcome), notes, agrees
        )
        if not agrees:
            return run.end("disagrees", f"step {number} is not what the specification does")
        before = step.state
    return _rerun(run, mutant) or _judge_claim(run, mutant)


def _departs(
    run: _Run, sound: Departure, mutant: Machine | None, before: State, outcome: Outcome
) -> Replay:
    """The step at which the specification is said to refuse, or to do something else."""
    step = run.found.steps[sound.step - 1]
    other = (outcome.kind, outcome.code, outcome.state) != (step.outcome, step.code, step.state)
    agrees = (outcome.kind, outcome.code) == (sound.outcome, sound.code) and other
    expected = _said(sound.outcome, sound.code)
    run.add(before, outcome.state, expected, _told(outcome), (), agrees)
    if not agrees:
        what = _said(outcome.kind, outcome.code) if other else "a step just as in the trace"
        return run.end("disagrees", f"step {sound.step}: expected {expected}, found {what}")
    return _rerun(run, mutant) or _judge_claim(run, mutant, sound)


def _rerun(run: _Run, mutant: Machine | None) -> Replay | None:
    """Every step on the machine with the mutation; a result if one is not as in the trace.

    Steps after the departure are shown. Those of a trace of the specification itself (what a backend
    did otherwise) are taken from the trace's states.
    """
    found, shown = run.found, len(run.steps)
    machine = mutant or found.machine
    name = found.trace.mutation.name if found.trace.mutation else "the specification"
    before = found.initial
    for number, step in enumerate(found.steps, 1):
        if mutant is not None or number > shown:
            outcome = machine.step(before, step.event)
            notes = _differences(machine, step.state, outcome.state)
            expected, got = _said(step.outcome, step.code), _said(outcome.kind, outcome.code)
            agrees = expected == got and not notes
            if number > shown:
                told = f"{_told(outcome)}, by {name}"
                run.add(before, outcome.state, expected, told, notes, agrees)
            if not agrees:
                first = [f"expected {expected}, found {got}"] if expected != got else []
                what = "; ".join([*first, *notes[:1]])
                return run.end("disagrees", f"step {number} is not what {name} does: {what}")
        before = step.state
    return None


def _judge_claim(run: _Run, mutant: Machine | None, sound: Departure | None = None) -> Replay:
    """The verdict on steps that went as told: the trace must also break the claim that it names."""
    named = run.found.trace.property
    if named is not None and named.kind == "deadlock":
        text = _deadlock_text(run.found, mutant or run.found.machine)
        if text is None:
            return run.end("disagrees", "the last state of the trace is no deadlock")
    else:
        text = _claim_text(run.found)
    if text is None:
        name = named.name if named else ""
        return run.end("disagrees", f"no state or step of the trace shows {name} to fail")
    if (reason := _not_shown(run.found, mutant, sound)) is not None:
        return run.end("disagrees", reason)
    if sound is None:
        return run.end("agrees", f"the specification takes every step so{text}")
    if sound.outcome == "refused":
        message = f"the specification refuses step {sound.step} with {sound.code}{text}"
        return run.end("refused_as_specified", message)
    return run.end(
        "differs_as_specified", f"the specification does otherwise at {sound.step}{text}"
    )


def _not_shown(found: Resolved, mutant: Machine | None, sound: Departure | None) -> str | None:
    """Why a run that must show a want of progress does not: it is unfair, or the specification has it too."""
    named = found.trace.property
    if named is None or named.kind not in ("leads_to", "deadlock"):
        return None
    if named.kind == "deadlock":
        if mutant and sound is None and is_stuck(found.machine, found.states[-1]):
            return "the specification has no transition from the last state either"
        return None
    claim = (_claims(found) or {}).get(named.name)
    if claim is None:
        return None
    moves = [(step.event, step.code) for step in found.steps]
    rest = (found.states, moves, claim, found.trace.loop)
    reason = unfair(with_limits(mutant or found.machine), *rest)
    if reason is not None:
        return f"the run is not fair: {reason}"
    if mutant and sound is None and unfair(with_limits(found.machine), *rest) is None:
        return f"the run breaks {named.name} in the specification as well"
    return None


def _deadlock_text(found: Resolved, machine: Machine) -> str | None:
    """What the last state says of a deadlock; None if it has a transition or is an end."""
    last = found.states[-1]
    env = machine.environment(last)
    ends = [claim for claim in (_claims(found) or {}).values() if claim.kind == "end"]
    if not is_stuck(machine, last) or any(evaluate(claim.body, env) for claim in ends):
        return None
    return f"; state {len(found.steps)} has no transition"


def _claim_text(found: Resolved) -> str | None:
    """What the trace's states say of the claim; None if they do not break it."""
    named = found.trace.property
    if named is None or named.kind == "conformance":
        return ""
    claim = (_claims(found) or {}).get(named.name)
    if claim is None:
        return f"; {named.name} is not at hand and was not evaluated"
    moves = [(step.event, step.code) for step in found.steps]
    number = broken_at(found.machine, found.states, moves, claim, found.trace.loop)
    if number is None:
        return None
    what = "is reached in" if claim.kind == "witness" else "fails in"
    return f"; {claim.name} {what} {'step' if claim.kind == 'step' else 'state'} {number}"


def _claims(found: Resolved) -> dict[str, Property] | None:
    """The claims about the trace's system, or None if it is not among the known ones."""
    try:
        known = find_system(found.trace.system)
    except UnknownNameError:
        return None
    return known.properties().named() if known.system is found.machine.system else None


def _check_claim(found: Resolved) -> None:
    """Refuse a claim that the system does not have, or that is of another kind."""
    named, claims = found.trace.property, _claims(found)
    if named is None or claims is None:
        return
    if named.name in claims and claims[named.name].kind != named.kind:
        raise TraceError(
            f"{found.where}, property",
            f"{named.name} of kind {named.kind}",
            f"kind {claims[named.name].kind}",
            "give the claim the kind that it has",
        )
    if named.name not in claims and named.kind in FORMULAS:
        raise TraceError(
            f"{found.where}, property",
            repr(named.name),
            f"one of {', '.join(sorted(claims))}",
            f"correct the name: these are the claims about {found.trace.system}",
        )


def _against_sound(found: Resolved, backend: Backend) -> Replay:
    machine, sound = found.machine, found.trace.sound
    run = _Run(found, _name(backend))
    early = _start(run, backend)
    if early is not None:
        return early
    before = found.initial
    for number, step in enumerate(found.steps, 1):
        want = machine.step(before, step.event)
        if want.kind == "cut":
            return run.end("differs_as_specified", f"step {number} leaves the instance's bounds")
        reply, after, damage = _perform(found, backend, number)
        notes = _judge_state(machine, before, want, after)
        said = (reply.accepted, None if reply.accepted else reply.code)
        agrees = said == (want.kind == "accepted", want.code) and not notes and not damage
        told = (
            f"{_said(want.kind, want.code)}{f': {want.refusal.expected}' if want.refusal else ''}"
        )
        run.add(before, after, told, _replied(reply), notes, agrees, damage)
        if not agrees:
            return run.end("disagrees", _why(number, want, reply, notes, damage))
        if sound is not None and sound.step == number:
            if want.kind == "refused":
                message = f"step {number} is refused with {want.code}, and nothing else changes"
                return run.end("refused_as_specified", message)
            return run.end("differs_as_specified", f"step {number} goes as specified")
        before = want.state
    return run.end("agrees", "every step goes as specified")


def _against_faulty(found: Resolved, backend: Backend) -> Replay:
    sound = found.trace.sound
    run = _Run(found, f"{_name(backend)}, with the fault")
    early = _start(run, backend)
    if early is not None:
        return early
    before = found.initial
    damage: tuple[Damage, ...] = ()
    for number, step in enumerate(found.steps, 1):
        reply, after, damage = _perform(found, backend, number)
        notes = _differences(found.machine, step.state, after)
        said = (reply.accepted, None if reply.accepted else reply.code)
        agrees = said == (step.outcome == "accepted", step.code)
        told = _replied(reply)
        if sound is None or number < sound.step:
            agrees = agrees and not notes
        elif notes:  # the fault of a backend may do more than the mutation
            run.differs_from_mutant = True
            told += "; the state is not that of the mutation"
        expected = _said(step.outcome, step.code)
        run.add(before, after, expected, told, notes, agrees, damage)
        if not agrees:
            message = f"step {number}: expected {expected}, found {_replied(reply)}"
            return run.end("disagrees", message + (f"; {'; '.join(notes)}" if notes else ""))
        before = after
    if not damage:
        return run.end("no_damage", "every step went as with the fault, and no damage is measured")
    return run.end("damage_shown", "; ".join(damage_text(harm) for harm in damage))


def _start(run: _Run, backend: Backend) -> Replay | None:
    """Reset the backend; a result if it does not begin where the trace begins."""
    found = run.found
    begins = is_initial(found.machine, found.initial)
    try:
        backend.reset(found.machine.instance)
        if begins and isinstance(backend, Placed):
            backend.begin_in(found.initial)
    except ValueError as error:
        return run.end("not_replayable", f"{_name(backend)} does not take this instance: {error}")
    start = backend.observe()
    if start == found.initial:
        return None
    differs = "; ".join(_differences(found.machine, found.initial, start))
    if begins and not isinstance(backend, Placed) and is_initial(found.machine, start):
        told = "begins in another initial state than the trace, and has no begin_in"
        return run.end("not_replayable", f"{_name(backend)} {told}: {differs}")
    if begins:
        return run.end("disagrees", f"after reset {differs}")
    return run.end(
        "not_replayable", f"the trace begins in a state that a backend cannot be put in: {differs}"
    )


def _perform(
    found: Resolved, backend: Backend, number: int
) -> tuple[Reply, State, tuple[Damage, ...]]:
    event = found.steps[number - 1].event
    try:
        return backend.perform(event), backend.observe(), tuple(backend.damage())
    except Exception as error:
        event_text = show_event(found.machine, event)
        error.add_note(
            f"raised by {_name(backend)} in step {number}, {event_text}, of {found.where}"
        )
        raise


def _judge_state(machine: Machine, before: State, want: Outcome, after: State) -> tuple[str, ...]:
    """How the backend's state differs from the specified one."""
    if after == want.state:
        return ()
    notes = _differences(machine, want.state, after)
    if want.kind == "refused" and not want.effect:
        changed = show_state(machine, after, before).replace("\n", "; ")
        return (f"the refusal changed the state: {changed}",)
    return notes


def _why(
    number: int, want: Outcome, reply: Reply, notes: tuple[str, ...], damage: tuple[Damage, ...]
) -> str:
    parts = []
    expected, found = _said(want.kind, want.code), _said_reply(reply)
    if expected != found:
        parts.append(f"expected {expected}, found {found}")
    parts.extend(notes)
    parts.extend(f"damage: {damage_text(harm)}" for harm in damage)
    return f"step {number}: {'; '.join(parts)}"


def _differences(machine: Machine, expected: State, found: State) -> tuple[str, ...]:
    """Each value that is not as expected."""
    if expected == found:
        return ()
    pairs = zip(cells(machine, expected), cells(machine, found), strict=True)
    return tuple(
        f"{n}: expected {want}, found {got}" for (n, want), (_, got) in pairs if want != got
    )


def _said(kind: str, code: str | None) -> str:
    return f"{kind} {code}" if code else kind


def _said_reply(reply: Reply) -> str:
    return "accepted" if reply.accepted else _said("refused", reply.code or "without a code")


def _replied(reply: Reply) -> str:
    return _said_reply(reply) + (f": {reply.detail}" if reply.detail else "")


def _told(outcome: Outcome) -> str:
    return f"refused {outcome.refusal}" if outcome.refusal else outcome.kind


def _name(backend: object) -> str:
    return f"the backend {type(backend).__name__}"


class _Run:
    """Collects the steps of a replay."""

    def __init__(self, found: Resolved, target: str) -> None:
        self.found = found
        self.target = target
        self.steps: list[ReplayStep] = []
        self.differs_from_mutant = False

    def add(
        self,
        before: State,
        after: State,
        expected: str,
        found: str,
        notes: tuple[str, ...],
        agrees: bool,
        damage: tuple[Damage, ...] = (),
    ) -> None:
        """Note the next step."""
        machine = self.found.machine
        number = len(self.steps) + 1
        event = show_event(machine, self.found.steps[number - 1].event)
        changes = tuple(show_state(machine, after, before).splitlines())
        self.steps.append(
            ReplayStep(number, event, expected, found, agrees, changes, notes, damage)
        )

    def end(self, outcome: str, message: str) -> Replay:
        """The result."""
        return Replay(
            self.found.trace,
            self.found.where,
            self.target,
            outcome,
            message,
            tuple(self.steps),
            self.differs_from_mutant,
        )
