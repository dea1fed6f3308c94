"""Sessions: turns that end early, clients that are gone, images that are restored or refused."""

from observed import Observed

from kvspec.spec import sessions


def session(**sizes):
    """A session without rows on handle 0."""
    sizes = {"versions": 4, "generations": 2, **sizes}
    return Observed(sessions.make_instance("SCENARIO", "", **sizes)).do("allocate", h=0, b=0, a=0)


def running(seen):
    """A turn of the session runs and has appended the one row that fits."""
    seen.do("submit", h=0).do("start_turn", h=0)
    seen.do("begin", x=0, h=0, k=0, a=0, p=0, n=1).stage(0)
    return seen.do("prepare", x=0).do("publish", x=0)


def test_a_turn_that_was_dropped_frees_its_session():
    """A second turn is refused while the first waits, and taken once that is dropped."""
    seen = session().do("submit", h=0)
    seen.refuse("submit", "SESSION_BUSY", h=0)
    seen.do("drop_queued", h=0).do("submit", h=0)


def test_an_aborted_turn_leaves_no_row():
    """A rollback goes to the last completed snapshot, and to no other."""
    seen = running(session()).do("abort", h=0)
    seen.refuse("truncate", "NOT_COMPLETED", h=0, n=1)
    seen.do("truncate", h=0, n=0)
    assert (seen["length", 0], seen["tokens", 0], seen["busy", 0]) == (0, 1, False)


def test_a_session_is_cancelled_for_a_client_that_is_gone():
    """A session is not cancelled under its client, and takes no turn without one."""
    seen = session()
    seen.refuse("cancel_request", "CLIENT_CONNECTED", h=0)
    seen.do("disconnect", h=0).refuse("submit", "CLIENT_GONE", h=0)
    seen.do("cancel_request", h=0).do("release", h=0)
    assert seen["client", 0] == "NONE"


def restored(*, damaged):
    """A second session of handle 0 into which the row of the first was read."""
    seen = running(session()).do("complete", h=0).do("save", h=0, i=0)
    seen.do("finish", h=0).do("release", h=0).do("evict", b=0).do("allocate", h=0, b=0, a=0)
    if damaged:
        seen.do("damage", i=0)
    seen.do("begin_restore", h=0, i=0)
    return seen.do("write_row", h=0)


def test_a_restored_session_goes_on_where_the_saved_one_was():
    """One row and two tokens are saved and restored."""
    seen = restored(damaged=False).do("check_image", h=0).do("publish_restore", h=0)
    assert (seen["length", 0], seen["tokens", 0], seen["completed", 0]) == (1, 2, 1)


def test_a_damaged_image_leaves_nothing():
    """A restore that failed is undone before the session takes a turn."""
    seen = restored(damaged=True).refuse("check_image", "IMAGE_DAMAGED", changes=True, h=0)
    seen.refuse("publish_restore", "NOT_CHECKED", h=0).refuse("submit", "RESTORE_LIVE", h=0)
    seen.do("undo_restore", h=0).do("submit", h=0)
    assert (seen["length", 0], seen["tokens", 0], seen["written", 0]) == (0, 1, 0)
