"""`kvspec interleave`: clients of the torch cache one step at a time, in every order that is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from kvspec.cli.backends import torch_absent
from kvspec.cli.errors import UsageError, unknown
from kvspec.cli.output import CheckOutput, check_outputs, check_writable, deliver
from kvspec.cli.progress import counting
from kvspec.cli.verdicts import Answer, Check, worst

if TYPE_CHECKING:
    from kvspec.cli.stages import Tell
    from kvspec.models.decode.concurrent_scenarios import Scenario
    from kvspec.properties.interleaving import Failing, Interleavings
    from kvspec.properties.interleaving.judging import Check as Judging
    from kvspec.properties.linearizability.history import History

MOST = 200_000
"""Schedules of a scenario after which its exploration is cut."""
REPLAY, LOAD = "replay", "load"
WHERE = "kvspec interleave"
Bound = Annotated[int, Parameter(validator=Number(gte=0, lte=8))]
Many = Annotated[int, Parameter(validator=Number(gt=0, lte=10_000_000))]
Sample = Annotated[int | None, Parameter(validator=Number(gt=0, lte=10_000_000))]


@attrs.frozen
class Wanted:
    """What is to be run."""

    fault: str | None
    preemptions: int
    sample: int | None
    seed: int
    layout: str | None
    most: int
    save: Path | None
    history: Path | None


def interleave(
    *names: str,
    fault: str | None = None,
    preemptions: Bound = 2,
    sample: Sample = None,
    seed: int = 0,
    layout: str | None = None,
    most: Many = MOST,
    save: Path | None = None,
    history: Path | None = None,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Run the clients of a scenario in every order with few preemptions, and judge each history.

    A scenario is a few clients with a few calls each, on the torch cache. Their threads run one at a
    time, and may change places before every access to what they share. `holds`: every order within
    the bound was run, and each history is one order of atomic steps of the specification.

    `kvspec interleave replay FILE...` runs stored orders again, each on the cache with its fault, where
    it must give the same history, and on a sound one, which must keep to the specification. Without
    a FILE it takes all that are stored.

    `kvspec interleave load` runs four random clients on real threads, ten times or `--sample` times,
    and judges what was recorded; orders that the machine did not choose are not spoken of.

    Args:
        names: scenarios, or `load`, or `replay` and then files; without any, all that can be explored.
        fault: a fault of the cache that only other threads bring to light; an unknown name lists them.
        preemptions: how often a thread may be stopped that could have gone on.
        sample: run so many orders by random priorities instead; finding nothing is then `unknown`.
        seed: of the sample.
        layout: how rows are stored; by default as each scenario has it, which is dynamic for most.
        most: schedules of a scenario after which its exploration is cut, which makes it `unknown`.
        save: write the plainest failing order, made plainer still, to this file.
        history: write the history that fails to this file, for `kvspec linearize`; of a load that holds,
            the last one.
        output: how the answer is told.
    """
    check_outputs(output)
    check_writable(save, "--save")
    check_writable(history, "--history")
    absent = torch_absent()
    if absent is not None:
        do = "pip install 'kvspec[torch]'"
        raise UsageError("there is no cache to run", absent, "torch", WHERE, do)
    if names[:1] == (REPLAY,):
        from kvspec.cli.interleave_replay import replay_files

        return deliver(replay_files(names[1:]), output)
    wanted = Wanted(fault, preemptions, sample, seed, layout, most, save, history)
    _check(wanted)
    if names == (LOAD,):
        from kvspec.cli.interleave_load import run_loads

        return deliver(run_loads(wanted), output)
    scenarios = _scenarios(names, wanted)
    if (save or history) and len(scenarios) != 1:
        found = f"{len(scenarios)} scenarios"
        raise UsageError("one order is saved", found, "one scenario", WHERE, "name one of them")
    return deliver(_answer(scenarios, wanted), output)


