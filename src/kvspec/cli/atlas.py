"""`kvspec atlas`: public faults of real caches, each shown by a change of one rule, and explained."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from kvspec.cli.atlas_cases import Asked, Told
from kvspec.cli.atlas_cases import tell as tell_case
from kvspec.cli.backends import torch_absent
from kvspec.cli.errors import UsageError, unknown
from kvspec.cli.output import CheckOutput, Flag, check_outputs, deliver
from kvspec.cli.stages import Stage, Tell, run_stages, unknown_answer
from kvspec.cli.verdicts import HOLDS, UNKNOWN, VIOLATED, Answer, Check, worst

if TYPE_CHECKING:
    from kvspec.properties.atlas import Group

_HERE = "kvspec.cli.atlas"


def atlas(
    *group: str,
    prove: Flag = False,
    write: Flag = False,
    jobs: Annotated[int | None, Parameter(validator=Number(gt=0))] = None,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Show each public fault: the faulty rule breaks a claim, the sound one keeps all of them.

    A group of public faults is a rule of the specification with one place changed. On the smallest
    instance where that breaks the named claim, the shortest trace is found and held against the
    one on file, and the sound rule keeps every claim on every state. Where the torch cache has the
    mechanism, the trace is replayed there: the sound one refuses, the faulty one shows the damage.

    Args:
        group: explain these groups (A-B01), a page each; without any, all in a table.
        prove: prove as well that the sound rule keeps the claim for all sizes.
        write: renew the stored traces.
        jobs: processes at a time, by default as many as there are processors.
        output: how the answer is told.
    """
    check_outputs(output)
    asked = Asked(write=write, prove=prove)
    chosen = [named_case(name, "GROUP of kvspec atlas")[0] for name in dict.fromkeys(group)]
    if chosen:
        return deliver(explained(chosen, asked), output)
    return deliver(table(asked, jobs or len(os.sched_getaffinity(0))), output)


_GROUP = re.compile(r"a-?b-?0*(?P<number>\d{1,3})(-(?P<case>\d{1,3}))?(\.json)?", re.IGNORECASE)


def is_group(name: str) -> bool:
    """Whether a name has the form of a group's or of one of its cases, known or not."""
    return _GROUP.fullmatch(name) is not None


def group_name(name: str) -> str:
    """The group's name, however it is written: `a-b1` and `A-B01-2`, a case of it, are A-B01."""
    found = _GROUP.fullmatch(name)
    return name if found is None else f"A-B{int(found['number']):02}"


def case_number(name: str) -> int:
    """The case that a name is of, from 1, which is that of a group's name alone."""
    found = _GROUP.fullmatch(name)
    return int(found["case"] or 1) if found else 1


def unknown_group(name: str, where: str) -> UsageError:
    """The error of a group or case that is not there; no other number is guessed."""
    from kvspec.properties.atlas import groups

    known, do = groups(), "kvspec atlas lists all"
    wanted = group_name(name)
    if wanted in known:
        cases = len(known[wanted].cases)
        return UsageError(
            f"{wanted} has no such case",
            name,
            f"a case from 1 to {cases}",
            where,
            f"kvspec atlas {wanted}",
        )
    if is_group(name):
        told = f"there is no group {name!r}"
        return UsageError(told, name, f"one of {', '.join(known)}", where, do)
    return unknown("group", name, known, where, do)


def named_case(name: str, where: str) -> tuple[Group, int]:
    """The group and the number of its case that are named; the group's name alone is its first."""
    from kvspec.properties.atlas import groups

    found, number = groups().get(group_name(name)), case_number(name)
    if found is None or number not in range(1, len(found.cases) + 1):
        raise unknown_group(name, where)
    return found, number


def explained(chosen: Sequence[Group], asked: Asked) -> Answer:
    """A page for each group."""
    from kvspec.report.atlas import page

    told: list[Told] = []
    pages: list[str] = []
    for group in chosen:
        found = [tell_case(group, n, asked) for n in range(1, len(group.cases) + 1)]
        told.extend(one for one, _ in found)
        pages.append(page(group, found))
    made = answer(told, chosen)
    return attrs.evolve(made, text="\n\n".join((*pages, _last(made, told))))


