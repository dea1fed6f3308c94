"""Frontiers of a request under a scheduler that runs ahead of the device."""

import pytest
from observed import Observed

from kvspec.spec import run_ahead


def submitted(prompt=2, **sizes):
    """A request with its prompt, off the device, on handle 0."""
    sizes = {"frames": 3, "incarnations": 3, "slots": 6, "rows_a_step": 2, "outputs": 3, **sizes}
    return Observed(run_ahead.make_instance("SCENARIO", "", **sizes)).do("submit", h=0, p=prompt)


def running(prompt=2, **sizes):
    """A request that runs as incarnation 0."""
    return submitted(prompt, **sizes).do("start", h=0, i=0)


def frontiers(seen):
    """Reserved, scheduled, settled and indexed rows of handle 0, and its outputs."""
    names = ("reserved", "scheduled", "settled", "indexed", "emitted")
    return tuple(seen[name, 0] for name in names)


def settle(seen, frame, output="ORDINARY"):
    """The output of a step comes and is taken."""
    return seen.do("settle", f=frame, t=output)


def test_the_frontiers_of_a_life():
    """A prompt in two chunks, an output, one step ahead of it, a stop, and the end."""
    seen = running(prompt=3)
    found = [frontiers(seen)]
    for action, values in (
        ("dispatch", {"h": 0, "f": 0, "n": 2}),
        ("settle", {"f": 0, "t": "ORDINARY"}),
        ("dispatch", {"h": 0, "f": 0, "n": 1}),
        ("dispatch", {"h": 0, "f": 1, "n": 1}),
        ("settle", {"f": 0, "t": "STOP"}),
        ("finish", {"h": 0}),
        ("release", {"h": 0}),
    ):
        found.append(frontiers(seen.do(action, **values)))
    assert found == [
        (0, 0, 0, 0, 0),
        (2, 2, 0, 0, 0),
        (2, 2, 2, 0, 0),
        (3, 3, 2, 0, 0),
        (4, 4, 2, 0, 0),
        (4, 4, 3, 0, 1),
        (4, 3, 3, 3, 1),
        (0, 0, 0, 0, 1),
    ]


def test_a_late_output_frees_its_frame_and_no_more():
    """After a preemption the output of the old step is stale, whether the request runs again or not."""
    seen = running(prompt=1).do("dispatch", h=0, f=0, n=1).do("preempt", h=0)
    assert frontiers(seen) == (0, 0, 0, 0, 0)
    seen.refuse("settle", "STALE_STEP", f=0, t="ORDINARY")
    seen.refuse("start", "TAG_IN_USE", h=0, i=0)
    seen.do("start", h=0, i=1).do("dispatch", h=0, f=1, n=1)
    seen.refuse("settle", "STALE_STEP", f=0, t="ORDINARY")
    seen.refuse("dispatch", "FRAME_IN_USE", h=0, f=0, n=1)
    before = frontiers(seen)
    seen.do("drain", f=0)
    assert frontiers(seen) == before == (1, 1, 0, 0, 0)
    seen.refuse("drain", "STILL_COUNTS", f=1)
    assert frontiers(settle(seen, 1)) == (1, 1, 1, 0, 1)


def test_a_tag_is_used_again_once_no_step_bears_it():
    """One tag serves two incarnations, if the late output of the first is drained between them."""
    seen = running(prompt=1, incarnations=1).do("dispatch", h=0, f=0, n=1).do("preempt", h=0)
    seen.refuse("start", "TAG_IN_USE", h=0, i=0)
    seen.do("drain", f=0).do("start", h=0, i=0).do("dispatch", h=0, f=0, n=1)
    assert frontiers(settle(seen, 0)) == (1, 1, 1, 0, 1)


def test_a_preempted_request_computes_its_outputs_again_and_emits_none():
    """Rows of known outputs come in chunks like those of a prompt; the next output is a new one."""
    seen = running(prompt=1).do("dispatch", h=0, f=0, n=1)
    settle(seen, 0).do("dispatch", h=0, f=0, n=1)
    assert settle(seen, 0)["emitted", 0] == 2
    seen.do("preempt", h=0).do("start", h=0, i=1).do("dispatch", h=0, f=0, n=2)
    assert frontiers(settle(seen, 0)) == (2, 2, 2, 0, 2)
    seen.refuse("preempt", "PROTECTED", h=0)
    seen.do("dispatch", h=0, f=0, n=1)
    assert frontiers(settle(seen, 0)) == (3, 3, 3, 0, 3)


