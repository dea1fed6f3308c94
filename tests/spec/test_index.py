"""The prefix index: what passes to it, who reads it, what epochs end, and how a block is repaired."""

import pytest
from observed import Observed

from kvspec.spec import index


def server(**sizes):
    """A server without requests, with room for the lives of a few."""
    sizes = {"handles": 3, "blocks": 3, "contents": 2, "abis": 2, "epochs": 3, **sizes}
    return Observed(index.make_instance("SCENARIO", "", **sizes))


def asking(seen, h, b, c=0, a=0):
    """A request for a content, that fills a block."""
    return seen.do("allocate", h=h, b=b, a=a, c=c)


def gone(seen, h):
    """A request that is aborted and gives up its rows."""
    return seen.do("cancel_request", h=h).do("release", h=h)


def entry(seen, b):
    """The state of the entry of a block."""
    return seen["entry", b]


def test_what_is_indexed_outlives_its_request():
    """A half-done request publishes its block and is aborted; the next one reads the rows (A-B20)."""
    seen = asking(server(), 0, 0).do("index_rows", h=0, b=0)
    gone(seen, 0).refuse("evict", "STILL_INDEXED", b=0)
    asking(seen, 1, 1).do("match", h=1, b=0)
    assert seen["content", 0] == seen["prompt", 1] == 0
    assert seen["reader", 0, 1]


def test_a_block_that_is_not_indexed_goes_with_its_request():
    """Without a publication to the index a release leaves nobody with a claim on the block."""
    seen = gone(asking(server(), 0, 0), 0).do("evict", b=0)
    asking(seen, 1, 0, c=1)
    assert seen["content", 0] == 1


@pytest.mark.parametrize(
    ("values", "code"),
    [({"c": 1}, "OTHER_CONTENT"), ({"a": 1}, "ABI_MISMATCH"), ({"c": 1, "a": 1}, "OTHER_CONTENT")],
)
def test_a_match_needs_content_and_abi(values, code):
    """Rows of another prompt or ABI are not read, and the content is compared first (A-B30)."""
    seen = asking(server(), 0, 0).do("index_rows", h=0, b=0)
    asking(seen, 1, 1, **values).refuse("match", code, h=1, b=0)


def test_only_the_owner_of_a_block_publishes_it_and_only_once():
    """A request publishes what it filled, while it is ready, and not again."""
    seen = asking(asking(server(), 0, 0), 1, 1)
    seen.refuse("index_rows", "NOT_OWNER", h=1, b=0)
    seen.do("index_rows", h=0, b=0).refuse("index_rows", "BLOCK_INDEXED", h=0, b=0)
    seen.do("finish", h=1).refuse("index_rows", "HANDLE_TERMINAL", h=1, b=1)


def test_a_child_reads_what_its_parent_reads():
    """A fork reads the matched prefix, so that the prefix is held until the child is gone, too."""
    seen = server().do("reserve", b=0, c=0, a=0).do("complete", b=0)
    asking(seen, 0, 1).do("match", h=0, b=0)
    seen.do("fork", p=0, children=(False, True, False), n=0).do("withdraw", b=0)
    gone(seen, 0).refuse("give_up", "STILL_READ", b=0)
    gone(seen, 1).do("give_up", b=0).do("evict", b=0)
    assert entry(seen, 0) == "ABSENT"


def test_a_load_is_matched_once_it_is_complete():
    """A reserved entry is matched by nobody; a load that fails leaves an entry that nobody matches."""
    seen = asking(server(), 0, 0).do("reserve", b=1, c=0, a=0)
    seen.refuse("match", "NOT_COMPLETE", h=0, b=1)
    seen.do("fail", b=1).refuse("match", "NOT_COMPLETE", h=0, b=1)
    seen.do("reload", b=1).do("complete", b=1).do("match", h=0, b=1)
    assert seen["content", 1] == 0


def test_a_shared_block_is_repaired_beside_its_readers():
    """A corrupt block is not written while it is read: its content is loaded elsewhere, then it is reused."""
    seen = asking(server(), 0, 0).do("index_rows", h=0, b=0).do("find_corrupt", b=0)
    seen.refuse("reload", "STILL_READ", b=0).refuse("give_up", "STILL_READ", b=0)
    seen.do("reserve", b=1, c=0, a=0).do("complete", b=1)
    asking(seen, 1, 2).refuse("match", "NOT_COMPLETE", h=1, b=0)
    seen.do("match", h=1, b=1)
    gone(seen, 0).do("reload", b=0)
    assert not seen["corrupt", 0]
    assert seen["content", 0] is None
    assert seen.do("complete", b=0)["content", 0] == 0


