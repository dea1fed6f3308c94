"""The identities of the formulas are proved, each can fail, and what fails is confirmed in Python."""

from fractions import Fraction

import pytest
import z3

from kvspec.models.symbolic import identities as prover
from kvspec.models.symbolic import second_opinion
from kvspec.models.symbolic.identities import (
    export_identities,
    prove_identities,
    prove_identity,
)
from kvspec.spec.formulas import BOOK
from kvspec.spec.formulas.claims import Claims
from kvspec.spec.formulas.folds import Quotient, count, largest, total
from kvspec.spec.formulas.identities import IDENTITIES
from kvspec.spec.formulas.quantities import BETA, LENGTHS, S_CALL, G, P

# For each identity, a formula and what somebody might have written instead.
WRONG = {
    "logical_is_within_the_rectangle": {
        "rectangular_bytes": lambda ts, b: b * (count(ts) - 1) * largest(ts)
    },
    "padding_is_never_negative": {"phantom_bytes": lambda r, l: l - r},
    "equal_lengths_have_one_product": {
        "logical_bytes": lambda ts, b: b * total(lambda t: t + 1, ts)
    },
    "overheads_close_the_ledgers": {"reservation_slack_bytes": lambda r, m: m - r},
    "a_model_stores_its_kv_heads": {
        "model_token_bytes": lambda l, q, h, d, k, v: l * q * d * (k + v) + 0 * h
    },
    "every_layer_stages_alike": {
        "append_bytes": lambda l, b, t, h, d, k, v: b * t * h * d * (k + v) + 0 * l
    },
    "materialized_is_at_least_logical": {
        "materialized_bytes": lambda ts, rs, b: b * total(lambda r, t: (r - 1) * t, rs, ts)
    },
    "replication_is_never_negative": {"replication_overhead_bytes": lambda m, l: l - m},
    "reserved_is_at_least_materialized": {
        "reserved_capacity_bytes": lambda cs, _, b: b * total(lambda c: c, cs)
    },
    "slack_is_never_negative": {"reservation_slack_bytes": lambda r, m: m - r},
    "a_tier_and_the_rest_are_all": {
        "resident_bytes": lambda cs, ns, b, m: total(lambda n, c: n * c * b + m, ns, cs)
    },
    "a_tier_may_be_split": {
        "resident_bytes": lambda cs, ns, b, m: total(lambda n, c: n * n * (c * b + m), ns, cs)
    },
    "a_request_adds_its_own_bytes": {"logical_bytes": lambda ts, b: b * count(ts) * largest(ts)},
    "a_request_may_widen_the_rectangle": {
        "rectangular_bytes": lambda ts, b: b * total(lambda t: t, ts)
    },
    "a_row_adds_one_token": {"committed_bytes": lambda t, b: t * t * b},
    "query_heads_are_not_stored": {
        "model_token_bytes": lambda l, q, h, d, k, v: l * q * d * (k + v) + 0 * h
    },
    "doubling_layers_doubles_a_token": {
        "token_bytes": lambda l, h, d, k, v: (l + 1) * h * d * (k + v)
    },
    "doubling_heads_doubles_a_token": {
        "token_bytes": lambda l, h, d, k, v: l * (h * h) * d * (k + v)
    },
    "doubling_the_width_doubles_a_token": {
        "token_bytes": lambda l, h, d, k, v: l * h * (d * k + v)
    },
    "doubling_both_scalars_doubles_a_token": {
        "token_bytes": lambda l, h, d, k, v: l * h * d * k * v
    },
    "a_decode_step_stages_one_token": {
        "append_bytes": lambda l, b, t, h, d, k, v: 2 * l * b * t * h * d * k + 0 * v
    },
    "one_copy_is_a_ledger_of_its_own": {"copy_bytes": lambda c, b, _: c * b},
    "workspace_comes_on_top": {"instantaneous_bytes": lambda p, _: p},
    "groups_cover_the_query_heads": {
        "query_group": lambda q, h: Quotient(h, q) if _is(q) else h // q
    },
    "uncached_rows_are_their_sum": {"rows_uncached": lambda P, G: G * P + G * (G + 1) // 2},
    "cached_and_saved_rows_are_all": {"rows_cached": lambda P, G: P + G},
    "a_triangle_is_exact": {"causal_pairs": lambda S: S * S // 2},
    "a_triangle_is_its_rows": {"causal_pairs": lambda S: S * (S - 1) // 2},
    "cached_and_saved_pairs_are_all": {"pairs_cached": lambda P, G: P * (P + 1) // 2 + G * P},
    "uncached_pairs_have_a_closed_form": {"pairs_uncached": lambda P, G: G * P * (P + 1) // 2},
    "cached_pairs_have_a_closed_form": {"pairs_cached": lambda P, G: P * (P + 1) // 2 + G * P},
    "a_reduction_is_a_factor": {"reduction": lambda u, c: u - c},
    "the_first_call_saves_nothing": {"rows_saved": lambda P, G: G * P},
    "the_frontier_is_what_is_not_committed": {"frontier": lambda e, done: e - done + 1},
    "a_stop_leaves_one_token_ahead": {"stop_committed": lambda s, g: s + g + 1},
    "a_repair_commits_every_token": {"repaired_committed": lambda s, g: s + g},
    "rows_of_a_cached_run_are_committed": {"rows_cached": lambda P, G: P + G},
    "gaps_add_up_to_the_whole": {"tbt": lambda ys: (ys[1] - ys[0] + 1,)},
    "tpot_is_the_mean_of_tbt": {"tpot": lambda ys: BOOK.tpot(ys) and BOOK.mean_tbt(ys) * 2},
    "a_valid_request_keeps_each_limit": {
        "slo_valid": lambda c, t, ts, l1, l2: c & (t <= l1) & (total(lambda x: x, ts) <= l2)
    },
    "goodput_is_within_throughput": {
        "request_throughput": lambda n, w: BOOK.request_throughput(n, w + 1)
    },
    "holding_on_adds_an_area": {
        "payload_time": lambda bs, ds: total(lambda b: b, bs) * total(lambda d: d, ds)
    },
    "ttft_and_gaps_reach_the_last_output": {"ttft": lambda a, ys: largest(ys) - a},
    "a_request_is_served_and_then_held": {"e2e": lambda a, f: f - a + 1},
    "goodput_is_a_part_of_throughput": {
        "goodput_fraction": lambda v, c: BOOK.goodput_fraction(v, c + 1)
    },
    "one_token_each_is_one_rate": {"token_goodput": lambda t, w: BOOK.token_goodput(t + 1, w)},
}


def _is(value):
    return not isinstance(value, int)


def test_every_identity_is_proved():
    """All of them hold, and none for want of a case."""
    found = prove_identities(IDENTITIES)
    assert [proof.show() for proof in found if proof.verdict != "holds"] == []
    assert len(found) == len(IDENTITIES.by_name) >= 40


def test_every_identity_has_a_wrong_formula():
    """No identity is left out of the next test."""
    assert set(WRONG) == set(IDENTITIES.by_name)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_formula_is_refuted(name):
    """Z3 gives values, and on those the claim is false in plain Python, and true of the real formula."""
    altered = BOOK.altered(**WRONG[name])
    identity = IDENTITIES.by_name[name]
    proof = prove_identity(identity, IDENTITIES, altered)
    assert proof.verdict == "violated", proof.show()
    values = [
        tuple(value) if isinstance(value, list) else value for value in proof.case.values.values()
    ]
    assert not identity.holds(altered, *values)
    assert identity.holds(BOOK, *values)


def shifted(formula):
    """The formula with another result: one more, twice the ratio, or the other truth value."""

    def wrong(*given):
        found = formula.function(*given)
        if isinstance(found, tuple):
            return tuple(each + 1 for each in found)
        if isinstance(found, bool) or getattr(getattr(found, "type", None), "kind", "") == "bool":
            return not found if isinstance(found, bool) else ~found
        if isinstance(found, Quotient | Fraction):
            return found * 2
        return None if found is None else found + 1

    return wrong


def speaks_of(identity, formula):
    """Whether the identity names the formula outright; only the order of tries hangs on it."""
    return formula.name in identity.holds.__code__.co_names


@pytest.mark.parametrize("formula", tuple(BOOK), ids=lambda f: f.name)
def test_no_formula_can_be_off_by_one(formula):
    """Whatever formula is shifted by one, some identity notices."""
    altered = BOOK.altered(**{formula.name: shifted(formula)})
    order = sorted(IDENTITIES.by_name.values(), key=lambda i: not speaks_of(i, formula))
    proofs = (prove_identity(each, IDENTITIES, altered) for each in order)
    assert any(proof.verdict == "violated" for proof in proofs)


def toy(*takes, **more):
    """An identity of its own, and the claims that it is in."""
    claims = Claims()

    def made(function):
        return claims.identity(*takes, **more)(function), claims

    return made


def test_a_step_that_fails_alone_is_unknown():
    """A claim that holds but is not inductive is not refuted, and not passed either."""

    @toy(LENGTHS)
    def sums_fit(_, lengths):
        """The sum is at most the rectangle; without lemmas, it says too little for a step."""
        return total(lambda t: t, lengths) <= count(lengths) * largest(lengths)

    proof = prove_identity(*sums_fit)
    assert proof.verdict == "unknown"
    assert proof.case is None
    assert "not shown: one row more" in proof.reason


def test_what_supposes_the_impossible_is_unknown():
    """A claim about no case at all is not passed."""

    @toy(LENGTHS, each=lambda length: length < 0)
    def of_nothing(_, lengths):
        """Lengths below 0 add up to 7 or to 0."""
        return count(lengths) <= 7 * largest(lengths)

    proof = prove_identity(*of_nothing)
    assert proof.verdict == "unknown"
    assert "that anything is as it supposes" in proof.reason


def test_what_is_false_of_longer_lists_alone_is_not_passed():
    """A claim that only a list of five breaks is unknown: its step fails, and no short list shows it."""

    @toy(LENGTHS)
    def short(_, lengths):
        """No list has five members."""
        return count(lengths) <= 4

    proof = prove_identity(*short)
    assert proof.verdict == "unknown"


def test_a_lemma_that_is_false_proves_nothing():
    """What follows from a false lemma is not passed."""

    @toy(LENGTHS, lemmas=(lambda _, lengths: count(lengths) == 0,))
    def empty(_, lengths):
        """No list has a member."""
        return total(lambda t: t + 1, lengths) == 0

    proof = prove_identity(*empty)
    assert proof.verdict == "violated"
    assert proof.case.values == {"T_i": [0]}


def test_an_identity_that_uses_a_false_one_is_not_passed():
    """The identity that is used is proved as well, on the same book."""
    altered = BOOK.altered(causal_pairs=lambda S: S * (S + 1))
    proof = prove_identity(
        IDENTITIES.by_name["uncached_pairs_have_a_closed_form"], IDENTITIES, altered
    )
    assert proof.verdict == "unknown"
    assert "a_triangle_is_exact, which it uses" in proof.reason


def test_a_counterexample_that_python_does_not_confirm_is_not_told(monkeypatch):
    """If the claim is true of Z3's values after all, nothing is refuted."""
    monkeypatch.setattr(prover._Prover, "_breaks", lambda *_: False)
    altered = BOOK.altered(rows_cached=lambda P, G: P + G)
    proof = prove_identity(IDENTITIES.by_name["cached_and_saved_rows_are_all"], IDENTITIES, altered)
    assert (proof.verdict, proof.case) == ("unknown", None)


def test_a_solver_that_gives_up_is_unknown(monkeypatch):
    """No answer is no proof."""
    monkeypatch.setattr(z3.Solver, "check", lambda *_: z3.unknown)
    proof = prove_identity(IDENTITIES.by_name["a_row_adds_one_token"], IDENTITIES)
    assert proof.verdict == "unknown"


@pytest.mark.parametrize(
    ("takes", "claim", "case"),
    [
        ((BETA,), lambda _, b: b > 1, {"B_token": 1}),
        ((P, G), lambda _, p, g: (p < 3) | (g < 2), None),
        ((S_CALL,), lambda _, s: s * s != 49, {"S": 7}),
    ],
)
def test_claims_without_lists_are_decided(takes, claim, case):
    """One query refutes what is false of some number."""
    claims = Claims()
    claim.__name__, claim.__doc__ = "claim", "It is so."
    proof = prove_identity(claims.identity(*takes)(claim), claims)
    assert proof.verdict == "violated"
    assert case is None or proof.case.values == case


def test_some_can_be_chosen_and_progress_is_told():
    """`only` takes patterns; the callback hears of each identity that is done."""
    told = []
    found = prove_identities(
        IDENTITIES, only=["doubling_*"], progress=lambda *done: told.append(done)
    )
    assert [proof.identity.name for proof in found] == [name for _, _, name in told]
    assert told[-1][:2] == (4, 4)


def test_a_second_solver_agrees(tmp_path):
    """cvc5 reads each query of each proof as SMT-LIB 2, and finds that every claim follows."""
    pytest.importorskip("cvc5")
    written = export_identities(IDENTITIES, tmp_path)
    opinion = second_opinion(tmp_path)
    assert (opinion.verdict, opinion.agreed) == ("holds", len(written)), opinion.show()
    assert len(written) >= 80


def test_a_second_solver_refutes_what_is_wrong(tmp_path):
    """Of a wrong formula, cvc5 says that the claim does not follow."""
    pytest.importorskip("cvc5")
    claims = Claims()
    claims.by_name["one"] = IDENTITIES.by_name["cached_and_saved_rows_are_all"]
    export_identities(claims, tmp_path, BOOK.altered(rows_cached=lambda P, G: P + G))
    opinion = second_opinion(tmp_path)
    assert [found.result for found in opinion.disagreed] == ["sat"]
