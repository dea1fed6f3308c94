"""Linear: the search for a linearization, compiled once and used for every instance.

Wing and Gong's search: an operation may come next if no other that is left had returned before it was
invoked; it is taken if the specification gives the answer it was told. What was taken is, of each
client, a number of operations, since a client's operations do not overlap. Lowe's memo keeps these
numbers and the state, whole, so that no verdict rests on a hash.

Two cuts keep verdicts exact. An operation that may come next and gets its answer is taken at once, and
nothing else is tried, if it never changes anything or conflicts with nothing that could still come
before it: in any linearization from here it could be moved to the front. That it changes nothing in
this state is not enough. One that would get another answer, and conflicts with nothing that could still
come before it, ends this branch.

The search stops where an array is full or its budget is spent, and goes on when it is called again.
"""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic

from kvspec.models.explicit.stepper import READ

FOUND, NONE, PAUSED, MEMO_FULL, CHOICES_FULL = 1, 2, 3, 4, 5
NEVER: Final = (1 << 62) - 1
"""The return of an operation whose answer never came."""
ANY_REFUSAL, ANY_ANSWER, NO_ANSWER = -1, -2, -3
"""What may be expected of an operation beside the number of its answer; NO_ANSWER is given by no step."""

DEPTH, TOP, USED, NODES, BEST, PHASE, CUT, DIRTY, LEFT = range(9)
CONTROL = 9
_ENTER, _TRY, _BACK = 0, 1, 2
_ONE = 0x9E3779B97F4A7C15 - (1 << 64)
_TWO = 0xD6E8FEB86659FD93 - (1 << 64)


