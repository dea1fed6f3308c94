"""What goes wrong at pages of an index, in numbers: rows and logits of a reader, rows lost, bytes held."""

from __future__ import annotations

from kvspec.models.backend import Damage
from kvspec.models.decode.agreement import TOLERANCES, disagreement
from kvspec.models.decode.mechanisms.index_pages import LOADED, ROWS, Kind, Pages, uncached_logits
from kvspec.models.decode.mechanisms.index_tables import Entry, Request


def of_page(pages: Pages, where: str, b: int, kind: Kind, contents: int) -> list[Damage]:
    """Rows of a page that are not of the kind that its reader needs, and how far its logits are off."""
    wrong = pages.wrong_rows(b, kind)
    if not wrong:
        return []
    whose = _whose(pages, b, contents)
    text = (
        f"{where} reads {wrong} of {ROWS} rows of block{b} that are not its own: they are {whose}"
    )
    found = [Damage("rows", where, float(wrong), text)]
    cached, right = pages.logits(b, kind), uncached_logits(kind)
    if disagreement(cached, right) > TOLERANCES[right.dtype]:
        largest = float((cached - right).abs().max())
        text = f"logits of {where} differ from an uncached run by up to {largest:.3g}"
        found.append(Damage("logits", where, largest, text))
    return found


def of_load(pages: Pages, b: int, entry: Entry) -> list[Damage]:
    """Rows that a load under way has brought and the page no longer has."""
    coming = pages.coming[b]
    if entry.state != "RESERVED" or coming is None:
        return []
    gone = pages.wrong_rows(b, coming, LOADED)
    text = f"{gone} rows that were loaded into block{b} are not there any more"
    return [Damage("rows", f"block{b}", float(gone), text)] if gone else []


def of_leak(pages: Pages, b: int, entry: Entry, readers: list[Request]) -> list[Damage]:
    """Bytes of a withdrawn page that is held for requests that are gone."""
    if entry.state != "WITHDRAWN" or not readers or any(r.is_held for r in readers):
        return []
    text = f"{pages.bytes} bytes of block{b} are held for a request that is gone"
    return [Damage("owner", f"block{b}", float(pages.bytes), text)]


def _whose(pages: Pages, b: int, contents: int) -> str:
    content = pages.content(b, contents)
    if content is None:
        return "of no content"
    return f"of content {content}, ABI {pages.written[b]}, weights {pages.written_weights[b]}"