def test_sleep_ends_what_is_indexed():
    """After sleep and wake the index has the entry, nobody matches it, and it can be given up (A-B76)."""
    seen = gone(asking(server(), 0, 0).do("index_rows", h=0, b=0), 0).do("sleep")
    assert seen["content", 0] is None
    seen.refuse("allocate", "ASLEEP", h=1, b=1, a=0, c=0).refuse("reserve", "ASLEEP", b=1, c=0, a=0)
    seen.do("wake").refuse("wake", "NOT_ASLEEP")
    asking(seen, 1, 1).refuse("match", "STALE_MEMORY", h=1, b=0)
    seen.do("withdraw", b=0).do("give_up", b=0).do("evict", b=0)


def test_an_entry_of_dropped_memory_is_loaded_anew():
    """A stale entry is good again after a load into the memory that is there now."""
    seen = gone(asking(server(), 0, 0).do("index_rows", h=0, b=0), 0)
    seen.do("sleep").do("update_weights").do("withdraw", b=0).refuse("reload", "ASLEEP", b=0)
    seen.do("wake").refuse("reload", "STALE_TIER", b=0)
    seen.do("refill").do("reload", b=0).do("complete", b=0)
    asking(seen, 1, 1).do("match", h=1, b=0)
    assert (seen["entry_memory", 0], seen["entry_weights", 0]) == (1, 1)


def test_sleep_waits_for_requests_and_loads():
    """Memory is dropped when no request holds rows and no load is under way, and then once."""
    seen = asking(server(), 0, 0).do("reserve", b=1, c=0, a=0).refuse("sleep", "REQUESTS_HELD")
    gone(seen, 0).refuse("sleep", "LOADS_UNDER_WAY")
    seen.do("fail", b=1).do("sleep").refuse("sleep", "ASLEEP")


def test_a_load_brings_rows_of_the_weights_that_filled_the_tier():
    """After an update nothing is loaded before the tier is filled anew, and then rows of new weights are."""
    seen = server().do("reserve", b=0, c=0, a=0).do("fail", b=0).do("update_weights")
    seen.refuse("reload", "STALE_TIER", b=0).refuse("reserve", "STALE_TIER", b=1, c=0, a=0)
    seen.do("refill").refuse("refill", "TIER_CURRENT").do("reload", b=0)
    assert (seen["content", 0], seen["coming", 0], seen["content_weights", 0]) == (None, 0, 1)
    asking(seen.do("complete", b=0), 0, 1).do("match", h=0, b=0)


def test_what_a_load_brings_is_settled_when_it_starts():
    """An update and a new tier under a load do not change its rows, and no request matches them."""
    seen = server().do("reserve", b=0, c=0, a=0).do("update_weights").do("refill")
    asking(seen.do("complete", b=0), 0, 1).refuse("match", "STALE_WEIGHTS", h=0, b=0)
    assert seen["content_weights", 0] == 0


def test_a_reader_of_corrupt_rows_goes_no_further():
    """It gets no child, and an append that it computed over them is rejected, not published."""
    seen = asking(server(txns=1), 0, 0).do("index_rows", h=0, b=0)
    seen.do("begin", x=0, h=0, p=0, n=1, a=0, k=0)
    seen.do("stage_k", x=0, l=0, p=0).do("stage_v", x=0, l=0, p=0).do("prepare", x=0)
    seen.do("find_corrupt", b=0)
    seen.refuse("fork", "READS_CORRUPT", p=0, children=(False, True, False), n=0)
    seen.refuse("publish", "READS_CORRUPT", changes=True, x=0)
    assert (seen["state", 0], seen["length", 0]) == ("REJECTED", 0)


def test_the_first_chunk_outlives_a_request_aborted_in_prefill():
    """A request whose next chunk is under way is aborted, and its first one stays in the index (A-B20)."""
    seen = asking(server(txns=1), 0, 0).do("begin", x=0, h=0, p=0, n=1, a=0, k=0)
    seen.do("index_rows", h=0, b=0)
    gone(seen, 0).refuse("evict", "STILL_INDEXED", b=0)
    asking(seen, 1, 1).do("match", h=1, b=0)


def test_a_cancelled_request_publishes_nothing_to_the_index():
    """What was aborted before its publication is of no use to others."""
    seen = asking(server(), 0, 0).do("cancel_request", h=0)
    seen.refuse("index_rows", "HANDLE_TERMINAL", h=0, b=0)


def test_new_weights_end_what_is_indexed():
    """Rows of replaced weights are not read, those of a load that began before among them."""
    seen = gone(asking(server(), 0, 0).do("index_rows", h=0, b=0), 0)
    seen.do("reserve", b=1, c=0, a=0).do("update_weights").do("complete", b=1)
    asking(seen, 1, 2).refuse("update_weights", "REQUESTS_HELD")
    for b in (0, 1):
        seen.refuse("match", "STALE_WEIGHTS", h=1, b=b)
