"""The group of the atlas about prompts with several samples."""

from __future__ import annotations

from typing import Any

import attrs

from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.fan_out import fan_out
from kvspec.properties.faults import drop_guard, loosen, mutant
from kvspec.spec.fan_out import (
    CANCELS_ONLY,
    GROUP_RUNS,
    NOT_ALL_SAMPLES,
    ask,
    is_taken,
    make_instance,
    system,
    wish,
)
from kvspec.spec.handles import Handle, Phase, phase
from kvspec.spec.language import Bool, Counts, Expr, Instance, Map, forall, implies, limit
from kvspec.spec.lifecycle import cancel_request, fork


def _is_one_of(children: Any, p: Expr) -> Expr:
    return forall(Handle, lambda c: implies(children[c], wish[c] == p)) & forall(
        Handle, Handle, lambda c, d: implies(children[c] & children[d], c == d)
    )


def _there_is_room_for_all(seats: Any, p: Expr) -> Expr:
    """What is looked at before the first sample, and again before the next."""
    return forall(Handle, lambda c: implies(wish[c] == p, ~is_taken(seats[c]))) & forall(
        Handle,
        Handle,
        lambda c, d: implies((wish[c] == p) & (wish[d] == p) & (seats[c] == seats[d]), c == d),
    )


@limit(ask)
def asks_on_new_handles(samples: Map[Handle, Bool]) -> Expr:
    """A handle that cannot be used again in the search is no handle to wait for."""
    return forall(Handle, lambda c: implies(samples[c], phase[c] == Phase.VACANT))


def _instance(
    name: str, doc: str, expected: Counts, *, handles: int, seats: int, blocks: int = 1
) -> Instance:
    """An instance without layers, rows and requests that finish, since these faults need none."""
    made = make_instance(
        name,
        doc,
        handles=handles,
        seats=seats,
        blocks=blocks,
        longest=0,
        limits=(*CANCELS_ONLY, asks_on_new_handles),
        expected=expected,
    )
    return attrs.evolve(
        made,
        sizes={**made.sizes, "Layer": 0, "Key": 0},
        bounds={**made.bounds, "Length": 0},
        constants=dict.fromkeys(made.constants, 0),
    )


ROOM_FOR_TWO = _instance(
    "ROOM_FOR_TWO",
    "a prompt with two samples, room for both, and blocks for another request",
    Counts(6_917, 30_075, 12, 10),
    handles=3,
    seats=3,
    blocks=2,
)
TWO_SAMPLES = _instance(
    "TWO_SAMPLES", "a prompt with two samples", Counts(783, 3_127, 12, 10), handles=3, seats=3
)
ONE_SAMPLE = _instance(
    "ONE_SAMPLE", "a prompt with one sample", Counts(55, 136, 8, 3), handles=2, seats=2
)

ONE_BY_ONE = loosen(
    system,
    fork,
    NOT_ALL_SAMPLES,
    lambda p, children, seats: _is_one_of(children, p) & _there_is_room_for_all(seats, p),
    name="one-by-one",
    says="looks for room for all samples, and admits one",
)
IN_NO_GROUP = mutant(system, "fork.drop-assignment.group", "registers no sample with its prompt")
PARENT_ALONE = drop_guard(
    system, cancel_request, GROUP_RUNS, "cancels the parent and none of its samples"
)

A_B77 = Group(
    name="A-B77",
    title="The samples of a prompt are admitted one by one",
    kind="other",
    evidence=Evidence.MERGED,
    sources=(
        "vllm-project/vllm PR #53936 (merged)",
        "huggingface/transformers PR #46117 (closed)",
    ),
    happened=(
        "there is room for all samples of a prompt",
        "the first is admitted, and a rival takes the room of the next",
        "the first sample runs alone, and its prompt waits for what cannot come",
        "it cannot be turned away either, since a part of it runs",
    ),
    cases=(
        Case(
            "One sample runs, a rival has the room of the other, and the prompt waits for ever.",
            ONE_BY_ONE,
            fan_out,
            "every_wait_for_samples_ends",
            ROOM_FOR_TWO,
        ),
        Case(
            "Of two samples one is there and the other is not.",
            ONE_BY_ONE,
            fan_out,
            "no_sample_of_a_group_is_missing",
            TWO_SAMPLES,
        ),
        Case(
            "The prompt is cancelled, and the sample that was not registered with it runs on.",
            IN_NO_GROUP,
            fan_out,
            "no_sample_outlives_the_cancel_of_its_prompt",
            ONE_SAMPLE,
        ),
        Case(
            "The prompt is cancelled as a request of its own, and its sample runs on.",
            PARENT_ALONE,
            fan_out,
            "no_sample_outlives_the_cancel_of_its_prompt",
            ONE_SAMPLE,
        ),
    ),
)

GROUPS = (A_B77,)
