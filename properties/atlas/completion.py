"""Groups of the atlas about the release of a request: who asks for it, and what it waits for."""

from __future__ import annotations

import attrs

from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.completion import completion
from kvspec.properties.faults import also, drop_guard, put
from kvspec.spec.completion import (
    NOT_OWED,
    STALE_REPORT,
    Part,
    Pin,
    arrive,
    arrive_together,
    asked,
    counts,
    crash,
    early,
    expire,
    is_owed,
    land,
    lose,
    mail,
    make_instance,
    peer,
    pin,
    stall,
    system,
)
from kvspec.spec.handles import Phase, generation, is_terminal, phase
from kvspec.spec.language import (
    FALSE,
    Action,
    Counts,
    Expr,
    Instance,
    Limit,
    Step,
    exists,
    forall,
    implies,
    limit,
    where,
)
from kvspec.spec.lifecycle import cancel_request


def _never(action: Action) -> Limit:
    return limit(action)(lambda: FALSE)


UNHARMED = tuple(map(_never, (lose, crash, stall)))
UNDISTURBED = (*UNHARMED, _never(expire))


def _instance(
    name: str,
    doc: str,
    expected: Counts,
    *,
    tally: int = 1,
    limits: tuple[Limit, ...] = UNDISTURBED,
    **sizes: int,
) -> Instance:
    """An instance with no layer, key or row, since these faults need none.

    limits: what does not happen in it; by default nothing is lost, no peer stalls and no lease runs out.
    """
    made = make_instance(name, doc, expected=expected, **sizes)
    return attrs.evolve(
        made,
        sizes={**made.sizes, "Layer": 0, "Key": 0},
        bounds={**made.bounds, "Length": 0, "Version": 0, "Tally": tally},
        constants=dict.fromkeys(made.constants, 0),
        limits=(*made.limits, *limits),
    )


TWO_WAYS = _instance(
    "TWO_WAYS", "a request that receives and sends", Counts(252, 1_270, 13, 1), parts=2
)
TWO_WAYS_TWICE = _instance(
    "TWO_WAYS_TWICE",
    "two requests of one handle that receive and send, and a release too many",
    Counts(702, 3_634, 19, 1),
    parts=2,
    tally=2,
    generations=2,
)
ONE_WAY = _instance("ONE_WAY", "a request with one transfer", Counts(32, 107, 9, 1))
ONE_WAY_TWICE = _instance(
    "ONE_WAY_TWICE", "a request with one transfer, and two releases", Counts(32, 107, 9, 1), tally=2
)
NEXT_IN_LINE_TWICE = _instance(
    "NEXT_IN_LINE_TWICE",
    "one handle, two requests, and a release too many",
    Counts(74, 255, 13, 1),
    tally=2,
    generations=2,
)
ON_A_LEASE = _instance(
    "ON_A_LEASE",
    "a request with one transfer, whose lease may run out",
    Counts(37, 129, 7, 2),
    limits=UNHARMED,
)
NEXT_IN_LINE = _instance(
    "NEXT_IN_LINE", "one handle, two requests", Counts(74, 255, 13, 1), generations=2
)
ONE_REPORT = _instance(
    "ONE_REPORT", "a request with one transfer that does not end", Counts(10, 27, 6, 0), tally=0
)
TWO_SAMPLES = _instance(
    "TWO_SAMPLES",
    "two samples that share their prompt's rows",
    Counts(181, 809, 11, 0),
    handles=2,
    tally=0,
)


def _ask(h: Expr, now: Expr) -> Expr:
    return where(now, asked[h] + 1, asked[h])


def _each_report_asks(h: Expr) -> Expr:
    """All obligations end in this step: one request for a release, and one more if two reports came."""
    last = is_terminal(h) & forall(Part, lambda p: implies(is_owed(h, p), counts(h, p)))
    both = exists(Part, Part, lambda p, q: (p != q) & counts(h, p) & counts(h, q))
    return where(last, asked[h] + where(both, 2, 1), asked[h])


FIRST_REPORT_RELEASES = put(
    system,
    arrive,
    asked,
    lambda h, p: _ask(h, (pin[h, p] == Pin.AWAITED) & is_terminal(h)),
    name="the-first-report-releases",
    says="asks for the release at the first report, whatever else is owed",
)
EACH_REPORT_RELEASES = put(
    system,
    arrive_together,
    asked,
    _each_report_asks,
    name="each-report-releases",
    says="asks for a release for each report of the step",
)
REPEATED_REPORT = drop_guard(
    system, arrive, NOT_OWED, "takes a repeated report for the last one that was owed"
)
LATE_REPORT = drop_guard(
    system, arrive, STALE_REPORT, "takes a report of an earlier request for one of the current"
)
ENDED_IS_IGNORED = put(
    system,
    arrive,
    pin,
    lambda h, p: where((pin[h, p] == Pin.AWAITED) & ~is_terminal(h), Pin.MET, pin[h, p]),
    name="reports-of-ended-requests-are-ignored",
    says="ignores the report of a request that has ended, and keeps its pin",
)
CANCEL_RELEASES = put(
    system,
    cancel_request,
    asked,
    lambda h: asked[h] + 1,
    name="the-cancel-releases",
    says="asks for the release although a transfer runs, whose end asks for it again",
)

LEASE_WITHOUT_FENCE = put(
    system,
    expire,
    peer,
    lambda h, p: peer[h, p],
    name="the-lease-does-not-fence",
    says="drops the pin when its time is up, and leaves the peer at its work",
)


