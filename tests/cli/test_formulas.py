"""`kvspec formulas`: the registry, and proofs of what holds between formulas."""

import pytest

from kvspec.spec.formulas import BOOK
from kvspec.spec.formulas import frame as formula_frame
from kvspec.spec.formulas.identities import IDENTITIES


def test_every_formula_is_printed_as_its_code_computes_it(kvspec) -> None:
    """Text, unit, section and meaning of each; every symbol; predicates and identities."""
    ran = kvspec("formulas")
    assert ran.code == 0
    for each in BOOK:
        rows = [line for line in ran.out.splitlines() if line.startswith(f"{each.name} ")]
        assert any(each.text() in row for row in rows), each.name
    for name in IDENTITIES.by_name:
        assert f"\n{name} " in ran.out
    assert "I(S_g): every layer" in ran.out
    assert "vllm_receipts refines canonical" in ran.out


def test_the_json_has_the_same(kvspec) -> None:
    """Formulas with what they take and require, symbols with units, predicates, identities."""
    data = kvspec("formulas", "--json").json
    (token,) = (each for each in data["formulas"] if each["name"] == "token_bytes")
    assert token["text"] == "B_token = L_cache * H_kv * d_h * (b_K + b_V)"
    assert (token["unit"], token["section"]) == ("byte/token", "0x02")
    assert token["takes"] == ["L_cache", "H_kv", "d_h", "b_K", "b_V"]
    symbols = {each["symbol"]: each for each in data["symbols"]}
    assert {symbol for each in data["formulas"] for symbol in each["takes"]} == set(symbols)
    assert symbols["W"]["unit"] == "ms"
    assert [each["symbol"] for each in data["predicates"]][:3] == [
        "I(S_g)", "prepared(X)", "C(a, S_s)",
    ]  # fmt: skip
    assert "verdict" not in data["identities"][0]


def test_all_identities_are_proved(kvspec, tmp_path) -> None:
    """`--prove` ends with 0, tells how many hold, and writes a check for each."""
    junit = tmp_path / "formulas.xml"
    ran = kvspec("formulas", "--prove", "--junit", str(junit))
    assert ran.code == 0
    number = len(IDENTITIES.by_name)
    assert f"holds: {number} of {number} identities hold, for all values" in ran.out
    assert f"{len(BOOK)} of {len(BOOK)} formulas give the unit they declare" in ran.out
    assert junit.read_text(encoding="utf-8").count("<testcase") == number


def test_some_can_be_chosen(kvspec) -> None:
    """`--only` takes a pattern; a name that matches nothing is a wrong usage."""
    data = kvspec("formulas", "--prove", "--only", "doubling_*", "--json").json
    proved = [each for each in data["identities"] if "verdict" in each]
    assert len(proved) == 4
    assert {each["verdict"] for each in proved} == {"holds"}
    ran = kvspec("formulas", "--prove", "--only", "nothing")
    assert ran.code == 2
    assert "no identity is named so" in ran.err


def test_a_wrong_formula_ends_with_1(kvspec, monkeypatch) -> None:
    """The identity that it breaks is told with the values, and the exit code says violated."""
    altered = BOOK.altered(rows_cached=lambda P, G: P + G)
    monkeypatch.setattr(
        "kvspec.models.symbolic.identities.prove_identities.__defaults__", (altered,)
    )
    ran = kvspec("formulas", "--prove", "--json")
    assert ran.code == 1
    broken = {
        each["name"]: each["counterexample"]
        for each in ran.json["identities"]
        if each["verdict"] == "violated"
    }
    assert set(broken) == {"cached_and_saved_rows_are_all", "rows_of_a_cached_run_are_committed"}
    assert set(broken["cached_and_saved_rows_are_all"]) == {"P", "G"}


def test_a_wrong_unit_ends_with_1(kvspec, monkeypatch) -> None:
    """A formula whose code gives another unit is told by name, though every identity holds."""
    altered = BOOK.altered(e2e=lambda arrival, finish: finish * arrival)
    monkeypatch.setattr("kvspec.spec.formulas.BOOK", altered)
    ran = kvspec("formulas", "--prove")
    assert ran.code == 1
    assert "violated  unit of e2e: e2e: the code gives ms^2, and ms is declared" in ran.out


def test_no_time_is_unknown(kvspec, monkeypatch) -> None:
    """A solver that gives up ends with 3."""
    z3 = pytest.importorskip("z3")
    monkeypatch.setattr(z3.Solver, "check", lambda *_: z3.unknown)
    ran = kvspec("formulas", "--prove", "--only", "a_row_adds_one_token")
    assert ran.code == 3
    assert "unknown" in ran.out


def test_a_page_is_written(kvspec, tmp_path) -> None:
    """`--markdown` writes the page, and refuses a place where none can be."""
    page = tmp_path / "formulas.md"
    assert kvspec("formulas", "--markdown", str(page)).code == 0
    assert page.read_text(encoding="utf-8").startswith("# Formulas, units and symbols")
    assert kvspec("formulas", "--markdown", str(tmp_path / "no" / "page.md")).code == 2


def test_the_book_is_not_changed_by_altering_it() -> None:
    """An altered book is another one."""
    BOOK.altered(rows_cached=lambda P, G: P + G)
    assert formula_frame.BOOK["rows_cached"].function(2, 3) == 4


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("rows_saved 2048 128", "N_rows,saved = 268,097 token"),
        ("rows_saved G=128 P=2048", "N_rows,saved = 268,097 token"),
        ("tpot 14,21,30,42", "TPOT = 28/3 (9.33) ms"),
        ("tpot 18", "TPOT = undefined"),
        ("tbt 18", "TBT_j = [] ms"),
        ("slo_valid yes 14 7,9,12 15 10", "q = no"),
        ("reduction 270272 2175", "reduction = 270,272/2,175 (124.26)"),
    ],
)
def test_one_formula_is_computed(kvspec, words: str, told: str) -> None:
    """A formula with values gives its exact value and unit; a ratio has decimals beside it (B10)."""
    ran = kvspec("formulas", *words.split())
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == told


def test_the_value_is_in_the_json(kvspec) -> None:
    """An undefined value is null, an exact ratio text (B6, B10)."""
    undefined = kvspec("formulas", "tpot", "18", "--json").json
    assert (undefined["value"], undefined["unit"]) == (None, "ms")
    ratio = kvspec("formulas", "tpot", "14,21,30,42", "--json").json
    assert (ratio["value"], ratio["arguments"]) == ("28/3", {"outputs": [14, 21, 30, 42]})


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("rows_save 1 2", ("there is no formula 'rows_save'; did you mean 'rows_saved'?",)),
        ("rows_saved 1", ("found     no G", "kvspec formulas rows_saved P=2 G=2")),
        ("rows_saved 1 2 3", ("found     more values",)),
        ("rows_saved P=1 P=2", ("found     'P=2'",)),
        ("rows_saved x 2", ("found     P = 'x'", "expected  a whole number")),
        ("rows_saved 0 2", ("found     P = 0", "expected  at least 1")),
        ("slo_valid maybe 14 7 15 10", ("expected  yes or no",)),
    ],
)
def test_values_that_do_not_fit_are_refused(kvspec, words: str, parts: tuple[str, ...]) -> None:
    """Found, expected, and how it is called; exit code 2 (F5)."""
    ran = kvspec("formulas", *words.split())
    assert ran.code == 2
    for part in parts:
        assert part in ran.err
