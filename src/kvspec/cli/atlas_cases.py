"""What `kvspec atlas` finds of one case: both searches, the stored trace, the torch cache, the proof."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import attrs

from kvspec.cli.verdicts import HOLDS, UNKNOWN, VIOLATED, worst

if TYPE_CHECKING:
    from kvspec.counterexamples import Trace
    from kvspec.properties.atlas import Case, Group
    from kvspec.properties.atlas.run import CaseResult

HARM = "damage_shown"
"""The outcome of a replay on a cache whose fault has done harm that is measured."""
SEARCHED = "searched only"
"""What is said instead of a proof of what must happen: it is checked on the whole graph of an instance."""


@attrs.frozen(kw_only=True)
class Asked:
    """What is to be done with each case. write: renew the stored traces. prove: for all sizes as well."""

    write: bool = False
    prove: bool = False


@attrs.frozen(kw_only=True)
class Told:
    """What was found of a case, in plain values.

    steps: of the shortest trace. loop: the state to which a lasso leads back. states, transitions: of the
    sound system on the same instance. faulty, sound: verdicts of the searches. cache: what the torch caches
    did, or "" where they lack the mechanism. proof: "" if not asked. message: why the case does not hold.
    """

    group: str
    number: int
    file: str
    system: str
    fault: str
    claim: str
    kind: str
    steps: int
    loop: int | None
    states: int
    transitions: int
    faulty: str
    sound: str
    cache: str
    proof: str
    verdict: str
    message: str
    seconds: float


def tell(group: Group, number: int, asked: Asked) -> tuple[Told, CaseResult]:
    """Everything about the case of that number, from 1."""
    from kvspec.counterexamples.atlas_files import file_name, trace_of_case, write
    from kvspec.properties.atlas.run import run_case

    start = perf_counter()
    case, file = group.cases[number - 1], file_name(group, number)
    result = run_case(case)
    broken = result.broken
    verdicts, messages, cache = [result.verdict], [_why(result)], ""
    if broken is not None:
        trace = trace_of_case(result)
        if asked.write:
            write({file: trace})
        verdict, message = _stored(file, trace)
        harm, cache, told = _on_caches(file, trace)
        verdicts += [verdict, harm]
        messages += [message, told]
    proof, verdict = _proof(case) if asked.prove else ("", HOLDS)
    verdicts.append(verdict)
    return Told(
        group=group.name,
        number=number,
        file=file,
        system=case.fault.system.name,
        fault=case.fault.name,
        claim=case.claim if case.property.kind != "end" else "deadlock",
        kind=broken.kind if broken else case.property.kind,
        steps=len(broken.trace) - 1 if broken else 0,
        loop=broken.loop if broken else None,
        states=result.sound.states,
        transitions=result.sound.transitions,
        faulty=VIOLATED if broken else HOLDS if result.faulty.complete else UNKNOWN,
        sound=result.sound.verdict,
        cache=cache,
        proof=proof,
        verdict=worst(verdicts),
        message="; ".join(m for m in messages if m),
        seconds=perf_counter() - start,
    ), result


def _why(result: CaseResult) -> str:
    """Why the searches do not show the case."""
    if result.sound.verdict != HOLDS:
        failed = "; ".join(f"{v.property}: {v.message}" for v in result.sound.violations)
        return f"the sound rule is {result.sound.verdict}: {failed or result.sound.reason}"
    if result.broken is None:
        reason = f": {result.faulty.reason}" if result.faulty.reason else ""
        return f"the fault does not break {result.case.claim}{reason}"
    return ""


def _stored(file: str, trace: Trace) -> tuple[str, str]:
    """The verdict on the stored trace, which must be the one that was found and go as told."""
    from kvspec.counterexamples.atlas_files import difference
    from kvspec.counterexamples.replay import replay

    found = difference(file, trace)
    if found is not None:
        return VIOLATED, found
    result = replay(trace, where=file)
    return (HOLDS, "") if result.passed else (VIOLATED, f"its replay: {result.message}")


def _on_caches(file: str, trace: Trace) -> tuple[str, str, str]:
    """The trace on the torch caches: the verdict, what they did, and what went wrong."""
    from kvspec.cli.backends import torch_absent
    from kvspec.cli.replay import run_one
    from kvspec.counterexamples.resolve import resolve

    if torch_absent() is not None:
        return HOLDS, "", ""
    found = resolve(trace, file)
    faulty = run_one(found, "faulty")
    sound = run_one(found, "sound") if faulty is not None else None
    if faulty is None or sound is None:
        return HOLDS, "", ""
    wrong = [f"on the {r.target} cache: {r.message}" for r in (sound, faulty) if r.verdict != HOLDS]
    verdicts = [sound.verdict, faulty.verdict]
    if faulty.verdict == HOLDS and faulty.data["outcome"] != HARM:
        # A fault of the library may do its harm later; one of the atlas is there for its harm.
        verdicts.append(VIOLATED)
        wrong.append(f"the faulty cache shows no damage: {faulty.message}")
    did = f"{_did(sound.data['outcome'])}; {faulty.message}"
    return worst(verdicts), did, "; ".join(wrong)


def _did(outcome: str) -> str:
    refused = outcome == "refused_as_specified"
    return "the sound one refuses" if refused else "the sound one goes as specified"


def _proof(case: Case) -> tuple[str, str]:
    """Whether the sound rule keeps the claim for all sizes, and the verdict on that."""
    from kvspec.models.symbolic import prove

    name = case.property.name
    if case.property.kind in ("leads_to", "end"):
        return SEARCHED, HOLDS
    only = [f"{kind}:{name}*" for kind in ("initial", "inductive", "step")]
    report = prove(case.fault.system, case.properties, only=only, workers=0)
    failed = [item.name for item in report.items if item.verdict != "proved"]
    if failed:
        return f"not proved: {', '.join(failed)}", UNKNOWN
    return f"proved ({len(report.items)})" if report.items else "not asked", HOLDS
