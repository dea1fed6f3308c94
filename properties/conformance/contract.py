"""The contract of an adapter, checked before anything is asked: what is declared, and what the methods are.

A method that is a coroutine or a generator function does nothing when it is called, so that the suite would
judge a cache that was never asked; what is returned unfinished is refused for the same reason.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from kvspec.models.adapter import Adapter
from kvspec.models.backend import Damage
from kvspec.properties.conformance.errors import AdapterError
from kvspec.spec.language import System

OWN = ("reset", "observe", "can_try", "damage", "describe")
"""The methods of an adapter that are no actions."""


def check_adapter(adapter: Adapter, system: System, where: str) -> None:
    """Refuse an adapter that is not as `kvspec.models.adapter` says."""
    _check_name(adapter)
    _check_refusals(adapter)
    _check_declared(adapter)
    _check_actions(adapter, system, where)
    for name in (*OWN, *system.actions):
        if name not in adapter.not_offered:
            _check_runs(adapter, name)


def check_finished(returned: Any, where: str) -> None:
    """Refuse what is still to be run: a coroutine, another awaitable, a generator."""
    is_lazy = inspect.isgenerator(returned) or inspect.isasyncgen(returned)
    if not is_lazy and not inspect.isawaitable(returned):
        return
    if inspect.iscoroutine(returned):
        returned.close()
    raise AdapterError(
        f"{where} returned before it was done",
        found=f"a {type(returned).__name__}, which nobody has run",
        expected="that the action is over when the method returns",
        where=where,
        do="wait for it in the method, with asyncio.run() say",
    )


def checked_damage(told: Any, where: str) -> list[Damage]:
    """The damage that an adapter tells, if it is a list of `Damage`."""
    check_finished(told, where)
    listed = list(told) if isinstance(told, list | tuple) else None
    strange = [part for part in listed or () if not isinstance(part, Damage)]
    if listed is None or strange:
        raise AdapterError(
            f"{where} tells no damage that can be read",
            found=repr(strange[0] if strange else told),
            expected="a list of Damage(kind, where, amount, text), empty where there is none",
            where=where,
            do="make each of them a Damage (kvspec.models.backend)",
        )
    return listed


def _check_name(adapter: Adapter) -> None:
    if not isinstance(adapter.name, str):
        raise _error(adapter, "name", repr(adapter.name), "a str", 'name = "my cache"')


def _check_refusals(adapter: Adapter) -> None:
    found = adapter.refusals
    is_tuple = isinstance(found, tuple)
    strange = [part for part in found if not _is_exception(part)] if is_tuple else [found]
    if strange:
        raise _error(
            adapter,
            "refusals",
            repr(found),
            "a tuple of exception classes",
            "refusals = (PermissionError,), with the comma",
        )


def _is_exception(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, Exception)


def _check_declared(adapter: Adapter) -> None:
    found: Any = adapter.not_offered
    is_read = isinstance(found, Mapping) and all(
        isinstance(name, str) and isinstance(why, str) for name, why in found.items()
    )
    if not is_read:
        raise _error(
            adapter,
            "not_offered",
            repr(found),
            "a dict from the names of actions to reasons, both str",
            'not_offered = {"fork": "why the cache has it not"}',
        )


def _check_runs(adapter: Adapter, name: str) -> None:
    """The method does what it does when it is called, not later."""
    method = getattr(adapter, name)
    kinds = {
        "a coroutine function (async def)": inspect.iscoroutinefunction,
        "an asynchronous generator function": inspect.isasyncgenfunction,
        "a generator function (it has yield)": inspect.isgeneratorfunction,
    }
    for kind, is_so in kinds.items():
        if is_so(method):
            raise _error(
                adapter,
                name,
                f"{kind}, whose body does not run when it is called",
                "a method that is over when it returns",
                "wait within the method, with asyncio.run() say",
            )


def _error(adapter: Adapter, name: str, found: str, expected: str, do: str) -> AdapterError:
    where = f"{type(adapter).__name__}.{name}"
    return AdapterError(
        f"{where} is not as the suite needs it", found=found, expected=expected, where=where, do=do
    )


def _check_actions(adapter: Adapter, system: System, where: str) -> None:
    """Refuse an adapter that is silent about an action, or speaks of one that does not exist."""
    declared, known = adapter.not_offered, system.actions
    strange = sorted(set(declared) - set(known))
    if strange:
        raise AdapterError(
            f"{where} declares actions that {system.name} has not",
            found=f"not_offered has {', '.join(strange)}",
            expected=f"names among {', '.join(known)}",
            where=f"not_offered of {type(adapter).__name__}",
            do="correct the names (kvspec show core lists the actions)",
        )
    missing = [
        name for name in known
        if name not in declared and not has(adapter, name)
    ]  # fmt: skip
    if missing:
        raise AdapterError(
            f"{where} says nothing about {len(missing)} of {len(known)} actions",
            found=f"neither a method nor declared: {', '.join(missing)}",
            expected="for each action a method of its name, or an entry in not_offered",
            where=f"the class {type(adapter).__name__}",
            do="write the methods, or declare: "
            'not_offered = dict.fromkeys(["name", "name"], "why the cache has them not")',
        )
    for name, action in known.items():
        if name not in declared:
            _check_parameters(adapter, name, [p.name for p in action.parameters])


def has(adapter: Adapter, action: str) -> bool:
    """The adapter has a method for the action."""
    return callable(getattr(adapter, action, None))


def _check_parameters(adapter: Adapter, name: str, parameters: list[str]) -> None:
    """The method takes the action's parameters by name."""
    try:
        signature = inspect.signature(getattr(adapter, name))
    except ValueError:  # written in another language, it tells nothing of its parameters
        return
    try:
        signature.bind(**dict.fromkeys(parameters))
    except TypeError as error:
        raise AdapterError(
            f"{name} of {type(adapter).__name__} does not take the action's parameters",
            found=f"{name}{signature} ({error})",
            expected=f"{name}({', '.join(parameters)}), by these names",
            where=f"{type(adapter).__name__}.{name}",
            do=f"name the parameters as in the specification: kvspec show core {name}",
        ) from error
