"""Sessions of real rows: turns, their rollback, snapshots that are saved and restored, faults to switch on.

Modelled: a session has the rows of a prompt, which is the same for all, and those that its turns append; its
last token has no row until an append computes it. An aborted turn is cut out of the decode backend's rows. A
restore copies rows of an image into the place of a session and installs them at once. An instance without
layers has rows all the same: two layers, staged when its append is prepared; without lengths a session still
has the rows of its prompt and a first token to go on with.
Damage: logits of the next step against an uncached run over what the client knows, rows in the history that
the client never had or that a failed restore left, bytes of a session that takes no turn and does not end.
Left out: files, and clients that come back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from kvspec.models.backend import Damage
from kvspec.models.concrete.state import State
from kvspec.models.decode.backend import DecodeBackend
from kvspec.models.decode.backend_appends import LIVE, Txn
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_model import prompt_of, token_of
from kvspec.models.decode.backend_tables import Entry, RefusedError, Slot, seal
from kvspec.models.decode.mechanisms.core_part import core_part, core_tables
from kvspec.models.decode.mechanisms.sessions_damage import Meter
from kvspec.models.decode.mechanisms.sessions_rows import Image, Place, Rows, Session, own_rows
from kvspec.spec.language import Instance

FAULTS: Final = {
    "drop_queued.drop-assignment.busy": "a turn that is dropped from the queue leaves its session busy",
    "truncate.drop-guard.NOT_COMPLETED": "an aborted turn is rolled back to any row",
    "truncate.drop-assignment.tokens": "a rollback cuts rows and keeps tokens",
    "complete.drop-guard.APPEND_LIVE": "a turn is completed while an append of it is on its way",
    "begin.drop-guard.TURN_TOO_LONG": "a turn has more rows than can be taken back",
    "cancel_request.not-while-streaming": "a session whose client is gone waits for its turn",
    "disconnect.a-client-is-forgotten": "a client that is gone is forgotten, and nobody is told",
    "undo_restore.drop-assignment.written": "the rows of a failed restore stay in their place",
    "undo_restore.clears-every-session": "a failed restore clears the tokens of every session",
    "check_image.drop-assignment.IMAGE_DAMAGED.restore": "a damaged image leaves its restore open",
    "save.as-many-tokens-as-rows": "the last token, which has no row, is not saved",
    "publish_restore.tokens-of-its-rows": "a restored session has the tokens that have rows",
}
"""Every fault that the cache can be given, by name, with what it does."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of its rules, or None."""
    return mutation if mutation in FAULTS else None


