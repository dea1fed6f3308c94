"""The table of claims: what each says, on how many cases it was searched, what was proved of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvspec.report.results import Result
from kvspec.report.tables import markdown_table

HEAD = ("claim", "says", "kind", "cases", "proved", "time", "verdict")


def claim_rows(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """A row for each claim about the core system, from the results of `kvspec verify`.

    cases: the states or steps in which what the claim presupposes held, on all instances together.
    """
    from kvspec.properties.core import properties

    results = [result for result in results if result.get("system") == properties.system.name]
    explored = [r for r in results if r["command"] == "explore" and "states" in r]
    proofs: dict[str, dict[str, Any]] = {}
    for result in results:
        proofs |= result.get("claims", {}) if result["command"] == "prove" else {}
    rows: list[tuple[str, ...]] = []
    for claim in properties.of_kind("invariant", "lemma", "step", "leads_to"):
        cases = sum(_cases(run, claim.name) for run in explored)
        proof = proofs.get(claim.name)
        broken = any(v["property"] == claim.name for run in explored for v in run["violations"])
        rows.append(
            (
                f"`{claim.name}`",
                claim.doc,
                claim.kind.replace("_", " "),
                f"{cases:,}",
                f"{proof['proved']} of {proof['obligations']}" if proof else "searched only",
                f"{proof['seconds']:.2f} s" if proof else "",
                _verdict(explored, proof, broken=broken),
            )
        )
    return rows


def claim_markdown(results: Sequence[Result]) -> str:
    """The table as Markdown."""
    return markdown_table(HEAD, claim_rows(results), right=(3, 4, 5))


def _cases(run: Result, name: str) -> int:
    antecedents = (run.get("coverage") or {}).get("antecedents", {})
    return int(antecedents.get(name, run["states"]))


def _verdict(explored: Sequence[Result], proof: dict[str, Any] | None, *, broken: bool) -> str:
    if broken or (proof and proof["failed"]):
        return "violated"
    is_searched = bool(explored) and all(run["complete"] for run in explored)
    is_proved = proof is None or proof["proved"] == proof["obligations"]
    return "holds" if is_searched and is_proved else "unknown"
