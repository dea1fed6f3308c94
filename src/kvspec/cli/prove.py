"""`kvspec prove`: every claim about a system, for any number of members and all naturals."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from kvspec.cli.errors import UsageError
from kvspec.cli.lookup import refinements_of, system_named
from kvspec.cli.output import CheckOutput, check_folder, check_outputs, deliver
from kvspec.cli.progress import counting
from kvspec.cli.verdicts import HOLDS, UNKNOWN, VIOLATED, Answer, Check, worst

if TYPE_CHECKING:
    from kvspec.cli.progress import Counted
    from kvspec.counterexamples.systems import KnownSystem
    from kvspec.models.symbolic import ProofReport, SecondOpinion

Solver = Literal["z3", "cvc5", "both"]
_VERDICTS = {"proved": HOLDS, "failed": VIOLATED, "unknown": UNKNOWN}


@attrs.frozen(kw_only=True)
class Proof:
    """How a system is proved; as the options of `kvspec prove`."""

    solver: Solver = "z3"
    seconds: float = 10.0
    workers: int = 2
    only: tuple[str, ...] | None = None


def prove(
    system: str = "core",
    *,
    solver: Solver = "z3",
    only: Annotated[list[str] | None, Parameter(negative="")] = None,
    seconds: Annotated[float, Parameter(validator=Number(gt=0))] = 10.0,
    workers: Annotated[int, Parameter(validator=Number(gte=1))] = 2,
    smtlib: Path | None = None,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Prove invariants, step claims and refinements for any number of handles, appends, layers and rows.

    The claims hold at the start and are kept by every step, every action and guard has a case, and
    refinements hold. A claim that fails is shown with the two states of a step that breaks it. An
    obligation that no solver settles in time is `unknown` (exit code 3).

    Args:
        system: the system; `kvspec show` lists them.
        solver: z3, cvc5, or z3 with cvc5 asked for a second opinion on every obligation.
        only: settle only obligations of this name, with * for anything; may be given again.
        seconds: give up on an obligation after so many seconds.
        workers: solver processes at a time.
        smtlib: write the obligations to this folder as SMT-LIB 2, for any solver.
        output: how the answer is told.
    """
    check_outputs(output)
    check_folder(smtlib, "--smtlib of kvspec prove")
    subject = system_named(system, "prove")
    proof = Proof(
        solver=solver, seconds=seconds, workers=workers, only=tuple(only) if only else None
    )
    need_solver(solver)
    with counting(f"prove {subject.name}") as progress:
        report = run(subject, proof, progress)
        if not report.items:
            raise UsageError(
                f"no obligation of {subject.name} is named so",
                ", ".join(only or ("no obligation",)),
                "a pattern such as 'inductive:*', 'step:*:publish' or 'refines:*'",
                "--only of kvspec prove",
                f"kvspec prove {subject.key} --json lists all names",
            )
        second = run_second(subject, proof, smtlib, progress)
    return deliver(answer(subject, report, second), output)


def need_solver(solver: Solver) -> None:
    """Refuse a solver that is not installed."""
    from importlib.util import find_spec

    if solver != "z3" and find_spec("cvc5") is None:
        raise UsageError(
            "the solver cvc5 is not installed",
            "no module cvc5",
            "the extra cvc5 of this package",
            "--solver of kvspec prove",
            "pip install 'kvspec[cvc5]', or use --solver z3",
        )


def run(subject: KnownSystem, proof: Proof, progress: Counted | None) -> ProofReport:
    """Settle the obligations with one solver."""
    from kvspec.models.symbolic import prove as settle
    from kvspec.properties.reach import search_reaches

    return settle(
        subject.system,
        subject.properties(),
        refinements_of(subject),
        seconds_per_obligation=proof.seconds,
        solver="z3" if proof.solver == "both" else proof.solver,
        workers=proof.workers,
        only=proof.only,
        progress=progress,
        reach=search_reaches,
    )


