"""`kvspec prove`: counts that add up, patterns, a second solver, files."""


def test_a_proof_adds_up(kvspec) -> None:
    """Every obligation is proved, failed or unknown."""
    ran = kvspec("prove", "peer", "--json")
    data = ran.json
    assert ran.code == 0
    assert data["obligations"] == data["proved"] + data["failed"] + data["unknown"]
    assert data["obligations"] == len(data["items"]) > 100
    assert data["solver"] == "z3"
    assert data["seconds"] > 0
    assert data["claims"]["length_changes_with_generation"]["proved"] > 0


def test_some_obligations_can_be_chosen(kvspec) -> None:
    """`--only` takes a pattern, and may be given again."""
    one = kvspec("prove", "peer", "--only", "step:*:publish", "--json").json
    assert {item["name"].split(":")[2] for item in one["items"]} == {"publish"}
    two = kvspec(
        "prove", "peer", "--only", "step:*:publish", "--only", "step:*:begin", "--json"
    ).json
    assert two["obligations"] == 2 * one["obligations"]


def test_a_second_solver_is_asked(kvspec, tmp_path) -> None:
    """cvc5 reads the same obligations, which can be kept as files."""
    words = ("prove", "peer", "--only", "initial:*", "--solver", "both", "--json")
    data = kvspec(*words, "--smtlib", str(tmp_path / "smt")).json
    assert data["second"]["solver"] == "cvc5"
    assert data["second"]["agreed"] == len(list((tmp_path / "smt").glob("*.smt2"))) > 0
    assert data["second"]["disagreed"] == []
