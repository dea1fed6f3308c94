"""What mechanisms share: each action is a method, and a check that fails refuses it with its code."""

from __future__ import annotations

from kvspec.models.backend import Reply
from kvspec.models.concrete.machine import Event
from kvspec.models.decode.backend_tables import RefusedError


class Performing:
    """A cache with a method `_ACTION` for each action; one raises RefusedError to refuse it."""

    _action: str

    def perform(self, event: Event) -> Reply:
        """Carry out an event, or refuse it and change nothing."""
        self._action = event.action
        try:
            getattr(self, f"_{event.action}")(**event.names)
        except RefusedError as refused:
            return Reply(accepted=False, code=refused.code, detail=refused.detail)
        return Reply(accepted=True)


class Checked(Performing):
    """A performing cache whose checks can be left out: a dropped guard is a fault of that name.

    Attributes:
        _faults: the faults that are switched on.
    """

    _faults: frozenset[str]

    def _need(self, holds: bool, code: str) -> None:
        """Refuse with the code, unless the check holds or is left out."""
        if not holds and f"{self._action}.drop-guard.{code}" not in self._faults:
            raise RefusedError(code, "")
