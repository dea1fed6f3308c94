"""A decode backend with checks of its own behind those that the backend makes, before any effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import attrs
from attrs import define, field

from kvspec.models.decode.backend import DecodeBackend
from kvspec.models.decode.backend_tables import Tables
from kvspec.spec.language import Instance


@define(eq=False)
class WatchedTables(Tables):
    """Tables of the backend; `further` checks follow the last one of an action, before its effects.

    Attributes:
        last: for each action that has further checks the code of the backend's last one.
    """

    last: Mapping[str, str] = field(factory=dict)
    further: Callable[[], None] | None = field(default=None)

    def need(self, action: str, holds: bool, code: str, detail: str = "") -> None:
        """Refuse by this check, or by what follows it."""
        super().need(action, holds, code, detail)
        if self.further is not None and self.last.get(action) == code:
            self.further()


class FurtherChecks(DecodeBackend):
    """A decode backend whose actions can be carried out with further checks.

    Attributes:
        LAST_CHECK: for each action that has further checks the code of the backend's last one.
        _plain: the actions of the backend itself, set on reset.
    """

    LAST_CHECK: ClassVar[Mapping[str, str]]
    _plain: dict[str, Callable[..., Any]]

    def _make_tables(self, instance: Instance) -> Tables:
        made = super()._make_tables(instance)
        held = {each.name: getattr(made, each.name) for each in attrs.fields(Tables)}
        return WatchedTables(**held, last=self.LAST_CHECK)

    def _carry_out(self, action: str, further: Callable[[], None], **names: Any) -> None:
        """An action of the backend, with further checks behind its own."""
        tables = self._held()
        if not isinstance(tables, WatchedTables):
            raise TypeError(f"found tables of {type(tables).__name__}: reset makes WatchedTables")
        tables.further = further
        try:
            self._plain[action](**names)
        finally:
            tables.further = None
