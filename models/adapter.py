"""What somebody's own cache must offer to be held against the core system by the conformance suite.

An adapter is a class with a method for each action that its cache has, named and parametrised as in the
specification (`kvspec show core`), and `observe`, which reads what can be read off the cache. An action
that the cache has not is declared in `not_offered` with the reason; one that is neither a method nor
declared is an error, so that nothing is skipped in silence. Nothing here interprets the specification.

A `Backend` (`kvspec.models.backend`) offers everything and observes everything; an adapter may offer and
observe a part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kvspec.models.backend import Damage
from kvspec.models.concrete.state import Value
from kvspec.spec.language import Instance

Observed = Mapping[str, tuple[Value, ...]]
"""Values of variables of the core system by name, one for each index in the order of a state's tables:
for a variable over Handle and Layer, handle 0 with layer 0, then handle 0 with layer 1, and so on."""


class RefusedByCacheError(Exception):
    """The cache refuses an action.

    code: the guard's code of the specification, if the cache can tell which; None if it refuses without
    a reason that can be told apart (empty means the same). detail: found and expected, in the cache's words.
    """

    def __init__(self, code: str | None = None, detail: str = "") -> None:
        super().__init__(": ".join(part for part in (code, detail) if part) or "refused")
        self.code = code or None
        self.detail = detail


class Adapter:
    """A cache under test, made anew by its factory for each run of the suite.

    Attributes:
        name: what reports call the cache.
        not_offered: the actions of the core system that the cache has not, with the reason.
        refusals: exceptions, besides `RefusedByCacheError`, that mean a refusal, not a crash of the cache.
    """

    name: ClassVar[str] = ""
    not_offered: ClassVar[Mapping[str, str]] = {}
    refusals: ClassVar[tuple[type[Exception], ...]] = ()

    def reset(self, instance: Instance) -> None:
        """Begin anew, with as many handles, layers and so on as the instance has (`instance.sizes`)."""
        raise NotImplementedError

    def observe(self) -> Observed:
        """What can be read off the cache now, each variable by name; what is left out is not looked at."""
        raise NotImplementedError

    def can_try(self, action: str, values: Mapping[str, Any]) -> bool:
        """The cache can be asked for this at all; by default any event of an offered action.

        For a cache whose calls go through the layers in order, say, rows of layer 1 before layer 0 cannot
        be asked for. What is not tried is told in the report by action and number.
        """
        del action, values
        return True

    def damage(self) -> list[Damage]:
        """Every harm that can be measured now, in numbers; none where nothing can be measured."""
        return []

    def describe(self) -> str:
        """The cache's state in its own words, for failure messages; empty where there is nothing to say."""
        return ""
