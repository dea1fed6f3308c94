"""What the decode backend computes: rows in any order, digests, fingerprints, receipts, adapters."""

from itertools import permutations

import pytest
import torch

from kvspec.models.concrete import Event
from kvspec.models.decode import LAYOUT_KINDS, DecodeBackend, DecodeError, agrees, make_backend
from kvspec.spec import core
from kvspec.spec.examples import lock
from kvspec.spec.language import instance

INSTANCE = core.make_instance(
    "COMPUTE",
    "two handles, two layers, two adapters",
    handles=3,
    txns=2,
    layers=2,
    abis=2,
    keys=2,
    blocks=3,
    rows=2,
    longest=3,
    versions=6,
    generations=3,
)
NAMES = {
    name: [parameter.name for parameter in action.parameters]
    for name, action in INSTANCE.system.actions.items()
}


def do(backend: DecodeBackend, action: str, *values: object) -> None:
    """Perform an event that must be accepted."""
    reply = backend.perform(Event(action, tuple(zip(NAMES[action], values, strict=True))))
    assert reply.accepted, (action, values, reply)


def code(backend: DecodeBackend, action: str, *values: object) -> str | None:
    """The code with which an event is refused."""
    return backend.perform(Event(action, tuple(zip(NAMES[action], values, strict=True)))).code


def fresh(layout: str = "dynamic", **options: object) -> DecodeBackend:
    """A backend on the instance."""
    backend = make_backend(layout, **options)
    backend.reset(INSTANCE)
    return backend


CELLS = [(part, layer) for layer in (0, 1) for part in "kv"]


def publish(
    backend: DecodeBackend,
    x: int,
    h: int,
    start: int,
    count: int,
    cells: object = CELLS,
    a: int = 0,
) -> None:
    """An append of key 0, staged part by part in a given order."""
    do(backend, "begin", x, h, 0, a, start, count)
    for part, layer in cells:
        for place in range(start, start + count):
            do(backend, f"stage_{part}", x, layer, place)
    do(backend, "prepare", x)
    do(backend, "publish", x)


@pytest.mark.parametrize("layout", LAYOUT_KINDS)
def test_rows_are_the_same_in_whatever_order_they_are_staged(layout: str) -> None:
    """All 24 orders of K and V of two layers publish the same rows, those of an uncached run."""
    shown = []
    for cells in permutations(CELLS):
        backend = fresh(layout)
        do(backend, "allocate", 0, 0, 0)
        publish(backend, 0, 0, 0, 2, cells)
        publish(backend, 1, 0, 2, 1, cells[::-1])
        assert backend.damage() == []
        shown.append(backend.read(0).layers())
    for layers in shown[1:]:
        for pair, first in zip(layers, shown[0], strict=True):
            assert all(torch.equal(rows, right) for rows, right in zip(pair, first, strict=True))


@pytest.mark.parametrize("layout", LAYOUT_KINDS)
def test_an_adapter_gives_other_logits(layout: str) -> None:
    """Two ABIs have rows of the same shapes, other digests and other logits of the same tokens."""
    backend = fresh(layout)
    logits = []
    for abi in (0, 1):
        backend.reset(INSTANCE)
        do(backend, "allocate", 0, 0, abi)
        publish(backend, 0, 0, 0, 2, a=abi)
        assert backend.damage() == []
        logits.append((backend.read(0).ids, backend.logits(0), backend.read(0).entry.digest))
    (ids, one, digest), (same_ids, other, other_digest) = logits
    assert ids == same_ids
    assert digest != other_digest
    assert float((one - other).abs().max()) > 0.01


def test_requests_have_rows_of_their_own() -> None:
    """Handles, their later requests and their forks have other tokens, and other logits."""
    backend = fresh()
    do(backend, "allocate", 0, 0, 0)
    do(backend, "allocate", 1, 1, 0)
    publish(backend, 0, 0, 0, 1)
    publish(backend, 1, 1, 0, 1)
    do(backend, "fork", 0, (False, False, True), 1)
    do(backend, "forget", 0)
    do(backend, "forget", 1)
    publish(backend, 0, 0, 1, 1)
    publish(backend, 1, 2, 1, 1)
    first, second, child = (backend.read(handle) for handle in range(3))
    assert len({first.ids, second.ids, child.ids}) == 3
    assert child.ids[:3] == first.ids[:3]
    assert backend.damage() == []
    assert not agrees(backend.logits(0), backend.logits(2))


