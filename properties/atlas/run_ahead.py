"""Groups of requests that are run ahead of: late outputs, counts at the end, progress of chunks."""

from __future__ import annotations

from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.faults import also, drop_guard, mutant, put
from kvspec.properties.run_ahead import properties
from kvspec.spec.failures import OUTPUT_STOPPED
from kvspec.spec.handles import Handle, Length, context
from kvspec.spec.language import Counts, Expr, Instance, Step, instance, the, where
from kvspec.spec.run_ahead import (
    PROTECTED,
    STALE_STEP,
    TAG_IN_USE,
    Frame,
    Incarnation,
    chunk,
    finish,
    indexed,
    more,
    owner,
    preempt,
    prompt,
    rows,
    scheduled,
    settle,
    settled,
    start,
    system,
)


def _instance(
    name: str,
    doc: str,
    *,
    frames: int = 1,
    incarnations: int = 1,
    slots: int = 1,
    outputs: int = 1,
    expected: Counts | None = None,
) -> Instance:
    """An instance of one request, in steps of one row."""
    return instance(
        name,
        system,
        {Handle: 1, Frame: frames, Incarnation: incarnations, Length: slots},
        constants={context: slots, chunk: 1, more: outputs - 1},
        expected=expected,
        doc=doc,
    )


def _forgotten(f: Expr) -> Expr:
    """What the host has scheduled, and of a prompt that is not whole only what is published."""
    h = the(owner[f])
    return where(settled[h] + rows[f] < prompt[h], indexed[h], scheduled[h])


def _forget(step: Step, f: Expr) -> None:
    step.assign(scheduled[the(owner[f])], _forgotten(f))


def _published(f: Expr) -> Expr:
    """The rows of the step, and of a prompt that is not whole only what is published."""
    h = the(owner[f])
    done = settled[h] + rows[f]
    return where(done < prompt[h], indexed[h], done)


TAKES_LATE_OUTPUTS = drop_guard(
    system,
    settle,
    STALE_STEP,
    "takes an output for its request, whichever incarnation dispatched the step",
)
USES_A_TAG_AGAIN = drop_guard(
    system, start, TAG_IN_USE, "starts a request again under the tag of a step that is in flight"
)
PREEMPTS_AGAIN = drop_guard(
    system, preempt, PROTECTED, "preempts a request again before its next output"
)
PUBLISHES_WHAT_RAN_AHEAD = put(
    system,
    finish,
    indexed,
    lambda h: scheduled[h],
    name="publishes-what-ran-ahead",
    says="publishes at the end as many rows as the host has scheduled",
)
KEEPS_WHAT_RAN_AHEAD = mutant(
    system,
    "finish.drop-assignment.scheduled",
    "leaves what ran ahead scheduled when the request has ended",
)
EMITS_BEHIND_THE_STOP = drop_guard(
    system, settle, OUTPUT_STOPPED, "takes the output of a step that ran ahead of the stop"
)
FORGETS_A_CHUNK = also(
    system,
    settle,
    _forget,
    name="forgets-a-chunk",
    says="takes the next chunk of a prompt from what the index has of it",
)
RECORDS_WHAT_IS_PUBLISHED = put(
    system,
    settle,
    settled,
    _published,
    name="records-what-is-published",
    says="records of a prompt that is not whole only those rows that were published",
)

ONE_STEP_LATE = _instance(
    "ONE_STEP_LATE",
    "one step, and the tag of one incarnation",
    expected=Counts(17, 32, 6, 4),
)
TWO_CHUNKS = _instance(
    "TWO_CHUNKS",
    "a prompt of two chunks, one step at a time",
    slots=2,
    expected=Counts(45, 104, 8, 8),
)
ONE_AHEAD = _instance(
    "ONE_AHEAD",
    "one step ahead of another, and one output",
    frames=2,
    slots=2,
    expected=Counts(101, 321, 8, 8),
)
ONE_AFTER_ANOTHER = _instance(
    "ONE_AFTER_ANOTHER",
    "two outputs, one step at a time",
    slots=2,
    outputs=2,
    expected=Counts(40, 89, 10, 8),
)

