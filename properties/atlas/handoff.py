"""Faults of hand-offs seen in public: cancels that do nothing, layers paired by place, ends not seen."""

from __future__ import annotations

import attrs

from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.faults import also, drop_guard, loosen, put
from kvspec.properties.handoff import handoff as claims
from kvspec.spec.handles import Handle, Layer
from kvspec.spec.handoff import accept, make_instance, system, take_over, withdraw
from kvspec.spec.handoff_record import (
    FORMAT_MISMATCH,
    LAYERS_MISMATCH,
    Reason,
    emitted,
    giver,
    imported,
    most,
    placed,
    reason,
    retained,
    stopped,
    taker,
    told,
)
from kvspec.spec.language import Counts, Expr, Instance, Step, exists, forall, the, where
from kvspec.spec.lifecycle import finish


def _cancelled_after_all(step: Step, h: Handle) -> None:
    step.assign(reason[h], Reason.CANCELLED)


def _has_every_layer(k: Expr) -> Expr:
    return forall(Layer, lambda l: exists(Layer, lambda p: placed[k, p] == l))


CANCEL_IGNORED = put(
    system,
    withdraw,
    retained,
    lambda h: retained[h],
    name="ignores-a-finished-request",
    says="takes a cancel of a finished request for one that has nothing to do",
)
RETAINED_FOR_NOBODY = put(
    system,
    finish,
    retained,
    lambda h: ~imported[h],
    name="does-not-ask-for-the-client",
    says="retains the rows of a request that finishes though its client has gone",
)
SECOND_REASON = also(
    system,
    withdraw,
    _cancelled_after_all,
    name="ends-it-again",
    says="writes a second reason when a finished request is cancelled",
)
NO_HANDSHAKE = drop_guard(
    system, accept, LAYERS_MISMATCH, "pairs layers by place without asking which stands where"
)
SETS_ALONE = loosen(
    system,
    accept,
    LAYERS_MISMATCH,
    _has_every_layer,
    name="compares-sets",
    says="asks whether every layer is there, and not in which order",
)
NO_FORMAT = drop_guard(
    system, accept, FORMAT_MISMATCH, "takes bytes without asking for element type and block size"
)
NO_STOP_TOKEN = put(
    system,
    take_over,
    stopped,
    lambda k: most <= emitted[the(giver[k])],
    name="does-not-ask-for-a-stop-token",
    says="goes on without asking whether the token that came ends the output",
)
NO_STOP_CHECK = put(
    system,
    take_over,
    stopped,
    lambda k: stopped[the(taker[k])],
    name="does-not-ask-for-the-end",
    says="goes on by what the consumer knew before the token came",
)
COUNT_BEGINS_ANEW = put(
    system,
    take_over,
    emitted,
    lambda: 0,
    name="counts-from-zero",
    says="counts the output from zero at the consumer",
)
TOLD_TWICE = put(
    system,
    take_over,
    told,
    lambda k: where(emitted[the(giver[k])] == 0, 0, told[the(giver[k])] + 1),
    name="sends-it-again",
    says="sends the client the token that came with the rows",
)


def bare(
    name: str,
    doc: str,
    expected: Counts,
    *,
    handles: int = 2,
    layers: int = 0,
    tickets: int = 1,
    formats: int = 1,
    most: int = 0,
    told: int = 0,
    lacking: bool = False,
) -> Instance:
    """An instance without appends, keys, forks and lengths, and with as few tokens as it takes."""
    made = make_instance(
        name,
        doc,
        handles=handles,
        blocks=handles,
        layers=layers,
        tickets=tickets,
        formats=formats,
        tokens=most,
        lacking=lacking,
        expected=expected,
    )
    return attrs.evolve(
        made,
        sizes={**made.sizes, "Key": 0},
        bounds={**made.bounds, "Length": 0, "Version": 0, "Tokens": told},
    )


ALONE = bare(
    "ALONE",
    "one request that asks for no output, and no consumer",
    Counts(13, 31, 5, 2),
    handles=1,
    tickets=0,
    formats=0,
)
TWO_LAYERS = bare(
    "TWO_LAYERS", "two requests without output, two layers", Counts(1_165, 5_373, 12, 4), layers=2
)
SOME_LAYERS = bare(
    "SOME_LAYERS",
    "two requests without output, two layers of which the giver may lack some",
    Counts(2_029, 10_141, 12, 4),
    layers=2,
    lacking=True,
)
TWO_FORMATS = bare(
    "TWO_FORMATS",
    "two requests without output, two formats",
    Counts(1_677, 7_845, 12, 4),
    formats=2,
)
ONE_TOKEN = bare(
    "ONE_TOKEN",
    "two requests of at most one token",
    Counts(5_189, 25_709, 13, 4),
    most=1,
    told=2,
)
TWO_TOKENS = bare(
    "TWO_TOKENS",
    "two requests of at most two tokens",
    Counts(12_917, 66_085, 15, 4),
    most=2,
    told=2,
)
THREE_TOKENS = bare(
    "THREE_TOKENS",
    "two requests of at most two tokens",
    Counts(12_917, 66_085, 15, 4),
    most=2,
    told=3,
)

