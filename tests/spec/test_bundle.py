"""Companions of a request go wherever its rows go, or these stay."""

from observed import Observed

from kvspec.spec import bundle_instances


def server(**sizes):
    """A server without requests, with room for the lives of a few."""
    sizes = {
        "handles": 3,
        "blocks": 3,
        "rows": 2,
        "longest": 4,
        "versions": 4,
        "rollbacks": 1,
        "replays": 1,
        **sizes,
    }
    return Observed(bundle_instances.make_instance("SCENARIO", "", **sizes))


def asking(seen, h=0, prompt=1, *, grammar=True):
    """A request with a prompt, and a grammar if wanted."""
    seen.do("allocate", h=h, b=h, a=0, p=prompt)
    return seen.do("attach", h=h) if grammar else seen


def prepared(seen, h=0, rows=1, drafts=0):
    """An append behind the request's rows, complete."""
    p = seen["length", h]
    seen.do("begin", x=0, h=h, k=0, a=0, p=p, n=rows, d=drafts)
    return seen.stage(0).do("prepare", x=0)


def appended(seen, h=0, rows=1):
    """Rows of known tokens, published."""
    return prepared(seen, h, rows).do("publish", x=0).do("forget", x=0)


def rounds(seen, drafts, accepted, h=0):
    """A round of drafts behind every known token, of which some are accepted."""
    known = seen["prompt", h] + seen["emitted", h] - seen["length", h]
    prepared(seen, h, known + drafts, drafts).do("verify", x=0, a=accepted)
    return seen.do("publish", x=0).do("forget", x=0)


def stands(seen, h=0):
    """Rows, recurrent state, rows of the draft model, outputs of the grammar."""
    return tuple(seen[name, h] for name in ("length", "recurrent", "draft_rows", "grammar"))


def test_the_draft_model_is_level_unless_all_drafts_were_accepted():
    """Of two drafts none, one and both are accepted: it stands level, level, and one row behind (A-B47)."""
    assert stands(rounds(asking(server()), 2, 0)) == (1, 1, 1, 0)
    assert stands(rounds(asking(server()), 2, 1)) == (2, 2, 2, 1)
    assert stands(rounds(asking(server()), 2, 2)) == (3, 3, 2, 2)


def test_the_draft_model_catches_up():
    """The next append gives it the row that it lacks."""
    seen = rounds(asking(server()), 1, 1).do("emit", h=0)
    assert stands(seen) == (2, 2, 1, 2)
    assert stands(appended(seen)) == (3, 3, 3, 2)


def test_a_round_that_is_broken_off_leaves_nothing():
    """Cancelled before the verdict and after it, the draft model goes back to the committed rows (A-B47)."""
    for verdict in (False, True):
        seen = prepared(asking(server()), rows=3, drafts=2)
        assert seen["draft_rows", 0] == 2
        if verdict:
            seen.do("verify", x=0, a=1)
        assert stands(seen.do("cancel_txn", x=0)) == (0, 0, 0, 0)


def test_a_request_has_one_round_at_a_time():
    """A second append with drafts is refused, one without is not."""
    seen = prepared(asking(server(txns=2)), rows=2, drafts=1)
    again = {"x": 1, "h": 0, "k": 0, "a": 0, "p": 0}
    seen.refuse("begin", "DRAFT_BUSY", **again, n=2, d=1)
    seen.do("begin", **again, n=1, d=0)


def test_a_recurrent_state_goes_back_by_so_much():
    """Rows that could be cut stay where the state cannot follow, for a truncate and for a fork (A-B45)."""
    seen = appended(asking(server(), prompt=3), rows=3)
    seen.refuse("truncate", "NO_ROLLBACK", h=0, n=1)
    seen.refuse("fork", "NO_ROLLBACK", p=0, children=(False, True, False), n=1)
    seen.do("fork", p=0, children=(False, True, False), n=2).do("truncate", h=0, n=2)
    assert stands(seen, 0) == stands(seen, 1) == (2, 2, 2, 0)


def test_a_mask_moves_with_its_request():
    """Packed into another row, a request leaves a neutral one behind, which the next one needs (A-B37)."""
    seen = asking(asking(server()), 1, grammar=False).do("enter", r=1, h=0)
    assert [seen["row_mask", r] for r in (0, 1)] == [None, 0]
    seen.do("reorder", source=(1, 0))
    assert [seen["row_mask", r] for r in (0, 1)] == [0, None]
    seen.do("enter", r=1, h=1)
    assert [seen["row_mask", r] for r in (0, 1)] == [0, None]


def test_a_grammar_comes_outside_the_batch_and_before_any_output():
    """Attached later it would have missed outputs, or its row would have no mask."""
    seen = asking(server(), grammar=False).do("enter", r=0, h=0)
    seen.refuse("attach", "IN_BATCH", h=0)
    appended(seen.do("leave", h=0)).do("emit", h=0).refuse("attach", "HAS_A_PAST", h=0)


def lost(seen):
    """A request under a grammar with one output, whose worker died."""
    return appended(asking(seen)).do("emit", h=0).do("cancel_request", h=0, dead=True)


def test_a_lost_request_goes_on_behind_its_last_output():
    """Its prompt is all tokens, its grammar has consumed the output, and it is continued once (A-B74)."""
    seen = asking(lost(server()), 1, prompt=2, grammar=False)
    seen.refuse("release", "STILL_LOST", h=0).do("resume", h=1, s=0)
    assert [seen[name, 1] for name in ("asked", "carried", "grammar")] == [1, 1, 1]
    seen.refuse("resume", "NOT_LOST", h=1, s=0).do("release", h=0)
    appended(seen, 1, rows=2).do("emit", h=1)
    assert stands(seen, 1) == (2, 2, 2, 2)


def test_a_continuation_can_be_lost_as_well():
    """The third worker has the outputs of both before it."""
    seen = asking(lost(server(replays=2)), 1, prompt=2, grammar=False).do("resume", h=1, s=0)
    appended(seen, 1, rows=2).do("emit", h=1).do("cancel_request", h=1, dead=True)
    asking(seen, 2, prompt=3, grammar=False).do("resume", h=2, s=1)
    assert [seen[name, 2] for name in ("asked", "carried", "grammar")] == [1, 2, 2]


def test_what_cannot_be_continued_is_refused_and_given_up():
    """With another prompt, or a grammar that cannot be advanced so far; then the handle is free (A-B74)."""
    seen = asking(lost(server(replays=0)), 1, prompt=1, grammar=False)
    seen.refuse("resume", "NOT_A_REPLAY", h=1, s=0)
    asking(seen, 2, prompt=2, grammar=False).refuse("resume", "NO_REPLAY", h=2, s=0)
    seen.do("give_up", h=0).refuse("resume", "NOT_LOST", h=2, s=0).do("release", h=0)
    assert stands(seen) == (1, 0, 0, 0), "the length stays on record"


def test_a_request_that_is_over_is_not_lost():
    """A client's cancel, and a death behind the last output, leave nothing to continue."""
    assert not asking(server()).do("cancel_request", h=0, dead=False)["lost", 0]
    seen = asking(server()).do("stop", h=0).do("cancel_request", h=0, dead=True)
    assert seen["died", 0]
    assert not seen["lost", 0]
