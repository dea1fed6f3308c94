"""The serving system: the core with prompts, outputs and drafts, and what a service sees of a request.

The service phase is a projection: formulas over the state of this system, and no variable. There are the
six of the service interface, and one for a handle without a request. The view is the list of facts that a
scheduler may be told. Both are functions of what the cache is; what a scheduler decides is in
`spec.scheduling`, and `view_field` refuses a formula that reads any of it.

Left out: clocks (arrival, outputs, finish, release), which records of a service carry; bytes, which are
these counts times the bytes of a token (`spec.formulas`).
"""

from __future__ import annotations

from collections.abc import Callable

from kvspec.spec import core, formulas
from kvspec.spec.append import Txn, base_version, is_live
from kvspec.spec.frontier import emitted, frontier, prompt, stopped, tokens
from kvspec.spec.handles import (
    Phase,
    generation,
    is_free,
    is_terminal,
    length,
    phase,
    version,
)
from kvspec.spec.language import (
    Counts,
    DefinitionError,
    Enum,
    Expr,
    Instance,
    Read,
    System,
    exists,
    member,
    walk,
    where,
)
from kvspec.spec.lifecycle import is_append_to

system = System.of(
    "serving",
    "The KV-cache lifecycle with prompts, outputs, drafts and service phases.",
    *core.system.modules,
    frontier,
)


class ServicePhase(Enum):
    """What can be done for a request, as a service sees it."""

    NO_REQUEST = member()
    WAITING_PREFILL = member()
    PREFILL_IN_FLIGHT = member()
    OUTPUT_READY = member()
    DECODE_FRONTIER_READY = member()
    FINISHED_RETAINED = member()
    RELEASED = member()


class Work(Enum):
    """What a scheduler may select for a request."""

    NOTHING = member()
    PREFILL_ROWS_AVAILABLE = member()
    DECODE_FRONTIER_AVAILABLE = member()


def generates(h: Expr) -> Expr:
    """The request is ready and its last output is not out yet."""
    return (phase[h] == Phase.DECODE_READY) & ~stopped[h]


def append_in_flight(h: Expr) -> Expr:
    """An append that can still be published is open: it is of the snapshot that the handle has."""
    return exists(Txn, lambda x: is_live(x) & is_append_to(x, h) & (base_version[x] == version[h]))


def is_no_request(h: Expr) -> Expr:
    """No request ever had the handle."""
    return phase[h] == Phase.VACANT


def is_waiting_prefill(h: Expr) -> Expr:
    """Rows of the prompt are missing and nothing computes them."""
    return generates(h) & (length[h] < prompt[h]) & ~append_in_flight(h)


def is_prefill_in_flight(h: Expr) -> Expr:
    """Rows of the prompt are missing and an append computes some of them."""
    return generates(h) & (length[h] < prompt[h]) & append_in_flight(h)


def is_output_ready(h: Expr) -> Expr:
    """All logical tokens have their rows, so that the next output can be chosen."""
    return generates(h) & (length[h] >= prompt[h]) & (tokens(h) <= length[h])


def is_decode_frontier_ready(h: Expr) -> Expr:
    """The prompt has its rows, and one emitted token has not."""
    return generates(h) & (length[h] >= prompt[h]) & (length[h] < tokens(h))


def is_finished_retained(h: Expr) -> Expr:
    """No more output will come, and the rows are still held."""
    return is_terminal(h) | ((phase[h] == Phase.DECODE_READY) & stopped[h])


def is_released(h: Expr) -> Expr:
    """The rows were given up."""
    return phase[h] == Phase.RELEASED


PHASES: dict[Expr, Callable[[Expr], Expr]] = {
    ServicePhase.NO_REQUEST: is_no_request,
    ServicePhase.WAITING_PREFILL: is_waiting_prefill,
    ServicePhase.PREFILL_IN_FLIGHT: is_prefill_in_flight,
    ServicePhase.OUTPUT_READY: is_output_ready,
    ServicePhase.DECODE_FRONTIER_READY: is_decode_frontier_ready,
    ServicePhase.FINISHED_RETAINED: is_finished_retained,
    ServicePhase.RELEASED: is_released,
}
"""What each phase means; that exactly one holds of every handle is claimed, and proved, in `properties`."""


def service_phase(h: Expr) -> Expr:
    """The service phase of a handle."""
    found: Expr = ServicePhase.NO_REQUEST
    for name, holds in PHASES.items():
        found = where(holds(h), name, found)
    return found


