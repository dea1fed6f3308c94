"""What is claimed under pressure: no slot has two requests, and everybody who came ends."""

from __future__ import annotations

from kvspec.spec.language import (
    Expr,
    Properties,
    after,
    exists,
    fired,
    forall,
    implies,
    weak,
    where,
)
from kvspec.spec.pressure import (
    Life,
    Request,
    Slot,
    age,
    arrivals,
    arrive,
    comes_back,
    end,
    give_up,
    has_enough,
    has_slots,
    holds,
    is_older,
    is_waiting,
    leave,
    leaving,
    life,
    parked,
    preempt,
    settle_slot,
    system,
    take,
)

pressure = Properties(system)


@pressure.invariant
def a_slot_has_one_request() -> Expr:
    """No two requests have one slot."""
    return forall(
        Slot, Request, Request, lambda s, q, r: implies(holds[s, q] & holds[s, r], q == r)
    )


@pressure.invariant
def a_parked_slot_has_no_request() -> Expr:
    """A slot that waits for the device is nobody's."""
    return forall(Slot, Request, lambda s, q: implies(parked[s], ~holds[s, q]))


@pressure.invariant
def only_an_active_request_has_slots() -> Expr:
    """A request that has not come or has ended has no slot."""
    return forall(Slot, Request, lambda s, q: implies(holds[s, q], life[q] == Life.ACTIVE))


@pressure.invariant
def only_an_active_request_can_be_given_up() -> Expr:
    """An owner waits for a request of its own that has come and not ended."""
    return forall(Request, lambda q: implies(leaving[q], life[q] == Life.ACTIVE))


@pressure.invariant
def no_two_requests_have_one_age() -> Expr:
    """Of any two requests that came, one is the older."""
    return forall(
        Request,
        Request,
        lambda q, r: implies(
            (life[q] != Life.ABSENT) & (life[r] != Life.ABSENT) & (age[q] == age[r]), q == r
        ),
    )


@pressure.lemma
def ages_are_behind_the_next_arrival() -> Expr:
    """The next request to come is younger than all before it."""
    return forall(Request, lambda q: implies(life[q] != Life.ABSENT, age[q] < arrivals[()]))


@pressure.lemma
def who_has_not_come_has_no_age() -> Expr:
    """A request that has not come has no place among those that have."""
    return forall(Request, lambda q: implies(life[q] == Life.ABSENT, age[q] == 0))


@pressure.step
def a_slot_is_given_when_it_is_free() -> Expr:
    """Who gets a slot gets one that nobody has and that no step in flight may touch."""
    return forall(
        Slot,
        Request,
        lambda s, q: implies(
            ~holds[s, q] & after(holds[s, q]),
            ~parked[s] & forall(Request, lambda r: ~holds[s, r]),
        ),
    )


@pressure.step
def a_released_slot_waits_for_the_device() -> Expr:
    """A slot that a request gives up is parked before it is free."""
    return forall(
        Slot, Request, lambda s, q: implies(holds[s, q] & ~after(holds[s, q]), after(parked[s]))
    )


@pressure.step
def only_a_released_slot_is_parked() -> Expr:
    """A slot waits for the device since a request has given it up."""
    return forall(
        Slot,
        lambda s: implies(~parked[s] & after(parked[s]), exists(Request, lambda q: holds[s, q])),
    )


@pressure.step
def a_further_slot_goes_to_the_oldest_that_waits() -> Expr:
    """No request that came gets a slot before an older one that lacks one."""
    return forall(
        Slot,
        Request,
        Request,
        lambda s, q, r: implies(
            (life[q] == Life.ACTIVE) & ~holds[s, q] & after(holds[s, q]) & is_waiting(r) & (r != q),
            is_older(q, r),
        ),
    )


@pressure.step
def nobody_is_admitted_before_one_without_a_slot() -> Expr:
    """A request comes in when all that wait have a slot at least."""
    return implies(fired(arrive), forall(Request, lambda r: implies(is_waiting(r), has_slots(r))))


@pressure.step
def nobody_gets_more_than_is_needed() -> Expr:
    """A slot goes to a request that lacks one, and that its owner still wants."""
    return forall(
        Slot,
        Request,
        lambda s, q: implies(
            ~holds[s, q] & after(holds[s, q]), ~has_enough(q) & ~leaving[q] & after(~leaving[q])
        ),
    )


@pressure.step
def a_preemption_is_of_use() -> Expr:
    """Nobody loses slots while one is free, or will be when the device settles."""
    return implies(fired(preempt), ~exists(Slot, comes_back) & exists(Request, is_waiting))


@pressure.step
def a_preemption_makes_a_slot_come_back() -> Expr:
    """After a preemption some slot is on its way to be free."""
    return implies(fired(preempt), exists(Slot, lambda s: ~parked[s] & after(parked[s])))


