"""`kvspec formulas`: every formula with its unit and symbols, and proofs of what holds between them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from kvspec.cli.errors import UsageError
from kvspec.cli.evaluate import evaluated
from kvspec.cli.output import CheckOutput, Flag, check_outputs, check_writable, deliver
from kvspec.cli.progress import counting
from kvspec.cli.verdicts import HOLDS, VIOLATED, Answer, Check, worst

if TYPE_CHECKING:
    from kvspec.models.symbolic.identities import Proof


def formulas(
    name: str | None = None,
    *values: str,
    prove: Flag = False,
    only: Annotated[list[str] | None, Parameter(negative="")] = None,
    seconds: Annotated[float, Parameter(validator=Number(gt=0))] = 10.0,
    markdown: Path | None = None,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Print every formula with its unit and section, every symbol, and what holds between formulas.

    A formula is printed as its own code computes it. The identities are proved for all values and for
    lists of any length; one that fails is shown with values that break it, as plain Python confirms.

    Args:
        name: compute this formula.
        values: a value for each of its arguments, in their order or by name, as in G=128; a list
            has commas.
        prove: prove the identities.
        only: prove the identities of this name alone, with * for anything; may be given again.
        seconds: give up on a query of a proof after so many seconds.
        markdown: write the registry to this file as a page, and print nothing of it.
        output: how the answer is told.
    """
    check_outputs(output)
    if name is not None:
        return deliver(evaluated(name, values), output)
    check_writable(markdown, "--markdown of kvspec formulas")
    if prove or only:
        return deliver(proved(only, seconds), output)
    from kvspec.report import registry

    if markdown is not None:
        markdown.write_text(registry.markdown(), encoding="utf-8")
        told = f"wrote {markdown}"
        return deliver(Answer("formulas", HOLDS, {"markdown": str(markdown)}, told), output)
    return deliver(Answer("formulas", HOLDS, registry.data(), registry.text()), output)


def proved(only: list[str] | None = None, seconds: float = 10.0) -> Answer:
    """Every identity with its proof, and the check of units."""
    from kvspec.models.symbolic.identities import prove_identities
    from kvspec.report import registry
    from kvspec.spec.formulas import BOOK
    from kvspec.spec.formulas.identities import IDENTITIES

    with counting("formulas") as progress:
        proofs = prove_identities(IDENTITIES, seconds=seconds, only=only, progress=progress)
    if not proofs:
        raise UsageError(
            "no identity is named so",
            ", ".join(only or ()),
            "a name such as query_heads_are_not_stored, or a pattern such as 'doubling_*'",
            "--only of kvspec formulas",
            "kvspec formulas lists all names",
        )
    wrong = [] if only else _wrong_units()
    verdict = worst([*(proof.verdict for proof in proofs), *(each.verdict for each in wrong)])
    passed = sum(proof.verdict == HOLDS for proof in proofs)
    lines = [f"{each.verdict:<8}  unit of {each.name}: {each.message}" for each in wrong]
    lines += [proof.show() for proof in proofs]
    if not only:
        lines.append(f"{len(BOOK) - len(wrong)} of {len(BOOK)} formulas give the unit they declare")
    lines.append(f"{verdict}: {passed} of {len(proofs)} identities hold, for all values")
    units = [{"name": each.name, "found": each.message} for each in wrong]
    data = registry.data(proofs) | {"wrong_units": units, "verdict": verdict}
    checks = (*wrong, *map(_check, proofs))
    return Answer("formulas", verdict, data, "\n".join(lines), checks)


def _wrong_units() -> list[Check]:
    """The formulas whose code gives another unit than they declare."""
    from kvspec.spec.formulas import BOOK
    from kvspec.spec.formulas.units import UnitError

    found = []
    for each in BOOK:
        try:
            each.check_dimension()
        except UnitError as error:
            found.append(Check("units", each.name, VIOLATED, message=str(error)))
    return found


def _check(proof: Proof) -> Check:
    message = proof.reason if proof.case is None else f"broken by {proof.case.show()}"
    return Check("formulas", proof.identity.name, proof.verdict, proof.seconds, message)
