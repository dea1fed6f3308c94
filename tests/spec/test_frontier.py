"""Outputs, drafts and rows told as short runs: stop, repair, speculation, cuts (A10)."""

import pytest
from served import Served, prefilled, request

from kvspec.spec.formulas import (
    committed_tokens,
    frontier,
    logical_tokens,
    repaired_committed,
    stop_committed,
    stop_output,
)


def stopped(outputs=3):
    """A request of four prompt tokens that has given all its outputs; the last one has no row."""
    cache = prefilled()
    for _ in range(outputs - 1):
        cache.emit().append()
    return cache.emit().do("stop", h=0)


def test_the_trace_of_four_prompt_tokens_and_three_outputs():
    """Rows are 4, 5, 6 after the outputs 1, 2, 3; seven logical tokens, one of them without a row (A10)."""
    cache = prefilled()
    seen = []
    for step in range(3):
        if step:
            cache.append()
        cache.emit()
        seen.append(
            (cache["emitted", 0], cache["length", 0], cache.view()["output_frontier_count"])
        )
    assert seen == [(1, 4, 1), (2, 5, 1), (3, 6, 1)]
    emitted, processed, rows = cache.counts()
    assert logical_tokens(4, emitted) == 7
    assert committed_tokens(4, processed) == rows == 6
    assert frontier(emitted, processed) == 1


@pytest.mark.parametrize("inputs", [0, 1, 3])
def test_an_ordinary_stop(inputs):
    """With G_in outputs taken as input: O = G_in + 1 outputs and K = S + G_in rows (A10)."""
    emitted, processed, rows = stopped(outputs=inputs + 1).counts()
    assert processed == inputs
    assert emitted == stop_output(inputs)
    assert rows == stop_committed(4, inputs)


def test_a_repair_is_one_append_and_no_output():
    """After the stop one row is published, K = S + G_in + 1, and its logits are for nothing (A10)."""
    cache = stopped()
    cache.append()
    assert cache.counts() == (3, 3, repaired_committed(4, 2))
    cache.refuse("emit", "OUTPUT_STOPPED", h=0)
    cache.refuse("stop", "OUTPUT_STOPPED", h=0)
    where = {"x": 0, "h": 0, "k": 0, "a": 0, "p": 7}
    cache.refuse("begin", "UNKNOWN_TOKEN", **where, n=1, d=0)


def test_an_output_needs_the_rows_of_all_before_it():
    """Neither an unprocessed prompt nor an unprocessed output has logits (A10, A12)."""
    request().refuse("emit", "NO_LOGITS", h=0)
    request().append(3).refuse("emit", "NO_LOGITS", h=0)
    cache = prefilled().emit()
    cache.refuse("emit", "NO_LOGITS", h=0)
    cache.append().emit()


def test_rows_are_for_tokens_that_are_there():
    """No row for a token that was not emitted, nor for a prompt token behind the last one (A10, A12)."""
    cache = request()
    where = {"x": 0, "h": 0, "k": 0, "a": 0}
    cache.refuse("begin", "UNKNOWN_TOKEN", **where, p=0, n=5, d=0)
    cache.append(4)
    cache.refuse("begin", "UNKNOWN_TOKEN", **where, p=4, n=1, d=0)
    cache.emit()
    cache.refuse("begin", "UNKNOWN_TOKEN", **where, p=4, n=2, d=0)
    cache.append(1)


@pytest.mark.parametrize(("rows", "drafts"), [(2, 1), (4, 3), (1, 2), (3, 1)])
def test_drafts_stand_behind_all_known_tokens(rows, drafts):
    """The rows of an append with drafts end with the drafts, right behind the known tokens (A10)."""
    cache = prefilled()
    where = {"x": 0, "h": 0, "k": 0, "a": 0, "p": 4}
    cache.refuse("begin", "UNKNOWN_TOKEN", **where, n=rows, d=drafts)
    cache.emit()
    if rows == drafts + 1:
        cache.do("begin", **where, n=rows, d=drafts)
    else:
        cache.refuse("begin", "UNKNOWN_TOKEN", **where, n=rows, d=drafts)


def test_a_request_has_a_prompt_that_fits():
    """An empty prompt and one beyond the context limit have codes of their own (A10, A12)."""
    cache = Served(longest=3)
    cache.refuse("allocate", "EMPTY_PROMPT", h=0, b=0, a=0, p=0)
    cache.refuse("allocate", "PROMPT_TOO_LONG", h=0, b=0, a=0, p=4)
    cache.do("allocate", h=0, b=0, a=0, p=3)


def speculating(base, drafts=4, **sizes):
    """A request of `base` rows with an append of drafts that is prepared."""
    return prefilled(base, longest=base + 5, **sizes).begin(drafts, drafts=drafts).prepare()


@pytest.mark.parametrize("base", [2, 100])
def test_two_drafts_of_four_are_accepted_and_a_correction_follows(base):
    """Committed is base + 2, the correction unprocessed, and base + 3 after its own append (A10)."""
    cache = speculating(base, layers=1, handles=1, blocks=1)
    cache.do("verify", x=0, a=2)
    assert cache["k_end", 0, 0] == cache["v_end", 0, 0] == base + 2
    assert cache.counts() == (0, 0, base)
    cache.publish()
    assert cache.counts() == (2, 2, base + 2)
    cache.emit()
    assert cache.counts() == (3, 2, base + 2)
    assert cache.phase() == "DECODE_FRONTIER_READY"
    cache.append()
    assert cache.counts() == (3, 3, base + 3)
    assert cache["own", 0] == cache["length", 0]