@pressure.step
def the_youngest_gives_way() -> Expr:
    """Who is preempted is younger than all others that hold slots."""
    return implies(
        fired(preempt),
        forall(
            Request,
            Request,
            lambda v, r: implies(
                has_slots(v) & ~after(has_slots(v)) & has_slots(r), ~is_older(v, r)
            ),
        ),
    )


@pressure.step
def a_request_comes_once() -> Expr:
    """Life goes from absent to active to ended, and never back."""
    return forall(
        Request,
        lambda q: implies(
            after(life[q]) != life[q],
            where(
                life[q] == Life.ABSENT,
                fired(arrive) & after(life[q] == Life.ACTIVE),
                (life[q] == Life.ACTIVE) & after(life[q] == Life.ENDED),
            ),
        ),
    )


@pressure.step
def a_request_comes_with_a_slot() -> Expr:
    """Who is admitted has a slot, and is the last of those that came."""
    return forall(
        Request,
        lambda q: implies(
            (life[q] == Life.ABSENT) & after(life[q] == Life.ACTIVE),
            after(has_slots(q)) & after(arrivals[()] == age[q] + 1),
        ),
    )


@pressure.step
def a_request_keeps_its_age() -> Expr:
    """Preemption does not make a request younger."""
    return forall(Request, lambda q: implies(life[q] != Life.ABSENT, after(age[q]) == age[q]))


@pressure.step
def who_ends_had_all_slots_or_was_given_up() -> Expr:
    """A request ends because it could finish, or because its owner left."""
    return forall(
        Request,
        lambda q: implies(
            (life[q] == Life.ACTIVE) & after(life[q] == Life.ENDED),
            where(fired(end), has_enough(q), fired(leave) & leaving[q]),
        ),
    )


@pressure.step
def a_preempted_request_stays_wanted() -> Expr:
    """Only its owner gives a request up, and only its end settles that."""
    return forall(
        Request,
        lambda q: implies(
            after(leaving[q]) != leaving[q],
            where(leaving[q], after(life[q] == Life.ENDED), fired(give_up)),
        ),
    )


@pressure.step
def who_is_given_up_leaves() -> Expr:
    """An owner gives up a request that has come and not ended, and then is to be let go."""
    return implies(
        fired(give_up),
        exists(Request, lambda q: (life[q] == Life.ACTIVE) & after(leaving[q])),
    )


@pressure.step
def nobody_is_preempted_for_a_younger() -> Expr:
    """Where a request loses its slots to pressure, one that lacks a slot is as old or older."""
    return implies(
        fired(preempt),
        forall(
            Request,
            lambda v: implies(
                has_slots(v) & ~after(has_slots(v)),
                exists(Request, lambda q: is_waiting(q) & ~is_older(v, q)),
            ),
        ),
    )


@pressure.step
def a_slot_settles_once() -> Expr:
    """What the device settles is a slot that waited for it."""
    return implies(fired(settle_slot), exists(Slot, lambda s: parked[s] & ~after(parked[s])))


@pressure.witness
def reaches_a_preempted_request() -> Expr:
    """A request has lost its slots, and waits for them."""
    return exists(Request, lambda q: is_waiting(q) & ~has_slots(q))


@pressure.witness
def reaches_an_owner_that_leaves_after_a_preemption() -> Expr:
    """A request was flushed by the scheduler, and is to be flushed by its owner."""
    return exists(Request, lambda q: leaving[q] & ~has_slots(q))


@pressure.witness
def reaches_a_pool_that_is_all_parked() -> Expr:
    """No slot is free, and none is held."""
    return forall(Slot, lambda s: parked[s])


@pressure.end
def whoever_came_has_ended() -> Expr:
    """The system may stop where every request that came has ended, and no slot waits."""
    return forall(Request, lambda q: life[q] != Life.ACTIVE) & forall(Slot, lambda s: ~parked[s])


@pressure.leads_to(
    weak(take, "q"),
    weak(preempt, "q"),
    weak(settle_slot, "s"),
    weak(end, "q"),
    weak(leave, "q"),
)
def every_request_ends(q: Request) -> tuple[Expr, Expr]:
    """A request that has come ends: it gets its slots, whoever has to give way for that."""
    return life[q] == Life.ACTIVE, life[q] == Life.ENDED


@pressure.leads_to(weak(leave, "q"))
def every_owner_gets_away(q: Request) -> tuple[Expr, Expr]:
    """A request that its owner gives up ends, whatever the scheduler did to it before."""
    return leaving[q], life[q] == Life.ENDED


@pressure.leads_to(weak(settle_slot, "s"))
def every_parked_slot_is_free_in_the_end(s: Slot) -> tuple[Expr, Expr]:
    """A slot that was released is free in the end."""
    return parked[s], ~parked[s]