def test_a_fork_with_several_children_is_all_or_none() -> None:
    """A fork of which one child is in use changes none of the others."""
    backend = fresh()
    do(backend, "allocate", 0, 0, 0)
    do(backend, "allocate", 1, 1, 0)
    before = backend.observe()
    assert code(backend, "fork", 0, (False, True, True), 0) == "CHILD_IN_USE"
    assert backend.observe() == before
    assert backend.read(0).entry.phase == "DECODE_READY"


def test_digests_name_the_snapshot() -> None:
    """Every snapshot has its own digest; ends keep it, and a later request never has it again."""
    backend = fresh()
    do(backend, "allocate", 0, 0, 0)
    digests = [backend.read(0).entry.digest]
    publish(backend, 0, 0, 0, 1)
    digests.append(backend.read(0).entry.digest)
    do(backend, "truncate", 0, 0)
    digests.append(backend.read(0).entry.digest)
    do(backend, "finish", 0)
    assert backend.read(0).entry.digest == digests[-1]
    do(backend, "release", 0)
    do(backend, "allocate", 0, 1, 0)
    digests.append(backend.read(0).entry.digest)
    assert len(set(digests)) == 4
    assert all(len(digest) == 64 for digest in digests)


def test_a_receipt_outlives_its_request() -> None:
    """A repeated call gets the receipt after later publications and after release, until forgotten."""
    backend = fresh()
    do(backend, "allocate", 0, 0, 0)
    publish(backend, 0, 0, 0, 1)
    publish(backend, 1, 0, 1, 1)
    do(backend, "retry", 0, 0, 0, 0, 1)
    do(backend, "finish", 0)
    do(backend, "release", 0)
    do(backend, "allocate", 0, 1, 0)
    do(backend, "retry", 1, 0, 0, 1, 1)
    found = dict(zip(INSTANCE.system.variables, backend.observe().tables, strict=True))
    assert found["ack_receipt"] == (1, 2)
    assert found["length"] == (0, 0, 0)
    conflicts = [(1, 0, 0, 1), (0, 1, 0, 1), (0, 0, 1, 1), (0, 0, 0, 2)]
    assert [code(backend, "retry", 0, *call) for call in conflicts] == [
        "HANDLE_CONFLICT",
        "KEY_CONFLICT",
        "BASE_CONFLICT",
        "INTERVAL_CONFLICT",
    ]
    do(backend, "forget", 0)
    assert code(backend, "retry", 0, 0, 0, 0, 1) == "NOT_PUBLISHED"


def test_an_evicted_block_is_overwritten() -> None:
    """What a reader of a freed block would read is no row of anybody."""
    backend = fresh()
    do(backend, "allocate", 0, 0, 0)
    view = backend.read(0)
    before = view.layers()[0][0].clone()
    do(backend, "finish", 0)
    do(backend, "release", 0)
    do(backend, "evict", 0)
    assert not torch.equal(view.layers()[0][0], before)


def test_a_refusal_says_what_was_found() -> None:
    """A refusal carries found and expected in words."""
    backend = fresh()
    do(backend, "allocate", 0, 0, 0)
    reply = backend.perform(Event("begin", tuple(zip(NAMES["begin"], (0, 0, 0, 1, 0, 1)))))  # noqa: B905
    assert (reply.code, reply.detail) == ("ABI_MISMATCH", "handle0 has abi0, not abi1")


def test_what_is_no_instance_of_the_core_system_is_refused() -> None:
    """Another system's instance, a missing reset and an unknown layout are told apart."""
    other = instance("LOCK", lock.system, {lock.Process: 2})
    with pytest.raises(ValueError, match="expected an instance of the core system"):
        make_backend().reset(other)
    with pytest.raises(ValueError, match="call reset"):
        make_backend().observe()
    with pytest.raises(DecodeError, match="found layout 'heap'"):
        make_backend("heap")
