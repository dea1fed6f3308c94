"""The cache under test as the suite sees it: it is asked, it answers, it shows something.

An adapter and a `Backend` look alike from here. What is wrong with the adapter itself (an action that
is neither there nor declared, a variable that does not exist) is an AdapterError; what the cache does
is never one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs

from kvspec.models.adapter import Adapter, RefusedByCacheError
from kvspec.models.backend import Backend, Damage, Reply
from kvspec.models.concrete import Event
from kvspec.models.concrete.state import Value
from kvspec.properties.conformance.asking import ask, told
from kvspec.properties.conformance.contract import (
    check_adapter,
    check_finished,
    checked_damage,
    has,
)
from kvspec.properties.conformance.errors import AdapterError
from kvspec.properties.conformance.observing import Shape, Shown
from kvspec.spec.language import Instance, System

ACCEPTED, REFUSED, CRASHED = "accepted", "refused", "crashed"


@attrs.frozen
class Answer:
    """What the cache said to a call: accepted, refused (with a code if it tells one), or crashed."""

    kind: str
    code: str | None = None
    detail: str = ""

    def __str__(self) -> str:
        told = f": {self.detail}" if self.detail else ""
        if self.kind == REFUSED:
            return (
                f"refused with {self.code}{told}" if self.code else f"refused, no code told{told}"
            )
        return f"{self.kind}{told}"


class Subject(Protocol):
    """A cache that can be asked. `not_offered` gives the reason for each action that it has not.

    measures: it can tell damage.
    """

    @property
    def name(self) -> str:
        """What reports call it."""

    @property
    def not_offered(self) -> Mapping[str, str]:
        """The actions that it has not, with the reason."""

    @property
    def measures(self) -> bool:
        """It can tell damage."""

    def reset(self, instance: Instance) -> None:
        """Begin anew."""

    def perform(self, event: Event) -> Answer:
        """Ask for an event."""

    def can_try(self, event: Event) -> bool:
        """The cache can be asked for it now."""

    def observe(self) -> Shown:
        """What the cache shows, each variable as a tuple of values."""

    def damage(self) -> list[Damage]:
        """Harm that can be measured now."""

    def describe(self) -> str:
        """The state in the cache's own words."""


Factory = Callable[[], Any]


def make_subject(factory: Factory, system: System, where: str) -> Subject:
    """The cache that a factory makes, checked against the actions of the system."""
    try:
        made = ask(factory)
    except Exception as error:
        raise AdapterError(
            f"{where} makes no cache",
            found=told(error),
            expected="an Adapter (kvspec.models.adapter) or a Backend (kvspec.models.backend)",
            where=where,
            do="call it in Python and see what it lacks",
        ) from error
    check_finished(made, where)
    if not isinstance(made, Adapter | type) and callable(getattr(made, "perform", None)):
        return BackendSubject(made)
    lacking = [n for n in ("reset", "observe") if not callable(getattr(made, n, None))]
    if lacking or not isinstance(made, Adapter):
        raise AdapterError(
            f"{where} makes no cache that can be tested",
            found=f"a {type(made).__name__}"
            + (f" without {', '.join(lacking)}" if lacking else ""),
            expected="a subclass of kvspec.models.adapter.Adapter, or a Backend",
            where=where,
            do="derive the class from Adapter, and return an object, not the class of another",
        )
    return AdapterSubject(made, system, where)


