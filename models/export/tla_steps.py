"""Actions as TLA+ operators, and the next-state relation that they make up."""

from __future__ import annotations

from typing import TypeGuard

from kvspec.models.export.tla_text import WIDTH, Scope, bulleted, comment, hang, indent
from kvspec.models.export.tla_words import Source, Vocabulary
from kvspec.spec.language import Action, Assignment, Expr, Op

Lines = list[str]


def operators(action: Action, words: Vocabulary) -> list[Lines]:
    """The operator of the action, and one for each refusal with an effect."""
    found: list[Lines] = []
    scope, _, names = Scope.of(words).parameters(action.parameters)
    passed: list[Lines] = []
    for guard in action.guards:
        code = guard.code
        holds = scope.lines(guard.condition, WIDTH - 30)
        if guard.refusal:
            denied = Op(guard.condition.type, "not", (guard.condition,))
            refused = scope.lines(denied, WIDTH - 30)
            refused[0] += rf"  \* {code.name}: {code.meaning}"
            name = words.steps[action.name, code.name][0]
            doc = f"{action.name} refused with {code.name}, which has an effect."
            body = [*passed, refused, *_effect(guard.refusal, scope)]
            found.append(_operator(doc, name, names, body))
        passed.append([rf"{holds[0]}  \* else {code.name}", *holds[1:]])
    name = words.steps[action.name, None][0]
    body = [*passed, *_effect(action.assignments, scope)]
    return [_operator(action.doc, name, names, body), *found]


def _operator(doc: str, name: str, parameters: list[str], body: list[Lines]) -> Lines:
    head = f"{name}({', '.join(parameters)}) ==" if parameters else f"{name} =="
    return [*comment(doc), head, *indent(bulleted("/\\", body))]


def _effect(assignments: tuple[Assignment, ...], scope: Scope) -> list[Lines]:
    """The assigned variables after the step, and what stays as it was."""
    changed = {done.variable.name for done in assignments}
    if not changed:
        return [["UNCHANGED vars"]]
    kept = [text for name, text in scope.words.variables.items() if name not in changed]
    found = [_assignment(done, scope) for done in assignments]
    return [*found, listed("UNCHANGED <<", kept, ">>")] if kept else found


def listed(head: str, names: list[str], tail: str) -> Lines:
    """Names between head and tail, on as many lines as they need."""
    rows = [names[0]] if names else [""]
    for name in names[1:]:
        if len(rows[-1]) + len(name) > WIDTH - len(head):
            rows.append(name)
        else:
            rows[-1] += f", {name}"
    return hang(head, [f"{row}," for row in rows[:-1]] + [f"{rows[-1]}{tail}"])


def _assignment(done: Assignment, scope: Scope) -> Lines:
    name = scope.words.variables[done.variable.name]
    if not done.index:
        return hang(f"{name}' = ", scope.lines(done.value, WIDTH - len(name) - 4))
    if done.binders:
        return _every(name, done, scope)
    where = ", ".join(scope.flat(part) for part in done.index)
    line = f"{name}' = [{name} EXCEPT ![{where}] = {scope.flat(done.value)}]"
    if len(line) <= WIDTH:
        return [line]
    value = scope.lines(done.value, WIDTH - 6)
    inside = [f"  [{name} EXCEPT ![{where}] =", *indent(value, "     ")]
    return [f"{name}' =", *inside[:-1], f"{inside[-1]}]"]


def _every(name: str, done: Assignment, scope: Scope) -> Lines:
    """For all members of some sorts: a function whose variables are the members themselves."""
    wanted: list[str] = []
    for place, (part, kind) in enumerate(zip(done.index, done.variable.domain, strict=True)):
        binder = next((b for b in done.binders if b is part), None)
        if binder is not None and binder.name not in wanted:
            wanted.append(binder.name)
        else:
            wanted.append(f"{kind.name.lower()}_at_{place}")
    inner, texts = scope.bind(wanted)
    header = ", ".join(
        rf"{text} \in {scope.words.range(kind)}"
        for text, kind in zip(texts, done.variable.domain, strict=True)
    )
    shown = [inner.flat(part, 6) for part in done.index]
    apart = [f"{t} = {part}" for t, part in zip(texts, shown, strict=True) if t != part]
    value = inner.lines(done.value, WIDTH - 12)
    if apart:
        condition = " /\\ ".join(apart)
        before = f"{name}[{', '.join(texts)}]"
        if len(value) == 1 and len(value[0]) + len(condition) + len(before) < WIDTH - 30:
            value = [f"IF {condition} THEN {value[0]} ELSE {before}"]
        else:
            value = [f"IF {condition}", *hang("THEN ", value), f"ELSE {before}"]
    line = f"{name}' = [{header} |-> {value[0]}]"
    if len(value) == 1 and len(line) <= WIDTH:
        return [line]
    return [f"{name}' =", f"  [{header} |->", *indent(value[:-1], "     "), f"     {value[-1]}]"]


def limits(action: Action, scope: Scope, source: Source) -> list[str]:
    """The limits of the instance on an action, as conjuncts."""
    conditions = source.instance.limits_on(action) if source.instance else []
    parts = [
        part
        for condition in conditions
        for part in (condition.args if _is_conjunction(condition) else (condition,))
    ]
    return [scope.flat(part, 4) for part in parts]


def _is_conjunction(expr: Expr) -> TypeGuard[Op]:
    return isinstance(expr, Op) and expr.op == "and"


def next_state(source: Source, words: Vocabulary, *, with_event: bool) -> list[Lines]:
    """`Next`, and `Event`, which is any step whether or not the instance tries it."""
    found: list[Lines] = []
    has_limits = bool(source.instance and source.instance.limits)
    if with_event or not has_limits:
        lines = bulleted("\\/", _disjuncts(source, words, limited=False))
        found.append(
            [r"\* Any step, also one that an instance does not try.", "Event ==", *indent(lines)]
        )
    if not has_limits:
        return [*found, ["Next == Event /\\ InBounds'"]]
    lines = bulleted("\\/", _disjuncts(source, words, limited=True))
    return [
        *found,
        [
            r"\* The steps within the limits of the instance.",
            "Next ==",
            *indent(bulleted("/\\", [lines, ["InBounds'"]])),
        ],
    ]


def _disjuncts(source: Source, words: Vocabulary, *, limited: bool) -> list[Lines]:
    found: list[Lines] = []
    for (action, _), (name, parameters) in words.steps.items():
        scope, header, names = Scope.of(words).parameters(parameters)
        call = f"{name}({', '.join(names)})" if names else name
        asked = limits(source.system.action(action), scope, source) if limited else []
        body = " /\\ ".join([*asked, call])
        found.append([rf"\E {header} : {body}" if header else body])
    return found or [["FALSE"]]
