"""`kvspec show` and `kvspec export`: the specification as text, diagrams, graphs, and for others."""

import pytest


def test_all_systems_are_listed(kvspec) -> None:
    """Without a name, every system stands there with its instances and their states."""
    text = kvspec("show").out
    assert "core" in text
    assert "2,2,2,3,4" in text
    assert "9,872,416" in text


def test_a_system_is_shown_whole(kvspec) -> None:
    """Sorts, variables with meanings, actions, claims."""
    data = kvspec("show", "peer", "--json").json
    assert data["sorts"]["Phase"] == ["READY", "FINISHED", "CANCELLED", "RELEASED"]
    assert {action["name"] for action in data["actions"]} >= {"begin", "publish"}
    text = kvspec("show", "peer").out
    assert "publish(t: Txn)" in text
    assert "invariant a_published_append_staged_every_layer" in text


def test_an_action_is_shown_with_what_its_codes_mean(kvspec) -> None:
    """The guards in order, then what each code says."""
    text = kvspec("show", "core", "publish").out
    assert text.index("else STALE_GENERATION") < text.index("else STALE_SNAPSHOT")
    assert "STALE_SNAPSHOT: the handle has another snapshot than at the begin" in text


def test_a_claim_is_shown(kvspec) -> None:
    """A claim has its kind, its sentence and its formula."""
    text = kvspec("show", "peer", "length_changes_with_generation").out
    assert text.startswith("step length_changes_with_generation")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("show", "peer", "--format", "mermaid"), "    PREPARED --> PUBLISHED: publish"),
        (("show", "peer", "--format", "dot"), '    PREPARED -> PUBLISHED [label="publish"];'),
        (("show", "peer", "finish", "--format", "mermaid"), "    READY --> FINISHED: finish"),
        (("show", "peer", "--graph"), "peer/1,1,1,2,2: 109 states, 284 transitions"),
        (("show", "peer", "--graph", "--format", "mermaid"), "flowchart TD"),
        (("show", "peer", "--graph", "--format", "dot"), 'digraph "peer/1,1,1,2,2" {'),
    ],
    ids=str,
)
def test_pictures(kvspec, words, line: str) -> None:
    """Transition diagrams and state graphs, in each format."""
    ran = kvspec(*words)
    assert ran.code == 0
    assert line in ran.out.splitlines()


def test_a_graph_counts_as_the_engine_does(kvspec) -> None:
    """The graph to look at has the states that a search finds."""
    data = kvspec("show", "two_phase_commit", "three", "--graph", "--json").json
    assert data["states"] == 288


def test_export_to_promela_and_tla(kvspec, tmp_path) -> None:
    """The text goes to stdout, or to a file, with the configuration beside it for TLC."""
    assert "proctype" in kvspec("export", "peer", "--to", "promela").out
    module = tmp_path / "peer.tla"
    data = kvspec("export", "peer", "--to", "tla", "--out", str(module), "--json").json
    assert data["files"] == [str(module), str(tmp_path / "peer.cfg")]
    assert "MODULE peer" in module.read_text()
    assert "INVARIANT" in (tmp_path / "peer.cfg").read_text()


def test_export_to_smtlib(kvspec, tmp_path) -> None:
    """One file for each obligation, in a folder."""
    folder = tmp_path / "smt"
    data = kvspec("export", "peer", "--to", "smtlib", "--out", str(folder), "--json").json
    assert len(data["files"]) == len(list(folder.glob("*.smt2"))) > 50
