"""`kvspec export`: the specification in the languages of other checkers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kvspec.cli.errors import UsageError
from kvspec.cli.lookup import instance_named, refinements_of, system_named
from kvspec.cli.output import Output, check_folder, check_writable, deliver
from kvspec.cli.verdicts import HOLDS, Answer

if TYPE_CHECKING:
    from kvspec.counterexamples.systems import KnownSystem
    from kvspec.spec.language import Instance, Property

Language = Literal["tla", "promela", "smtlib"]
_SPIN_CHECKS = ("invariant", "lemma", "step", "end")


def export(
    system: str = "core",
    instance: str | None = None,
    *,
    to: Language,
    out: Path | None = None,
    claims: bool = True,
    output: Output = Output(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Write an instance for TLC (TLA+) or Spin (Promela), or a system's obligations as SMT-LIB 2.

    One file goes to stdout unless --out names it; with --out the TLA+ module gets its
    configuration beside it. SMT-LIB 2 is one file for each obligation, and needs a folder.

    Args:
        system: the system; `kvspec show` lists them.
        instance: one of its named instances, by default the first; SMT-LIB 2 speaks of all sizes.
        to: the language.
        out: the file, or for smtlib the folder, to write.
        claims: build the claims in, to be checked there; --no-claims leaves the state space alone.
        output: how the answer is told.
    """
    subject = system_named(system, "export")
    if to == "smtlib":
        return deliver(_smtlib(subject, out), output)
    check_writable(out, "--out")
    if out is not None and to == "tla":
        check_writable(out.with_suffix(".cfg"), "--out")
    chosen = instance_named(subject, instance, "export")
    properties = list(subject.properties().by_name.values()) if claims else []
    texts = _tla(chosen, properties) if to == "tla" else _promela(chosen, properties)
    data = {"system": subject.name, "instance": chosen.name, "to": to}
    if out is None:
        first = next(iter(texts.values()))
        return deliver(Answer("export", HOLDS, {**data, "text": first, "files": []}, first), output)
    written = []
    for suffix, text in texts.items():
        path = out.with_suffix(suffix) if suffix else out
        path.write_text(text, encoding="utf-8")
        written.append(str(path))
    listed = "\n".join(f"wrote {path}" for path in written)
    return deliver(Answer("export", HOLDS, {**data, "files": written}, listed), output)


def _tla(instance: Instance, properties: list[Property]) -> dict[str, str]:
    from kvspec.models.export import to_tla

    module, configuration = to_tla(instance, properties)
    return {"": module, ".cfg": configuration}


def _promela(instance: Instance, properties: list[Property]) -> dict[str, str]:
    from kvspec.models.export import to_promela

    checked = [claim for claim in properties if claim.kind in _SPIN_CHECKS]
    return {"": to_promela(instance, checked)}


def _smtlib(subject: KnownSystem, out: Path | None) -> Answer:
    if out is None or (out.exists() and not out.is_dir()):
        raise UsageError(
            "--to smtlib writes one file for each obligation, and needs a folder",
            "no --out" if out is None else f"the file {out}",
            "--out FOLDER",
            "--out of kvspec export",
            f"kvspec export {subject.key} --to smtlib --out obligations",
        )
    check_folder(out, "--out of kvspec export")
    from kvspec.models.symbolic import export_obligations

    files = export_obligations(subject.system, subject.properties(), out, refinements_of(subject))
    data = {
        "system": subject.name,
        "instance": None,
        "to": "smtlib",
        "files": [str(path) for path in files],
    }
    return Answer("export", HOLDS, data, f"wrote {len(files)} files to {out}")