LATE_OUTPUT = Group(
    name="A-B06",
    title="The output of a step from before a preemption is taken after it",
    kind="stale work, reuse under an outstanding access",
    evidence=Evidence.MERGED,
    sources=(
        "vllm-project/vllm PR #49620 (open)",
        "vllm-project/vllm PR #47900, #38624 (closed)",
        "vllm-project/vllm change #48245, as told in vllm-project/vllm-gaudi PR #1794 (merged)",
    ),
    happened=(
        "a step is dispatched, and the scheduler counts the outputs that will come of it",
        "its request is preempted: no row of it counts any more, and its blocks are given back",
        "the output of the step comes late, and is taken off the count once more",
        "the count is below zero, or a token is emitted that the client has already",
    ),
    cases=(
        Case(
            shows="the late output settles a row of a request for which none is scheduled, so that the "
            "count of those to come is one below zero",
            fault=TAKES_LATE_OUTPUTS,
            properties=properties,
            claim="no_row_settles_that_was_not_scheduled",
            instance=ONE_STEP_LATE,
        ),
        Case(
            shows="the late output is emitted, and the output of the same row, computed by the new "
            "incarnation, is emitted behind it as the next token",
            fault=TAKES_LATE_OUTPUTS,
            properties=properties,
            claim="no_token_is_emitted_twice",
            instance=ONE_AFTER_ANOTHER,
        ),
        Case(
            shows="the tag is used again while the late step bears it: the fence lets it through, and a "
            "token is emitted for a prompt of which one row was never computed",
            fault=USES_A_TAG_AGAIN,
            properties=properties,
            claim="every_output_is_the_token_behind_its_row",
            instance=TWO_CHUNKS,
        ),
        Case(
            shows="a request that may be preempted before its next output starts and is preempted for "
            "ever, though every step that goes on being possible is taken",
            fault=PREEMPTS_AGAIN,
            properties=properties,
            claim="every_request_ends",
            instance=ONE_STEP_LATE,
        ),
    ),
)
INFLATED_LENGTH = Group(
    name="A-B49",
    title="A step that ran ahead makes the committed length of an ended request one too long",
    kind="output and commit frontier",
    evidence=Evidence.MERGED,
    sources=(
        "sgl-project/sglang issue #24590 (closed)",
        "sgl-project/sglang PR #24745 (closed)",
        "sgl-project/sglang PR #35204 (merged)",
        "sgl-project/sglang #35793",
    ),
    happened=(
        "a step is in flight, and the next one is prepared: the host counts one row more",
        "the first step gives out the last token",
        "the request ends with the length that the host had counted",
        "the prefix index gets a key that is longer than the rows that settled",
    ),
    cases=(
        Case(
            shows="a prompt of one token and one output are known, and two rows are published, the "
            "second one of a step that has not come back",
            fault=PUBLISHES_WHAT_RAN_AHEAD,
            properties=properties,
            claim="a_finished_request_is_published_up_to_its_last_token",
            instance=ONE_AHEAD,
        ),
        Case(
            shows="the row that ran ahead of the stop stays scheduled when the request has ended",
            fault=KEEPS_WHAT_RAN_AHEAD,
            properties=properties,
            claim="a_finished_request_has_nothing_scheduled_ahead",
            instance=ONE_AHEAD,
        ),
        Case(
            shows="the step that ran ahead comes back behind the stop, and its output is emitted",
            fault=EMITS_BEHIND_THE_STOP,
            properties=properties,
            claim="nothing_is_emitted_behind_the_stop",
            instance=ONE_AHEAD,
        ),
    ),
)
LOST_PROGRESS = Group(
    name="A-B61",
    title="A chunk of a prompt that is not published is not counted as progress",
    kind="accounting",
    evidence=Evidence.REPRODUCED,
    sources=(
        "sgl-project/sglang issue #36855 (open)",
        "sgl-project/sglang PR #37024",
        "sgl-project/sglang PR #33996",
    ),
    happened=(
        "the first chunk of a prompt is computed, into slots that its request owns",
        "its publication into the prefix index is skipped, and with it the record of the progress",
        "the next chunk begins at row 0 again, in other slots; nobody has the first ones",
        "this goes on until the pool is empty",
    ),
    cases=(
        Case(
            shows="the chunk has settled, its slot is held, and no row is counted that lies in it",
            fault=FORGETS_A_CHUNK,
            properties=properties,
            claim="every_slot_of_a_running_request_has_its_row",
            instance=TWO_CHUNKS,
        ),
        Case(
            shows="the second chunk begins at row 0 again, which has settled",
            fault=FORGETS_A_CHUNK,
            properties=properties,
            claim="a_step_that_counts_is_scheduled_and_not_settled",
            instance=TWO_CHUNKS,
        ),
        Case(
            shows="every slot is taken by a row that was computed, the prompt counts as not computed, "
            "and the request waits for ever",
            fault=RECORDS_WHAT_IS_PUBLISHED,
            properties=properties,
            claim="every_prompt_gets_its_rows",
            instance=TWO_CHUNKS,
        ),
    ),
)

GROUPS = (LATE_OUTPUT, INFLATED_LENGTH, LOST_PROGRESS)
