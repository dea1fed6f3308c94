"""What a user names as `module:attribute`: a module of theirs, and something of a kind in it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvspec.counterexamples.errors import TraceError
from kvspec.spec.language import DefinitionError


def named(name: str, what: str, form: str, kind: str, fits: Callable[[Any], bool]) -> Any:
    """What `package.module:attribute` names, if it fits; the current folder is looked into as well.

    what: what is asked for (`backend`). form: how it is written (`module:factory`). kind: what the
    attribute must be (`function or class`).

    Raises:
        TraceError: the name has another form, or there is no such module or nothing of the kind in it.
    """
    module_name, _, attribute = name.partition(":")
    words = [*module_name.split("."), *attribute.split(".")]
    if not all(word.isidentifier() for word in words) or "." in attribute:
        raise TraceError(f"the {what}", repr(name), form, f"name a {kind}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise _not_imported(what, name, error) from error  # it lacks something that it imports
        raise TraceError(
            f"the {what} {name}", f"no module {error.name}", "a module", "check path and name"
        ) from error
    except DefinitionError:
        raise  # it says by itself where it is
    except (Exception, SystemExit) as error:
        raise _not_imported(what, name, error) from error
    found = getattr(module, attribute, None)
    if not fits(found):
        raise TraceError(
            f"the {what} {name}",
            f"no {kind} {attribute} in {module_name}",
            f"a {kind}",
            "check the name after the colon",
        )
    return found


def _not_imported(what: str, name: str, error: BaseException) -> TraceError:
    module_name = name.partition(":")[0]
    return TraceError(
        f"the {what} {name}",
        f"{type(error).__name__}: {error}",
        "a module that can be imported",
        f"see python -c 'import {module_name}'",
    )