def test_one_step_runs_ahead_of_a_token_that_only_the_device_knows():
    """Behind the known tokens a step has one row, and a step of two is refused."""
    seen = running(prompt=2).do("dispatch", h=0, f=0, n=2)
    seen.refuse("dispatch", "NO_INPUT", h=0, f=1, n=2)
    seen.do("dispatch", h=0, f=1, n=1).do("dispatch", h=0, f=2, n=1)
    seen.refuse("settle", "OUT_OF_ORDER", f=1, t="ORDINARY")
    for frame in (0, 1, 2):
        settle(seen, frame)
    assert frontiers(seen) == (4, 4, 4, 0, 3)


def test_steps_behind_a_stop_are_undone():
    """What ran ahead is drained without effect; the key is the tokens without the last one."""
    seen = running(prompt=2).do("dispatch", h=0, f=0, n=2)
    seen.do("dispatch", h=0, f=1, n=1).do("dispatch", h=0, f=2, n=1)
    settle(seen, 0, "STOP")
    seen.refuse("settle", "OUTPUT_STOPPED", f=1, t="ORDINARY")
    seen.refuse("preempt", "OUTPUT_STOPPED", h=0)
    seen.do("drain", f=1).do("finish", h=0)
    assert frontiers(seen) == (4, 2, 2, 2, 1)
    seen.do("drain", f=2).do("release", h=0)
    assert frontiers(seen)[:4] == (0, 0, 0, 0)


def test_a_lost_step_takes_those_behind_it_with_it():
    """The rows of a lost step and of later ones are dispatched again; earlier ones still count."""
    seen = running(prompt=6, outputs=1).do("dispatch", h=0, f=0, n=2)
    seen.do("dispatch", h=0, f=1, n=2).do("dispatch", h=0, f=2, n=2).do("lose", f=1)
    assert frontiers(seen) == (2, 2, 0, 0, 0)
    assert [seen["owner", f] for f in (0, 1, 2)] == [0, None, None]
    seen.do("dispatch", h=0, f=2, n=2)
    assert (seen["first", 2], seen["rows", 2]) == (2, 2)


def test_progress_does_not_wait_for_publication():
    """Chunks settle while the index has none of them; it may have any settled prefix."""
    seen = running(prompt=4).do("dispatch", h=0, f=0, n=2)
    settle(seen, 0).do("dispatch", h=0, f=0, n=2)
    assert (seen["first", 0], seen["indexed", 0]) == (2, 0)
    seen.do("index", h=0)
    assert seen["indexed", 0] == 2
    seen.refuse("index", "NOTHING_NEW", h=0)


@pytest.mark.parametrize("events", range(6))
def test_a_cancel_is_possible_at_every_point(events):
    """Waiting, running, with steps in flight or stopped: a cancel gives every slot back."""
    seen = submitted(prompt=1)
    course = [
        ("start", {"h": 0, "i": 0}),
        ("dispatch", {"h": 0, "f": 0, "n": 1}),
        ("dispatch", {"h": 0, "f": 1, "n": 1}),
        ("settle", {"f": 0, "t": "STOP"}),
        ("drain", {"f": 1}),
    ]
    for action, values in course[:events]:
        seen.do(action, **values)
    seen.do("cancel", h=0)
    assert frontiers(seen)[:4] == (0, 0, 0, 0)
    seen.refuse("cancel", "NOT_PENDING", h=0)
    seen.refuse("start", "NOT_PENDING", h=0, i=1)
    for frame in (0, 1):
        if seen["owner", frame] is not None:
            seen.do("drain", f=frame)


def test_a_prompt_that_needs_more_slots_than_it_may_have_is_refused():
    """The last output needs no slot; all other tokens do."""
    made = run_ahead.make_instance("SCENARIO", "", slots=3, outputs=2)
    seen = Observed(made)
    seen.refuse("submit", "PROMPT_TOO_LONG", h=0, p=3)
    seen.refuse("submit", "EMPTY_PROMPT", h=0, p=0)
    seen.do("submit", h=0, p=2)
