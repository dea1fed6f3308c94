"""The page of rules: current, complete, and each rule with the trace that shows why it is there (F3)."""

from pathlib import Path

import pytest

from kvspec.cli.main import main
from kvspec.counterexamples.library import library, library_path
from kvspec.counterexamples.systems import SPECIFICATION, find_system
from kvspec.properties.atlas import groups
from kvspec.report import rules

STORED = {
    name
    for path in library()
    for name in (path.stem, f"{path.parent.name}/{path.stem}")
    if name == path.stem or path.parent.name != "library"
}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "rules.md"


def test_the_page_is_current() -> None:
    """docs/rules.md is what the specification, the library and the atlas say today."""
    assert PAGE.read_text(encoding="utf-8") == rules.markdown(), "run make docs"


@pytest.mark.parametrize("name", SPECIFICATION)
def test_every_rule_is_kept_for_a_claim(name: str) -> None:
    """Each guard and each assignment has a claim that breaks without it, and a stored trace of that.

    What an extension does at every refusal of an action may be without effect at some of them (Z3 proves
    those mutants equivalent); at one at least it must be seen.
    """
    found = rules.rules(name)
    assert found
    seen = {(rule.action, rule.variable) for rule in found if rule.claim}
    for rule in found:
        if not rule.claim:
            assert rule.code, rule
            assert rule.variable, rule
            assert (rule.action, rule.variable) in seen, rule
            continue
        assert rule.steps >= 1, rule
        assert rule.trace in STORED, rule


def test_the_name_of_a_trace_finds_it() -> None:
    """What the page prints is taken by `kvspec replay`, also where two systems have the name."""
    rule = next(rule for rule in rules.rules("ownership") if rule.trace)
    assert library_path(rule.trace).parent.name == "ownership"


def test_every_guard_of_the_specification_is_a_rule() -> None:
    """No guard is left out: those of a system that is extended stand with that system."""
    told = {(r.system, r.action, r.code) for name in SPECIFICATION for r in rules.rules(name)}
    for name in SPECIFICATION:
        subject = find_system(name)
        chain, given = [name], subject.properties().given
        while given is not None:
            chain.append(given.system.name)
            given = given.given
        for action in subject.system.actions.values():
            for guard in action.guards:
                places = {(system, action.name, guard.code.name) for system in chain}
                assert places & told, (name, action.name, guard.code)


def test_a_group_of_the_atlas_stands_beside_its_rule() -> None:
    """Every group with a fault in the specification is told with at least one rule, and in the index."""
    beside = {g for name in SPECIFICATION for rule in rules.rules(name) for g in rule.groups}
    changed = {
        group.name
        for group in groups().values()
        for case in group.cases
        if case.fault.code or case.fault.name.count(".drop-")
    }
    assert changed <= beside
    page = rules.markdown()
    for group in groups().values():
        assert f"| {group.name} | {group.title} |" in page


def test_another_file_is_not_overwritten(tmp_path, capsys) -> None:
    """A file that is no page of rules is left as it is, with exit code 2."""
    path = tmp_path / "notes.md"
    path.write_text("# Notes\n", encoding="utf-8")
    assert main(["report", "--rules", str(path)]) == 2
    assert "found     # Notes" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == "# Notes\n"


def test_an_old_page_is_noticed_and_renewed(tmp_path) -> None:
    """--check tells an old page by its exit code; without it the page is written."""
    path = tmp_path / "rules.md"
    path.write_text("# Rules\n\nold\n", encoding="utf-8")
    assert main(["report", "--rules", str(path), "--check"]) == 1
    assert main(["report", "--rules", str(path)]) == 0
    assert main(["report", "--rules", str(path), "--check"]) == 0
