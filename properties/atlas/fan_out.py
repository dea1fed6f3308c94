"""The group of the atlas about prompts with several samples."""

from __future__ import annotations

import attrs

from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.fan_out import fan_out
from kvspec.properties.faults import drop_guard, loosen
from kvspec.spec.fan_out import (
    GROUP_RUNS,
    NOT_ALL_SEATED,
    make_instance,
    system,
)
from kvspec.spec.handles import Handle
from kvspec.spec.language import Counts, Instance, exists, forall, implies
from kvspec.spec.lifecycle import cancel_request, fork


def _instance(name: str, doc: str, expected: Counts, *, handles: int, seats: int) -> Instance:
    """An instance without layers and rows, since these faults need none."""
    made = make_instance(name, doc, handles=handles, seats=seats, longest=0, expected=expected)
    return attrs.evolve(
        made,
        sizes={**made.sizes, "Layer": 0, "Key": 0},
        bounds={**made.bounds, "Length": 0},
        constants=dict.fromkeys(made.constants, 0),
    )


ROOM_FOR_ONE = _instance(
    "ROOM_FOR_ONE",
    "a prompt with two samples, and room for one",
    Counts(531, 1_609, 12, 10),
    handles=3,
    seats=2,
)
ONE_SAMPLE = _instance(
    "ONE_SAMPLE", "a prompt with one sample", Counts(79, 216, 8, 3), handles=2, seats=2
)

SOME_ARE_SEATED = loosen(
    system,
    fork,
    NOT_ALL_SEATED,
    lambda children, seated: (
        forall(Handle, lambda c: implies(seated[c], children[c]))
        & exists(Handle, lambda c: seated[c])
    ),
    name="some-are-seated",
    says="registers the samples for which there is room, one after the other",
)
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
        "there seems to be room for n samples",
        "the first is admitted, and the room for the next is gone",
        "the first sample runs alone",
        "a cancel of the prompt finds half of a group",
    ),
    cases=(
        Case(
            "One sample of two has a seat, and the other is left without.",
            SOME_ARE_SEATED,
            fan_out,
            "every_held_request_has_a_seat",
            ROOM_FOR_ONE,
        ),
        Case(
            "The prompt is cancelled, and the sample that was not registered with its group runs on.",
            SOME_ARE_SEATED,
            fan_out,
            "no_sample_outlives_the_cancel_of_its_prompt",
            ROOM_FOR_ONE,
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
