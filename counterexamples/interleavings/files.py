"""Reading and writing of interleavings: a file is checked whole before it is used."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from kvspec.counterexamples.documents import parse_json
from kvspec.counterexamples.errors import TraceError
from kvspec.counterexamples.files import read_text, write_text
from kvspec.counterexamples.interleavings.format import FORMAT, VERSION, Interleaving, plain
from kvspec.counterexamples.interleavings.resolve import Resolved, resolve
from kvspec.counterexamples.writing import to_text


def read_interleaving(path: str | os.PathLike[str]) -> Resolved:
    """The interleaving in a file, every name in it looked up.

    Raises:
        TraceError: it cannot be read, or is no well-formed interleaving of the core system.
    """
    return parse_interleaving(read_text(path, "interleaving"), Path(path).name)


def parse_interleaving(text: str, where: str = "the interleaving") -> Resolved:
    """The interleaving in a text; errors as of `read_interleaving`."""
    document = parse_json(text, where)
    advice = "name a file that `kvspec interleave` wrote"
    if not isinstance(document, dict):
        raise TraceError(where, f"JSON of type {type(document).__name__}", "an object", advice)
    if document.get("format") != FORMAT:
        raise TraceError(where, f"format {document.get('format')!r}", repr(FORMAT), advice)
    version = document.get("version")
    if version != VERSION or isinstance(version, bool):
        later = "a later version of kvspec may read it; otherwise make it again"
        raise TraceError(where, f"version {version!r}", f"version {VERSION}", later)
    try:
        made = msgspec.convert(document, Interleaving)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at ")
        raise TraceError(
            f"{where}, {place.strip('`').removeprefix('$.')}" if place else where,
            f"a field that does not fit ({message})",
            f"what the format says ({FORMAT} version {VERSION})",
            "correct the field, or make the file again",
        ) from error
    return resolve(made, where)


def dump_interleaving(document: Interleaving) -> str:
    """The canonical text of a document: equal ones give equal texts."""
    return to_text(plain(document))


def write_interleaving(document: Interleaving, path: str | os.PathLike[str]) -> None:
    """Write a document that has been checked; on any failure the file is as it was before."""
    resolve(document, "the interleaving to be written")
    write_text(dump_interleaving(document), path)
