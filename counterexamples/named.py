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
    if not module_name or not attribute:
        raise TraceError(f"the {what}", repr(name), form, f"name a {kind}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there and lacks something that it imports
        raise TraceError(
            f"the {what} {name}", f"no module {error.name}", "a module", "check path and name"
        ) from error
    except DefinitionError:
        raise  # it says by itself where it is
    except Exception as error:
        raise TraceError(
            f"the {what} {name}",
            f"{type(error).__name__}: {error}",
            "a module that can be imported",
            f"see python -c 'import {module_name}'",
        ) from error
    found = getattr(module, attribute, None)
    if not fits(found):
        raise TraceError(
            f"the {what} {name}",
            f"no {kind} {attribute} in {module_name}",
            f"a {kind}",
            "check the name after the colon",
        )
    return found
