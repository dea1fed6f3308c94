"""Observation: counters, gauges, records and labels beside the cache, written from settled facts alone.

The rows of a request are computed, or found in the local cache, or fetched from an external one: an append is
of one of these sources. What was looked up or begun is no fact yet and counts for nothing. What is counted
are publications, which also tell that a fetch succeeded; an append that is aborted (a load that failed)
leaves every number as it was, and a truncation (a preemption) cuts what the request has by now, and no
counter. A request ends with one terminal record, for whatever reason, and so does one that is turned away
before it has a handle. Labels are names that were known at the start; every other name that a client sends is
counted as other.

Modelled: failed loads, preemption, requests that are turned away. Each number is kept for every handle apart,
and what a service reports is their sum: an equation of the shares is one of the sums.
Left out: time, histograms. What external replicas are told is in `replica`.
Assumed: rows that were found come before computed ones, and local ones before external ones.
"""

from __future__ import annotations

import attrs

from kvspec.spec import core
from kvspec.spec.append import Txn, TxnState, append, begin, count, publish, start, state, target
from kvspec.spec.failures import EMPTY_PROMPT, PROMPT_TOO_LONG, TXN_CLOSED, FailureClass, error_code
from kvspec.spec.handles import Handle, Length, context, handles
from kvspec.spec.language import (
    ANY,
    Bool,
    Counts,
    Enum,
    Expr,
    Instance,
    Map,
    Module,
    Natural,
    Open,
    Step,
    System,
    forall,
    implies,
    limit,
    member,
    the,
    where,
)
from kvspec.spec.lifecycle import (
    allocate,
    cancel_request,
    finish,
    fork,
    lifecycle,
    release,
    truncate,
)
from kvspec.spec.prefix import Block, filled, prefix


class Name(Open):
    """A string that a client sends, as the name of a model."""


class Tally(Natural):
    """A counter: rows or records."""


class Refusal(Natural):
    """Requests that were turned away, and their records."""


class Origin(Enum):
    """Where the rows of an append come from."""

    COMPUTED = member()
    LOCAL = member()
    EXTERNAL = member()


ALREADY_FOUND = error_code("ALREADY_FOUND", "the rows have a source already")
ROOM_LEFT = error_code("ROOM_LEFT", "there is an empty block for a request")
BEHIND_COMPUTED = error_code(
    "BEHIND_COMPUTED", "the rows before these were computed", FailureClass.POSITION
)
BEHIND_EXTERNAL = error_code(
    "BEHIND_EXTERNAL", "the rows before these were fetched", FailureClass.POSITION
)
BEYOND_PROMPT = error_code(
    "BEYOND_PROMPT", "rows of outputs are never found", FailureClass.FRONTIER
)

observation = Module(
    "observation",
    "What is counted, recorded and labelled.",
    uses=(handles, prefix, append, lifecycle),
)

prompt = observation.variable(
    "prompt", Handle, to=Length, init=0, meaning="tokens with which the request came"
)
cached = observation.variable(
    "cached", Handle, to=Length, init=0, meaning="leading rows that were found, not computed"
)
external = observation.variable(
    "external", Handle, to=Length, init=0, meaning="the last of these, which were fetched"
)
origin = observation.variable(
    "origin", Txn, to=Origin, init=Origin.COMPUTED, meaning="where the rows of the append come from"
)
total = observation.variable(
    "total", Handle, to=Tally, init=0, meaning="counter of rows, over all requests of the handle"
)
work = observation.variable(
    "work", Handle, to=Tally, init=0, meaning="rows counted for the request that has not ended"
)
recorded = observation.variable(
    "recorded", Handle, to=Tally, init=0, meaning="sum of the rows in terminal records"
)
records = observation.variable(
    "records", Handle, to=Tally, init=0, meaning="terminal records written"
)
turned_away = observation.variable(
    "turned_away", to=Refusal, init=0, meaning="counter of requests that were turned away"
)
refusals = observation.variable(
    "refusals", to=Refusal, init=0, meaning="terminal records of requests that were turned away"
)
running = observation.variable(
    "running", Handle, to=Bool, init=False, meaning="share of the gauge of running requests"
)
held_rows = observation.variable(
    "held_rows", Handle, to=Length, init=0, meaning="share of the gauge of rows in use"
)
known = observation.variable(
    "known", Name, to=Bool, init=ANY, meaning="the name is one of those listed at the start"
)
arrived = observation.variable(
    "arrived", Name, to=Bool, init=False, meaning="a request of this name has come"
)
series = observation.variable(
    "series", Name, to=Bool, init=False, meaning="requests are counted under this name"
)
other = observation.variable(
    "other", to=Bool, init=False, meaning="requests are counted under no name of their own"
)


