"""Properties as TLA+ definitions, and what a configuration asks TLC about them."""

from __future__ import annotations

from kvspec.models.export.tla_steps import Lines, limits
from kvspec.models.export.tla_text import WIDTH, Scope, bulleted, comment, hang, indent
from kvspec.models.export.tla_words import Source, Vocabulary
from kvspec.spec.language import Expr, Fairness, Op, Property


def definitions(source: Source, words: Vocabulary) -> list[Lines]:
    """One definition for each claim, in order; `end` claims become one, that there is no deadlock."""
    found: list[Lines] = []
    for claim in source.claims:
        found += _definition(claim, source, words)
    ends = [words.properties[c.name] for c in source.claims if c.kind == "end"]
    if ends:
        found.append(
            [
                r"\* A state from which no step leads on is a proper end.",
                "NoDeadlock ==",
                *indent(bulleted("\\/", [["ENABLED <<Event>>_vars"], *([name] for name in ends)])),
            ]
        )
    return found


def _definition(claim: Property, source: Source, words: Vocabulary) -> list[Lines]:
    if claim.goal is not None:
        return _leads_to(claim, claim.goal, source, words)
    scope, name = Scope.of(words), words.properties[claim.name]
    about = comment(f"{claim.kind}: {claim.doc}")
    body = scope.lines(claim.body, WIDTH - 2)
    match claim.kind:
        case "step":
            inside = hang("[][", scope.lines(claim.body, WIDTH - 12))
            return [[*about, f"{name} ==", *indent([*inside[:-1], f"{inside[-1]}]_vars"])]]
        case "witness":
            inner = claim.body
            denied: Expr = Op(inner.type, "not", (inner,))
            if isinstance(inner, Op) and inner.op == "not":
                denied = inner.args[0]
            note = r"\* TLC shows such a state when it is asked for this invariant:"
            return [[*about, note, f"{name} ==", *indent(scope.lines(denied, WIDTH - 2))]]
    return [[*about, f"{name} ==", *indent(body)]]


def _leads_to(claim: Property, goal: Expr, source: Source, words: Vocabulary) -> list[Lines]:
    """The claim for each of its bound members, under the fairness that it assumes."""
    name, fairness = words.properties[claim.name], words.fairness.get(claim.name)
    scope, header, _ = Scope.of(words).parameters(claim.bound)
    leads = [f"{scope.flat(claim.body, 3)} ~> {scope.flat(goal, 3)}"]
    if len(leads[0]) > WIDTH - 8:
        first = hang("(", scope.lines(claim.body, WIDTH - 8))
        second = hang("~> (", scope.lines(goal, WIDTH - 8))
        leads = [*first[:-1], f"{first[-1]})", *indent([*second[:-1], f"{second[-1]})"])]
    if header:
        leads = [rf"\A {header} :", *indent(leads)]
    about = [*comment(f"{claim.kind}: {claim.doc}"), f"{name} =="]
    if fairness is None:
        return [[*about, *indent(leads)]]
    fair = bulleted("/\\", [[_fair(f, source, words)] for f in claim.fairness])
    assumed = [rf"\* What {name} assumes.", f"{fairness} ==", *indent(fair)]
    return [assumed, [*about, f"  {fairness} =>", *indent(leads, "    ")]]


def _fair(fairness: Fairness, source: Source, words: Vocabulary) -> str:
    """Fairness of an accepted step that the instance tries, for each value of some parameters."""
    action = fairness.action
    apart = tuple(p for p in action.parameters if p.name in fairness.parameters)
    rest = tuple(p for p in action.parameters if p.name not in fairness.parameters)
    outer, header, _ = Scope.of(words).parameters(apart)
    inner, within, _ = outer.parameters(rest)
    name = words.steps[action.name, None][0]
    arguments = ", ".join(inner.local[p.name] for p in action.parameters)
    parts = [*limits(action, inner, source), f"{name}({arguments})" if arguments else name]
    if any(done.variable.type.kind == "natural" for done in action.assignments):
        parts.append("InBounds'")
    step = " /\\ ".join(parts)
    step = rf"\E {within} : {step}" if within else step
    formula = f"{'SF' if fairness.strong else 'WF'}_vars({step})"
    return rf"\A {header} : {formula}" if header else formula


def configuration(source: Source, words: Vocabulary) -> Lines:
    """What TLC is asked to check, and in comments what it may be asked besides."""
    invariants, temporal, witnesses = ["TypeOK"], [], []
    for claim in source.claims:
        name = words.properties[claim.name]
        if claim.kind in ("invariant", "lemma"):
            invariants.append(name)
        elif claim.kind in ("step", "leads_to"):
            temporal.append(name)
        elif claim.kind == "witness":
            witnesses.append(name)
    if any(claim.kind == "end" for claim in source.claims):
        invariants.append("NoDeadlock")
    lines = ["INVARIANTS", *indent(invariants)]
    if temporal:
        lines += ["PROPERTIES", *indent(temporal)]
    if witnesses:
        lines.append(r"\* Each of these is violated by a state that bears it witness:")
        lines += [rf"\* INVARIANT {name}" for name in witnesses]
    return lines
