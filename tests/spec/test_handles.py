"""Handles are used again, and generations tell their requests apart (A1, A2, A9)."""

from scenario import Cache, ready

from kvspec.spec.handles import Phase, handles
from kvspec.spec.language import type_of


def reused():
    """A handle given away again, with the rows and the snapshot number that it had before."""
    cache = ready().appended(txn=1).prepared(txn=0)
    cache.do("forget", x=1).do("finish", h=0).do("release", h=0)
    cache.do("evict", b=0).do("allocate", h=0, b=0, a=0)
    return cache.appended(txn=1)


def test_a_delayed_append_fails_on_the_generation():
    """Handle, snapshot number, position and ABI coincide; the delayed append fails all the same (A9)."""
    cache = reused()
    assert cache["target", 0] == 0
    assert cache["base_version", 0] == cache["version", 0] == 1
    assert cache["start", 0] == cache["length", 0] == 1
    assert cache["txn_abi", 0] == cache["abi", 0]
    refusal = cache.refuse("publish", "STALE_GENERATION", x=0, changes=True)
    assert refusal.found == (
        "generation[handle0] = 1, target[txn0] = handle0, x = txn0, base_generation[txn0] = 0"
    )
    assert cache["state", 0] == "REJECTED"
    assert cache.shows(0) == [(1, 1)] * 2


def test_without_the_generation_the_delayed_append_would_go_through():
    """The mutant that does not compare generations publishes another request's rows (A9, C3)."""
    from kvspec.models.concrete import Machine
    from kvspec.properties.mutation import mutate
    from kvspec.spec import core

    cache = reused()
    mutated = mutate(core.system)
    blind = mutated.named("publish.drop-guard.STALE_GENERATION")
    cache.machine = Machine(mutated.on(cache.machine.instance), blind.number)
    cache.do("publish", x=0)
    assert cache["length", 0] == 2


def test_a_delayed_append_fails_on_a_vacant_and_on_a_released_handle():
    """Before the handle is given away again, the generation has moved on already (A9)."""
    cache = ready().prepared().do("finish", h=0).do("release", h=0)
    cache.refuse("publish", "STALE_GENERATION", x=0, changes=True)


def test_generations_and_snapshots_are_advanced_by_different_steps():
    """Append and truncate advance the version, finish nothing, release the generation (A2)."""
    cache = ready()
    seen = []

    def note():
        seen.append((cache["generation", 0], cache["version", 0]))

    for step in (
        cache.appended,
        lambda: cache.do("truncate", h=0, n=0),
        lambda: cache.do("finish", h=0),
        lambda: cache.do("release", h=0),
        lambda: cache.do("allocate", h=0, b=1, a=0),
    ):
        step()
        note()
    assert seen == [(0, 1), (0, 2), (0, 2), (1, 2), (1, 0)]


def test_phases_are_those_of_a_request():
    """Vacant before the first request, and then the four phases of the life of each (A1)."""
    assert type_of(Phase).members == (
        "VACANT",
        "DECODE_READY",
        "FINISHED",
        "CANCELLED",
        "RELEASED",
    )
    cache = Cache()
    assert {cache["phase", h] for h in range(3)} == {"VACANT"}
    assert not handles.actions


def test_a_vacant_handle_shows_and_does_nothing():
    """No step but allocate, or a fork into it, takes a vacant handle (A1)."""
    cache = Cache()
    assert cache.shows(0) == [(0, 0)] * 2
    cache.refuse("finish", "HANDLE_TERMINAL", h=0)
    cache.refuse("release", "NOT_TERMINAL", h=0)
    cache.refuse("begin", "HANDLE_TERMINAL", x=0, h=0, k=0, a=0, p=0, n=1)
    cache.refuse("publish", "NOT_PREPARED", x=0)
