"""Ownership of blocks: a released block is given away only when nobody reads or writes it any more.

A block of the core is a physical slot. Release gives up the claim of a request on it, and eviction makes
it reusable; here eviction waits for every access that is still outstanding. Three kinds of access are
modelled, each with what it takes to end it:

pass    the device reads and writes the block of its request. A release notes a fence, the last pass in
        flight by then, and the block waits until that pass has settled.
load    a peer writes the block from afar. A release leaves a hold while the load is outstanding, and the
        hold has one lifter: the completion, the peer's acknowledgement of the abort, or the end of the
        lease. A completion seen before the release leaves nothing to lift.
copy    a request whose block is shared takes an empty one, and the next pass copies the rows (copy on
        write). Until it is dispatched, the request has a source; from then on the pass has it, whatever
        becomes of the request, and the shared block waits behind a fence for it.

A request writes into a block that nobody else owns or copies from. The environment delays, repeats and
loses: a peer may be gone for good, its write may come late, its completion may come twice and is refused.

Left out: several blocks to a request, rows within a block, who asks for a block (see `pressure`), the
table that names the blocks (see `tables`). Assumed: when a lease ends, the peer has lost its right to write;
the device runs its passes in order.
"""

from __future__ import annotations

import attrs

from kvspec.spec import core
from kvspec.spec.failures import BLOCK_IN_USE, HANDLE_TERMINAL, FailureClass, error_code
from kvspec.spec.handles import Generation, Handle, Phase, generation, handles, phase
from kvspec.spec.language import (
    TRUE,
    Bool,
    Counts,
    Enum,
    Expr,
    Instance,
    Module,
    Open,
    Option,
    Step,
    System,
    exists,
    forall,
    implies,
    is_some,
    member,
    none,
    one_of,
    the,
    where,
)
from kvspec.spec.lifecycle import fork, lifecycle, release
from kvspec.spec.passes import (
    Pass,
    Tick,
    dispatch,
    dispatches_below_the_last_tick,
    has_passed,
    in_flight,
    one_less,
    passes,
    settle,
    unsettled,
)
from kvspec.spec.prefix import Block, evict, filled, owner, prefix


class Load(Open):
    """A record of a transfer by which a peer writes into a block."""


class LoadState(Enum):
    """How far a load has come, as far as bytes and their completion go."""

    IDLE = member()
    LOADING = member()
    LANDED = member()
    SEEN = member()


LOAD_IN_USE = error_code("LOAD_IN_USE", "the record belongs to another load")
PEER_GONE = error_code("PEER_GONE", "the peer is gone and does nothing any more")
NOT_LOADING = error_code("NOT_LOADING", "the load has no right to write: it landed or ended")
NOT_LANDED = error_code("NOT_LANDED", "no bytes landed whose completion is still to come")
NOT_HELD = error_code("NOT_HELD", "no released block is held for the load")
NOT_OUTSTANDING = error_code("NOT_OUTSTANDING", "the load has ended: there is no lease to expire")
COPY_PENDING = error_code("COPY_PENDING", "the request has a copy to make before anything else")
NOT_OWNED = error_code("NOT_OWNED", "the request has no claim on the block", FailureClass.OWNERSHIP)
TAIL_SHARED = error_code(
    "TAIL_SHARED", "another request owns the block or copies from it", FailureClass.OWNERSHIP
)
TAIL_NOT_SHARED = error_code(
    "TAIL_NOT_SHARED", "the request has the block alone: no copy is needed", FailureClass.OWNERSHIP
)
WRITE_OUTSTANDING = error_code(
    "WRITE_OUTSTANDING", "a write into the block is outstanding", FailureClass.OWNERSHIP
)
BEHIND_FENCE = error_code(
    "BEHIND_FENCE", "a pass dispatched before the release is in flight", FailureClass.OWNERSHIP
)
HELD_FOR_WRITER = error_code(
    "HELD_FOR_WRITER", "a peer may still write into the block", FailureClass.OWNERSHIP
)
COPIED_FROM = error_code(
    "COPIED_FROM", "rows of the block are still to be copied", FailureClass.OWNERSHIP
)

