"""A store of prefixes by identity in two tiers, over real rows, with its own keys and faults to switch on.

Modelled: each identity has a decoder of its weights with its adapter as it is loaded, and inputs of its
tokens, mask and images, so that every field but the salt changes the rows. A request computes its rows into
a slot, or finds rows of others there or in an external tier; what it finds is compared key by key.
Damage: rows that a request reads and that its own decoder does not compute from its own inputs, and by how
much its logits behind them part from an uncached run; rows of another tenant, which are what its own would
be, and tell it what that one asked; rows read in a slot that was emptied.
Left out: digests are given, and none is computed.
"""

from __future__ import annotations

from typing import Any, Final

from kvspec.models.backend import Damage
from kvspec.models.concrete.state import State, Value
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.mechanisms.checks import Checked
from kvspec.models.decode.mechanisms.identity_rows import ROWS, VALUES, Identity, Rooms
from kvspec.models.decode.mechanisms.slot_rows import is_apart
from kvspec.spec.language import Instance

_FIELDS: Final = {
    "TOKENS": "tokens",
    "WEIGHTS": "weights",
    "NAMES": "adapter set and salt",
    "LOADING": "load of the adapter set",
    "MASK": "mask",
    "IMAGES": "images",
}
_LOOKS: Final = {"match": "the device", "load": "the external tier"}
FAULTS: Final = {
    **{
        f"{action}.drop-guard.OTHER_{code}": f"the key of {tier} lacks the {field}"
        for action, tier in _LOOKS.items()
        for code, field in _FIELDS.items()
    },
    **{
        f"{action}.{name}": f"{says} {tier}"
        for action, tier in _LOOKS.items()
        for name, says in (
            ("without-adapter", "only the salt is compared of the names in keys of"),
            ("names-without-labels", "names are a list without labels in keys of"),
            ("digest-of-images", "a digest stands for the images in keys of"),
        )
    },
    "load.without-salt": "only the adapter set is compared of the names in keys of the external tier",
    "compute.drop-guard.SLOT_IN_USE": "rows are computed over those of a slot that has some",
    "load.drop-guard.SLOT_IN_USE": "rows are loaded over those of a slot that has some",
    "evict_slot.drop-guard.SLOT_READ": "a slot is emptied while it is read",
}
"""Every fault that the cache can be given, by name, with what it does."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of identity, or None."""
    return mutation if mutation in FAULTS else None


