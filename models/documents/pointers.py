"""JSON pointers (RFC 6901) into plain data: look up, change in a copy, compare."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any


def steps_of(path: str) -> list[str]:
    """The fields and items that a pointer goes through, from the top."""
    if path == "":
        return []
    if not path.startswith("/"):
        raise KeyError(f"a JSON pointer begins with /, found {path!r}")
    return [step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")]


def _escape(step: object) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")


def at(data: Any, path: str) -> Any:
    """The value at a pointer; a KeyError lists what there is instead."""
    for step in steps_of(path):
        data = data[_key(data, step, path)]
    return data


def _key(data: Any, step: str, path: str) -> Any:
    if isinstance(data, dict):
        if step in data:
            return step
        raise KeyError(f"{path}: no field {step!r}; there are {', '.join(map(str, data))}")
    if isinstance(data, list) and step.isdigit() and int(step) < len(data):
        return int(step)
    what = f"a list of {len(data)}" if isinstance(data, list) else f"{data!r}"
    raise KeyError(f"{path}: no item {step!r} in {what}")


def replaced(data: Any, path: str, value: Any) -> Any:
    """A copy with another value at a pointer; an object may get a field that it lacks.

    What the change leaves alone is shared with the original, not copied: write into neither.
    """
    if path == "":
        return copy.deepcopy(value)
    made, inner, last = _opened(data, path)
    inner[last if isinstance(inner, dict) else _key(inner, last, path)] = copy.deepcopy(value)
    return made


def removed(data: Any, path: str) -> Any:
    """A copy without the field or item at a pointer; it shares the rest, as `replaced` does."""
    made, inner, last = _opened(data, path)
    del inner[_key(inner, last, path)]
    return made


def _opened(data: Any, path: str) -> tuple[Any, Any, str]:
    """A copy of what is on the way to a pointer, the container where it ends, and its last step."""
    *above, last = steps_of(path)
    made = inner = copy.copy(data)
    for step in above:
        key = _key(inner, step, path)
        inner[key] = copy.copy(inner[key])
        inner = inner[key]
    return made, inner, last


def leaves(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every scalar and every empty list or object, with its pointer."""
    if isinstance(data, dict) and data:
        for key, inner in data.items():
            yield from leaves(inner, f"{path}/{_escape(key)}")
    elif isinstance(data, list) and data:
        for place, inner in enumerate(data):
            yield from leaves(inner, f"{path}/{place}")
    else:
        yield path, data


def below(path: str, step: object) -> str:
    """The pointer to a field or item of what is at a pointer."""
    return f"{path}/{_escape(step)}"


def containers(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every object and list that is not empty, with its pointer."""
    if isinstance(data, dict | list) and data:
        yield path, data
        for step, inner in data.items() if isinstance(data, dict) else enumerate(data):
            yield from containers(inner, below(path, step))


def changed_paths(one: Any, two: Any, path: str = "") -> list[str]:
    """The pointers at which two values differ: as deep as both go on alike."""
    if one is two:
        return []
    if isinstance(one, dict) and isinstance(two, dict):
        found = []
        for key in (*one, *(key for key in two if key not in one)):
            inner = f"{path}/{_escape(key)}"
            if key not in one or key not in two:
                found.append(inner)
            else:
                found.extend(changed_paths(one[key], two[key], inner))
        return found
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        pairs = enumerate(zip(one, two, strict=True))
        return [p for place, (a, b) in pairs for p in changed_paths(a, b, f"{path}/{place}")]
    return [] if type(one) is type(two) and one == two else [path]
