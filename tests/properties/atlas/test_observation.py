"""What is particular to the groups about observation: a loss that the consumer never comes to know of."""

from kvspec.properties.atlas import groups
from kvspec.properties.atlas.run import search_faulty


def test_a_lost_end_never_shows():
    """In the last case of A-B70 the consumer knows of no gap and stays one event behind for ever."""
    case = groups()["A-B70"].cases[-1]
    broken = search_faulty(case).violations[0]
    last = broken.trace[broken.loop].state
    seen = dict(zip(case.instance.system.variables, last.tables, strict=True))
    assert (seen["gap"], seen["expected"], seen["sequence"]) == ((False,), (0,), (1,))
