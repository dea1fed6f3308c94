"""What is particular to the groups about sessions: who stays stuck, and what nobody can do any more."""

from kvspec.properties.atlas import groups
from kvspec.properties.atlas.run import search_faulty


def loop(group, case):
    """The last state of the lasso of a case, by variable at handle 0."""
    made = groups()[group].cases[case]
    broken = search_faulty(made).violations[0]
    assert broken.loop is not None
    last = broken.trace[broken.loop].state
    return dict(zip(made.instance.system.variables, last.tables, strict=True))


def test_a_session_is_stuck_without_a_turn():
    """In A-B16 the session stays busy and has no turn that could end."""
    last = loop("A-B16", 0)
    assert (last["busy"], last["turn"]) == ((True,), ("NONE",))


def test_a_session_is_kept_for_nobody():
    """In A-B18 a turn runs for ever for a client that is gone."""
    last = loop("A-B18", 0)
    assert (last["client"], last["turn"]) == (("GONE",), ("RUNNING",))
