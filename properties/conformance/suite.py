"""The instances on which a cache is tried by default: small ones, in which together every rule arises.

A quota says how many cases of each kind are tried; without one all are. Cases are of one kind if they
have the same call, outcome and numbers of requests and appends in each phase, and if in both or in neither
a single guard fails: only there would a cache without that check accept.
"""

from __future__ import annotations

import attrs

from kvspec.properties.conformance.errors import AdapterError
from kvspec.properties.conformance.sharing import SHARED
from kvspec.spec import core
from kvspec.spec.core import TINY, make_instance
from kvspec.spec.language import Instance

WHOLE = 1_000
"""Up to so many states an instance that is asked for by name is tried whole."""
QUOTA = 1


@attrs.frozen
class Part:
    """An instance, and how many cases of each kind are tried on it (None: all)."""

    instance: Instance
    quota: int | None = None

    @property
    def told(self) -> str:
        """How much of the instance is tried, in words."""
        if self.quota is None:
            return "every call in every state"
        states = "one state" if self.quota == 1 else f"{self.quota} states"
        return f"every call with every outcome in {states} for all phases of requests and appends"


LONG = make_instance(
    "LONG",
    "one request of up to two rows in two layers, one append",
    handles=1,
    txns=1,
    layers=2,
    longest=2,
    versions=2,
    rewinds=1,
)
KINDS = make_instance(
    "KINDS",
    "one handle that is used twice, one append, two ABIs and two keys",
    handles=1,
    txns=1,
    layers=1,
    abis=2,
    keys=2,
    generations=2,
)
PAIR = make_instance(
    "PAIR",
    "two requests and one append",
    handles=2,
    txns=1,
    layers=1,
)
ROWS = make_instance(
    "ROWS",
    "two requests in two batch rows, their forks and two blocks",
    handles=2,
    txns=0,
    layers=1,
    blocks=2,
    rows=2,
)
SUITE = (
    Part(TINY),
    *(Part(instance, QUOTA) for instance in (LONG, KINDS, PAIR, ROWS)),
    Part(SHARED),
)


def part_named(name: str) -> Part:
    """An instance by its name: of the suite, or any of the core system."""
    for part in SUITE:
        if part.instance.name == name:
            return part
    known = {found.name: found for found in vars(core).values() if isinstance(found, Instance)}
    if name not in known:
        names = [part.instance.name for part in SUITE]
        listed = ", ".join(dict.fromkeys([*names, *known]))
        raise AdapterError(
            f"there is no instance {name!r}",
            found=name, expected=f"one of {listed}", where="the instances asked for",
            do="name one of these, or none for the whole suite",
        )  # fmt: skip
    found = known[name]
    is_small = found.expected is not None and found.expected.states <= WHOLE
    return Part(found, None if is_small else QUOTA)
