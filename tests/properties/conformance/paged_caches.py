"""Small paged caches in plain Python: blocks of two rows, shared by a fork until one of the two writes.

`PagedAdapter` keeps all that it offers; the others share blocks in a way that is wrong. `damage()` holds what
each request reads against what was appended to it, which the adapter keeps beside the cache.
"""

from typing import ClassVar

from kvspec.models.adapter import Adapter, RefusedByCacheError
from kvspec.models.backend import Damage

BLOCK = 2


class Pool:
    """Blocks with the number of tables in which each stands; a freed block is the next to be given out."""

    def __init__(self):
        self.rows, self.users, self.freed = [], [], []

    def take(self):
        """A block for one table."""
        if not self.freed:
            self.freed.append(len(self.rows))
            self.rows.append([None] * BLOCK)
            self.users.append(0)
        block = self.freed.pop()
        self.users[block] = 1
        return block

    def give_up(self, block):
        """One table less; the last one frees the block."""
        self.users[block] -= 1
        if self.users[block] == 0:
            self.freed.append(block)


class PagedRequest:
    """A table of blocks and a length."""

    def __init__(self, pool, table=(), length=0):
        self.pool, self.table, self.length = pool, list(table), length

    def append(self, row):
        """Write a row behind the last, into a block of its own."""
        place = self.length % BLOCK
        if place == 0:
            self.table.append(self.pool.take())
        else:
            self.unshare()
        self.pool.rows[self.table[-1]][place] = row
        self.length += 1

    def unshare(self):
        """Copy the last block, if it stands in another table as well."""
        shared = self.table[-1]
        if self.pool.users[shared] > 1:
            self.table[-1] = self.pool.take()
            self.pool.rows[self.table[-1]][:] = self.pool.rows[shared]
            self.pool.give_up(shared)

    def fork(self, length):
        """A request with the first rows, in the same blocks."""
        table = self.table[: -(-length // BLOCK)]
        for block in table:
            self.pool.users[block] += 1
        return type(self)(self.pool, table, length)

    def crop(self, length):
        """Keep the first rows."""
        while len(self.table) > -(-length // BLOCK):
            self.pool.give_up(self.table.pop())
        self.length = length

    def read(self):
        """The rows."""
        return [self.pool.rows[self.table[i // BLOCK]][i % BLOCK] for i in range(self.length)]


class WritesShared(PagedRequest):
    """Writes into the last block whoever else reads it: there is no copy on write."""

    def unshare(self):
        """Forget to."""


class CopiesForTheChild(PagedRequest):
    """Copies on write in a child alone: the parent writes into blocks that it shares."""

    is_child = False

    def fork(self, length):
        """Mark the child."""
        child = super().fork(length)
        child.is_child = True
        return child

    def unshare(self):
        """Only in a child."""
        if self.is_child:
            super().unshare()


class CountsNoFork(PagedRequest):
    """A fork does not count as a user of the blocks: the parent's release frees them."""

    def fork(self, length):
        """Take the blocks without a word to the pool."""
        return type(self)(self.pool, self.table[: -(-length // BLOCK)], length)


def need(is_so, code):
    """Refuse, unless it is so."""
    if not is_so:
        raise RefusedByCacheError(code)


class PagedAdapter(Adapter):
    """Requests by handle, and appends whose rows wait until they are published."""

    name = "paged"
    kind = PagedRequest
    not_offered: ClassVar = {
        **dict.fromkeys(["enter", "leave", "reorder"], "no batch"),
        **dict.fromkeys(["retry", "forget"], "an append leaves no record"),
        "evict": "the last release frees a block",
        "cancel_request": "requests are finished",
    }

    def reset(self, instance):
        """An empty pool."""
        self.layers = instance.sizes["Layer"]
        self.most, self.rewind = instance.constants["context"], instance.constants["rewind"]
        self.pool = Pool()
        handles = instance.sizes["Handle"]
        self.requests, self.told = [None] * handles, [[] for _ in range(handles)]
        self.versions, self.abis = [0] * handles, [None] * handles
        self.appends = [None] * instance.sizes["Txn"]
        self.ended, self.prompts, self.tokens = set(), set(), 0

    def observe(self):
        """Rows of each layer, which are written as one."""
        rows = tuple(r.length if r else 0 for r in self.requests for _ in range(self.layers))
        return {"k_rows": rows, "v_rows": rows}

    def can_try(self, action, values):
        """Names are the adapter's own: only free handles, new prompts and new appends are given out."""
        if action == "allocate":
            return self.requests[values["h"]] is None and values["b"] not in self.prompts
        if action == "begin":
            return self.appends[values["x"]] is None
        return action != "fork" or not any(
            is_child and self.requests[c] for c, is_child in enumerate(values["children"])
        )

    def allocate(self, h, b, a):
        """A request without rows."""
        self.prompts.add(b)
        self.requests[h], self.told[h] = self.kind(self.pool), []
        self.versions[h], self.abis[h] = 0, a

    def ready(self, h):
        """A request that is not over."""
        need(self.requests[h] is not None and h not in self.ended, "HANDLE_TERMINAL")
        return self.requests[h]

    def fork(self, p, children, n):
        """Give the first rows to each child."""
        parent = self.ready(p)
        need(any(children), "NO_CHILD")
        need(n <= parent.length, "BEYOND_COMMITTED")
        for c in [c for c, is_child in enumerate(children) if is_child]:
            self.requests[c], self.told[c] = parent.fork(n), self.told[p][:n]
            self.versions[c], self.abis[c] = 0, self.abis[p]

    def begin(self, x, h, k, a, p, n):
        """Note what the append begins with."""
        request = self.ready(h)
        need(a == self.abis[h], "ABI_MISMATCH")
        need(p == request.length, "POSITION_MISMATCH")
        need(n >= 1, "EMPTY_APPEND")
        need(p + n <= self.most, "CONTEXT_FULL")
        ends = [[p] * self.layers, [p] * self.layers]
        base = (request, self.versions[h])
        self.appends[x] = {"h": h, "base": base, "end": p + n, "n": n, "ends": ends, "is": "OPEN"}

    def stage_k(self, x, l, p):
        """Count a K row."""
        self.stage(x, 0, l, p)

    def stage_v(self, x, l, p):
        """Count a V row."""
        self.stage(x, 1, l, p)

    def stage(self, x, part, l, p):
        """Count a row."""
        append = self.appends[x]
        need(append and append["is"] == "OPEN", "TXN_CLOSED")
        need(p == append["ends"][part][l], "POSITION_MISMATCH")
        need(p < append["end"], "INTERVAL_FULL")
        append["ends"][part][l] += 1

    def prepare(self, x):
        """All rows are there."""
        append = self.appends[x]
        need(append and append["is"] == "OPEN", "TXN_CLOSED")
        for ends, code in zip(append["ends"], ("K_INCOMPLETE", "V_INCOMPLETE"), strict=True):
            need(set(ends) == {append["end"]}, code)
        append["is"] = "PREPARED"

    def publish(self, x):
        """Append the rows, if the request is as it was."""
        append = self.appends[x]
        need(append and append["is"] == "PREPARED", "NOT_PREPARED")
        append["is"], h, (request, version) = "OVER", append["h"], append["base"]
        need(self.requests[h] is request, "STALE_GENERATION")
        need(self.versions[h] == version, "STALE_SNAPSHOT")
        self.ready(h)
        for _ in range(append["n"]):
            self.tokens += 1
            request.append(self.tokens)
            self.told[h].append(self.tokens)
        self.versions[h] += 1

    def cancel_txn(self, x):
        """Forget the rows."""
        append = self.appends[x]
        need(append and append["is"] in ("OPEN", "PREPARED"), "TXN_CLOSED")
        append["is"] = "OVER"

    def truncate(self, h, n):
        """Keep the first rows."""
        request = self.ready(h)
        need(n <= request.length, "BEYOND_COMMITTED")
        need(request.length <= n + self.rewind, "CANNOT_REWIND")
        request.crop(n)
        del self.told[h][n:]
        self.versions[h] += 1

    def finish(self, h):
        """No more appends."""
        self.ready(h)
        self.ended.add(h)

    def release(self, h):
        """Give up the rows."""
        need(h in self.ended, "NOT_TERMINAL")
        self.requests[h].crop(0)
        self.requests[h] = None
        self.ended.discard(h)

    def damage(self):
        """Rows that are not those that were appended."""
        found = []
        for h, request in enumerate(self.requests):
            read, told = (request.read(), self.told[h]) if request else ([], [])
            wrong = sum(r != t for r, t in zip(read, told, strict=True))
            if wrong:
                found.append(Damage("rows", f"handle{h}", wrong, f"reads {read}, was told {told}"))
        return found

    def describe(self):
        """Tables, and how many stand for each block."""
        tables = [f"handle{h}: {r.table}" for h, r in enumerate(self.requests) if r]
        return f"{', '.join(tables)}; users {self.pool.users}"


class NoCopyOnWrite(PagedAdapter):
    """Shared blocks are written."""

    name = "paged, no copy on write"
    kind = WritesShared


class HalfCopyOnWrite(PagedAdapter):
    """Shared blocks are written by a parent."""

    name = "paged, copy on write for children"
    kind = CopiesForTheChild


class NoCountOfForks(PagedAdapter):
    """Shared blocks are freed."""

    name = "paged, forks are not counted"
    kind = CountsNoFork


class Unmeasured(NoCopyOnWrite):
    """Shared blocks are written, and nobody looks."""

    damage = Adapter.damage