def test_a_bonus_behind_drafts_that_are_all_accepted():
    """When all drafts are accepted the next token is emitted, and gets its row later as well (A10)."""
    cache = speculating(2).do("verify", x=0, a=4).publish().emit()
    assert cache.counts() == (5, 4, 6)


def test_an_append_of_an_output_and_drafts():
    """The frontier token and drafts behind it are one append; what is rejected leaves its row (A10)."""
    cache = prefilled(2).emit().begin(3, drafts=2).prepare().do("verify", x=0, a=0).publish()
    assert cache.counts() == (1, 1, 3)
    assert cache.phase() == "OUTPUT_READY"


def test_drafts_are_not_published_before_the_verdict():
    """A publish with open drafts is refused and nothing changes, so that it can be verified (A10, A12)."""
    cache = speculating(2)
    cache.refuse("publish", "UNVERIFIED_DRAFT", x=0)
    cache.do("verify", x=0, a=1).publish()
    assert cache["length", 0] == 3


def test_an_emission_in_between_makes_drafts_stale():
    """A token that was emitted since takes the place of the drafts: the append is rejected (A10, A12)."""
    cache = speculating(2).do("verify", x=0, a=2).emit()
    cache.refuse("publish", "STALE_FRONTIER", x=0, changes=True)
    assert cache["state", 0] == "REJECTED"
    assert (cache["accepted", 0], cache["base_tokens", 0], cache["target", 0]) == (0, 0, None)
    assert cache.counts() == (1, 0, 2)
    cache.do("forget", x=0).append()
    assert cache.counts() == (1, 1, 3)


def test_a_stop_in_between_makes_drafts_one_output_too_many():
    """After the stop accepted drafts are no outputs any more: the append is rejected (A10, A12)."""
    cache = speculating(2).do("verify", x=0, a=2).do("stop", h=0)
    cache.refuse("publish", "OUTPUT_STOPPED", x=0, changes=True)
    assert cache["state", 0] == "REJECTED"
    assert cache.counts() == (0, 0, 2)


def test_a_verdict_of_no_draft_at_all_may_follow_an_emission():
    """With every draft rejected and a known token before them, the append is an ordinary one (A10)."""
    cache = prefilled(2).emit().begin(2, drafts=1).prepare().do("verify", x=0, a=0).publish()
    assert cache.counts() == (1, 1, 3)


def test_a_verdict_is_for_prepared_drafts():
    """Verify needs a complete append, drafts, and no more of them accepted than there are (A10, A12)."""
    cache = prefilled(2).emit().begin(3, drafts=2)
    cache.refuse("verify", "NOT_PREPARED", x=0, a=1)
    cache.prepare().refuse("verify", "TOO_MANY_DRAFTS", x=0, a=3)
    cache.do("verify", x=0, a=1)
    cache.refuse("verify", "NO_DRAFT", x=0, a=1)
    plain = prefilled(2).emit().begin().prepare()
    plain.refuse("verify", "NO_DRAFT", x=0, a=0)


def test_a_verdict_leaves_a_row_to_publish():
    """An append of drafts alone, all rejected, has nothing left and is cancelled (A10, A12)."""
    cache = speculating(2)
    cache.refuse("verify", "EMPTY_APPEND", x=0, a=0)
    cache.do("cancel_txn", x=0)
    assert [cache[name, 0] for name in ("drafts", "accepted", "base_tokens")] == [0, 0, 0]
    cache.do("forget", x=0).emit()


def test_a_cancelled_request_has_no_drafts():
    """Drafts go with the request, and nothing is emitted or stopped afterwards (A10, A7)."""
    cache = speculating(2).do("cancel_request", h=0)
    assert [cache[name, 0] for name in ("state", "drafts", "base_tokens")] == ["ABORTED", 0, 0]
    cache.refuse("emit", "HANDLE_TERMINAL", h=0)
    cache.refuse("stop", "HANDLE_TERMINAL", h=0)


@pytest.mark.parametrize(
    ("rows", "left"),
    [(6, 3), (5, 2), (4, 1), (3, 0), (0, 0)],
)
def test_a_truncation_cuts_the_output_with_the_rows(rows, left):
    """Outputs with a row stay, and the one whose turn it is; generation goes on if one was cut (A10)."""
    cache = stopped().do("truncate", h=0, n=rows)
    assert (cache["emitted", 0], cache["length", 0]) == (left, rows)
    assert cache["stopped", 0] is (left == 3)
    assert cache["own", 0] == rows
    assert cache["prompt", 0] == 4


def test_after_a_cut_the_output_goes_on():
    """The token that stays without a row is the frontier, and after its row another output follows (A10)."""
    cache = stopped().do("truncate", h=0, n=5)
    assert cache.phase() == "DECODE_FRONTIER_READY"
    cache.append().emit()
    assert cache.counts() == (3, 2, 6)


@pytest.mark.parametrize(("rows", "left"), [(6, 3), (5, 2), (4, 1), (2, 0)])
def test_a_fork_has_the_outputs_of_its_rows(rows, left):
    """The child has the prompt and outputs for its rows, and may give more; the parent is as it was (A10)."""
    cache = stopped().do("fork", p=0, children=(False, True), n=rows)
    names = ("prompt", "emitted", "length", "own", "stopped")
    assert [cache[name, 1] for name in names] == [4, left, rows, rows, False]
    assert [cache[name, 0] for name in names] == [4, 3, 6, 6, True]


def test_a_release_takes_prompt_and_outputs_along():
    """Nothing of them is left for the next request of the handle (A10, A8)."""
    cache = stopped().do("finish", h=0).do("release", h=0)
    assert [cache[name, 0] for name in ("prompt", "emitted", "stopped", "own")] == [0, 0, False, 0]