def table(asked: Asked, jobs: int) -> Answer:
    """Every group, with its cases side by side."""
    from kvspec.properties.atlas import groups

    everything = list(groups().values())
    if not everything:
        raise UsageError(
            "the atlas has no groups", "none", "groups", "kvspec atlas", "install kvspec anew"
        )
    stages = [Stage(f"atlas {name}", f"{_HERE}:system_stage", (name, asked)) for name in systems()]
    done = run_stages(stages, jobs)
    failed = [one for one in done if "cases" not in one.answer.data]
    if failed:
        reason = "\n".join(f"{one.stage.name}: {one.answer.text}" for one in failed)
        return unknown_answer("atlas", reason)
    told = [Told(**case) for one in done for case in one.answer.data["cases"]]
    if asked.write:
        from kvspec.counterexamples.atlas_files import file_names, remove_others

        remove_others(file_names(everything))
    return answer(sorted(told, key=lambda t: (t.group, t.number)), everything)


def systems() -> list[str]:
    """The systems that groups are shown on, in the order of the groups."""
    from kvspec.properties.atlas import groups

    cases = [case for group in groups().values() for case in group.cases]
    return list(dict.fromkeys(case.fault.system.name for case in cases))


def system_stage(system: str, asked: Asked, tell: Tell) -> Answer:
    """Every case that is shown on one system."""
    from kvspec.properties.atlas import groups

    wanted = [
        (group, number)
        for group in groups().values()
        for number, case in enumerate(group.cases, 1)
        if case.fault.system.name == system
    ]
    told = []
    for done, (group, number) in enumerate(wanted):
        tell(done, len(wanted), group.name)
        told.append(tell_case(group, number, asked)[0])
    return answer(told, list(dict.fromkeys(group for group, _ in wanted)), system)


def answer(told: Sequence[Told], groups: Sequence[Group], system: str | None = None) -> Answer:
    """What was found of these groups, for machines and for people."""
    from kvspec.report.atlas import case_table

    still_open = [group for group in groups if group.open]
    verdict = worst([t.verdict for t in told] + [UNKNOWN] * bool(still_open))
    data: dict[str, Any] = {
        "system": system,
        "verdict": verdict,
        "groups": len(groups),
        "open": [{"group": group.name, "reason": group.open} for group in still_open],
        "cases": [attrs.asdict(one) for one in told],
    }
    checks = tuple(_check(one) for one in told) + tuple(
        Check("atlas", group.name, UNKNOWN, 0.0, f"open: {group.open}") for group in still_open
    )
    made = Answer("atlas", verdict, data, "", checks)
    wrong = [f"{t.file}: {t.verdict}: {t.message}" for t in told if t.verdict != HOLDS]
    parts = [case_table(groups, told), *wrong, _last(made, told)]
    return attrs.evolve(made, text="\n\n".join(parts))


def _last(made: Answer, told: Sequence[Told]) -> str:
    """The line with the verdict."""
    shown = sum(t.faulty == VIOLATED and t.verdict == HOLDS for t in told)
    harmed = sum(bool(t.cache) for t in told)
    line = (
        f"{made.verdict}: {made.data['groups']} group{'s' * (made.data['groups'] != 1)}, "
        f"{shown} of {len(told)} cases shown, {harmed} replayed on the torch cache, "
        f"{len(made.data['open'])} groups open"
    )
    absent = torch_absent()
    if absent is not None:
        line += f" ({absent})"
    proved = sum(t.proof.startswith("proved") for t in told)
    return f"{line}, {proved} claims proved for all sizes" if proved else line


def _check(one: Told) -> Check:
    name = one.file.removesuffix(".json")
    return Check(f"atlas {one.system}", name, one.verdict, one.seconds, one.message)