class Cache(Checked):
    """Slots of the device, objects of the external tier, and requests that find rows in both.

    Identities are numbers into a table that is fixed when the cache begins, as their digests are.

    Raises:
        ValueError: a fault is not one of ``FAULTS``, or a field can have more values than inputs are for.
    """

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        self._faults = known_faults(faults, FAULTS)

    def reset(self, instance: Instance) -> None:
        """Begin anew, with empty rooms, and with identities that do not differ."""
        sizes = instance.sizes
        for sort in ("Tokens", "Weights", "Name", "Loading", "Mask", "Image"):
            most = 1 << (ROWS - 1) if sort == "Mask" else VALUES
            if sizes[sort] > most:
                raise ValueError(
                    f"{instance.name} has {sizes[sort]} members of {sort}, and this cache has inputs for "
                    f"{most}: give an instance with fewer"
                )
        self._variables = list(instance.system.variables)
        count, self._slots = sizes["Identity"], sizes["Slot"]
        self._known = [Identity(0, 0, None, 0, None, 0, 0)] * count
        self._digests = [0] * count
        self._asks: list[int | None] = [None] * sizes["Request"]
        self._reads: list[int | None] = [None] * sizes["Request"]
        self._rooms = Rooms(self._slots + sizes["Object"])
        self._keys: list[int | None] = [None] * len(self._rooms.of)
        self._written: list[int | None] = [None] * len(self._rooms.of)

    def begin_in(self, initial: State) -> None:
        """Take on the identities of an initial state, and their digests."""
        tables: dict[str, Any] = dict(zip(self._variables, initial.tables, strict=True))
        names = ("tokens", "weights", "adapter", "adapter_epoch", "salt", "mask", "images")
        columns = zip(*(tables[name] for name in names), strict=True)
        self._known = [Identity(*column) for column in columns]
        self._digests = list(tables["digest"])

    def _room(self, o: int) -> int:
        """The room of an object: those of the tier are behind those of the device."""
        return self._slots + o

    # Requests.

    def _submit(self, r: int, i: int) -> None:
        self._need(self._asks[r] is None, "REQUEST_OPEN")
        self._asks[r] = i

    def _close(self, r: int) -> None:
        self._need(self._asks[r] is not None, "REQUEST_CLOSED")
        self._asks[r] = self._reads[r] = None

    def _asked(self, r: int) -> int:
        """The identity that a request needs, if it is open and has no rows yet."""
        asked = self._asks[r]
        self._need(asked is not None, "REQUEST_CLOSED")
        self._need(self._reads[r] is None, "READS_ALREADY")
        return 0 if asked is None else asked

    def _compute(self, r: int, s: int) -> None:
        asked = self._asked(r)
        self._need(self._keys[s] is None, "SLOT_IN_USE")
        self._rooms.compute(s, self._known[asked])
        self._keys[s] = self._written[s] = asked
        self._reads[r] = s

    def _match(self, r: int, s: int) -> None:
        asked, found = self._asked(r), self._keys[s]
        self._need(found is not None, "SLOT_EMPTY")
        self._compare(found, asked)
        self._reads[r] = s

    def _load(self, r: int, o: int, s: int) -> None:
        asked, found = self._asked(r), self._keys[self._room(o)]
        self._need(found is not None, "OBJECT_EMPTY")
        self._compare(found, asked)
        self._need(self._keys[s] is None, "SLOT_IN_USE")
        self._copy(self._room(o), s, asked)
        self._reads[r] = s

    # Keys.

    def _compare(self, found_number: int | None, asked_number: int) -> None:
        """What is found must be what is asked for, field by field."""
        if found_number is None:
            raise ValueError("there is no key to compare: ask whether the room has one before")
        found, asked = self._known[found_number], self._known[asked_number]
        same_images = found.images == asked.images
        if self._has("digest-of-images"):
            same_images = self._digests[found_number] == self._digests[asked_number]
        self._need(found.tokens == asked.tokens, "OTHER_TOKENS")
        self._need(found.weights == asked.weights, "OTHER_WEIGHTS")
        self._need(self._names(found) == self._names(asked), "OTHER_NAMES")
        same_loading = found.adapter is None or found.loading == asked.loading
        self._need(same_loading, "OTHER_LOADING")
        self._need(found.mask == asked.mask, "OTHER_MASK")
        self._need(same_images, "OTHER_IMAGES")

    def _has(self, fault: str) -> bool:
        return f"{self._action}.{fault}" in self._faults

    def _names(self, identity: Identity) -> tuple[int | None, ...]:
        """The part of a key that has names: adapter set and salt, each in its place."""
        if self._has("without-adapter"):
            return (identity.salt,)
        if self._has("without-salt"):
            return (identity.adapter,)
        names = (identity.adapter, identity.salt)
        if self._has("names-without-labels"):
            return tuple(name for name in names if name is not None)
        return names

    # Rooms.

    def _store(self, s: int, o: int) -> None:
        key, target = self._keys[s], self._room(o)
        self._need(key is not None, "SLOT_EMPTY")
        self._need(self._keys[target] is None, "OBJECT_IN_USE")
        taken = {self._digests[k] for k in self._keys[self._slots :] if k is not None}
        self._need(key is None or self._digests[key] not in taken, "DIGEST_TAKEN")
        self._copy(s, target, key)

    def _copy(self, source: int, target: int, key: int | None) -> None:
        self._rooms.copy(source, target)
        self._keys[target], self._written[target] = key, self._written[source]

    def _evict_slot(self, s: int) -> None:
        self._need(self._keys[s] is not None, "SLOT_EMPTY")
        self._need(s not in self._reads, "SLOT_READ")
        self._empty(s)

    def _evict_object(self, o: int) -> None:
        self._need(self._keys[self._room(o)] is not None, "OBJECT_EMPTY")
        self._empty(self._room(o))

    def _empty(self, room: int) -> None:
        self._rooms.empty(room)
        self._keys[room] = self._written[room] = None

    # What is seen.

    def observe(self) -> State:
        """The store's state as the specification's variables, rows by their bytes and what is beside them."""
        seen = self._seen()
        return State(tuple(tuple(seen[name]) for name in self._variables))

    def _seen(self) -> dict[str, list[Value]]:
        known, rows = self._known, [self._really_of(room) for room in range(len(self._keys))]
        return {
            "tokens": [identity.tokens for identity in known],
            "weights": [identity.weights for identity in known],
            "adapter": [identity.adapter for identity in known],
            "adapter_epoch": [identity.loading for identity in known],
            "salt": [identity.salt for identity in known],
            "mask": [identity.mask for identity in known],
            "images": [identity.images for identity in known],
            "digest": list(self._digests),
            "asks": list(self._asks),
            "reads": list(self._reads),
            "slot_key": list(self._keys[: self._slots]),
            "slot_rows": list(rows[: self._slots]),
            "object_key": list(self._keys[self._slots :]),
            "object_rows": list(rows[self._slots :]),
        }

    def _really_of(self, room: int) -> int | None:
        """The number of the identity whose rows a room has: the writer's, if the bytes are its own."""
        number, held = self._written[room], self._rooms.holds(room)
        return number if number is not None and held == self._known[number] else None

    def damage(self) -> list[Damage]:
        """What requests read that is not theirs."""
        found: list[Damage] = []
        for r, (asked, room) in enumerate(zip(self._asks, self._reads, strict=True)):
            if asked is not None and room is not None:
                found += self._of_read(f"request{r}", self._known[asked], room)
        return found

    def _of_read(self, where: str, asked: Identity, room: int) -> list[Damage]:
        whose = self._rooms.of[room]
        if whose is None:
            return [Damage("owner", where, ROWS, f"rows read in slot{room}, which was emptied")]
        found, wrong = [], self._rooms.wrong_rows(room, asked)
        if wrong:
            apart = _apart(whose, asked)
            text = f"of {ROWS} rows read in slot{room} are of another {apart}"
            found.append(Damage("rows", where, wrong, text))
        elif whose.salt != asked.salt:
            text = (
                f"rows read in slot{room} were computed for another tenant, and tell what it asked"
            )
            found.append(Damage("rows", where, ROWS, text))
        cached, right = self._rooms.logits(room, asked), asked.run().logits
        if is_apart(cached, right):
            off = float((cached - right).abs().max())
            found.append(Damage("logits", where, off, "largest difference from an uncached run"))
        return found


def _apart(whose: Identity, asked: Identity) -> str:
    """The fields in which rows are not what was asked for."""
    names = ("tokens", "weights", "adapter", "loading", "salt", "mask", "images")
    return ", ".join(n for n in names if getattr(whose, n) != getattr(asked, n)) or "moment"
