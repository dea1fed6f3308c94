"""The wrapper with transactions: what the library's caches lose, it keeps."""

import pytest
import torch

from kvspec.models.adapter import RefusedByCacheError

PROMPT, TOKEN = [1, 2, 3, 4], 9


@pytest.fixture
def cache(lib, llama):
    """One request of four tokens, room for four more."""
    from kvspec.models.runtimes.transactional import TransactionalCache

    cache = TransactionalCache([llama], handles=2, blocks=1, rows=1, appends=2, context=4, rewind=4)
    cache.allocate(0, 0, 0, PROMPT)
    return cache


def rows(cache, h=0):
    """Rows of each layer that a reader of a handle sees."""
    return [int(keys.shape[-2]) for keys, _ in cache.requests[h].snapshot.rows]


def append(cache, lib, llama, ids, x=0):
    """Run a forward call as an append, and publish it; logits."""
    cache.begin(x, 0, 0, 0, cache.requests[0].snapshot.length, ids)
    logits = lib.forward(llama, ids, cache.view(x))
    cache.prepare(x)
    cache.publish(x)
    cache.forget(x)
    return logits


def test_a_reader_sees_whole_appends_alone(cache, lib, llama):
    """During a forward pass every layer has T rows, and so says the cache that the pass is given (D2)."""
    from kvspec.models.runtimes.transformers_calls import ForwardCall

    cache.begin(0, 0, 0, 0, 0, [TOKEN])
    view = cache.view(0)
    call = ForwardCall(lambda: lib.forward(llama, [TOKEN], view))
    call.go_on()
    assert rows(cache) == [4, 4]
    assert int(view.get_seq_length()) == 4
    call.finish()
    assert rows(cache) == [4, 4]
    cache.prepare(0)
    cache.publish(0)
    assert rows(cache) == [5, 5]


def test_an_exception_between_layers_leaves_nothing_behind(cache, lib, llama):
    """Not [5, 4] and then [6, 5] but [4, 4] and then [5, 5], and right logits (D2)."""
    from kvspec.models.runtimes.transformers_calls import ForwardCall

    cache.begin(0, 0, 0, 0, 0, [TOKEN])
    view = cache.view(0)
    call = ForwardCall(lambda: lib.forward(llama, [TOKEN], view))
    call.go_on()
    call.cut()
    cache.cancel_txn(0)
    cache.forget(0)
    assert rows(cache) == [4, 4]
    logits = append(cache, lib, llama, [TOKEN])
    assert rows(cache) == [5, 5]
    right = lib.forward(llama, [*PROMPT, TOKEN])
    assert float((logits - right).abs().max()) < 1e-5


def test_a_cancelled_forward_pass_cannot_write(cache, lib, llama):
    """A pass that goes on after its append was cancelled is refused at the next layer."""
    from kvspec.models.runtimes.transformers_calls import ForwardCall

    cache.begin(0, 0, 0, 0, 0, [TOKEN])
    view = cache.view(0)
    call = ForwardCall(lambda: lib.forward(llama, [TOKEN], view))
    call.go_on()
    cache.cancel_txn(0)
    with pytest.raises(RefusedByCacheError, match="TXN_CLOSED"):
        call.go_on()


def test_the_second_of_two_appends_is_stale(cache, lib, llama):
    """Two passes on one snapshot: the first is published, the second rejected as STALE_SNAPSHOT."""
    for x in (0, 1):
        cache.begin(x, 0, x, 0, 0, [TOKEN])
        lib.forward(llama, [TOKEN], cache.view(x))
        cache.prepare(x)
    cache.publish(0)
    with pytest.raises(RefusedByCacheError, match="STALE_SNAPSHOT"):
        cache.publish(1)
    assert rows(cache) == [5, 5]
    assert cache.appends[1].state == "REJECTED"


def test_a_fork_shares_rows_and_goes_its_own_way(cache, lib, llama):
    """A child reads the parent's tensors; what the parent appends is not seen by the child."""
    append(cache, lib, llama, [TOKEN])
    cache.fork(0, [1], 1)
    (parent, _), *_ = cache.requests[0].snapshot.rows
    (child, _), *_ = cache.requests[1].snapshot.rows
    assert parent.data_ptr() == child.data_ptr()
    assert torch.equal(
        lib.forward(llama, [7], cache.reader(0)), lib.forward(llama, [7], cache.reader(1))
    )
    append(cache, lib, llama, [TOKEN])
    assert (rows(cache, 0), rows(cache, 1)) == ([6, 6], [5, 5])


def test_a_reader_cannot_change_a_snapshot(cache, lib, llama):
    """A reader's forward call appends to an object of its own."""
    reader = cache.reader(0)
    lib.forward(llama, [TOKEN, TOKEN], reader)
    assert rows(cache) == [4, 4]


def test_a_retry_is_told_the_receipt_of_the_same_call_alone(cache, lib, llama):
    """The same key, base and interval give the receipt; another number of rows does not."""
    cache.begin(0, 0, 0, 0, 0, [TOKEN])
    lib.forward(llama, [TOKEN], cache.view(0))
    cache.prepare(0)
    cache.publish(0)
    assert cache.retry(0, 0, 0, 0, 1) == 1
    with pytest.raises(RefusedByCacheError, match="INTERVAL_CONFLICT"):
        cache.retry(0, 0, 0, 0, 2)
