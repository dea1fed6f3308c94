"""What mechanisms share: faults known by name, and checks that refuse an event with their code."""

from __future__ import annotations

from collections.abc import Iterable

from kvspec.models.backend import Reply
from kvspec.models.concrete.machine import Event


class RefusedError(Exception):
    """An event that a check of the cache refuses, with the code of the check."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def known_faults(faults: Iterable[str], known: Iterable[str]) -> frozenset[str]:
    """The faults as a set.

    Raises:
        ValueError: one of them is not known.
    """
    chosen, names = frozenset(faults), list(known)
    unknown = sorted(chosen - set(names))
    if unknown:
        raise ValueError(
            f"found the faults {', '.join(unknown)}, expected names out of {', '.join(names)}: "
            "see FAULTS"
        )
    return chosen


class Checked:
    """A cache with a method `_ACTION` for each action; a dropped guard is a fault of that name.

    Attributes:
        _faults: the faults that are switched on.
    """

    _faults: frozenset[str]
    _action: str

    def perform(self, event: Event) -> Reply:
        """Carry out an event, or refuse it and change nothing."""
        self._action = event.action
        try:
            getattr(self, f"_{event.action}")(**event.names)
        except RefusedError as refused:
            return Reply(accepted=False, code=refused.code)
        return Reply(accepted=True)

    def _need(self, holds: bool, code: str) -> None:
        """Refuse with the code, unless the check holds or is left out."""
        if not holds and f"{self._action}.drop-guard.{code}" not in self._faults:
            raise RefusedError(code)