class Cache(DecodeBackend):
    """The decode backend with sessions; it speaks of the system `sessions`.

    Attributes:
        sessions: the session of each handle.
        images: the images.

    Raises:
        ValueError: there is no such fault.
    """

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        chosen = known_faults(faults, FAULTS)
        super().__init__(device="cpu")
        self.forgets = chosen
        self.sessions: list[Session] = []
        self.images: list[Image] = []
        self._layers = 0
        self._coming: dict[int, list[int]] = {}
        self._ahead: tuple[int, Entry, list[int]] | None = None
        self._core: dict[str, Callable[..., None]] = {}

    def reset(self, instance: Instance) -> None:
        """Begin anew, with the sizes of an instance of `sessions`."""
        self._layers = instance.sizes["Layer"]
        part = core_part(instance)
        super().reset(part)
        tables = self._held()
        self.sessions = [
            Session(Place(tables.shape, part.bounds["Length"] + 1))
            for _ in range(part.sizes["Handle"])
        ]
        self.images = [Image() for _ in range(instance.sizes["Image"])]
        self._coming, self._ahead = {}, None
        self._core = dict(self._actions)
        self._actions |= {
            name: getattr(self, f"_{name}")
            for name in (
                *("allocate", "fork", "truncate", "cancel_request", "finish", "release"),
                *("begin", "prepare", "publish", "submit", "drop_queued", "start_turn"),
                *("complete", "abort", "disconnect", "save", "damage", "begin_restore"),
                *("write_row", "check_image", "publish_restore", "undo_restore"),
            )
        }
        self._harm = Meter(tables, self.sessions, self._cancel_refusal)

    def observe(self) -> State:
        """The state of the core, and every session and image; rows and damage are told by bytes."""
        tables = core_tables(super().observe(), has_layers=bool(self._layers))
        sessions, images = self.sessions, self.images
        return State(
            (
                *tables,
                tuple(s.client for s in sessions),
                tuple(s.turn for s in sessions),
                tuple(s.busy for s in sessions),
                tuple(s.completed for s in sessions),
                tuple(self._token_count(h) for h in range(len(sessions))),
                tuple(s.restore for s in sessions),
                tuple(s.source for s in sessions),
                tuple(s.place.written for s in sessions),
                tuple(i.rows is not None for i in images),
                tuple(i.count for i in images),
                tuple(len(i.tokens) for i in images),
                tuple(i.is_damaged for i in images),
            )
        )

    def damage(self) -> list[Damage]:
        """What the backend measures, and what the next step of each session would read."""
        return [*super().damage(), *self._harm.damage()]

    def _lacks(self, fault: str) -> bool:
        return fault in self.forgets

    def _slot(self, h: int) -> Slot:
        return self._held().slots[h]

    def _length(self, h: int) -> int:
        return len(self._slot(h).entry.tokens)

    def _is_ready(self, h: int) -> bool:
        return self._slot(h).entry.phase == "DECODE_READY"

    def _need_ready(self, h: int) -> None:
        _need(self._is_ready(h), "HANDLE_TERMINAL", f"handle{h} is {self._slot(h).entry.phase}")

    def _txns(self) -> list[Txn]:
        assert self._requests is not None  # noqa: S101  # reset made them
        return self._requests.appends.txns

    # Sessions begin and end. What the core refuses it refuses first.

    def _allocate(self, h: int, b: int, a: int) -> None:
        """The rows of the prompt that all sessions begin with, and one token more."""
        self._core["allocate"](h=h, b=b, a=a)
        tables, slot, prompt = self._held(), self._slot(h), prompt_of("sessions")
        tables.pool.fill(b, prompt, tables.models[a])
        slot.entry = seal(tables, slot, attrs.evolve(slot.entry, prompt=prompt))
        if slot.output is not None:
            slot.output.prompt = prompt
        session = self.sessions[h]
        session.client = "CONNECTED"
        session.tokens = [token_of("first", slot.entry.lineage)]
        session.told = list(session.tokens)

    def _fork(self, p: int, children: tuple[bool, ...], n: int) -> None:
        parent = self.sessions[p]
        if self._is_ready(p) and any(children) and n <= self._length(p):
            _need(
                n <= parent.completed, "BEYOND_COMPLETED", f"{parent.completed} rows are completed"
            )
        self._core["fork"](p=p, children=children, n=n)
        for h, is_child in enumerate(children):
            if is_child:
                session = self.sessions[h]
                session.client, session.completed = "CONNECTED", n
                session.tokens, session.told = parent.tokens[: n + 1], parent.told[: n + 1]

    def _finish(self, h: int) -> None:
        session = self.sessions[h]
        self._need_ready(h)
        _need(session.client == "CONNECTED", "CLIENT_GONE", f"the client is {session.client}")
        _need(not session.busy, "SESSION_BUSY", f"the turn is {session.turn}")
        _need(session.restore == "NONE", "RESTORE_LIVE", f"the restore is {session.restore}")
        self._core["finish"](h=h)

    def _cancel_refusal(self, h: int) -> str | None:
        """Why a ready session cannot be cancelled; None if it can."""
        session = self.sessions[h]
        waits = session.turn == "RUNNING" and self._lacks("cancel_request.not-while-streaming")
        return "CLIENT_CONNECTED" if session.client != "GONE" or waits else None

    def _cancel_request(self, h: int) -> None:
        session, refusal = self.sessions[h], self._cancel_refusal(h)
        self._need_ready(h)
        if refusal is not None:
            raise RefusedError(refusal, f"the client is {session.client}")
        self._core["cancel_request"](h=h)
        session.end_turn()
        session.end_restore()

    def _release(self, h: int) -> None:
        self._core["release"](h=h)
        session = self.sessions[h]
        session.client, session.completed = "NONE", 0
        session.tokens, session.told = [], []

    def _disconnect(self, h: int) -> None:
        session = self.sessions[h]
        _need(session.client == "CONNECTED", "CLIENT_GONE", f"the client is {session.client}")
        session.client = "NONE" if self._lacks("disconnect.a-client-is-forgotten") else "GONE"

    # Turns.

    def _submit(self, h: int) -> None:
        session = self.sessions[h]
        self._need_ready(h)
        _need(session.client == "CONNECTED", "CLIENT_GONE", f"the client is {session.client}")
        _need(not session.busy, "SESSION_BUSY", f"the turn is {session.turn}")
        _need(session.restore == "NONE", "RESTORE_LIVE", f"the restore is {session.restore}")
        session.turn, session.busy = "QUEUED", True

    def _drop_queued(self, h: int) -> None:
        session = self.sessions[h]
        _need(session.turn == "QUEUED", "TURN_NOT_QUEUED", f"the turn is {session.turn}")
        session.end_turn()
        session.busy = self._lacks("drop_queued.drop-assignment.busy")

    def _start_turn(self, h: int) -> None:
        session = self.sessions[h]
        _need(session.turn == "QUEUED", "TURN_NOT_QUEUED", f"the turn is {session.turn}")
        session.turn = "RUNNING"

    def _begin(self, x: int, h: int, k: int, a: int, p: int, n: int) -> None:
        """Append the rows of the last token and of those that come next; one more comes without row."""
        txns, session, entry = self._txns(), self.sessions[h], self._slot(h).entry
        kept = txns[x]
        coming = [token_of(entry.lineage, entry.version, x, place) for place in range(n)]
        last = (*entry.prompt, *session.tokens[: p + 1])[-1:]
        self.feed(h, (*last, *coming[:-1]))
        try:
            self._core["begin"](x=x, h=h, k=k, a=a, p=p, n=n)
            _need(session.turn == "RUNNING", "TURN_NOT_RUNNING", f"the turn is {session.turn}")
            if not self._lacks("begin.drop-guard.TURN_TOO_LONG"):
                most = session.completed + self._held().rewind
                _need(p + n <= most, "TURN_TOO_LONG", f"{p + n} rows, cut back by {most} at most")
        except RefusedError:
            txns[x] = kept
            raise
        finally:
            self._held().fed.pop(h, None)
        self._coming[x] = coming

    def _prepare(self, x: int) -> None:
        """In an instance without layers the rows are staged here."""
        txn = self._txns()[x]
        if not self._layers and txn.state == "OPEN":
            for place in range(txn.start, txn.start + txn.count):
                for layer in range(self._held().shape.layers):
                    self._core["stage_k"](x=x, l=layer, p=place)
                    self._core["stage_v"](x=x, l=layer, p=place)
        self._core["prepare"](x=x)

    def _publish(self, x: int) -> None:
        """Tokens come with the rows, by the same swap; a client is told of them in a turn that runs."""
        h = self._txns()[x].target or 0
        session, coming = self.sessions[h], self._coming.get(x, [])
        self._ahead = (h, self._slot(h).entry, coming)
        try:
            self._core["publish"](x=x)
            session.tokens = session.tokens + coming
        finally:
            self._ahead = None
        if session.turn == "RUNNING":
            session.told = session.told + coming

    def _token_count(self, h: int) -> int:
        """Tokens of a session as a reader sees them, in a publication as well."""
        count = len(self.sessions[h].tokens)
        if self._ahead is not None and self._ahead[0] == h:
            _, before, coming = self._ahead
            count += 0 if self._slot(h).entry is before else len(coming)
        return count

    def _complete(self, h: int) -> None:
        session, generation = self.sessions[h], self._slot(h).generation
        _need(session.turn == "RUNNING", "TURN_NOT_RUNNING", f"the turn is {session.turn}")
        live = [t for t in self._txns() if t.target == h and t.base_generation == generation]
        if not self._lacks("complete.drop-guard.APPEND_LIVE"):
            _need(not any(t.state in LIVE for t in live), "APPEND_LIVE", "an append has not ended")
        session.end_turn()
        session.completed = self._length(h)

    def _abort(self, h: int) -> None:
        session = self.sessions[h]
        _need(session.turn == "RUNNING", "TURN_NOT_RUNNING", f"the turn is {session.turn}")
        session.turn = "ABORTED"

    def _truncate(self, h: int, n: int) -> None:
        """Cut the rows of an aborted turn, and with them what its client was told."""
        session, length = self.sessions[h], self._length(h)
        if self._is_ready(h) and n <= length <= n + self._held().rewind:
            _need(session.turn == "ABORTED", "NOT_ABORTED", f"the turn is {session.turn}")
            if not self._lacks("truncate.drop-guard.NOT_COMPLETED"):
                found = f"{session.completed} rows are completed, asked for {n}"
                _need(n == session.completed, "NOT_COMPLETED", found)
        self._core["truncate"](h=h, n=n)
        session.end_turn()
        session.told = session.told[: session.completed + 1]
        if not self._lacks("truncate.drop-assignment.tokens"):
            session.tokens = session.tokens[: n + 1]

    # Images.

    def _save(self, h: int, i: int) -> None:
        session, entry = self.sessions[h], self._slot(h).entry
        self._need_ready(h)
        _need(not session.busy, "SESSION_BUSY", f"the turn is {session.turn}")
        _need(all(s.source != i for s in self.sessions), "IMAGE_IN_USE", f"image{i} is being read")
        assert entry.rows is not None  # noqa: S101  # a ready request holds rows
        short = self._lacks("save.as-many-tokens-as-rows")
        saved = len(entry.tokens) if short else len(session.tokens)
        rows = own_rows(entry.rows, self._held().shape)
        self.images[i] = Image.of(rows, session.tokens[:saved], session.told)

    def _damage(self, i: int) -> None:
        _need(self.images[i].rows is not None, "NOT_SAVED", f"image{i} is empty")
        self.images[i].lose()

    def _begin_restore(self, h: int, i: int) -> None:
        session, length = self.sessions[h], self._length(h)
        self._need_ready(h)
        _need(not session.busy, "SESSION_BUSY", f"the turn is {session.turn}")
        _need(session.restore == "NONE", "RESTORE_LIVE", f"the restore is {session.restore}")
        _need(self.images[i].rows is not None, "NOT_SAVED", f"image{i} is empty")
        _need(length == 0, "HAS_ROWS", f"handle{h} has {length} rows")
        session.restore, session.source = "OPEN", i

    def _source(self, session: Session) -> Image:
        return Image() if session.source is None else self.images[session.source]

    def _write_row(self, h: int) -> None:
        session = self.sessions[h]
        image, row = self._source(session), session.place.written
        _need(session.restore == "OPEN", "NOT_RESTORING", f"the restore is {session.restore}")
        _need(row < image.count, "IMAGE_READ", f"all {image.count} rows are written")
        session.place.write(image, row)

    def _check_image(self, h: int) -> None:
        """A damaged image is refused, and its restore has failed from then on."""
        session = self.sessions[h]
        image, written = self._source(session), session.place.written
        _need(session.restore == "OPEN", "NOT_RESTORING", f"the restore is {session.restore}")
        if image.is_damaged:
            session.was_refused = True
            if not self._lacks("check_image.drop-assignment.IMAGE_DAMAGED.restore"):
                session.restore = "FAILED"
            raise RefusedError("IMAGE_DAMAGED", f"the bytes have the digest {image.measured()}")
        _need(written == image.count, "ROWS_MISSING", f"{written} of {image.count} rows")
        session.restore, session.read = "PREPARED", list(image.tokens)

    def _publish_restore(self, h: int) -> None:
        session = self.sessions[h]
        image, count = self._source(session), session.place.written
        _need(session.restore == "PREPARED", "NOT_CHECKED", f"the restore is {session.restore}")
        short = self._lacks("publish_restore.tokens-of-its-rows")
        session.tokens = session.read[:count] if short else session.read
        session.told, session.completed = list(image.told), count
        self._install(h, session.place.first(count), tuple(session.read[:count]))
        session.end_restore()

    def _install(self, h: int, rows: Rows, tokens: tuple[int, ...]) -> None:
        """Make restored rows visible in all layers, with their tokens, by one swap."""
        tables, slot = self._held(), self._slot(h)
        shown = slot.entry.rows
        if tokens and slot.layout is not None:
            staging = slot.layout.begin(len(tokens))
            try:
                for (layer, part), found in rows.items():
                    staging.stage(layer, part, found, start=0)
                *_, shown = slot.layout.install_steps(staging)
            finally:
                staging.discard()
        entry = slot.entry
        newer = attrs.evolve(entry, version=entry.version + 1, tokens=tokens, rows=shown)
        slot.entry = seal(tables, slot, newer)
        if slot.output is not None:
            slot.output.tokens = tokens
        tables.batch.move(h, len(tokens))

    def _undo_restore(self, h: int) -> None:
        session = self.sessions[h]
        _need(
            session.restore == "FAILED", "RESTORE_NOT_FAILED", f"the restore is {session.restore}"
        )
        session.end_restore(keep_rows=self._lacks("undo_restore.drop-assignment.written"))
        if self._lacks("undo_restore.clears-every-session"):
            for other in self.sessions:
                other.tokens = []


def _need(holds: bool, code: str, detail: str) -> None:
    if not holds:
        raise RefusedError(code, detail)