def run_second(
    subject: KnownSystem, proof: Proof, folder: Path | None, progress: Counted | None
) -> SecondOpinion | None:
    """Write the obligations as text where asked, and have cvc5 read them if both are asked."""
    from kvspec.models.symbolic import export_obligations, second_opinion

    if folder is None and proof.solver != "both":
        return None
    with tempfile.TemporaryDirectory(prefix="kvspec-smtlib-") as temporary:
        target = folder or Path(temporary)
        claims, refinements = subject.properties(), refinements_of(subject)
        export_obligations(subject.system, claims, target, refinements, only=proof.only)
        if proof.solver != "both":
            return None
        return second_opinion(
            target,
            seconds_per_obligation=proof.seconds,
            workers=proof.workers,
            progress=progress,
        )


def answer(
    subject: KnownSystem, report: ProofReport, second: SecondOpinion | None = None
) -> Answer:
    """What the solvers say, for machines and for people."""
    verdict = report.verdict
    if second is not None and verdict == HOLDS:
        verdict = worst((verdict, second.verdict))
    text = report.show() if second is None else f"{report.show()}\n\n{second.show()}"
    given = subject.properties().given
    if given is not None:
        rests = len(subject.properties().inherited())
        text += f"\n\nrests on {rests} claims that kvspec prove {given.system.name} proves"
    text += f"\n\n{verdict}: {report.proved + report.trivial} of {report.obligations} obligations"
    return Answer(
        "prove", verdict, as_json(subject, report, second, verdict), text, checks(subject, report)
    )


def by_claim(subject: KnownSystem, report: ProofReport) -> dict[str, dict[str, Any]]:
    """For each claim how many obligations it has, how many are proved or failed, and their time."""
    found: dict[str, dict[str, Any]] = {}
    for item in report.items:
        parts = item.name.split(":")
        if (
            item.kind not in ("initial", "inductive", "step")
            or parts[1] not in subject.properties().by_name
        ):
            continue
        told = found.setdefault(
            parts[1], {"obligations": 0, "proved": 0, "failed": 0, "seconds": 0.0}
        )
        told["obligations"] += 1
        told["proved"] += item.verdict == "proved"
        told["failed"] += item.verdict == "failed"
        told["seconds"] += item.seconds
    return found


def as_json(
    subject: KnownSystem, report: ProofReport, second: SecondOpinion | None, verdict: str
) -> dict[str, Any]:
    """The JSON object of a proof; `proved` counts what holds by its form as well."""
    given = subject.properties().given
    data: dict[str, Any] = {
        "system": report.system,
        "obligations": report.obligations,
        "proved": report.proved + report.trivial,
        "by_form": report.trivial,
        "failed": report.failed,
        "unknown": report.unknown,
        "seconds": report.seconds,
        "solver": report.solver,
        "verdict": verdict,
        "given": None if given is None else given.system.name,
        "second": None,
        "claims": by_claim(subject, report),
        "items": [
            {
                "name": item.name,
                "kind": item.kind,
                "verdict": item.verdict,
                "how": item.how,
                "seconds": item.seconds,
                "reason": item.reason,
                "counterexample": item.counterexample.show() if item.counterexample else None,
            }
            for item in report.items
        ],
    }
    if second is not None:
        data["solver"] = f"{report.solver} and {second.solver}"
        data["second"] = {
            "solver": second.solver,
            "agreed": second.agreed,
            "disagreed": [each.name for each in second.disagreed],
            "unanswered": [each.name for each in second.unanswered],
        }
    return data


def checks(subject: KnownSystem, report: ProofReport) -> tuple[Check, ...]:
    """One check for each obligation."""
    claims, actions = subject.properties().by_name, subject.system.actions

    def place(name: str) -> tuple[str, int] | None:
        for part in name.replace("!", ":").split(":"):
            if part in claims:
                return claims[part].place
            if part in actions:
                return actions[part].place
        return None

    return tuple(
        Check(
            f"prove {report.system}",
            item.name,
            _VERDICTS[item.verdict],
            item.seconds,
            item.reason or ("" if item.verdict == "proved" else f"{item.name} {item.verdict}"),
            item.counterexample.show() if item.counterexample else "",
            place(item.name),
        )
        for item in report.items
    )
