"""Evidence on file: negative cases and counterexample traces, read as data and held to their digests.

A case of a set of negative cases (`negatives/KIND.json`) gives the code with which it must fail. A trace
of the library (`library/MUTANT.json`, or in a folder of its system below) gives the code with which the
sound specification refuses the step that its mutant takes. Both were checked where they were made; nothing
is run here. The files are named relative to the folder `counterexamples` and read as data, not imported.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from kvspec.models.documents import DocumentError, decode

_FILE: Final = re.compile(r"(negatives|library(/[a-z]+)?)/[A-Za-z0-9_.-]+\.json", re.ASCII)


def content(file: str) -> bytes | None:
    """The bytes of a file of evidence, or None if there is none of that name."""
    if not _FILE.fullmatch(file):
        return None
    found = files("kvspec.counterexamples").joinpath(*file.split("/"))
    return found.read_bytes() if found.is_file() else None


def file_sha256(file: str) -> str | None:
    """SHA-256 of a file of evidence, or None if there is none of that name."""
    found = content(file)
    return None if found is None else hashlib.sha256(found).hexdigest()


def codes_of(file: str) -> dict[str, str]:
    """The cases of a file of evidence, each with the code with which it fails."""
    found = content(file)
    return {} if found is None else _codes(file, found)


@lru_cache(maxsize=64)
def _codes(file: str, found: bytes) -> dict[str, str]:
    try:
        data = decode(found.decode("utf-8"), file)
        return _trace(data) if file.startswith("library/") else _cases(data)
    except (DocumentError, UnicodeDecodeError, KeyError, TypeError):
        return {}  # whatever it is, it has no case of the name that is looked for


def _cases(data: Any) -> dict[str, str]:
    return {str(case["name"]): str(case["code"]) for case in data["cases"]}


def _trace(data: Any) -> dict[str, str]:
    sound = data["sound"]
    return {str(data["mutation"]["name"]): str(sound["code"])} if sound["code"] else {}