def _check(wanted: Wanted) -> None:
    """Refuse names that are not known."""
    from kvspec.models.decode.concurrent_faults import CONCURRENCY_FAULTS
    from kvspec.models.decode.kinds import LAYOUT_KINDS

    for kind, found, known in (
        ("layout", wanted.layout, LAYOUT_KINDS),
        ("fault", wanted.fault, tuple(CONCURRENCY_FAULTS)),
    ):
        if found is not None and found not in known:
            raise unknown(kind, found, known, f"--{kind} of {WHERE}", "choose one of these")


def _scenarios(names: tuple[str, ...], wanted: Wanted) -> list[Scenario]:
    """The scenarios that are named; or all that show the fault, or all that are small enough."""
    from kvspec.models.decode.concurrent_scenarios import SCENARIOS

    for name in names:
        if name not in SCENARIOS:
            do = "choose one of these, or `replay` and then a file"
            raise unknown("scenario", name, SCENARIOS, f"NAMES of {WHERE}", do)
    if names:
        return [SCENARIOS[name] for name in dict.fromkeys(names)]
    if wanted.fault is not None:
        return [each for each in SCENARIOS.values() if wanted.fault in each.shows]
    return [each for each in SCENARIOS.values() if wanted.sample or not each.is_large]


def _answer(scenarios: list[Scenario], wanted: Wanted) -> Answer:
    """Every scenario, explored or sampled."""
    from kvspec.properties.interleaving.checking import linearizability

    check = linearizability()
    found = [_one(each, wanted, check) for each in scenarios]
    failing = next((each.failing for each in found if each.failing is not None), None)
    return _told(found, wanted, _write(failing, wanted, check))


def explored(preemptions: int, tell: Tell) -> Answer:
    """Every scenario but the large ones on a sound cache, with at most so many preemptions."""
    from kvspec.properties.interleaving import explore_scenario
    from kvspec.properties.interleaving.checking import linearizability

    wanted = Wanted(None, preemptions, None, 0, None, MOST, None, None)
    scenarios, check, found = _scenarios((), wanted), linearizability(), []
    for place, scenario in enumerate(scenarios):
        tell(place, len(scenarios), scenario.name)
        found.append(explore_scenario(scenario, preemptions=preemptions, check=check, most=MOST))
    return _told(found, wanted, "")


def _write(failing: Failing | None, wanted: Wanted, check: Judging) -> str:
    """Write what was asked for of a failing order, and say so."""
    if failing is None:
        files = [str(path) for path in (wanted.save, wanted.history) if path is not None]
        return f"{' and '.join(files)}: not written, no order fails" if files else ""
    told = []
    if wanted.save is not None:
        failing = _save(failing, wanted, check, wanted.save)
        told.append(
            f"saved to {wanted.save}: {failing.preemptions} preemptions, {_steps(failing)} steps"
        )
    if wanted.history is not None:
        from kvspec.properties.interleaving import history_of

        scenario = failing.scenario
        made = history_of(scenario.instance, failing.recording.asked, scenario.start())
        told.append(write_history(made, wanted.history, "violated", scenario.doc))
    return "\n".join(told)


def write_history(
    history: History, path: Path, expected: Literal["holds", "violated", "unknown"], about: str
) -> str:
    """Write a history file, and say what to do with it."""
    from kvspec.counterexamples.files import write_text
    from kvspec.counterexamples.history_files import dump_history

    write_text(dump_history(history, expected=expected, about=about), path)
    return f"history in {path}: kvspec linearize {path}"


def _one(scenario: Scenario, wanted: Wanted, check: Judging) -> Interleavings:
    from kvspec.properties.interleaving import explore_scenario, sample_scenario

    planted = () if wanted.fault is None else (wanted.fault,)
    with counting(f"{WHERE} {scenario.name}") as progress:

        def told(schedules: int, spent: int) -> None:
            if progress is not None:
                progress(schedules, wanted.sample or schedules, f"{spent} preemptions")

        if wanted.sample is not None:
            return sample_scenario(
                scenario,
                planted,
                seeds=range(wanted.seed, wanted.seed + wanted.sample),
                check=check,
                layout=wanted.layout,
                progress=told,
            )
        return explore_scenario(
            scenario,
            planted,
            preemptions=wanted.preemptions,
            check=check,
            layout=wanted.layout,
            most=wanted.most,
            progress=told,
        )


