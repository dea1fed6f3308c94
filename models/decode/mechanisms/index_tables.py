"""Tables of the prefix index over real pages: entries, requests, and the faults that can be switched on."""

from __future__ import annotations

from typing import Final

from attrs import define, field

from kvspec.models.decode.mechanisms.index_pages import Kind

FAULTS: Final = {
    "index_rows.drop-assignment.kept": "the index has no claim on what is published to it",
    "evict.drop-guard.STILL_INDEXED": "pages are freed that the index has a claim on",
    "give_up.drop-guard.STILL_READ": "an entry is given up while its page is read",
    "reload.drop-guard.STILL_READ": "a page is loaded anew while it is read",
    "reserve.drop-guard.STALE_TIER": "rows of a tier of replaced weights are loaded",
    "reload.drop-guard.STALE_TIER": "a repair loads rows of a tier of replaced weights",
    "fork.drop-guard.READS_CORRUPT": "children read what was found corrupt under their parent",
    "release.drop-assignment.reader": "a released request still counts as a reader",
    "match.drop-guard.NOT_COMPLETE": "entries are matched in any state",
    "match.drop-guard.OTHER_CONTENT": "entries of another content are matched",
    "match.drop-guard.ABI_MISMATCH": "entries of another ABI are matched",
    "match.drop-guard.STALE_MEMORY": "entries of dropped memory are matched",
    "match.drop-guard.STALE_WEIGHTS": "entries of replaced weights are matched",
    "sleep.drop-assignment.memory": "sleep leaves the epoch of memory as it is",
    "sleep.drop-guard.LOADS_UNDER_WAY": "sleep does not wait for loads",
    "sleep.drop-guard.REQUESTS_HELD": "sleep does not wait for requests",
}
"""Every fault that the cache can be given, by name, with what it does."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of the index, or None."""
    return mutation if mutation in FAULTS else None


@define
class Entry:
    """What the index knows of a page: where it is in its life, what it is found by, since when.

    stopped: requests that read the page when it was found corrupt, and go no further.
    """

    state: str
    key: int
    abi: int
    memory: int
    weights: int
    is_corrupt: bool = False
    stopped: set[int] = field(factory=set)


@define
class Request:
    """A handle, the request that has it, and the pages that it reads through the index."""

    phase: str = "VACANT"
    generation: int = 0
    version: int = 0
    abi: int | None = None
    parent: int | None = None
    prompt: int | None = None
    reads: set[int] = field(factory=set)

    @property
    def is_held(self) -> bool:
        """Rows are held for it."""
        return self.phase in ("DECODE_READY", "FINISHED", "CANCELLED")

    def needs(self, weights: int) -> Kind:
        """What rows of the request are, with the weights of that epoch; for one that holds rows."""
        if self.prompt is None or self.abi is None:
            raise ValueError(f"a {self.phase} request has no prompt: ask one that holds rows")
        return Kind(self.prompt, self.abi, weights)


INDEX: Final = -1
"""The claim of the index on a page; other claims are handles."""
