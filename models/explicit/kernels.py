"""Kernels: the visited set, an open-addressing table of packed states probed linearly.

A state's home is given by the top bits of its mixed hash, so doubling the table keeps the order of
homes and is done in place, from the end down. The slot 0 is empty: no packed state is 0.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

_ONE = 0x9E3779B97F4A7C15 - (1 << 64)
_TWO = 0xD6E8FEB86659FD93 - (1 << 64)
AHEAD = 32


@intrinsic
def prefetch(_typing_context: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of array[index] ahead of its use."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        struct = context.make_array(kind)(context, builder, args[0])
        pointer: Any = cgutils.get_item_pointer(context, builder, kind, struct, [args[1]])  # type: ignore[no-untyped-call]
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        function: Any = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, word, word, word]),
            "llvm.prefetch.p0",
        )
        flags = [ir.Constant(word, value) for value in (1, 3, 1)]
        builder.call(function, [builder.bitcast(pointer, byte), *flags])
        return context.get_dummy_value()

    return types.void(array, index), generate


@numba.njit(cache=True, nogil=True)
def home(key: int, shift: int, mask: int) -> int:
    """The slot where the search for a one-word state begins."""
    key = (key ^ (key >> 29)) * _ONE
    key = (key ^ (key >> 32)) * _TWO
    return (key >> shift) & mask


@numba.njit(cache=True, nogil=True)
def insert(
    table: Any, shift: int, keys: Any, start: int, stop: int, out: Any, used: int, room: int
) -> tuple[int, int]:
    """Insert keys[start:stop]; new ones are written to `out` from `used` on, at most up to `room`.

    Gives the first key that was not looked at, and the new `used`. Homes are computed and asked for
    some keys ahead, so that many cache lines are under way at a time.
    """
    mask = table.shape[0] - 1
    homes = np.empty(AHEAD, np.int64)
    for place in range(start, min(stop, start + AHEAD)):
        slot = home(keys[place], shift, mask)
        homes[place & (AHEAD - 1)] = slot
        prefetch(table, slot)  # type: ignore[call-arg]
    for place in range(start, stop):
        slot = homes[place & (AHEAD - 1)]
        if place + AHEAD < stop:
            later = home(keys[place + AHEAD], shift, mask)
            homes[place & (AHEAD - 1)] = later
            prefetch(table, later)  # type: ignore[call-arg]
        key = keys[place]
        while True:
            found = table[slot]
            if found == key:
                break
            if found == 0:
                if used >= room:
                    return place, used
                table[slot] = key
                out[used] = key
                used += 1
                break
            slot = (slot + 1) & mask
    return stop, used


@numba.njit(cache=True, nogil=True)
def grow(table: Any, shift: int) -> int:
    """Rearrange a table whose upper half was just added; gives how many states had to wait.

    `shift` is that of the doubled table. Entries go above all entries not yet moved, except for a few
    near the beginning, which wait until the rest is done.
    """
    size = table.shape[0]
    mask = size - 1
    waiting = np.empty(16, np.int64)
    count = 0
    for place in range(size // 2 - 1, -1, -1):
        key = table[place]
        if key == 0:
            continue
        table[place] = 0
        slot = home(key, shift, mask)
        while slot > place and table[slot] != 0:
            slot = (slot + 1) & mask
        if slot > place:
            table[slot] = key
            continue
        if count == waiting.shape[0]:
            more = np.empty(2 * count, np.int64)
            more[:count] = waiting
            waiting = more
        waiting[count] = key
        count += 1
    for place in range(count):
        slot = home(waiting[place], shift, mask)
        while table[slot] != 0:
            slot = (slot + 1) & mask
        table[slot] = waiting[place]
    return count


@numba.njit(cache=True, nogil=True)
def home_wide(keys: Any, place: int, words: int, shift: int, mask: int) -> int:
    """The slot where the search for a state of several words begins."""
    key = 0
    for word in range(words):
        key = ((key ^ (key >> 32)) * _TWO) ^ keys[place * words + word]
        key = (key ^ (key >> 29)) * _ONE
    key = (key ^ (key >> 32)) * _TWO
    return (key >> shift) & mask


@numba.njit(cache=True, nogil=True)
def insert_wide(
    table: Any,
    words: int,
    shift: int,
    keys: Any,
    start: int,
    stop: int,
    out: Any,
    used: int,
    room: int,
) -> tuple[int, int]:
    """As `insert`, for states of several words; places count states."""
    mask = table.shape[0] // words - 1
    homes = np.empty(AHEAD, np.int64)
    for place in range(start, min(stop, start + AHEAD)):
        slot = home_wide(keys, place, words, shift, mask)
        homes[place & (AHEAD - 1)] = slot
        prefetch(table, slot * words)  # type: ignore[call-arg]
    for place in range(start, stop):
        slot = homes[place & (AHEAD - 1)]
        if place + AHEAD < stop:
            later = home_wide(keys, place + AHEAD, words, shift, mask)
            homes[place & (AHEAD - 1)] = later
            prefetch(table, later * words)  # type: ignore[call-arg]
        while True:
            if table[slot * words] == 0:
                if used >= room:
                    return place, used
                for word in range(words):
                    table[slot * words + word] = keys[place * words + word]
                    out[used * words + word] = keys[place * words + word]
                used += 1
                break
            equal = True
            for word in range(words):
                if table[slot * words + word] != keys[place * words + word]:
                    equal = False
                    break
            if equal:
                break
            slot = (slot + 1) & mask
    return stop, used


@numba.njit(cache=True, nogil=True)
def grow_wide(table: Any, words: int, shift: int) -> int:
    """As `grow`, for states of several words."""
    size = table.shape[0] // words
    mask = size - 1
    waiting = np.empty(16 * words, np.int64)
    count = 0
    for place in range(size // 2 - 1, -1, -1):
        if table[place * words] == 0:
            continue
        slot = home_wide(table, place, words, shift, mask)
        while slot > place and table[slot * words] != 0:
            slot = (slot + 1) & mask
        if slot > place:
            for word in range(words):
                table[slot * words + word] = table[place * words + word]
                table[place * words + word] = 0
            continue
        if (count + 1) * words > waiting.shape[0]:
            more = np.empty(2 * waiting.shape[0], np.int64)
            more[: waiting.shape[0]] = waiting
            waiting = more
        for word in range(words):
            waiting[count * words + word] = table[place * words + word]
            table[place * words + word] = 0
        count += 1
    for place in range(count):
        slot = home_wide(waiting, place, words, shift, mask)
        while table[slot * words] != 0:
            slot = (slot + 1) & mask
        for word in range(words):
            table[slot * words + word] = waiting[place * words + word]
    return count


@numba.njit(cache=True, nogil=True)
def index_states(states: Any, count: int, words: int, table: Any, shift: int) -> None:
    """Fill a table with the places (plus one) of states, at their homes."""
    mask = table.shape[0] - 1
    for place in range(count):
        slot = home_wide(states, place, words, shift, mask)
        while table[slot] != 0:
            slot = (slot + 1) & mask
        table[slot] = place + 1


@numba.njit(cache=True, nogil=True)
def find_states(
    states: Any, words: int, table: Any, shift: int, keys: Any, count: int, found: Any
) -> None:
    """The place of each key among the states indexed, or -1."""
    mask = table.shape[0] - 1
    for place in range(count):
        slot = home_wide(keys, place, words, shift, mask)
        found[place] = -1
        while table[slot] != 0:
            other = table[slot] - 1
            equal = True
            for word in range(words):
                if states[other * words + word] != keys[place * words + word]:
                    equal = False
                    break
            if equal:
                found[place] = other
                break
            slot = (slot + 1) & mask


@numba.njit(cache=True, nogil=True)
def partition(states: Any, count: int, words: int, parts: Any, sizes: Any) -> None:
    """Sort states by their owners into as many equal parts of `parts` as `sizes` has places.

    Empty slots are left out, so that a table can be partitioned as well.
    """
    owners = sizes.shape[0]
    room = parts.shape[0] // owners
    sizes[:] = 0
    if words == 1:
        for place in range(count):
            key = states[place]
            owner = (home(key, 16, 0x7FFF) * owners) >> 15
            parts[owner * room + sizes[owner]] = key
            sizes[owner] += key != 0
        return
    for place in range(count):
        if states[place * words] == 0:
            continue
        owner = (home_wide(states, place, words, 16, 0x7FFF) * owners) >> 15
        at = owner * room + sizes[owner] * words
        for word in range(words):
            parts[at + word] = states[place * words + word]
        sizes[owner] += 1
