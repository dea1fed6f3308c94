"""Retries: the original receipt, or a conflict with a code of its own (A5)."""

import pytest
from scenario import ready

from kvspec.spec.retry import retry

SAME = {"x": 0, "h": 0, "k": 1, "v": 0, "n": 2}


def published():
    """An append of two rows that is published under key 1."""
    return ready(versions=4).appended(key=1, rows=2)


def answered(cache):
    """The same call again, which is told the receipt of the publication."""
    before = [cache[name, 0] for name in ("state", "target", "base_version", "receipt", "count")]
    shown = [cache.shows(h) for h in range(3)]
    cache.do("retry", **SAME)
    assert cache["ack_receipt", 0] == 1
    now = [cache[name, 0] for name in ("state", "target", "base_version", "receipt", "count")]
    assert now == before
    assert [cache.shows(h) for h in range(3)] == shown
    return cache


def test_a_repeat_is_told_the_original_receipt():
    """The same fingerprint is answered with the receipt of the publication, once and again (A5)."""
    cache = answered(answered(published()))
    assert (cache["ack_handle", 0], cache["ack_key", 0]) == (0, 1)
    assert (cache["ack_base", 0], cache["ack_count", 0]) == (0, 2)


def test_a_repeat_after_later_publications():
    """Later snapshots do not change what the receipt says (A5)."""
    cache = published().appended(txn=1, key=0)
    assert cache["version", 0] == 2
    answered(cache)


def test_a_repeat_after_release_and_reuse():
    """The receipt speaks of the past: after release, and after the handle went to another request (A5)."""
    cache = published().do("finish", h=0).do("release", h=0)
    answered(cache)
    cache.do("evict", b=0).do("allocate", h=0, b=0, a=0)
    answered(cache)
    assert cache["version", 0] == 0


@pytest.mark.parametrize(
    ("changed", "code", "found"),
    [
        ({"h": 1}, "HANDLE_CONFLICT", "target[txn0] = handle0"),
        ({"k": 0}, "KEY_CONFLICT", "key[txn0] = key1"),
        ({"v": 1}, "BASE_CONFLICT", "base_version[txn0] = 0"),
        ({"n": 1}, "INTERVAL_CONFLICT", "count[txn0] = 2"),
        ({"n": 3}, "INTERVAL_CONFLICT", "n = 3"),
    ],
)
def test_each_conflict_has_its_own_code(changed, code, found):
    """The same id with another handle, key, base or interval is refused for that reason (A5, A12)."""
    cache = published()
    refusal = cache.refuse("retry", code, **{**SAME, **changed})
    assert found in refusal.found
    assert cache["acked", 0] is False


def test_conflicts_are_told_in_order():
    """With everything wrong the handle is told first, then key, base and interval (A12)."""
    cache = published()
    call = {"x": 0, "h": 1, "k": 0, "v": 1, "n": 1}
    for name, right in (("h", 0), ("k", 1), ("v", 0), ("n", 2)):
        position = ["h", "k", "v", "n"].index(name)
        code = [g.code.name for g in retry.guards][position + 1]
        cache.refuse("retry", code, **call)
        call[name] = right
    cache.do("retry", **call)


@pytest.mark.parametrize("end", ["idle", "open", "prepared", "aborted", "rejected"])
def test_only_a_publication_has_a_receipt(end):
    """What is not published is no repeat: it has to begin anew (A5)."""
    cache = ready()
    if end in ("open", "aborted"):
        cache.begin(key=1, rows=2)
    if end in ("prepared", "rejected"):
        cache.prepared(key=1, rows=2)
    if end == "aborted":
        cache.do("cancel_txn", x=0)
    if end == "rejected":
        cache.do("truncate", h=0, n=0).refuse("publish", "STALE_SNAPSHOT", changes=True, x=0)
    cache.refuse("retry", "NOT_PUBLISHED", **SAME)


def test_forgetting_ends_the_record():
    """After forget the id is free and the receipt gone; a live append cannot be forgotten (A5)."""
    cache = answered(published()).do("forget", x=0)
    cache.refuse("retry", "NOT_PUBLISHED", **SAME)
    assert [cache[name, 0] for name in ("receipt", "acked", "ack_key")] == [0, False, None]
    cache.refuse("forget", "TXN_LIVE", x=0)
    cache.begin().refuse("forget", "TXN_LIVE", x=0)
    cache.stage(0).do("prepare", x=0).refuse("forget", "TXN_LIVE", x=0)


def test_a_retry_changes_nothing_but_the_answer():
    """The action assigns what a client was told, and nothing else (A5)."""
    assert {done.variable.name for done in retry.assignments} == {
        "acked",
        "ack_handle",
        "ack_key",
        "ack_base",
        "ack_count",
        "ack_receipt",
    }
