"""Running a case of the atlas: the faulty rule must break its claim, and the sound one keep them all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from kvspec.models.explicit import Exploration, Violation, compile_instance
from kvspec.properties.atlas.model import Case
from kvspec.spec.language import Instance, Property

MOST_STATES = 1_000_000


@attrs.frozen
class CaseResult:
    """What came of a case: the search with the fault for its claim, and the sound one for all claims."""

    case: Case
    faulty: Exploration
    sound: Exploration

    @property
    def broken(self) -> Violation | None:
        """The claim broken by the fault, with its trace."""
        return self.faulty.violations[0] if self.faulty.violations else None

    @property
    def verdict(self) -> str:
        """Holds if the fault breaks its claim and the sound rule keeps every claim on all states."""
        if self.sound.verdict != "holds":
            return self.sound.verdict
        if self.broken is not None:
            return "holds"
        return "violated" if self.faulty.complete else "unknown"


def run_case(case: Case) -> CaseResult:
    """Search the instance of a case with its fault, and without."""
    return CaseResult(case, search_faulty(case), search_sound(case))


def search_faulty(case: Case, instance: Instance | None = None) -> Exploration:
    """The shortest way in which the fault breaks the claim of the case, on its instance or another."""
    claim = case.property
    needed = [claim] if claim.kind != "end" else case.properties.of_kind("end")
    return compile_instance(case.fault.on(instance or case.instance), needed).explore(
        coverage=False, threads=1, deadlock=claim.kind == "end", max_states=MOST_STATES
    )


def search_sound(case: Case) -> Exploration:
    """Every claim of the system on every state of the instance, with its count of states.

    Witnesses are left out: an instance this small need not reach what others do.
    """
    return compile_instance(case.instance, _claims(case)).explore(
        coverage=False, threads=1, max_states=MOST_STATES
    )


def _claims(case: Case) -> list[Property]:
    own = case.properties.of_kind("invariant", "lemma", "step", "end", "leads_to")
    return [*case.properties.inherited(), *own]


def smaller(instance: Instance) -> Iterator[Instance]:
    """Every instance with one size, bound or constant that is one less."""
    for field in ("sizes", "bounds", "constants"):
        for name, value in getattr(instance, field).items():
            if value > 0:
                changed: dict[str, Any] = {field: {**getattr(instance, field), name: value - 1}}
                yield attrs.evolve(instance, expected=None, **changed)


def still_broken_on(case: Case) -> Instance | None:
    """A smaller instance on which the fault breaks the claim as well; None if there is none."""
    for less in smaller(case.instance):
        try:
            found = search_faulty(case, less)
        except ValueError:
            continue  # what is left of the instance has no state to begin in
        if found.violations:
            return less
    return None


def smallest(case: Case) -> Instance:
    """The instance of the case made smaller, one step at a time, as long as the fault breaks the claim."""
    made = case.instance
    while (less := still_broken_on(attrs.evolve(case, instance=made))) is not None:
        made = less
    return made
