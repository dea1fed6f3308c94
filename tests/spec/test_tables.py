"""Rows of a table and staged metadata: neither is written while somebody is still to read it."""

from observed import Observed

from kvspec.spec import tables


def device(**sizes):
    """One row that a request has, two passes and two buffers."""
    sizes = {"rows": 1, "passes": 2, "buffers": 2, "editions": 3, **sizes}
    return Observed(tables.make_instance("SCENARIO", "", **sizes)).do("take_row", r=0)


def test_a_returned_row_is_taken_when_its_readers_are_done():
    """A row goes to the next request when the last pass that captured it has settled."""
    seen = device().do("dispatch", p=0, r=0, s=0).do("dispatch", p=1, r=0, s=1)
    seen.do("return_row", r=0).refuse("take_row", "ROW_READ", r=0)
    seen.do("upload", p=0).do("settle", p=0).refuse("take_row", "ROW_READ", r=0)
    seen.do("upload", p=1).do("settle", p=1).do("take_row", r=0)
    assert seen["edition", 0] == 2


def test_a_row_is_rewritten_between_passes():
    """A request writes its row anew when no pass in flight has captured it, and not once it is gone."""
    seen = device().refuse("rewrite_row", "NOT_OUTDATED", r=0)
    seen.do("change_block", r=0).do("rewrite_row", r=0).do("dispatch", p=0, r=0, s=0)
    assert seen["captured", 0] == 2
    seen.do("change_block", r=0).refuse("rewrite_row", "ROW_READ", r=0)
    seen.do("upload", p=0).do("settle", p=0).do("rewrite_row", r=0).do("return_row", r=0)
    seen.refuse("change_block", "ROW_NOT_TAKEN", r=0)
    seen.refuse("dispatch", "ROW_NOT_TAKEN", p=0, r=0, s=0)


def test_a_row_that_is_to_be_rewritten_is_drained():
    """While a row waits to be written anew, no pass is dispatched on it, and those in flight run out."""
    seen = device().do("dispatch", p=0, r=0, s=0).do("change_block", r=0)
    seen.refuse("change_block", "ROW_OUTDATED", r=0)
    seen.refuse("dispatch", "ROW_OUTDATED", p=1, r=0, s=1)
    seen.do("upload", p=0).do("settle", p=0).do("rewrite_row", r=0).do("dispatch", p=1, r=0, s=1)
    assert seen["captured", 1] == 2


def test_the_host_dispatches_for_ever():
    """Places and fences go down as passes settle: a round of dispatch and settling ends where it began."""
    seen = device().do("dispatch", p=0, r=0, s=0).do("upload", p=0)
    before = seen.state
    for now, then in ((1, 0), (0, 1)) * 5:
        seen.do("dispatch", p=now, r=0, s=0).do("upload", p=now).do("settle", p=then)
        assert (seen["unsettled"], seen["row_fence", 0], seen["pass_number", now]) == (1, 1, 1)
    assert seen.state == before


def test_a_buffer_is_written_again_behind_its_upload():
    """The next pass may use a buffer before the pass settles, but not before the upload has run."""
    seen = device().do("dispatch", p=0, r=0, s=0)
    seen.refuse("dispatch", "BUFFER_READ", p=1, r=0, s=0)
    seen.refuse("settle", "NOT_UPLOADED", p=0)
    seen.do("upload", p=0).refuse("upload", "UPLOADED", p=0).do("dispatch", p=1, r=0, s=0)
    assert (seen["staged_for", 0], seen["uploaded_for", 0]) == (1, 0)
    seen.do("settle", p=0)