def count_arrival(step: Step, m: Expr) -> None:
    """A request is counted under its name if that is known, and as other if not."""
    step.assign(arrived[m], True)
    step.assign(series[m], where(known[m], True, series[m]))
    step.assign(other[()], where(known[m], other[()], True))


def write_record(step: Step, h: Expr) -> None:
    """The request has ended: its terminal record is written, with all that was counted for it."""
    step.assign(records[h], records[h] + 1)
    step.assign(recorded[h], recorded[h] + work[h])
    step.assign(work[h], 0)
    step.assign(running[h], False)


@observation.extend(allocate)
def observe_arrival(step: Step, h: Handle, m: Name, q: Length) -> None:
    """A request arrives with a name and a prompt of q tokens."""
    step.require(q >= 1, EMPTY_PROMPT)
    step.require(q <= context, PROMPT_TOO_LONG)
    step.assign(prompt[h], q)
    step.assign(running[h], True)
    count_arrival(step, m)


@observation.action
def turn_away(step: Step, m: Name) -> None:
    """A request is refused before it has a handle, for want of room: it is counted, and has its record."""
    step.require(forall(Block, lambda b: filled[b]), ROOM_LEFT)
    step.assign(turned_away[()], turned_away[()] + 1)
    step.assign(refusals[()], refusals[()] + 1)
    count_arrival(step, m)


@observation.observe(fork)
def observe_children(step: Step, p: Handle, children: Map[Handle, Bool], n: Length) -> None:
    """What a child gets of its parent was found, and belongs to its prompt."""
    for c in step.every(Handle):
        given = where(n <= prompt[p], prompt[p], n)
        step.assign(prompt[c], where(children[c], given, prompt[c]))
        step.assign(cached[c], where(children[c], n, cached[c]))
        step.assign(running[c], where(children[c], True, running[c]))
        step.assign(held_rows[c], where(children[c], n, held_rows[c]))


@observation.observe(begin)
def take_rows_as_computed(step: Step, x: Txn) -> None:
    """Rows are computed unless they are found."""
    step.assign(origin[x], Origin.COMPUTED)


@observation.action
def find(step: Step, x: Txn) -> None:
    """The rows of an append are in the local cache: a hit, which counts once it is published."""
    h = the(target[x])
    step.require(state[x] == TxnState.OPEN, TXN_CLOSED)
    step.require(origin[x] == Origin.COMPUTED, ALREADY_FOUND)
    step.require(start[x] == cached[h], BEHIND_COMPUTED)
    step.require(external[h] == 0, BEHIND_EXTERNAL)
    step.require(start[x] + count[x] <= prompt[h], BEYOND_PROMPT)
    step.assign(origin[x], Origin.LOCAL)


@observation.action
def fetch(step: Step, x: Txn) -> None:
    """The rows of an append are to be loaded from an external cache, which may fail."""
    h = the(target[x])
    step.require(state[x] == TxnState.OPEN, TXN_CLOSED)
    step.require(origin[x] == Origin.COMPUTED, ALREADY_FOUND)
    step.require(start[x] == cached[h], BEHIND_COMPUTED)
    step.require(start[x] + count[x] <= prompt[h], BEYOND_PROMPT)
    step.assign(origin[x], Origin.EXTERNAL)