class AdapterSubject:
    """An adapter: actions are its methods, a refusal is an exception."""

    def __init__(self, adapter: Adapter, system: System, where: str) -> None:
        self.adapter = adapter
        check_adapter(adapter, system, where)
        self.name = adapter.name or type(adapter).__name__
        self.not_offered = {
            action: f"{why}; its method {action}() is not called" if has(adapter, action) else why
            for action, why in adapter.not_offered.items()
        }
        self.measures = type(adapter).damage is not Adapter.damage
        self._refusals: tuple[type[Exception], ...] = (RefusedByCacheError, *adapter.refusals)
        self._shape: Shape | None = None
        self._where = where

    def reset(self, instance: Instance) -> None:
        """Begin anew, and forget what was observed of another instance."""
        if self._shape is None or self._shape.instance is not instance:
            self._shape = Shape(instance, f"observe() of {self.name}")
        check_finished(ask(self.adapter.reset, instance), f"reset() of {self.name}")

    def perform(self, event: Event) -> Answer:
        """Call the method of the action; a refusal is told by an exception."""
        try:
            returned = ask(getattr(self.adapter, event.action), **event.names)
        except self._refusals as error:
            if isinstance(error, RefusedByCacheError):
                return Answer(REFUSED, error.code, error.detail)
            return Answer(REFUSED, None, told(error))
        except Exception as error:  # noqa: BLE001 - whatever else is raised is a crash
            return Answer(CRASHED, None, told(error))
        check_finished(returned, f"{type(self.adapter).__name__}.{event.action}")
        if returned is False:
            raise AdapterError(
                f"{event.action} of {self.name} returned False, which is no answer",
                found="False", expected="an exception for a refusal; what is returned is not looked at",
                where=f"{type(self.adapter).__name__}.{event.action}",
                do="raise RefusedByCacheError(code, detail) to refuse, or return nothing",
            )  # fmt: skip
        return Answer(ACCEPTED)

    def can_try(self, event: Event) -> bool:
        """What the adapter says of it."""
        try:
            can = ask(self.adapter.can_try, event.action, event.names)
        except Exception as error:
            raise _raised("can_try", error, self._where) from error
        check_finished(can, f"can_try() of {self.name}")
        if can is None:
            raise AdapterError(
                f"can_try() of {self.name} returned None, which is no answer",
                found="None", expected="True or False", where=f"{type(self.adapter).__name__}.can_try",
                do="return True where the call can be made",
            )  # fmt: skip
        return bool(can)

    def observe(self) -> Shown:
        """What the adapter shows, checked for names, numbers and types."""
        if self._shape is None:
            raise AdapterError(
                "observe() before reset()", found="no instance", expected="reset() first",
                where=self._where, do="call reset(instance)",
            )  # fmt: skip
        found = ask(self.adapter.observe)
        check_finished(found, f"observe() of {self.name}")
        return self._shape.check(found)

    def damage(self) -> list[Damage]:
        """What the adapter measures."""
        try:
            found = ask(self.adapter.damage)
        except Exception as error:
            raise _raised("damage", error, self._where) from error
        return checked_damage(found, f"damage() of {self.name}")

    def describe(self) -> str:
        """The adapter's own words, or that it has none after what happened."""
        try:
            return str(ask(self.adapter.describe))
        except Exception as error:  # noqa: BLE001 - a broken cache may be unable to tell
            return f"(describe() raised {told(error)})"


class BackendSubject:
    """A backend: it offers every action and observes every variable."""

    measures = True

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.name = type(backend).__name__
        self.not_offered: dict[str, str] = {}
        self._names: tuple[str, ...] = ()

    def reset(self, instance: Instance) -> None:
        """Begin anew."""
        self._names = tuple(instance.system.variables)
        ask(self.backend.reset, instance)

    def perform(self, event: Event) -> Answer:
        """Carry out the event."""
        try:
            reply = ask(self.backend.perform, event)
        except Exception as error:  # noqa: BLE001 - whatever is raised is a crash
            return Answer(CRASHED, None, told(error))
        if not isinstance(reply, Reply):
            check_finished(reply, f"perform() of {self.name}")
            raise AdapterError(
                f"perform() of {self.name} returned no reply",
                found=repr(reply), expected="a Reply (kvspec.models.backend)",
                where=f"{self.name}.perform", do="return Reply(accepted, code, detail)",
            )  # fmt: skip
        return Answer(ACCEPTED if reply.accepted else REFUSED, reply.code or None, reply.detail)

    def can_try(self, event: Event) -> bool:
        """Always."""
        del event
        return True

    def observe(self) -> Shown:
        """The tables of the backend's state by name."""
        tables: tuple[tuple[Value, ...], ...] = ask(self.backend.observe).tables
        return dict(zip(self._names, tables, strict=True))

    def damage(self) -> list[Damage]:
        """What the backend measures."""
        try:
            found = ask(self.backend.damage)
        except Exception as error:
            raise _raised("damage", error, self.name) from error
        return checked_damage(found, f"damage() of {self.name}")

    def describe(self) -> str:
        """Its own words, if it has any."""
        words = getattr(self.backend, "describe", None)
        try:
            return str(ask(words)) if callable(words) else ""
        except Exception as error:  # noqa: BLE001 - a broken cache may be unable to tell
            return f"(describe() raised {told(error)})"


def _raised(method: str, error: Exception, where: str) -> AdapterError:
    return AdapterError(
        f"{method}() of the adapter raised an exception",
        found=told(error), expected="an answer", where=f"{method}() of {where}",
        do="repair it: it is part of the adapter, and no verdict on the cache",
    )  # fmt: skip
