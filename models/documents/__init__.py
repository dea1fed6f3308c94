"""Documents as JSON: strict reading, writing, and a schema for each kind.

`read(kind, text, where)` gives the attrs object or a `DocumentError` that names the place in the text;
whether the document keeps its contracts is another question, `kind.first_broken(document)`.
"""

from kvspec.models.documents.codec import (
    READING,
    DocumentError,
    convert,
    decode,
    read,
    with_line,
    write,
)
from kvspec.models.documents.places import line_of
from kvspec.models.documents.pointers import (
    at,
    below,
    changed_paths,
    containers,
    leaves,
    removed,
    replaced,
)
from kvspec.models.documents.schemas import schema
from kvspec.models.documents.shapes import blank, hint_at

__all__ = [
    "READING",
    "DocumentError",
    "at",
    "below",
    "blank",
    "changed_paths",
    "containers",
    "convert",
    "decode",
    "hint_at",
    "leaves",
    "line_of",
    "read",
    "removed",
    "replaced",
    "schema",
    "with_line",
    "write",
]