ownership = Module(
    "ownership",
    "Outstanding reads and writes of blocks, fences, holds and copies.",
    uses=(handles, prefix, lifecycle, passes),
    writes=(filled, owner),
)

pass_handle = ownership.variable(
    "pass_handle", Pass, to=Option[Handle], init=none(Handle), meaning="handle that it runs for"
)
pass_generation = ownership.variable(
    "pass_generation", Pass, to=Generation, init=0, meaning="generation of the handle at dispatch"
)
pass_block = ownership.variable(
    "pass_block", Pass, to=Option[Block], init=none(Block), meaning="block that it reads and writes"
)
pass_source = ownership.variable(
    "pass_source",
    Pass,
    to=Option[Block],
    init=none(Block),
    meaning="block whose rows the pass copies into its own first",
)
pass_source_generation = ownership.variable(
    "pass_source_generation", Pass, to=Generation, init=0, meaning="generation that wanted the copy"
)
fence = ownership.variable(
    "fence", Block, to=Tick, init=0, meaning="pass that must settle before the block is reused"
)
load_state = ownership.variable(
    "load_state", Load, to=LoadState, init=LoadState.IDLE, meaning="how far the load has come"
)
load_handle = ownership.variable(
    "load_handle", Load, to=Option[Handle], init=none(Handle), meaning="handle that it loads for"
)
load_generation = ownership.variable(
    "load_generation", Load, to=Generation, init=0, meaning="generation of the handle at the start"
)
load_block = ownership.variable(
    "load_block", Load, to=Option[Block], init=none(Block), meaning="block that the peer writes"
)
hold = ownership.variable(
    "hold",
    Block,
    to=Bool,
    init=False,
    meaning="the block was released, and waits for the load into it",
)
peer_gone = ownership.variable(
    "peer_gone", to=Bool, init=False, meaning="the peer will never write or answer again"
)
source = ownership.variable(
    "source",
    Handle,
    to=Option[Block],
    init=none(Block),
    meaning="block whose rows the next pass of the handle copies first",
)
source_generation = ownership.variable(
    "source_generation", Handle, to=Generation, init=0, meaning="generation that wanted the copy"
)
CAPTURED_BY_PASS = (
    (pass_handle, none(Handle)),
    (pass_generation, 0),
    (pass_block, none(Block)),
    (pass_source, none(Block)),
    (pass_source_generation, 0),
)
CAPTURED_BY_LOAD = ((load_handle, none(Handle)), (load_generation, 0), (load_block, none(Block)))


def is_outstanding(x: Expr) -> Expr:
    """The peer has the right to write for the load, or its completion is still to come."""
    return one_of(load_state[x], LoadState.LOADING, LoadState.LANDED)


def is_passed_over(b: Expr) -> Expr:
    """A pass in flight reads and writes the block."""
    return exists(Pass, lambda p: in_flight[p] & (pass_block[p] == b))


def is_being_copied(b: Expr) -> Expr:
    """A pass in flight has rows of the block to copy."""
    return exists(Pass, lambda p: in_flight[p] & (pass_source[p] == b))


def is_loaded(b: Expr) -> Expr:
    """A load into the block is outstanding."""
    return exists(Load, lambda x: is_outstanding(x) & (load_block[x] == b))


def is_exclusive(b: Expr, h: Expr) -> Expr:
    """Nobody but the request of the handle owns the block or copies from it."""
    return forall(Handle, lambda g: implies(owner[b, g] | (source[g] == b), g == h))


def is_owned_by(b: Expr, h: Expr, g: Expr) -> Expr:
    """The handle owns the block, in generation g."""
    return owner[b, h] & (generation[h] == g)


def is_anothers(b: Expr, h: Expr, g: Expr) -> Expr:
    """Some owner of the block is another handle than h, or h in another generation than g."""
    return exists(Handle, lambda o: owner[b, o] & ~((o == h) & (generation[o] == g)))


def forget_load(step: Step, x: Expr, hit: Expr = TRUE) -> None:
    """Where `hit`, the record is free for another load."""
    for variable, blank in ((load_state, LoadState.IDLE), *CAPTURED_BY_LOAD):
        step.assign(variable[x], blank if hit is TRUE else where(hit, blank, variable[x]))


