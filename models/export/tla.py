"""TLA+ text of a system or an instance: one operator for each action, guards as conjuncts in order.

TLA+ judges pairs of states, and a behaviour may always stutter. So `fired(a)` in a step property
means that the pair of states is also a step of `a`, and a step that changes nothing is not looked
at. All else means what docs/engine-contract.md says: steps out of bounds are kept out of `Next`
(`InBounds'`), limits are conjuncts of `Next` and not of the actions, and a refusal with an effect is
an operator of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvspec.models.export import tla_claims
from kvspec.models.export.tla_steps import Lines, listed, next_state, operators
from kvspec.models.export.tla_text import WIDTH, Scope, bulleted, comment, indent
from kvspec.models.export.tla_words import SUGGESTED_SIZE, Source, Vocabulary, quoted, vocabulary
from kvspec.spec.language import Bijective, Expr, Instance, Property, System, Type, Variable


def to_tla(
    source: Instance | System,
    properties: Iterable[Property] = (),
    *,
    symmetry: bool = False,
    variant: int = 0,
) -> tuple[str, str]:
    """The text of the module and of a configuration for TLC.

    For a System the configuration only suggests sizes; an Instance brings sizes, bounds, constants,
    limits and pinned initial values. The module is named by the system, and belongs into a file of
    that name. symmetry: the configuration asks TLC to merge states that differ by a swap of members,
    which is refused (ValueError) beside leads_to properties, where TLC is wrong then, and where an
    expression names a member. variant: the mutant to write.
    """
    is_instance = isinstance(source, Instance)
    system = source.system if isinstance(source, Instance) else source
    given = Source(system, source if is_instance else None, tuple(properties), variant)  # type: ignore[arg-type]
    if symmetry:
        _check_symmetric(given)
    words = vocabulary(given)
    return _module(given, words), _configuration(given, words, symmetry=symmetry)


def _check_symmetric(source: Source) -> None:
    temporal = [claim.name for claim in source.claims if claim.kind == "leads_to"]
    named = [f"{sort}{place}" for sort, place in source.named_members()]
    for found, why in ((temporal, "leads_to properties"), (named, "members that are named")):
        if found:
            raise ValueError(
                f"symmetry with {why} ({', '.join(found)}) in {source.system.name}: states that "
                "differ by a swap of members may not be merged there: leave out one of the two"
            )


def _module(source: Source, words: Vocabulary) -> str:
    """The text of the module."""
    variables = source.system.variables.values()
    types = [rf"{words.variables[v.name]} \in {words.table(v)}" for v in variables]
    bounded = [text for text, v in zip(types, variables, strict=True) if v.type.kind == "natural"]
    ends = any(claim.kind == "end" for claim in source.claims)
    parts: list[Lines] = [
        [f" MODULE {words.module} ".center(WIDTH + 4, "-"), *comment(source.system.doc)],
        ["EXTENDS Integers, TLC"],
        *_constants(source, words),
        *_sorts(source, words),
        ["VARIABLES", *_column([(words.variables[v.name], _about(v)) for v in variables])],
        listed("vars == <<", list(words.variables.values()), ">>"),
        ["TypeOK ==", *indent(bulleted("/\\", [[line] for line in types]))],
        [
            r"\* A step that would leave the bounds of the instance is not taken.",
            "InBounds ==",
            *indent(bulleted("/\\", [[line] for line in bounded or ["TRUE"]])),
        ],
        ["Init ==", *indent(bulleted("/\\", [_start(v, source, words) for v in variables]))],
        *(part for a in source.system.actions.values() for part in operators(a, words)),
        *next_state(source, words, with_event=ends),
        ["Spec == Init /\\ [][Next]_vars"],
        *_symmetry(source, words),
        *tla_claims.definitions(source, words),
        ["=" * (WIDTH + 4)],
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _about(variable: Variable) -> str:
    return f"{variable.signature}: {variable.meaning}"


def _column(names: list[tuple[str, str]]) -> Lines:
    """Declared names, one a line, each with a comment."""
    width = max(len(name) for name, _ in names) + 2
    texts = [f"{name}," for name, _ in names[:-1]] + [names[-1][0]]
    return [rf"  {text:{width}}\* {about}" for text, (_, about) in zip(texts, names, strict=True)]


def _constants(source: Source, words: Vocabulary) -> list[Lines]:
    """Sorts, nones, bounds and numbers, with what is assumed of them."""
    named = source.named_members()
    names = [(words.sorts[s], "any number of members") for s in _open(source)]
    names += [(none, f"none of an Option[{sort}]") for sort, none in words.nones.items()]
    names += [(words.members[m], f"a member of {m[0]}") for m in named]
    names += [(top, f"largest {sort} of an instance") for sort, top in words.tops.items()]
    names += [(text, "a number of the system") for text in words.constants.values()]
    assumed = [rf"{none} \notin {words.sorts[sort]}" for sort, none in words.nones.items()]
    assumed += [rf"{words.members[m]} \in {words.sorts[m[0]]}" for m in named]
    assumed += [rf"{text} \in Nat" for text in (*words.tops.values(), *words.constants.values())]
    found = [["CONSTANTS", *_column(names)]] if names else []
    if assumed:
        found.append(["ASSUME", *indent(bulleted("/\\", [[line] for line in assumed]))])
    return found


def _open(source: Source) -> list[str]:
    return [kind.name for kind in source.system.sorts().values() if kind.kind == "open"]


def _sorts(source: Source, words: Vocabulary) -> list[Lines]:
    """Enumerations as sets, and what options and maps need."""
    found: list[Lines] = []
    for kind in source.system.sorts().values():
        if kind.kind == "enum":
            members = ", ".join(quoted(name) for name in kind.members)
            found.append([f"{words.sorts[kind.name]} == {{{members}}}"])
    for sort, none in words.nones.items():
        _, (option, member) = Scope.of(words).bind(("option", "member"))
        first = rf"CHOOSE {member} \in {words.sorts[sort]} : TRUE"
        found.append(
            [
                r"\* The member that an option holds; of none some member, always the same.",
                f"The{sort}({option}) == IF {option} = {none} THEN {first} ELSE {option}",
            ]
        )
    if any(isinstance(node, Bijective) for node in source.nodes()):
        _, (function, of, x) = Scope.of(words).bind(("f", "S", "x"))
        found.append(
            [
                r"\* A map of a finite set into itself that reaches every member is one-to-one too.",
                rf"Bijective({function}, {of}) == {{{function}[{x}] : {x} \in {of}}} = {of}",
            ]
        )
    return found


def _start(variable: Variable, source: Source, words: Vocabulary) -> Lines:
    """A variable in the initial states."""
    name, start = words.variables[variable.name], source.start(variable)
    if not isinstance(start, Expr):
        return [rf"{name} \in {words.table(variable)}"]
    if not variable.domain:
        return [f"{name} = {Scope.of(words).flat(start)}"]
    scope, header, _ = Scope.of(words).parameters(variable.binders)
    return [f"{name} = [{header} |-> {scope.flat(start)}]"]


def _symmetry(source: Source, words: Vocabulary) -> list[Lines]:
    """The swaps of members that no step can tell."""
    named = {sort for sort, _ in source.named_members()}
    sets = [f"Permutations({words.sorts[s]})" for s in _open(source) if s not in named]
    return [listed("Symmetry == UNION {", sets, "}")] if sets else []


def _configuration(source: Source, words: Vocabulary, *, symmetry: bool) -> str:
    """The text of a configuration for TLC."""
    origin = repr(source.instance) if source.instance else "sizes and bounds are suggestions"
    values = [
        value for kind in source.system.sorts().values() for value in _values(kind, source, words)
    ]
    values += [f"{words.members[m]} = {words.members[m]}" for m in source.named_members()]
    fixed = source.instance.constants if source.instance else {}
    values += [f"{text} = {fixed.get(n, SUGGESTED_SIZE)}" for n, text in words.constants.items()]
    lines = [rf"\* {origin}"]
    lines += ["CONSTANTS", *indent(values)] if values else []
    lines += ["SPECIFICATION Spec", "CHECK_DEADLOCK FALSE"]
    lines += tla_claims.configuration(source, words)
    if _symmetry(source, words):
        lines.append("SYMMETRY Symmetry" if symmetry else r"\* SYMMETRY Symmetry")
    return "\n".join(lines) + "\n"


def _values(kind: Type, source: Source, words: Vocabulary) -> Lines:
    if kind.kind == "natural":
        top = source.instance.bounds[kind.name] if source.instance else SUGGESTED_SIZE
        return [f"{words.tops[kind.name]} = {top}"]
    if kind.kind != "open":
        return []
    members = [words.members[kind.name, place] for place in range(source.size(kind.name))]
    found = [f"{words.sorts[kind.name]} = {{{', '.join(members)}}}"]
    none = words.nones.get(kind.name)
    return found if none is None else [*found, f"{none} = {none}"]
