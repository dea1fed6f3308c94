"""Every projection that is told about, with its instance: views, views with receipts, what is believed.

A view must not be violated, one with receipts must hold with nothing collapsed, and what is believed must be
violated in the coordinate named.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Final, Literal

import attrs

from kvspec.properties.projections import Commutation, check
from kvspec.spec.language import Instance
from kvspec.spec.projections import Projection
from kvspec.spec.runtimes.believed import BELIEVED
from kvspec.spec.runtimes.receipt_views import WITH_RECEIPTS
from kvspec.spec.runtimes.views import VIEWS

Role = Literal["view", "receipts", "believed"]
INSTANCE: Final = "ONE"


@attrs.frozen
class Told:
    """A projection checked on an instance. fails_in: for a believed one, where it must fail."""

    role: Role
    found: Commutation
    fails_in: str = ""

    @property
    def verdict(self) -> str:
        """`holds` if it is as its role asks; a view that claims nothing is told so and is no failure."""
        if self.role == "believed":
            return "holds" if self.fails_in in self.found.breaches else "violated"
        if self.role == "receipts" and (self.found.collapses or self.found.differences):
            return "violated"
        if self.role == "view" and not self.claimed:
            return "violated" if self.found.refused else "holds"
        return self.found.verdict

    @property
    def claimed(self) -> tuple[str, ...]:
        """The coordinates that the projection claims."""
        return tuple(n for n, s in self.found.projection.seen.items() if s.is_claimed)


def instance_of(projection: Projection) -> Instance:
    """The instance on which a projection is told about."""
    module = importlib.import_module(f"kvspec.spec.runtimes.{projection.runtime.name}")
    found: Instance = getattr(module, INSTANCE)
    return found


def suite() -> Iterator[Told]:
    """All of them, in the order in which they are told."""
    for view in VIEWS:
        yield Told("view", check(view, instance_of(view)))
    for view in WITH_RECEIPTS:
        yield Told("receipts", check(view, instance_of(view)))
    for each in BELIEVED:
        found = check(each.projection, instance_of(each.projection))
        yield Told("believed", found, each.coordinate)
