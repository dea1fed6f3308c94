"""Events follow the cache: none before its change; losses, repeats and delays are told apart (B7)."""

import pytest
from observed import Observed

from kvspec.models.explicit import explore
from kvspec.properties.journal import TELEMETRY
from kvspec.properties.journal import journal as claims
from kvspec.properties.mutation import mutate
from kvspec.spec import core, journal


def request(notes=3):
    """A request that was allocated and finished, with nothing told."""
    made = journal.make_instance("SCENARIO", "", handles=1, notes=notes)
    return Observed(made).do("allocate", h=0, b=0, a=0).do("finish", h=0)


def test_an_event_follows_its_change():
    """Before the change there is nothing to tell, and each change is told once (B7)."""
    made = journal.make_instance("SCENARIO", "", handles=1, notes=3)
    seen = Observed(made).refuse("tell", "NOTHING_TO_TELL", h=0, e=0)
    seen.do("allocate", h=0, b=0, a=0).do("tell", h=0, e=0)
    seen.refuse("tell", "NOTHING_TO_TELL", h=0, e=1).refuse("crash", "NOTHING_TO_TELL", h=0)


def test_delivery_in_order_tells_everything():
    """With every event in order the consumer knows the last change, and notes nothing (B7)."""
    seen = request().do("tell", h=0, e=0).do("tell", h=0, e=1).do("deliver", e=0).do("deliver", e=1)
    assert (seen["known", 0], seen["changes", 0]) == (2, 2)
    assert (seen["gap"], seen["late"], seen["repeated"]) == (False, False, False)


def test_lost_duplicated_and_reordered_delivery_are_told_apart():
    """A loss leaves a gap, a repeat is noted alone, and a late event comes after its gap (B7)."""
    lost = request().do("tell", h=0, e=0).do("tell", h=0, e=1).do("lose", e=0).do("deliver", e=1)
    assert (lost["gap"], lost["late"], lost["repeated"]) == (True, False, False)
    twice = request().do("tell", h=0, e=0).do("deliver", e=0).do("deliver_again", e=0)
    assert (twice["gap"], twice["late"], twice["repeated"]) == (False, False, True)
    late = request().do("tell", h=0, e=0).do("tell", h=0, e=1).do("deliver", e=1).do("deliver", e=0)
    assert (late["gap"], late["late"], late["repeated"]) == (True, True, False)
    assert late["known", 0] == 2, "a late event does not take back what is known"


def test_a_full_channel_uses_up_the_number():
    """An event that does not fit is dropped with its number, so that the drop shows (B7)."""
    seen = request().do("drop", h=0, e=0).do("tell", h=0, e=1).do("deliver", e=1)
    assert (seen["gap"], seen["sequence"]) == (True, 2)


def test_a_crash_before_the_event_shows_in_no_number():
    """Only a comparison with the cache tells that the last change was never told (B7)."""
    seen = request().do("tell", h=0, e=0).do("crash", h=0).do("deliver", e=0)
    assert seen["gap"] is False
    assert (seen["known", 0], seen["changes", 0]) == (1, 2)


def test_events_never_touch_the_cache():
    """No action of the journal assigns a variable of the core, and observers have no guards (B7)."""
    for action in TELEMETRY:
        assert {d.variable.name for d in action.assignments}.isdisjoint(core.system.variables)
    for extension in journal.journal.extensions:
        assert extension.guards == ()
        assert {d.variable.name for d in extension.assignments} == {"changes"}


@pytest.mark.parametrize("made", journal.INSTANCES, ids=lambda made: made.name)
def test_every_state_of_an_instance_keeps_the_claims(made):
    """The search is complete with the expected counts (B7)."""
    found = explore(made, claims.by_name.values())
    counts = made.expected
    assert found.verdict == "holds"
    assert (found.states, found.transitions, found.depth, found.terminal) == (
        counts.states,
        counts.transitions,
        counts.depth,
        counts.terminal,
    )


def test_telling_before_the_change_is_caught():
    """Without its guard, an event tells of a change that has not happened (B7)."""
    mutated = mutate(journal.system)
    mutant = mutated.named("tell.drop-guard.NOTHING_TO_TELL")
    from kvspec.models.explicit import compile_instance

    program = compile_instance(mutated.on(journal.ONE_SOURCE), claims.of_kind("invariant"))
    found = program.explore(variant=mutant.number)
    assert found.violations[0].property == "nothing_is_told_before_it_happened"
    assert len(found.violations[0].trace) == 2
