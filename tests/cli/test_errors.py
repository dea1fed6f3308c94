"""Errors of usage: exit code 2, with found, expected, where and what to do; never a traceback."""

import pytest

CASES = [
    (("explor",), "explor", "explore", "there is no command"),
    (("explore", "cor"), "cor", "core", "there is no system"),
    (("explore", "core", "NONE"), "NONE", "TINY", "there is no instance of core"),
    (("explore", "--fast"), "--fast", "--symmetry", "there is no option"),
    (("explore", "--max-states", "many"), "many", "a whole number", "--max-states"),
    (("explore", "--max-states", "0"), "0", "> 0", "--max-states"),
    (("explore", "--max-states"), "nothing", "a value", "--max-states"),
    (("explore", "a", "b", "c"), "c", "arguments", "no further argument"),
    (("explore", "--trace-out", "no/such/trace.json"), "no folder", "a file", "--trace-out"),
    (("explore", "--junit", "no/such/file.xml"), "no folder", "a file", "--junit"),
    (("explore", "--only", "no*", "--only", "nosuch"), "nosuch", "one of", "no claim named"),
    (("prove", "--solver", "yices"), "yices", "cvc5", "--solver"),
    (("prove", "peer", "--only", "no:such"), "no:such", "inductive:", "no obligation"),
    (("mutants", "--only", "nothing"), "nothing", "publish.", "no mutant"),
    (("show", "core", "publsh"), "publsh", "publish", "did you mean"),
    (("show", "peer", "2,2,2,3,4", "--graph"), "more than", "at most", "too large"),
    (("export",), "nothing", "--to", "--to"),
    (("export", "--to", "smtlib"), "no --out", "--out", "folder"),
    (("export", "--to", "latex"), "latex", "promela", "--to"),
    (("replay", "no_such_trace"), "no_such_trace", "others", "there is no trace"),
    (("replay", "no_such_trace.json"), "no such file", "a trace file", "no trace"),
    (("bench", "9,9"), "9,9", "2,2,2,3,4", "there is no instance of peer"),
    (("report", "--readme", "no/such.md"), "No such file", "a text file", "cannot be read"),
    (("audit",), "nothing", "a value for FILE", "FILE has no value"),
    (("pins",), "nothing", "a value for FOLDER", "FOLDER has no value"),
    (("service",), "nothing", "a value for FILE", "FILE has no value"),
    (("verify", "--stage", "pray"), "pray", "prove", "there is no stage"),
]


@pytest.mark.parametrize(
    ("words", "found", "expected", "message"), CASES, ids=lambda v: str(v)[:40]
)
def test_an_error_says_found_expected_where_and_what_to_do(
    kvspec, words, found: str, expected: str, message: str
) -> None:
    """Each mistake on the command line ends with 2 and a message in the same five parts."""
    ran = kvspec(*words)
    assert ran.code == 2
    assert ran.out == ""
    assert "Traceback" not in ran.err
    parts = {}
    for line in ran.err.splitlines():
        if line.startswith("  ") and line[2] != " ":
            name = line.split()[0]
            parts[name] = line
        elif parts:
            parts[name] += line
    assert list(parts) == ["found", "expected", "where", "do"]
    assert message in ran.err.splitlines()[0]
    assert found in parts["found"]
    assert expected in parts["expected"]


def test_with_json_an_error_is_an_object_on_stdout(kvspec) -> None:
    """A program that asked for JSON gets JSON for its mistakes as well."""
    ran = kvspec("explore", "cor", "--json")
    assert ran.code == 2
    assert set(ran.json["error"]) == {"message", "found", "expected", "where", "do"}


def test_a_file_that_is_no_trace_is_told_apart(kvspec, tmp_path) -> None:
    """What is wrong with a trace file is an error of input, with the place in the file."""
    path = tmp_path / "trace.json"
    path.write_text('{"format": "kvspec-trace", "version": 99}')
    ran = kvspec("replay", str(path))
    assert ran.code == 2
    assert "version" in ran.err
    path.write_bytes(b"\xff\xfe")
    assert kvspec("replay", str(path)).code == 2


def test_a_missing_solver_is_an_error_of_usage(kvspec, monkeypatch) -> None:
    """Without cvc5, asking for it says how to get it."""
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "cvc5" else real(name, *a)
    )
    ran = kvspec("prove", "peer", "--solver", "both")
    assert ran.code == 2
    assert "kvspec[cvc5]" in ran.err


def test_of_very_many_names_the_nearest_are_listed(kvspec) -> None:
    """A name that nothing has is answered with what is like it and how many more there are (F5)."""
    ran = kvspec("replay", "publish.drop-guard.STALE")
    assert ran.code == 2
    assert "did you mean 'publish.drop-guard.STALE_SNAPSHOT'?" in ran.err
    assert " others" in ran.err
    assert len(ran.err.splitlines()) < 12


def test_a_specification_of_ones_own_that_is_not_well_formed_is_an_error_of_input(
    kvspec, tmp_path, monkeypatch
) -> None:
    """It ends with 2, with the file and the line of the definition."""
    lines = (
        "from kvspec.spec.language import Bool, Module, System",
        "mine = Module('mine', 'Mine.')",
        "mine.variable('x', to=Bool, init=7, meaning='a flag')",
        "system = System.of('mine', 'Mine.', mine)",
    )
    (tmp_path / "ill_formed.py").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    ran = kvspec("explore", "ill_formed:system")
    assert ran.code == 2
    assert "ill_formed.py:3" in ran.err
    assert all(f"  {part:<8}  " in ran.err for part in ("found", "expected", "where", "do"))
