"""Rules: what the specification asks of a cache, one checkable sentence each, derived from its text.

For an action: `A/accepted`, `A/VARIABLE` for each variable that it assigns, `A/keeps-the-rest` for all
others, and `A/CODE` for each guard. For the cache as a whole: `claim/NAME` for each claim about states
and steps, `cache/starts-blank`, `cache/undamaged`, `cache/repeatable`. None is written by hand, and an
identifier changes only with the specification's own names.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from kvspec.spec.language import (
    Action,
    Expr,
    Guard,
    Property,
    Read,
    System,
    Variable,
)
from kvspec.spec.language.expr import walk

ACCEPTED, GUARD, EFFECT, KEEPS, CLAIM, CACHE = (
    "accepted",
    "guard",
    "effect",
    "keeps",
    "claim",
    "cache",
)
STARTS = "cache/starts-blank"
UNDAMAGED = "cache/undamaged"
REPEATABLE = "cache/repeatable"
CLAIM_KINDS = ("invariant", "step")


@attrs.frozen(eq=False)
class Rule:
    """One rule. It reads aloud as `sentence`.

    kind: accepted, guard, effect, keeps, claim or cache. place: file and line of the specification's
    text, or None. reads: names of the variables without which nothing can be said.
    """

    id: str
    kind: str
    sentence: str
    action: Action | None = None
    guard: Guard | None = None
    variable: Variable | None = None
    claim: Property | None = None
    reads: frozenset[str] = frozenset()

    @property
    def group(self) -> str:
        """What the rule belongs to: the name of an action, `claim` or `cache`."""
        return self.id.partition("/")[0]

    @property
    def place(self) -> tuple[str, int] | None:
        """File and line where the specification says it."""
        for part in (self.guard, self.claim, self.action):
            if part is not None:
                return part.place
        return None


def rules_of(system: System, claims: Iterable[Property] = ()) -> dict[str, Rule]:
    """Every rule of a system by its identifier, in the order of the text."""
    found: list[Rule] = []
    for action in system.actions.values():
        found += _of_action(action, system)
    found += [_of_claim(claim) for claim in claims if claim.kind in CLAIM_KINDS]
    found += [
        Rule(STARTS, CACHE, "after a reset everything is as the specification begins"),
        Rule(UNDAMAGED, CACHE, "no harm can be measured: damage() is empty at all times"),
        Rule(REPEATABLE, CACHE, "the same calls after a reset get the same answers"),
    ]
    return {rule.id: rule for rule in found}


def assigned(action: Action) -> dict[str, Variable]:
    """The variables that an accepted action assigns, by name."""
    return {done.variable.name: done.variable for done in action.assignments}


def _of_action(action: Action, system: System) -> list[Rule]:
    name, puts = action.name, assigned(action)
    told = "where no guard fails" if action.guards else "always"
    found = [Rule(f"{name}/accepted", ACCEPTED, f"{name} is accepted {told}", action)]
    for variable in puts.values():
        sentence = f"after {name}, {variable.name} ({variable.meaning}) is as specified"
        reads = frozenset({variable.name})
        effect = Rule(f"{name}/{variable.name}", EFFECT, sentence, action, None, variable)
        found.append(attrs.evolve(effect, reads=reads))
    rest = f"{name} changes nothing but {', '.join(puts) or 'nothing'}"
    if len(puts) < len(system.variables):
        found.append(Rule(f"{name}/keeps-the-rest", KEEPS, rest, action))
    for guard in action.guards:
        changes = ", ".join(dict.fromkeys(done.variable.name for done in guard.refusal))
        effect_of = f"changes nothing but {changes}" if changes else "changes nothing"
        sentence = (
            f"{name} is refused with {guard.code.name} where {guard.code.meaning}, and {effect_of}"
        )
        found.append(Rule(f"{name}/{guard.code.name}", GUARD, sentence, action, guard))
    return found


def _of_claim(claim: Property) -> Rule:
    sentence = " ".join(claim.doc.split()).rstrip(".")
    reads = frozenset(n.variable.name for n in walk(claim.body) if isinstance(n, Read))
    return Rule(f"claim/{claim.name}", CLAIM, sentence, claim=claim, reads=reads)


def rests_on(rule: Rule) -> frozenset[str]:
    """The variables whose values decide what the rule asks: if one is wrong before, nothing is asked.

    What an accepted call does is decided by the values that it assigns, whether it is accepted by guards.
    """
    if rule.action is None:
        return rule.reads
    if rule.kind == KEEPS:
        return frozenset()  # cells that were wrong before are left out of it anyway
    exprs: list[Expr] = []
    if rule.kind == EFFECT:
        done = [done for done in rule.action.assignments if done.variable is rule.variable]
        exprs += [part for each in done for part in (*each.index, each.value)]
    else:
        for guard in rule.action.guards:
            exprs.append(guard.condition)
            if guard is rule.guard:
                exprs += [part for done in guard.refusal for part in (*done.index, done.value)]
                break
    found = {n.variable.name for expr in exprs for n in walk(expr) if isinstance(n, Read)}
    return frozenset(found) | rule.reads