def _save(failing: Failing, wanted: Wanted, check: Judging, path: Path) -> Failing:
    """Write the failing order, made plainer."""
    from kvspec.counterexamples.interleavings.files import write_interleaving
    from kvspec.counterexamples.interleavings.resolve import document_of
    from kvspec.properties.interleaving import shrink

    plainer = shrink(failing, check=check)
    how = f"--preemptions {wanted.preemptions}"
    if wanted.sample is not None:
        how = f"--sample {wanted.sample} --seed {wanted.seed}"
    fault = "" if wanted.fault is None else f" --fault {wanted.fault}"
    made = f"{WHERE} {failing.scenario.name}{fault} {how}, made plainer"
    write_interleaving(document_of(plainer, made), path)
    return plainer


def _steps(failing: Failing) -> int:
    return len(failing.recording.run.steps)


def _told(found: list[Interleavings], wanted: Wanted, saved: str) -> Answer:
    """All of it, for machines and for people."""
    from kvspec.report.tables import text_table

    verdict = worst(each.verdict for each in found)
    head = ("scenario", "schedules", "by preemptions", "histories", "verdict")
    rows = [
        (
            each.scenario.name,
            f"{sum(each.schedules):,}",
            " + ".join(map(str, each.schedules)),
            f"{each.histories:,}",
            each.verdict,
        )
        for each in found
    ]
    parts = [text_table(head, rows, right=(1, 3))]
    parts += [_reason(each) for each in found if each.reason]
    if saved:
        parts.append(saved)
    cache = "a sound cache" if wanted.fault is None else f"a cache with {wanted.fault}"
    how = f"at most {wanted.preemptions} preemptions"
    if wanted.sample is not None:
        how = f"{wanted.sample:,} orders by chance"
    parts.append(f"{verdict}: {cache}, {how}")
    data: dict[str, Any] = {
        "verdict": verdict,
        "fault": wanted.fault,
        "layout": wanted.layout,
        "preemptions": None if wanted.sample is not None else wanted.preemptions,
        "sample": wanted.sample,
        "seed": wanted.seed,
        "saved": saved or None,
        "scenarios": [_data(each) for each in found],
    }
    checks = tuple(
        Check(
            WHERE.removeprefix("kvspec "),
            each.scenario.name,
            each.verdict,
            message=each.reason,
            detail=_reason(each) if each.failing is not None else "",
        )
        for each in found
    )
    return Answer("interleave", verdict, data, "\n\n".join(parts), checks)


def _reason(found: Interleavings) -> str:
    """Why a scenario does not hold; of a failing order all of it."""
    from kvspec.properties.interleaving.telling import show_calls, show_pieces

    name, failing = found.scenario.name, found.failing
    if failing is None:
        return f"{name}: {found.reason}"
    lines = [
        f"{name}, {failing.preemptions} preemptions: {found.reason}",
        *(f"  {line}" for line in show_calls(failing.scenario, failing.recording)),
        *(f"    {line}" for line in show_pieces(failing.recording)),
    ]
    return "\n".join(lines)


def _data(found: Interleavings) -> dict[str, Any]:
    from kvspec.properties.interleaving.telling import show_calls

    failing = found.failing
    return {
        "scenario": found.scenario.name,
        "verdict": found.verdict,
        "reason": found.reason,
        "schedules": list(found.schedules),
        "is_whole": found.is_whole,
        "histories": found.histories,
        "failing": None
        if failing is None
        else {
            "preemptions": failing.preemptions,
            "calls": show_calls(failing.scenario, failing.recording),
            "schedule": [
                {"thread": step.thread, "at": step.at} for step in failing.recording.run.steps
            ],
        },
    }