@intrinsic
def call_step(
    _typing: Any, address: Any, st: Any, lo: Any, out: Any, hi: Any, ev: Any, at: Any, variant: Any
) -> Any:
    """Call the step whose code is at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        kinds = [word.as_pointer() if i in (0, 2, 4) else word for i in range(7)]
        function = builder.inttoptr(args[0], ir.FunctionType(word, kinds).as_pointer())
        given = []
        for place in range(1, 8):
            value = args[place]
            if place in (1, 3, 5):
                value = context.make_array(signature.args[place])(context, builder, value).data
            given.append(value)
        return builder.call(function, given)

    return types.int64(address, st, lo, out, hi, ev, at, variant), generate


@numba.njit(cache=True, nogil=True)
def horizons(
    first: Any, invoked: Any, returned: Any, kinds: Any, conflicts: Any, many: int, horizon: Any
) -> None:
    """For each operation and client: how many of the client's are taken before the operation is free.

    Those that are left then do not conflict with it or cannot come before it.
    """
    clients = first.shape[0] - 1
    for own in range(clients):
        for other in range(clients):
            after = first[other]
            for op in range(first[own], first[own + 1]):
                while after < first[other + 1] and invoked[after] <= returned[op]:
                    after += 1
                place = after - 1
                while (
                    place >= first[other]
                    and returned[place] >= invoked[op]
                    and conflicts[kinds[op] * many + kinds[place]] == 0
                ):
                    place -= 1
                horizon[op * clients + other] = place + 1 - first[other]


@numba.njit(cache=True, nogil=True)
def liveness(
    first: Any, returned: Any, kinds: Any, read: Any, put: Any, words: int, live: Any
) -> None:
    """The bits of the state that what is left of each client may read before it certainly puts them.

    For each client one row for each number of operations taken. read, put: such bits of each class.
    """
    for client in range(first.shape[0] - 1):
        end = first[client + 1] + client
        for word in range(words):
            live[end * words + word] = 0
        for op in range(first[client + 1] - 1, first[client] - 1, -1):
            here = (op + client) * words
            for word in range(words):
                bits = live[here + words + word]
                if returned[op] != NEVER:
                    bits &= ~put[kinds[op] * words + word]
                live[here + word] = bits | read[kinds[op] * words + word]


@numba.njit(cache=True, nogil=True)
def components(kinds: Any, conflicts: Any, many: int, labels: Any) -> int:
    """Label the classes that occur, equally if they conflict, directly or through others.

    Gives the number of labels. Label 0 is of all that conflict with nothing; what does not occur has -1.
    """
    labels[:] = -1
    present = np.empty(many, np.int64)
    count = 0
    for op in range(kinds.shape[0]):
        kind = kinds[op]
        if labels[kind] == -1:
            labels[kind] = 0
            present[count] = kind
            count += 1
    waiting = np.empty(many, np.int64)
    label = 0
    for place in range(count):
        if labels[present[place]] != 0:
            continue
        waiting[0] = present[place]
        size = 1
        alone = True
        while size > 0:
            size -= 1
            kind = waiting[size]
            for other in range(count):
                if conflicts[kind * many + present[other]] != 0:
                    if alone:
                        alone = False
                        label += 1
                        labels[present[place]] = label
                    if labels[present[other]] == 0:
                        labels[present[other]] = label
                        waiting[size] = present[other]
                        size += 1
    return label + 1


@numba.njit(cache=True, nogil=True)
def rehash(slots: Any, hashes: Any, used: int) -> None:
    """Fill an empty table with the entries made so far."""
    mask = slots.shape[0] - 1
    for entry in range(used):
        slot = hashes[entry] & mask
        while slots[slot] != 0:
            slot = (slot + 1) & mask
        slots[slot] = entry + 1


@numba.njit(nogil=True, inline="always")
def _free(op: int, own: int, taken: Any, horizon: Any, clients: int) -> bool:
    for other in range(clients):
        if other != own and taken[other] < horizon[op * clients + other]:
            return False
    return True


@numba.njit(cache=True, nogil=True)
def _outcome(
    address: int,
    variant: int,
    words: int,
    width: int,
    op: int,
    depth: int,
    rows: Any,
    expected: Any,
    reads: Any,
    states: Any,
) -> int:
    """0: another answer; 1: its answer, and the state changes; 2: its answer alone; 3: cut."""
    here, then = depth * words, (depth + 1) * words
    if rows[op * width] == READ:
        for cell in range(rows[op * width + 1], rows[op * width + 2]):
            word = states[here + reads[4 * cell]]
            if ((word >> reads[4 * cell + 1]) & reads[4 * cell + 2]) != reads[4 * cell + 3]:
                return 0
        for word in range(words):
            states[then + word] = states[here + word]
        return 2
    found: Any = call_step(address, states, here, states, then, rows, op * width, variant)  # type: ignore[call-arg]
    wanted = expected[op]
    cut = found < 0
    if cut:
        found = -1 - found
    if not (wanted in (found, ANY_ANSWER) or (wanted == ANY_REFUSAL and found > 0)):
        return 0
    if cut:
        return 3
    for word in range(words):
        if states[then + word] != states[here + word]:
            return 1
    return 2


@numba.njit(cache=True, nogil=True)
def _remember(
    words: int,
    here: int,
    states: Any,
    first: Any,
    taken: Any,
    live: Any,
    counts: Any,
    slots: Any,
    hashes: Any,
    memo: Any,
    used: int,
) -> int:
    """1 if the memo has this configuration, 0 if it is put in now, 2 if there is no room for it.

    What no operation that is left may read of the state is left out.
    """
    more = counts.shape[0]
    if used >= hashes.shape[0]:
        return 2
    size = more + words
    new = used * size
    for word in range(more):
        memo[new + word] = counts[word]
    for word in range(words):
        memo[new + more + word] = 0
    for client in range(taken.shape[0]):
        at = (first[client] + taken[client] + client) * words
        for word in range(words):
            memo[new + more + word] |= live[at + word]
    for word in range(words):
        memo[new + more + word] &= states[here + word]
    key = 0
    for word in range(size):
        key = (key ^ memo[new + word]) * _ONE
        key ^= key >> 29
    key = (key ^ (key >> 32)) * _TWO
    key ^= key >> 31
    mask = slots.shape[0] - 1
    slot = key & mask
    while slots[slot] != 0:
        entry = slots[slot] - 1
        if hashes[entry] == key:
            same = True
            for word in range(size):
                if memo[entry * size + word] != memo[new + word]:
                    same = False
                    break
            if same:
                return 1
        slot = (slot + 1) & mask
    slots[slot] = used + 1
    hashes[used] = key
    return 0


@numba.njit(cache=True, nogil=True)
def _look(
    address: int,
    variant: int,
    words: int,
    width: int,
    first: Any,
    rows: Any,
    expected: Any,
    invoked: Any,
    returned: Any,
    reads: Any,
    quiet: Any,
    horizon: Any,
    prune: int,
    depth: int,
    top: int,
    states: Any,
    choices: Any,
    taken: Any,
    control: Any,
) -> int:
    """Write who may come next from `top` on, soonest return first, and give their number.

    It is -1 - client if one is taken at once; the state after it is written then. No one: a dead end.
    """
    clients = first.shape[0] - 1
    soonest = NEVER
    for client in range(clients):
        op = first[client] + taken[client]
        if op < first[client + 1] and returned[op] < soonest:
            soonest = returned[op]
    many = 0
    for client in range(clients):
        op = first[client] + taken[client]
        if op >= first[client + 1] or invoked[op] > soonest:
            continue
        got = _outcome(address, variant, words, width, op, depth, rows, expected, reads, states)
        if got == 3:
            control[CUT] = 1
            continue
        if returned[op] == NEVER:
            if got != 1 or _free(op, client, taken, horizon, clients):
                continue  # no one could tell that it took effect
        elif got == 0:
            if prune and _free(op, client, taken, horizon, clients):
                return 0
            continue
        elif (got == 2 and quiet[op] != 0) or _free(op, client, taken, horizon, clients):
            return -1 - client
        place = top + many
        while (
            place > top
            and returned[first[choices[place - 1]] + taken[choices[place - 1]]] > returned[op]
        ):
            choices[place] = choices[place - 1]
            place -= 1
        choices[place] = client
        many += 1
    return many


@numba.njit(cache=True, nogil=True)
def search(  # noqa: PLR0915  # one loop over its own variables, which compiled code keeps in registers
    address: int,
    variant: int,
    words: int,
    width: int,
    first: Any,
    rows: Any,
    expected: Any,
    invoked: Any,
    returned: Any,
    reads: Any,
    quiet: Any,
    horizon: Any,
    live: Any,
    prune: int,
    budget: int,
    control: Any,
    states: Any,
    chosen: Any,
    low: Any,
    high: Any,
    tried: Any,
    choices: Any,
    taken: Any,
    counts: Any,
    count_word: Any,
    count_one: Any,
    slots: Any,
    hashes: Any,
    memo: Any,
    best: Any,
) -> int:
    """Go on with a search; FOUND, NONE, or why it stopped. Operations stand client by client.

    first: where each client's begin. states: the words of the state at each depth. chosen: the client
    taken there; low, high, tried: its alternatives among `choices`. best: the longest sequence so far.
    """
    clients = first.shape[0] - 1
    depth, top, phase = control[DEPTH], control[TOP], control[PHASE]
    nodes, used, left = control[NODES], control[USED], control[LEFT]
    stop = nodes + budget
    status = 0
    while status == 0:
        if phase == _ENTER:
            if left == 0:
                status = FOUND
                break
            if nodes >= stop:
                status = PAUSED
                break
            if top + clients > choices.shape[0]:
                status = CHOICES_FULL
                break
            nodes += 1
            many = _look(
                address, variant, words, width, first, rows, expected, invoked, returned, reads, quiet,
                horizon, prune, depth, top, states, choices, taken, control,
            )  # fmt: skip
            low[depth] = high[depth] = tried[depth] = top
            if many < 0:
                client = -1 - many
                op = first[client] + taken[client]
                chosen[depth] = client
                taken[client] += 1
                counts[count_word[client]] += count_one[client]
                left -= returned[op] != NEVER
                depth += 1
                control[DIRTY] = 1
                continue
            if many > 1:
                known = _remember(
                    words,
                    depth * words,
                    states,
                    first,
                    taken,
                    live,
                    counts,
                    slots,
                    hashes,
                    memo,
                    used,
                )
                if known == 2:
                    status = MEMO_FULL
                    break
                if known == 0:
                    used += 1
                else:
                    many = 0
            high[depth] = top + many
            top += many
            phase = _TRY
        elif phase == _TRY:
            if tried[depth] == high[depth]:
                phase = _BACK
                continue
            client = choices[tried[depth]]
            tried[depth] += 1
            op = first[client] + taken[client]
            _outcome(address, variant, words, width, op, depth, rows, expected, reads, states)
            chosen[depth] = client
            taken[client] += 1
            counts[count_word[client]] += count_one[client]
            left -= returned[op] != NEVER
            depth += 1
            control[DIRTY] = 1
            phase = _ENTER
        else:
            if control[DIRTY] and depth > control[BEST]:
                control[BEST] = depth
                for place in range(depth):
                    best[place] = chosen[place]
            control[DIRTY] = 0
            top = low[depth]
            if depth == 0:
                status = NONE
                break
            depth -= 1
            client = chosen[depth]
            taken[client] -= 1
            counts[count_word[client]] -= count_one[client]
            left += returned[first[client] + taken[client]] != NEVER
            phase = _TRY
    # A dead end may have been as long as what was found: it took what was never answered.
    if status == FOUND or (status == PAUSED and depth > control[BEST]):
        control[BEST] = depth
        for place in range(depth):
            best[place] = chosen[place]
    control[DEPTH], control[TOP], control[PHASE] = depth, top, phase
    control[NODES], control[USED], control[LEFT] = nodes, used, left
    return status