@ownership.extend(dispatch)
def run_a_request(step: Step, p: Pass, h: Handle, b: Block) -> None:
    """The pass reads and appends to the block of a ready request that has it to itself."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(owner[b, h], NOT_OWNED)
    step.require(is_exclusive(b, h), TAIL_SHARED)
    step.require(~is_loaded(b), WRITE_OUTSTANDING)
    step.assign(pass_handle[p], h)
    step.assign(pass_generation[p], generation[h])
    step.assign(pass_block[p], b)
    step.assign(pass_source[p], source[h])
    step.assign(pass_source_generation[p], source_generation[h])
    step.assign(source[h], none(Block))
    step.assign(source_generation[h], 0)
    for c in step.every(Block):
        step.assign(fence[c], where(source[h] == c, unsettled[()] + 1, fence[c]))


@ownership.observe(settle)
def write_the_block(step: Step, p: Pass) -> None:
    """The rows of the pass are in the block, behind those that it was to copy."""
    for variable, blank in CAPTURED_BY_PASS:
        step.assign(variable[p], blank)
    for b in step.every(Block):
        step.assign(fence[b], one_less(fence[b]))


@ownership.extend(fork)
def share_a_quiet_block(step: Step, p: Handle) -> None:
    """A fork shares a block that nobody is writing and whose own copy is made."""
    step.require(~is_some(source[p]), COPY_PENDING)
    step.require(
        forall(Block, lambda b: implies(owner[b, p], ~is_passed_over(b) & ~is_loaded(b))),
        WRITE_OUTSTANDING,
    )


@ownership.action
def copy(step: Step, h: Handle, b: Block, c: Block) -> None:
    """Take an empty block instead of a shared one; the next pass copies the rows (copy on write)."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(owner[b, h], NOT_OWNED)
    step.require(~is_exclusive(b, h), TAIL_NOT_SHARED)
    step.require(~filled[c], BLOCK_IN_USE)
    step.assign(source[h], b)
    step.assign(source_generation[h], generation[h])
    step.assign(filled[c], True)
    for a in step.every(Block):
        moved = where(a == c, owner[b, h], where(a == b, owner[c, h], owner[a, h]))
        step.assign(owner[a, h], moved)


@ownership.observe(release)
def leave_fences_and_holds(step: Step, h: Handle) -> None:
    """A release gives up the copy, and notes for whom the block has to wait."""
    step.assign(source[h], none(Block))
    step.assign(source_generation[h], 0)
    for b in step.every(Block):
        step.assign(fence[b], where(owner[b, h], unsettled[()], fence[b]))
        step.assign(hold[b], where(owner[b, h] & is_loaded(b), True, hold[b]))
    for x in step.every(Load):
        forget_load(step, x, (load_handle[x] == h) & (load_state[x] == LoadState.SEEN))


@ownership.extend(evict)
def reclaim_a_quiet_block(step: Step, b: Block) -> None:
    """A block is reusable when no pass, no peer and no copy reads or writes it any more."""
    step.require(has_passed(fence[b]), BEHIND_FENCE)
    step.require(~hold[b], HELD_FOR_WRITER)
    step.require(forall(Handle, lambda h: source[h] != b), COPIED_FROM)


@ownership.action
def load(step: Step, x: Load, h: Handle, b: Block) -> None:
    """Let the peer write into the block of a ready request that has it to itself."""
    step.require(load_state[x] == LoadState.IDLE, LOAD_IN_USE)
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(owner[b, h], NOT_OWNED)
    step.require(is_exclusive(b, h), TAIL_SHARED)
    step.require(~is_passed_over(b) & ~is_loaded(b), WRITE_OUTSTANDING)
    step.require(~is_being_copied(b), COPIED_FROM)
    step.assign(load_state[x], LoadState.LOADING)
    step.assign(load_handle[x], h)
    step.assign(load_generation[x], generation[h])
    step.assign(load_block[x], b)


@ownership.action
def land(step: Step, x: Load) -> None:
    """The peer's bytes arrive in the block, however late."""
    step.require(~peer_gone[()], PEER_GONE)
    step.require(load_state[x] == LoadState.LOADING, NOT_LOADING)
    step.assign(load_state[x], LoadState.LANDED)


