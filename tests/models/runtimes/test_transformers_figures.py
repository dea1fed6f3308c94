"""What the library's own caches do in a forward pass, in figures, of both releases."""

import copy

import pytest
import torch

from kvspec.models.runtimes.transformers_calls import CallCutError, ForwardCall

PROMPT, TOKEN = [1, 2, 3, 4], 9


def rows(cache):
    """Rows of each layer."""
    return [int(layer.get_seq_length()) for layer in cache.layers]


@pytest.fixture(params=["dynamic", "static"])
def kind(request):
    """Which of the two caches."""
    return request.param


@pytest.fixture
def held(lib, llama, kind):
    """A cache of two layers with the rows of a prompt of four tokens."""
    import transformers

    if kind == "dynamic":
        cache = transformers.DynamicCache(config=llama.config)
    else:
        cache = transformers.StaticCache(config=llama.config, max_cache_len=16)
    lib.forward(llama, PROMPT, cache)
    return cache


@pytest.fixture
def broken(lib, llama, held):
    """The same cache after an exception between layers."""
    call = ForwardCall(lambda: lib.forward(llama, [TOKEN], held))
    call.go_on()
    call.cut()
    return held


@pytest.fixture
def right(lib, llama):
    """Logits of an uncached run over the prompt and one more token."""
    return lib.forward(llama, [*PROMPT, TOKEN])


def test_the_release_is_one_of_the_two_that_are_pinned(lib):
    """The words of a call are those of 4.57.0 or of 5.24, and are probed, not looked up by version."""
    found = (lib.cache_word, lib.position_word, lib.crops_by_removal, lib.has_static_crop)
    if lib.release == "4.57.0":
        assert found == ("past_key_values", "cache_position", False, False)
    else:
        assert lib.major == 5
        assert found == ("cache", "position_ids", True, True)


def test_layer_0_is_ahead_during_a_forward_pass(lib, llama, held):
    """Between layers, layer 0 has T+1 rows and layer 1 has T; get_seq_length() already says T+1 (D2)."""
    call = ForwardCall(lambda: lib.forward(llama, [TOKEN], held))
    assert (rows(held), int(held.get_seq_length())) == ([4, 4], 4)
    call.go_on()
    assert (rows(held), int(held.get_seq_length())) == ([5, 4], 5)
    call.go_on()
    assert rows(held) == [5, 5]
    assert call.logits is None
    call.finish()
    assert call.logits is not None


def test_an_undisturbed_pass_gives_the_logits_of_an_uncached_run(lib, llama, held, right):
    """What goes wrong below is not the decoder's doing: a sound cache differs by rounding alone."""
    logits = lib.forward(llama, [TOKEN], held)
    assert rows(held) == [5, 5]
    assert float((logits - right).abs().max()) < 1e-5


def test_an_exception_between_layers_leaves_uneven_layers(broken):
    """[5, 4] stays: nothing takes the row of layer 0 back, and the cache says that it has 5 (D2)."""
    assert rows(broken) == [5, 4]
    assert int(broken.get_seq_length()) == 5


def test_a_retry_gives_wrong_logits_without_an_error(lib, llama, kind, broken, right):
    """The same call again: [6, 5], and logits far from an uncached run's (D2)."""
    logits = lib.forward(llama, [TOKEN], broken)
    assert rows(broken) == [6, 5]
    apart = float((logits - right).abs().max())
    assert apart == pytest.approx(1.8453 if kind == "dynamic" else 1.5678, abs=2e-3)
    assert float(right.abs().max()) == pytest.approx(3.5436, abs=2e-3)


def test_telling_the_position_heals_the_old_static_cache_alone(lib, llama, kind, broken, right):
    """4.57.0 writes a static row where its caller says; every other cache goes by its own count."""
    logits = lib.forward(llama, [TOKEN], broken, torch.tensor([4]))
    apart = float((logits - right).abs().max())
    if kind == "static" and not lib.has_static_crop:
        assert (rows(broken), apart < 1e-5) == ([5, 5], True)
    else:
        assert rows(broken) == [6, 5]
        assert apart > 0.5


def test_a_retry_with_two_tokens_is_an_error_in_one_case(lib, llama, kind, broken):
    """The newer dynamic cache fails, since the mask is of layer 0's length: by chance, not by check."""
    if kind == "dynamic" and lib.crops_by_removal:
        with pytest.raises(RuntimeError, match="must match the size"):
            lib.forward(llama, [TOKEN, TOKEN], broken)
    else:
        lib.forward(llama, [TOKEN, TOKEN], broken)
        assert rows(broken) == [7, 6]


@pytest.mark.parametrize("wanted", [5, 4, 3, 0])
def test_crop_brings_back_equal_lengths_in_some_cases(lib, kind, broken, wanted):
    """4.57.0: whatever the shortest layer has, or less. 5.24: a dynamic cache when nothing is left (D2)."""
    if kind == "static" and not lib.has_static_crop:
        with pytest.raises(AttributeError):
            lib.crop(broken, wanted)
        return
    lib.crop(broken, wanted)
    if not lib.crops_by_removal:
        expected = [wanted, min(wanted, 4)]
    elif kind == "dynamic":
        expected = [wanted, max(0, wanted - 1)]
    else:
        expected = [wanted, wanted - 1]
    assert rows(broken) == expected


def test_a_crop_past_the_last_row_is_refused_by_the_newer_release_alone(lib, kind, held):
    """4.57.0 does nothing and says nothing; 5.24 sees a number above zero."""
    if kind == "static" and not lib.has_static_crop:
        pytest.skip("there is no crop")
    if lib.crops_by_removal:
        with pytest.raises((RuntimeError, ValueError), match="negative int"):
            lib.crop(held, 7)
    else:
        lib.crop(held, 7)
    assert rows(held) == [4, 4]


def test_a_copy_of_uneven_layers_is_uneven(lib, broken):
    """A fork by deepcopy inherits the damage."""
    assert rows(copy.deepcopy(broken)) == [5, 4]


def test_the_logits_of_a_fork_are_compared_in_equal_batch_shapes(lib, llama, held, right):
    """In a batch of one a copy gives the same bits; a batch of three may differ in its last digits."""
    twin = copy.deepcopy(held)
    assert torch.equal(lib.forward(llama, [TOKEN], held), lib.forward(llama, [TOKEN], twin))
    with torch.no_grad():
        three = llama(input_ids=torch.tensor([[*PROMPT, TOKEN]] * 3), use_cache=False).logits
    assert float((three[0, -1] - right).abs().max()) < 1e-5


def test_a_call_that_was_cut_cannot_go_on(lib, llama, held):
    """A call is over once: it gives no logits after that."""
    call = ForwardCall(lambda: lib.forward(llama, [TOKEN], held))
    call.cut()
    with pytest.raises(CallCutError, match="begin a new one"):
        call.go_on()
    with pytest.raises(CallCutError, match="no logits"):
        call.finish()


def test_what_a_call_raises_reaches_its_caller(lib):
    """An error of the library is the caller's to see, not the thread's."""
    with pytest.raises(ZeroDivisionError):
        ForwardCall(lambda: 1 // 0)