NO_MORE = "a_client_is_sent_no_more_than_it_asked_for"
OWN_ROWS = "every_layer_reads_its_own_rows"

GROUPS: tuple[Group, ...] = (
    Group(
        name="A-B13",
        title="A cancel during the last step is handled as a normal finish",
        kind="cancellation race",
        evidence=Evidence.MERGED,
        sources=(
            "vllm-project/vllm PR #29987",
            "vllm-project/vllm #26400",
            "vllm-project/vllm #29906",
            "vllm-project/vllm #35506",
        ),
        happened=(
            "the last step of a request runs, and its client cancels",
            "the result is there first: the request finishes, and its rows are kept for a consumer",
            "the cancel finds a request that has finished, and does nothing",
            "no consumer comes, and the rows are held until a timeout",
        ),
        cases=(
            Case(
                "the rows of a client that has gone are held for as long as their lease",
                CANCEL_IGNORED,
                claims,
                "a_client_that_has_gone_leaves_nothing_behind",
                ALONE,
            ),
            Case(
                "a request finishes after its client has gone, and its rows are kept",
                RETAINED_FOR_NOBODY,
                claims,
                "nothing_is_retained_for_a_client_that_has_gone",
                ALONE,
            ),
            Case(
                "a request that had finished is told to have been cancelled",
                SECOND_REASON,
                claims,
                "the_reason_to_end_is_written_once",
                ALONE,
            ),
        ),
    ),
    Group(
        name="A-B35",
        title="Both ends of a transfer disagree on which buffer holds which layer",
        kind="mixed schema or identity",
        evidence=Evidence.MERGED,
        sources=(
            "sgl-project/sglang PR #17212",
            "vllm-project/vllm-ascend PR #15900",
            "NVIDIA/TensorRT-LLM issue #6507",
        ),
        happened=(
            "the sender has its layers in one order, and the receiver in another",
            "the transfer pairs them by their place",
            "every byte arrives",
            "attention reads the rows of other layers",
        ),
        cases=(
            Case(
                "layers are paired by place, and one reads the rows of another",
                NO_HANDSHAKE,
                claims,
                OWN_ROWS,
                TWO_LAYERS,
            ),
            Case(
                "both ends have the same layers, and not in the same order",
                SETS_ALONE,
                claims,
                OWN_ROWS,
                SOME_LAYERS,
            ),
            Case(
                "bytes are read in another format than they were written in",
                NO_FORMAT,
                claims,
                "rows_are_read_in_the_format_they_were_written",
                TWO_FORMATS,
            ),
        ),
    ),
    Group(
        name="A-B51",
        title="The first token comes with the rows, and nobody asks whether it is the last",
        kind="output and commit frontier",
        evidence=Evidence.REPRODUCED,
        sources=("NVIDIA/TensorRT-LLM PR #16691", "NVIDIA/TensorRT-LLM #3241"),
        happened=(
            "the prefill worker emits the first token, which is the last one by its kind or by the limit",
            "the request is handed over with that token",
            "the decode worker runs a step without asking whether the output is at its end",
            "a second token is emitted, and the first one may be sent again",
        ),
        cases=(
            Case(
                "a token that ends the output comes with the rows, and another follows it",
                NO_STOP_TOKEN,
                claims,
                "no_token_follows_the_last_one",
                TWO_TOKENS,
            ),
            Case(
                "the first token is the last by the limit: the output is handed over, and goes on beyond it",
                NO_STOP_CHECK,
                claims,
                NO_MORE,
                ONE_TOKEN,
            ),
            Case(
                "the consumer counts from zero, and emits what was emitted before on top of the limit",
                COUNT_BEGINS_ANEW,
                claims,
                NO_MORE,
                THREE_TOKENS,
            ),
            Case(
                "the token that came with the rows is sent to the client a second time",
                TOLD_TWICE,
                claims,
                "every_token_is_told_once",
                ONE_TOKEN,
            ),
        ),
    ),
)