@ownership.action
def complete(step: Step, x: Load) -> None:
    """The peer tells that all bytes are there: a hold is lifted, or the request has its rows."""
    step.require(~peer_gone[()], PEER_GONE)
    step.require(load_state[x] == LoadState.LANDED, NOT_LANDED)
    gone = hold[the(load_block[x])]
    step.assign(load_state[x], where(gone, LoadState.IDLE, LoadState.SEEN))
    for variable, blank in CAPTURED_BY_LOAD:
        step.assign(variable[x], where(gone, blank, variable[x]))
    step.assign(hold[the(load_block[x])], False)


@ownership.action
def acknowledge(step: Step, x: Load) -> None:
    """The peer tells that it writes no more for a request that is gone: the hold is lifted."""
    step.require(~peer_gone[()], PEER_GONE)
    step.require(is_outstanding(x) & hold[the(load_block[x])], NOT_HELD)
    forget_load(step, x)
    step.assign(hold[the(load_block[x])], False)


@ownership.action
def expire(step: Step, x: Load) -> None:
    """The lease of a load ends: the peer has no right to write, and nothing waits for it."""
    step.require(is_outstanding(x), NOT_OUTSTANDING)
    forget_load(step, x)
    step.assign(hold[the(load_block[x])], False)


@ownership.action
def lose_peer(step: Step) -> None:
    """The peer is gone: what it has not done by now it never does."""
    step.require(~peer_gone[()], PEER_GONE)
    step.assign(peer_gone[()], True)


system = System.of(
    "ownership",
    "The core, and who still reads and writes its blocks.",
    *core.system.modules,
    passes,
    ownership,
)


def make_instance(
    name: str,
    doc: str,
    *,
    handles: int = 2,
    blocks: int = 1,
    generations: int = 1,
    passes: int = 0,
    loads: int = 0,
    txns: int = 0,
    rows: int = 0,
    layers: int = 1,
    keys: int = 1,
    expected: Counts | None = None,
) -> Instance:
    """An instance with one row a request where there are appends, and else without lengths."""
    made = core.make_instance(
        name,
        doc,
        of=system,
        handles=handles,
        blocks=blocks,
        generations=generations,
        txns=txns,
        rows=rows,
        layers=layers,
        keys=keys,
        versions=min(txns, 1),
        longest=min(txns, 1),
        more={Pass: passes, Load: loads, Tick: passes},
        limits=(dispatches_below_the_last_tick,),
        expected=expected,
    )
    return made if txns else attrs.evolve(made, bounds={**made.bounds, "Length": 0})


RUN_AHEAD = make_instance(
    "RUN_AHEAD",
    "a request and its fork, or two requests, two blocks, and two passes in flight",
    blocks=2,
    passes=2,
    expected=Counts(5_954, 26_531, 12, 3),
)
REMOTE = make_instance(
    "REMOTE",
    "two handles that are used twice, one block, one pass and one load",
    generations=2,
    passes=1,
    loads=1,
    expected=Counts(1_920, 7_334, 18, 4),
)
PLACES = make_instance(
    "PLACES",
    "two requests, three blocks and one load",
    blocks=3,
    loads=1,
    expected=Counts(8_668, 41_592, 11, 3),
)
COPIED_ROWS = make_instance(
    "COPIED_ROWS",
    "a request and its fork, two blocks, one pass and one load",
    blocks=2,
    passes=1,
    loads=1,
    expected=Counts(6_114, 30_339, 14, 3),
)
BRANCHES = make_instance(
    "BRANCHES",
    "a request, its fork and those that follow, two blocks and one pass",
    blocks=2,
    generations=2,
    passes=1,
    expected=Counts(9_210, 41_099, 17, 4),
)
LIFE = make_instance(
    "LIFE",
    "one request with appends and a batch row, and one pass",
    handles=1,
    txns=1,
    rows=1,
    passes=1,
    expected=Counts(476, 2_464, 11, 3),
)

INSTANCES = (RUN_AHEAD, REMOTE, PLACES, COPIED_ROWS, BRANCHES, LIFE)
