"""The audit log: JSON Lines, a header and then one event a line, in the order of arrival.

Modelled: the form of `kvspec.spec.documents.log`; fields that an event does not carry are left out. A
log may be closed by what the cache itself held at the end. Each line is written whole, so that a crash
can cut the last line alone. Left out: rotation, and forcing lines to the disk.
"""

from __future__ import annotations

from typing import TextIO

import msgspec

from kvspec.models.documents.lines import write_closing, write_header
from kvspec.models.telemetry.records import Record
from kvspec.spec.documents.closing import Closing
from kvspec.spec.documents.log import LogHeader


class AuditLog:
    """An exporter of the channel that writes the log.

    stream: text that is written to; `close` closes it if it is `owned`.

    Attributes:
        lines: events written so far.
    """

    name = "audit-log"

    def __init__(self, stream: TextIO, *, owned: bool = False) -> None:
        self._stream = stream
        self._owned = owned
        self._header: LogHeader | None = None
        self.lines = 0

    def export(self, item: Record | LogHeader | Closing) -> None:
        """Write an event, the header or the closing; a second header must be the same, and is not written.

        Raises:
            ValueError: an event before the header, or another header.
        """
        if isinstance(item, LogHeader):
            self._begin(item)
        elif self._header is None:
            raise ValueError(f"found {item} first, expected the header: call begin")
        elif isinstance(item, Closing):
            self._stream.write(write_closing(item))
        else:
            self._stream.write(msgspec.json.encode(item.line).decode() + "\n")
            self.lines += 1

    def close(self) -> None:
        """Write out what is buffered, and close the file."""
        self._stream.flush()
        if self._owned:
            self._stream.close()

    def _begin(self, header: LogHeader) -> None:
        if self._header is None:
            self._stream.write(write_header(header))
            self._header = header
        elif header != self._header:
            raise ValueError(
                f"found a second header {header}, expected {self._header}: one log has one cache ABI and "
                "one set of metrics, so begin another log"
            )