def eligible_work(h: Expr) -> Expr:
    """What a scheduler may select: rows of the prompt, the row of the frontier token, or nothing."""
    decode = where(is_decode_frontier_ready(h), Work.DECODE_FRONTIER_AVAILABLE, Work.NOTHING)
    return where(is_waiting_prefill(h), Work.PREFILL_ROWS_AVAILABLE, decode)


def prompt_rows_remaining(h: Expr) -> Expr:
    """Tokens of the prompt that have no row yet."""
    return where(length[h] < prompt[h], prompt[h] - length[h], 0)


def committed(h: Expr) -> Expr:
    """Committed rows that the request owns."""
    return where(is_free(h), 0, length[h])


def processed(h: Expr) -> Expr:
    """Generated tokens that have their rows; none once these are given up."""
    return where(committed(h) <= prompt[h], 0, committed(h) - prompt[h])


def frontier_count(h: Expr) -> Expr:
    """Emitted tokens that have no row yet."""
    return formulas.frontier(emitted[h], processed(h))


VIEW_FIELDS: dict[str, Callable[[Expr], Expr]] = {
    "handle_generation": lambda h: generation[h],
    "snapshot_version": lambda h: version[h],
    "phase": service_phase,
    "eligible_work": eligible_work,
    "prompt_rows_remaining": prompt_rows_remaining,
    "emitted_output_tokens": lambda h: emitted[h],
    "processed_generated_tokens": processed,
    "committed_tokens": committed,
    "output_frontier_count": frontier_count,
    "next_ordinary_append_tokens": lambda h: where(is_decode_frontier_ready(h), 1, 0),
    "terminal_retained_tokens": lambda h: where(is_finished_retained(h), length[h], 0),
}
"""The facts of the service view, each a function of a handle. Clocks and bytes join them outside."""

POLICY_FIELDS = (
    "admit",
    "priority",
    "batch_id",
    "prefill_chunk_size",
    "preempt",
    "victim_request",
    "run_next",
)
"""What a scheduler decides: never a fact about a request, and never a field of the view."""


def view_field(name: str, formula: Expr) -> Expr:
    """A field of the service view; one that names or reads a decision of a scheduler is refused."""
    if name in POLICY_FIELDS:
        raise DefinitionError(
            f"{name} is a decision of a scheduler and no fact about a request: keep it out of the view"
        )
    for node in walk(formula):
        if isinstance(node, Read) and system.variables.get(node.variable.name) is not node.variable:
            raise DefinitionError(
                f"the view's field {name} reads {node.variable} of module {node.variable.module}, "
                "which is not part of the serving system: a view tells facts about the cache alone"
            )
    return formula


def service_view(h: Expr) -> dict[str, Expr]:
    """Every field of the service view of a handle."""
    return {name: view_field(name, fact(h)) for name, fact in VIEW_FIELDS.items()}


def make_instance(
    name: str,
    doc: str,
    *,
    handles: int = 1,
    txns: int = 1,
    layers: int = 1,
    blocks: int = 1,
    longest: int = 2,
    versions: int = 2,
    generations: int = 1,
    expected: Counts | None = None,
    slow: bool = False,
) -> Instance:
    """An instance of the serving system, without a batch."""
    return core.make_instance(
        name,
        doc,
        of=system,
        handles=handles,
        txns=txns,
        layers=layers,
        blocks=blocks,
        longest=longest,
        versions=versions,
        generations=generations,
        expected=expected,
        slow=slow,
    )


CHAT = make_instance(
    "CHAT",
    "one request, one append: prefill in chunks, decode, repair",
    expected=Counts(2_039, 9_325, 17, 7),
)
AGAIN = make_instance(
    "AGAIN",
    "one handle for two requests, one append with a draft",
    generations=2,
    expected=Counts(7_633, 36_364, 22, 7),
)
TWINS = make_instance(
    "TWINS",
    "two requests and their forks, one append",
    handles=2,
    versions=1,
    expected=Counts(109_373, 633_761, 26, 54),
)
SPECULATIVE = make_instance(
    "SPECULATIVE",
    "one request of up to four rows, one append with drafts",
    longest=4,
    expected=Counts(17_813, 87_696, 22, 11),
)
OVERLAP = make_instance(
    "OVERLAP",
    "one request and two appends of it in flight",
    txns=2,
    expected=Counts(81_351, 541_209, 24, 7),
)

INSTANCES = (CHAT, AGAIN, TWINS, SPECULATIVE, OVERLAP)
