"""The exported obligations are read by Z3 and by cvc5, which gives a second opinion."""

from pathlib import Path
from typing import Any

import pytest
import z3

from kvspec.models.symbolic import export_obligations, second_opinion
from kvspec.models.symbolic.smtlib import Opinion, SecondOpinion, balanced
from kvspec.spec.examples import peer


@pytest.fixture(scope="module")
def exported(tmp_path_factory: Any) -> Path:
    """A directory with the obligations of the peer system."""
    directory = tmp_path_factory.mktemp("obligations")
    export_obligations(peer.system, peer.properties, directory)
    return directory


def test_there_is_one_file_for_each_obligation(exported: Path) -> None:
    """What needs a solver is exported, and the file tells its name and the expected answer."""
    files = sorted(exported.glob("*.smt2"))
    assert len(files) == len({path.name for path in files}) > 60
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert text.count("(check-sat)") == 1
        assert "(set-logic ALL)" in text
        assert "(Array" not in text


def test_z3_reads_the_files(exported: Path) -> None:
    """Each file gives the expected answer when it is read back."""
    for path in sorted(exported.glob("*.smt2")):
        solver = z3.Solver(ctx=z3.Context())
        solver.from_file(str(path))
        assert f":status {solver.check()})" in path.read_text(encoding="utf-8"), path.name


def test_export_is_deterministic(exported: Path, tmp_path: Path) -> None:
    """The same obligation is the same text, whatever was exported before it."""
    only = ["step:publication*:publish"]
    (again,) = export_obligations(peer.system, peer.properties, tmp_path, only=only)
    assert again.read_text(encoding="utf-8") == (exported / again.name).read_text(encoding="utf-8")


def test_cvc5_agrees(exported: Path) -> None:
    """A second solver gives the same answers on all obligations."""
    pytest.importorskip("cvc5")
    found = second_opinion(exported, workers=2)
    assert found.verdict == "holds", found.show()
    assert found.agreed == len(found.opinions)
    assert "inductive" in found.show()


def test_cvc5_disagrees_with_a_wrong_claim(exported: Path, tmp_path: Path) -> None:
    """A file whose status is wrong is `violated`, and named."""
    pytest.importorskip("cvc5")
    name = "enabled-publish.smt2"
    text = (exported / name).read_text(encoding="utf-8").replace("status sat", "status unsat")
    (tmp_path / name).write_text(text, encoding="utf-8")
    found = second_opinion(tmp_path, workers=0)
    assert found.verdict == "violated"
    assert "enabled:publish: expected unsat, cvc5 says sat" in found.show()


def test_a_solver_without_an_answer_is_unknown() -> None:
    """No answer is neither agreement nor disagreement."""
    silent = Opinion("step:a:b", "unsat", "unknown", "timeout", 1.0)
    found = SecondOpinion("cvc5", (silent,))
    assert (found.verdict, found.agreed, len(found.unanswered)) == ("unknown", 0, 1)
    assert "step:a:b: expected unsat, cvc5 says unknown (timeout)" in found.show()


def test_an_empty_directory_is_an_error(tmp_path: Path) -> None:
    """A second opinion of nothing is no opinion."""
    with pytest.raises(FileNotFoundError, match="export the obligations first"):
        second_opinion(tmp_path)


def test_a_command_of_several_lines_is_kept_whole():
    """Two assertions that begin alike are two commands, also where a line of them begins a let (C2)."""
    first = ["(assert (let ((a (+ x 1)))", "(let ((b a))", "  (< b 3))))"]
    second = ["(assert (let ((a (+ x 1)))", "(let ((b a))", "  (< b 4))))"]
    assert balanced([*first, "(declare-fun y () Int)", *second]) == [
        "\n".join(first),
        "(declare-fun y () Int)",
        "\n".join(second),
    ]
