"""Tests of what is known about started writes."""

import threading

import torch

from kvspec.models.decode.completion import Deferral, borrow, run_now, settle


def test_a_write_on_the_cpu_is_complete_at_once(cpu):
    """On the CPU the write has happened when its completion is handed over."""
    done = []
    token = run_now(lambda: done.append(1), cpu)
    assert done == [1]
    assert token.is_complete()
    assert token.in_order
    token.follow()
    token.wait()
    settle(cpu)


def test_a_deferred_write_lands_when_fired_and_once(cpu):
    """Nothing is written before the firing; a second firing writes nothing."""
    done = []
    hold = Deferral()
    token = hold(lambda: done.append(1), cpu)
    token.follow()
    assert (done, token.is_complete(), token.in_order) == ([], False, False)
    hold.fire_all()
    hold.fire_all()
    assert (done, token.is_complete()) == ([1], True)


def test_waiting_for_a_deferred_write_ends_when_another_thread_fires_it(cpu):
    """A waiter is let go by the firing, and finds the write landed."""
    done = []
    hold = Deferral()
    token = hold(lambda: done.append(1), cpu)
    seen = []

    def waiter():
        token.wait()
        seen.append(list(done))

    thread = threading.Thread(target=waiter)
    thread.start()
    hold.writes[0].fire()
    thread.join(timeout=10)
    assert seen == [[1]]


def test_borrowing_on_the_cpu_gives_the_tensor_itself():
    """There is no stream to tell."""
    tensor = torch.zeros(2)
    assert borrow(tensor) is tensor