def _end_again(step: Step, h: Expr) -> None:
    step.assign(phase[h], where(is_terminal(h), Phase.FINISHED, phase[h]))


SECOND_REASON = also(
    system,
    arrive,
    _end_again,
    name="the-end-of-a-transfer-is-a-reason",
    says="writes another reason over the one for which the request ended",
)
ONE_IS_TOLD = put(
    system,
    land,
    mail,
    lambda h, p, handle_0: where(handle_0 == h, generation[h] + 1, mail[handle_0, p]),
    name="one-sibling-is-told",
    says="reports to the one sibling through which the rows were taken",
)
EARLY_IS_LOST = put(
    system,
    arrive,
    early,
    lambda h, p: early[h, p],
    name="an-early-report-is-lost",
    says="throws a report away that comes before its registration",
)

A_B11 = Group(
    name="A-B11",
    title="Two transfers of one cancelled request report; the first report releases it",
    kind="cancellation race",
    evidence=Evidence.REPRODUCED,
    sources=(
        "vllm-project/vllm issue #46240",
        "vllm-project/vllm PR #56089 (open)",
        "vllm-project/vllm issue #43265",
        "vllm-project/vllm issue #47499",
        "vllm-project/vllm issue #46304",
    ),
    happened=(
        "a request receives into its rows and sends out of them",
        "it is cancelled, and its release waits",
        "one transfer reports, and the request is released and forgotten",
        "the other transfer still uses the rows, and its report names a request that nobody knows",
    ),
    cases=(
        Case(
            "The report of one part has the rows released, with a peer of the other part still at work: "
            "parts are alike, so that the trace stands for both orders.",
            FIRST_REPORT_RELEASES,
            completion,
            "rows_in_use_by_a_peer_are_held",
            TWO_WAYS,
        ),
        Case(
            "The released request still owes its rows to a part, whose report will find no request.",
            FIRST_REPORT_RELEASES,
            completion,
            "a_request_with_an_obligation_is_held",
            TWO_WAYS,
        ),
        Case(
            "Both reports come in one step, and each asks for the release: the second falls on the next "
            "request of the handle, under its own peer.",
            EACH_REPORT_RELEASES,
            completion,
            "rows_in_use_by_a_peer_are_held",
            TWO_WAYS_TWICE,
        ),
        Case(
            "The same report comes twice and asks for the release twice: the second falls on the next "
            "request of the handle, under its own peer.",
            REPEATED_REPORT,
            completion,
            "rows_in_use_by_a_peer_are_held",
            NEXT_IN_LINE_TWICE,
        ),
        Case(
            "A report comes late, ends the pin of the handle's next request, and that one is released "
            "while its own peer uses the rows.",
            LATE_REPORT,
            completion,
            "rows_in_use_by_a_peer_are_held",
            NEXT_IN_LINE,
        ),
        Case(
            "A repair that ignores reports of ended requests keeps their pins.",
            ENDED_IS_IGNORED,
            completion,
            "every_pin_is_dropped_without_a_lease",
            ONE_WAY,
        ),
        Case(
            "A repair by a lease drops the pin while the peer is at work, and the rows are released under "
            "it: nothing keeps its late write out.",
            LEASE_WITHOUT_FENCE,
            completion,
            "rows_in_use_by_a_peer_are_held",
            ON_A_LEASE,
        ),
    ),
)

A_B15 = Group(
    name="A-B15",
    title="A token that its constraint rejects, after the transfer began: the rows are released twice",
    kind="cancellation race",
    evidence=Evidence.MERGED,
    sources=("sgl-project/sglang PR #30937 (merged)",),
    happened=(
        "a transfer of the request's rows begins",
        "the first token breaks the constraint, and the request is ended and released",
        "the transfer comes to its end",
        "its handler releases the request again",
    ),
    cases=(
        Case(
            "The end of the request and the end of its transfer each ask for the release.",
            CANCEL_RELEASES,
            completion,
            "a_release_is_asked_for_once",
            ONE_WAY_TWICE,
        ),
        Case(
            "The rows are released while the transfer reads them.",
            CANCEL_RELEASES,
            completion,
            "rows_in_use_by_a_peer_are_held",
            ONE_WAY,
        ),
        Case(
            "The handler of the transfer writes its own reason over that of the constraint.",
            SECOND_REASON,
            completion,
            "the_reason_of_an_end_is_written_once",
            ONE_WAY,
        ),
    ),
)

A_B56 = Group(
    name="A-B56",
    title="Of n samples of one prompt, one is acknowledged",
    kind="shared-prefix ownership",
    evidence=Evidence.REPRODUCED,
    sources=("vllm-project/vllm PR #43509 (open)", "vllm-project/vllm PR #38900"),
    happened=(
        "the producer holds the prompt's rows once for each sample",
        "the consumer takes the rows, which the samples share, once",
        "it acknowledges one sample",
        "the pins of the other samples stay",
    ),
    cases=(
        Case(
            "The rows were taken for both samples and one is told: the pin of the other is never dropped.",
            ONE_IS_TOLD,
            completion,
            "every_pin_is_dropped_without_a_lease",
            TWO_SAMPLES,
        ),
        Case(
            "The acknowledgement comes before the worker has registered the sample, and is thrown away: "
            "the pin is never dropped.",
            EARLY_IS_LOST,
            completion,
            "every_pin_is_dropped_without_a_lease",
            ONE_REPORT,
        ),
    ),
)

GROUPS = (A_B11, A_B15, A_B56)
