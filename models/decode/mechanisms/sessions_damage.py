"""What goes wrong with sessions, in numbers: history that the client never had, logits, bytes held."""

from __future__ import annotations

from collections.abc import Callable

import torch
from attrs import define, field

from kvspec.models.backend import Damage
from kvspec.models.decode.agreement import TOLERANCES, disagreement
from kvspec.models.decode.backend_model import PREFIX_ROWS
from kvspec.models.decode.backend_reading import View, content, view_of
from kvspec.models.decode.backend_tables import Tables
from kvspec.models.decode.mechanisms.sessions_rows import Reading, Session

_KEPT = 4096


@define(eq=False)
class Meter:
    """Measures the harm of the sessions of one cache; what was measured for equal content is kept.

    Attributes:
        tables: the tables of the cache.
        sessions: the session of each handle.
        refusal: why the session of a handle cannot be cancelled; None if it can.
    """

    tables: Tables
    sessions: list[Session]
    refusal: Callable[[int], str | None]
    _kept: dict[object, list[Damage]] = field(factory=dict)

    def damage(self) -> list[Damage]:
        """Every harm that can be measured now."""
        found: list[Damage] = []
        for h, session in enumerate(self.sessions):
            if self.tables.slots[h].entry.rows is None:
                continue
            view = view_of(self.tables, h)
            reason = self._held_for_ever(h, view, session)
            if reason is not None:
                size = sum(part.nbytes for pair in view.layers() for part in pair)
                text = f"handle{h} holds {size} bytes for ever: {reason}"
                found.append(Damage("owner", f"handle{h}", float(size), text))
            if view.entry.phase == "DECODE_READY" and session.restore == "NONE":
                found += self._of_rows(view, session)
        return found

    def _held_for_ever(self, h: int, view: View, session: Session) -> str | None:
        """Why the session neither takes another turn nor ends; None if it does."""
        if session.client == "NONE":
            return "it has no client, and nobody knows of it"
        if view.entry.phase != "DECODE_READY":
            return None
        refusal = self.refusal(h)
        if session.client == "GONE" and refusal is not None:
            return f"its client is gone, and to cancel it is refused with {refusal}"
        if session.busy and session.turn == "NONE":
            return "it is busy with no turn"
        beyond = len(view.entry.tokens) - session.completed - self.tables.rewind
        if session.turn == "ABORTED" and beyond > 0:
            return f"{beyond} rows of its aborted turn cannot be taken back"
        if session.restore == "OPEN" and session.was_refused:
            return "its image was refused, and the restore neither failed nor ends"
        return None

    def _of_rows(self, view: View, session: Session) -> list[Damage]:
        """What the next step of a session reads, unless an aborted turn is still to be rolled back."""
        if session.turn == "ABORTED":
            return []
        where, found = f"handle{view.handle}", list[Damage]()
        left = session.place.written
        if left:
            text = f"{where} reads {left} rows that a failed restore left in its place"
            found.append(Damage("rows", where, float(left), text))
        told = session.told[:-1]
        foreign = sum(
            place >= len(told) or token != told[place]
            for place, token in enumerate(view.entry.tokens)
        )
        if foreign:
            text = f"{where} has {foreign} rows in its history of tokens that its client never had"
            found.append(Damage("rows", where, float(foreign), text))
        return found + self._of_logits(view, session)

    def _of_logits(self, view: View, session: Session) -> list[Damage]:
        """How far the logits of the next step are from an uncached run over what the client knows."""
        entry = view.entry
        ids = (entry.prompt, entry.abi, len(entry.tokens), *session.tokens, None, *session.told)
        left = b"".join(part.numpy().tobytes() for part in session.place.cells.values())
        key = (view.handle, ids, content(view.layers()), left)
        if key not in self._kept:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[key] = self._measured(view, session)
        return self._kept[key]

    @torch.inference_mode()
    def _measured(self, view: View, session: Session) -> list[Damage]:
        model = self.tables.models[view.entry.abi or 0]
        last = (*view.entry.prompt, *session.tokens)[-1]
        position = torch.tensor([PREFIX_ROWS + len(view.entry.tokens)])
        reading = Reading(view, session.place, PREFIX_ROWS, position)
        cached = model.decoder.forward(torch.tensor([[last]]), position, reading)[0, -1]
        right = model.run((*view.entry.prompt, *session.told)).logits
        if disagreement(cached, right) <= TOLERANCES[right.dtype]:
            return []
        where, largest = f"handle{view.handle}", float((cached - right).abs().max())
        text = (
            f"logits of the next step of {where} differ by up to {largest:.3g} from an uncached run "
            "over the conversation as its client knows it"
        )
        return [Damage("logits", where, largest, text)]