@observation.observe(publish)
def observe_publication(step: Step, x: Txn) -> None:
    """Rows are counted when they are published, and as found if they were."""
    h = the(target[x])
    step.assign(total[h], total[h] + count[x])
    step.assign(work[h], work[h] + count[x])
    step.assign(cached[h], where(origin[x] == Origin.COMPUTED, cached[h], cached[h] + count[x]))
    fetched = external[h] + count[x]
    step.assign(external[h], where(origin[x] == Origin.EXTERNAL, fetched, external[h]))
    step.assign(held_rows[h], start[x] + count[x])


@observation.observe(truncate)
def observe_truncation(step: Step, h: Handle, n: Length) -> None:
    """Of what was found the request keeps what is among its rows; no counter goes back."""
    local = cached[h] - external[h]
    step.assign(cached[h], where(n <= cached[h], n, cached[h]))
    step.assign(external[h], where(n <= cached[h], where(n <= local, 0, n - local), external[h]))
    step.assign(held_rows[h], n)


@observation.observe(finish)
def observe_finish(step: Step, h: Handle) -> None:
    """A request that finishes gets its terminal record."""
    write_record(step, h)


@observation.observe(cancel_request)
def observe_cancel(step: Step, h: Handle) -> None:
    """A request that is cancelled gets its terminal record like any other."""
    write_record(step, h)


@observation.observe(release)
def observe_release(step: Step, h: Handle) -> None:
    """Nothing is held by the request any more; counters and records stay."""
    step.assign(prompt[h], 0)
    step.assign(cached[h], 0)
    step.assign(external[h], 0)
    step.assign(held_rows[h], 0)


system = System.of(
    "observation", "The core, and what is counted beside it.", *core.system.modules, observation
)


@limit(allocate)
def allocates_below_the_last_record(h: Handle) -> Expr:
    """The end of a request needs one record more."""
    return records[h] < Tally.top


@limit(fork)
def forks_below_the_last_record(children: Map[Handle, Bool]) -> Expr:
    """The end of a child needs one record more."""
    return forall(Handle, lambda c: implies(children[c], records[c] < Tally.top))


@limit(begin)
def begins_below_the_last_count(h: Handle, n: Length) -> Expr:
    """Publication needs the counter to go up by all rows of the append."""
    return total[h] + n <= Tally.top


@limit(turn_away)
def turns_away_below_the_last_refusal() -> Expr:
    """A request that is turned away needs one record more."""
    return turned_away[()] < Refusal.top


LIMITS = (
    turns_away_below_the_last_refusal,
    allocates_below_the_last_record,
    forks_below_the_last_record,
    begins_below_the_last_count,
)


def make_instance(
    name: str,
    doc: str,
    *,
    handles: int = 1,
    txns: int = 1,
    longest: int = 1,
    versions: int = 1,
    generations: int = 1,
    names: int = 1,
    refused: int = 0,
    expected: Counts | None = None,
) -> Instance:
    """An instance of one layer and one block, without a batch.

    refused: requests that may be turned away.
    """
    made = core.make_instance(
        name,
        doc,
        of=system,
        handles=handles,
        txns=txns,
        layers=1,
        longest=longest,
        versions=versions,
        generations=generations,
        more={
            Name: names,
            Tally: 2 * longest * versions * generations + 1,
            Refusal: refused,
        },
        expected=expected,
    )
    return attrs.evolve(made, limits=(*made.limits, *LIMITS))


HITS = make_instance(
    "HITS",
    "one request of up to two rows, one append, one name",
    longest=2,
    versions=2,
    expected=Counts(5_084, 21_728, 18, 60),
)
REQUESTS = make_instance(
    "REQUESTS",
    "two requests of one handle, one append",
    generations=2,
    expected=Counts(1_928, 7_618, 21, 36),
)
SHARED = make_instance(
    "SHARED",
    "two requests and their forks, one append",
    handles=2,
    expected=Counts(31_802, 155_420, 21, 186),
)
NAMES = make_instance(
    "NAMES",
    "two requests of one handle and two that are turned away, two names",
    txns=0,
    generations=2,
    names=2,
    refused=2,
    expected=Counts(684, 2_272, 11, 72),
)

INSTANCES = (HITS, REQUESTS, SHARED, NAMES)
