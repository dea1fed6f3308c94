"""A service trace: what requests do at which time, what a service sees of them, and the metrics of that.

Modelled: arrival, prefill in chunks, outputs, the appends of the tokens that were output, the last output,
release; after each record the service view of its request, with bytes and clocks; metrics by the formulas,
and rates over an observation window in which all records lie. Every request in it completes.
Left out: who chose what runs next. A view with a decision of a scheduler in it is refused.

Here are the fields, and the contracts that need no run. Whether the records are legal and the views are
those of the specification is asked in `kvspec.properties.documents.service`, which completes the kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final, Literal

import attrs

from kvspec.spec.documents.byte_trajectory import Rows
from kvspec.spec.documents.cache_abi import CacheAbi, add_abi_contracts, coefficient
from kvspec.spec.documents.canonical import digest
from kvspec.spec.documents.contracts import DocumentKind, Finding, differs, requires
from kvspec.spec.documents.service_metrics import Aggregate, Clocks, Limits, RequestMetrics
from kvspec.spec.serving import POLICY_FIELDS, VIEW_FIELDS

Operation = Literal[
    "arrive",
    "begin_prefill",
    "publish_prefill",
    "emit",
    "emit_and_finish",
    "publish_decode",
    "release",
]
Fact = int | str | tuple[int, ...] | None
"""A value in a service view: a count, a name, times, or null for what has not happened."""

MOST_TOKENS: Final = 4096
EMITS: Final = ("emit", "emit_and_finish")
HAS_ROWS: Final = ("begin_prefill", "publish_prefill", "publish_decode")
HAS_TOKEN: Final = (*EMITS, "publish_decode")
BYTES: Final = (
    "logical_payload_bytes",
    "next_ordinary_append_bytes",
    "terminal_retained_logical_payload_bytes",
)
CLOCKS: Final = ("arrival_time", "output_times", "finish_time", "release_time")
FIELDS: Final = ("request_id", *VIEW_FIELDS, *BYTES, *CLOCKS)
"""The names of a service view: those of the specification, with bytes and clocks beside them."""


@attrs.frozen
class Served:
    """A request. prompt_tokens: P. output_tokens: that it will be given."""

    name: str
    prompt_tokens: int
    output_tokens: int


@attrs.frozen(cache_hash=True)
class Action:
    """What a record does, without what comes of it."""

    request: str
    operation: str
    rows: Rows | None


@attrs.frozen
class Record:
    """One record. time: in milliseconds. rows: those that are begun or published.

    output_index: of an output, from 0. token: that is output, or whose row is published. frontier: the
    tokens of the request without a row, after the record. view: the service view, by the names of `FIELDS`.
    """

    time: int
    request: str
    operation: Operation
    rows: Rows | None
    output_index: int | None
    token: str | None
    frontier: tuple[str, ...]
    view: dict[str, Fact]


@attrs.frozen
class ServiceTrace:
    """The whole trace. token_bytes: of one committed row. metrics: one for each request, in their order."""

    cache_abi: CacheAbi
    cache_abi_sha256: str
    token_bytes: int
    limits: Limits
    requests: tuple[Served, ...]
    records: tuple[Record, ...]
    metrics: tuple[RequestMetrics, ...]
    aggregate: Aggregate

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        """What the records do, in order."""
        return tuple(Action(each.request, each.operation, each.rows) for each in self.records)

    def clocks(self, request: str, until: int | None = None) -> Clocks:
        """The clocks of a request by its first `until` records of the trace, by default by all."""
        found = [each for each in self.records[:until] if each.request == request]
        first: dict[str, int] = {}
        for each in found:
            first.setdefault(each.operation, each.time)
        return Clocks(
            arrival=first.get("arrive"),
            outputs=tuple(each.time for each in found if each.operation in EMITS),
            finish=first.get("emit_and_finish"),
            release=first.get("release"),
        )


service = DocumentKind(
    "service",
    ServiceTrace,
    "What a service sees of its requests, record by record, and the metrics that follow.",
)


add_abi_contracts(service)


@service.contract("SIZE", "there are prompts and outputs, and no count, time or limit is negative")
def sizes_are_positive(t: ServiceTrace) -> Iterator[Finding]:
    """There are prompts and outputs, and no count, time or limit is negative."""
    for n, request in enumerate(t.requests):
        for name in ("prompt_tokens", "output_tokens"):
            found = getattr(request, name)
            told = f"1 to {MOST_TOKENS}"
            yield from requires(1 <= found <= MOST_TOKENS, f"/requests/{n}/{name}", told, found)
    least = {"ttft": 0, "tbt": 0, "window": 1}
    for name, at_least in least.items():
        found = getattr(t.limits, name)
        yield from requires(found >= at_least, f"/limits/{name}", f"at least {at_least}", found)
    for n, each in enumerate(t.records):
        yield from requires(each.time >= 0, f"/records/{n}/time", "at least 0", each.time)
        for name in ("start", "count") if each.rows else ():
            found, told = getattr(each.rows, name), f"0 to {MOST_TOKENS}"
            path = f"/records/{n}/rows/{name}"
            yield from requires(0 <= found <= MOST_TOKENS, path, told, found)


@service.contract("DISTINCT", "there are requests with names, no two of one name")
def names_are_distinct(t: ServiceTrace) -> Iterator[Finding]:
    """There are requests with names, no two of one name."""
    names = [request.name for request in t.requests]
    yield from requires(names, "/requests", "at least one request", "none")
    for n, name in enumerate(names):
        told = "a name, given once"
        yield from requires(name and name not in names[:n], f"/requests/{n}/name", told, name)


@service.contract("UNKNOWN_REQUEST", "a record is one of a declared request")
def requests_are_declared(t: ServiceTrace) -> Iterator[Finding]:
    """A record is one of a declared request."""
    names = [request.name for request in t.requests]
    for n, each in enumerate(t.records):
        told = f"one of {', '.join(names)}"
        yield from requires(each.request in names, f"/records/{n}/request", told, each.request)


@service.contract("CACHE_ABI_DIGEST", "the digest is that of the cache ABI", derived=True)
def digest_is_that_of_the_abi(t: ServiceTrace) -> Iterator[Finding]:
    """The digest is that of the cache ABI."""
    yield from differs("/cache_abi_sha256", digest(t.cache_abi), t.cache_abi_sha256)


@service.contract("TOKEN_BYTES", "the bytes of a row follow from the cache ABI", derived=True)
def token_bytes_follow_from_the_abi(t: ServiceTrace) -> Iterator[Finding]:
    """The bytes of a row follow from the cache ABI."""
    yield from differs("/token_bytes", coefficient(t.cache_abi), t.token_bytes)


@service.contract("CLOCK", "no record is earlier than the one before it")
def time_does_not_go_back(t: ServiceTrace) -> Iterator[Finding]:
    """No record is earlier than the one before it."""
    before = 0
    for n, each in enumerate(t.records):
        told = f"{before} or later"
        yield from requires(each.time >= before, f"/records/{n}/time", told, each.time)
        before = max(before, each.time)


@service.contract("WINDOW", "all records lie in the observation window")
def records_lie_in_the_window(t: ServiceTrace) -> Iterator[Finding]:
    """All records lie in the observation window, which begins at 0."""
    for n, each in enumerate(t.records):
        told = f"at most {t.limits.window}"
        yield from requires(each.time <= t.limits.window, f"/records/{n}/time", told, each.time)


@service.contract("RECORD_FIELDS", "a record has what its operation needs, and nothing else")
def records_have_their_fields(t: ServiceTrace) -> Iterator[Finding]:
    """A record has what its operation needs, and nothing else."""
    needs = {"rows": HAS_ROWS, "output_index": EMITS, "token": HAS_TOKEN}
    for n, each in enumerate(t.records):
        for name, operations in needs.items():
            found, wanted = getattr(each, name), each.operation in operations
            told = "a value" if wanted else "null"
            path = f"/records/{n}/{name}"
            yield from requires(wanted == (found is not None), path, told, found)


@service.contract("ROWS_OF_OPERATION", "a prefill begins in the prompt, and a decode behind it")
def rows_fit_the_operation(t: ServiceTrace) -> Iterator[Finding]:
    """A prefill begins in the prompt, and a decode behind it."""
    prompts = {request.name: request.prompt_tokens for request in t.requests}
    for n, each in enumerate(t.records):
        if each.rows is not None:
            length, decodes = prompts[each.request], each.operation == "publish_decode"
            told = f"{length} or more" if decodes else f"less than {length}"
            path, found = f"/records/{n}/rows/start", each.rows.start
            yield from requires(decodes == (found >= length), path, told, found)


@service.contract("OUTPUT_INDEX", "the outputs of a request are counted from 0 on", derived=True)
def outputs_are_counted(t: ServiceTrace) -> Iterator[Finding]:
    """The outputs of a request are counted from 0 on."""
    counts = {request.name: 0 for request in t.requests}
    for n, each in enumerate(t.records):
        if each.operation in EMITS:
            path = f"/records/{n}/output_index"
            yield from differs(path, counts[each.request], each.output_index)
            counts[each.request] += 1


@service.contract("POLICY_FIELD", "a view has no decision of a scheduler in it", derived=True)
def views_have_no_policy(t: ServiceTrace) -> Iterator[Finding]:
    """A view has no decision of a scheduler in it."""
    for n, each in enumerate(t.records):
        for name in each.view:
            path, told = f"/records/{n}/view/{name}", "facts about the request alone"
            yield from requires(name not in POLICY_FIELDS, path, told, name)


@service.contract("VIEW_FIELDS", "a view has exactly the fields of the service view", derived=True)
def views_have_their_fields(t: ServiceTrace) -> Iterator[Finding]:
    """A view has exactly the fields of the service view."""
    for n, each in enumerate(t.records):
        for name in FIELDS:
            told, path = f"the field {name}", f"/records/{n}/view"
            yield from requires(name in each.view, path, told, "no such field")
        for name in each.view:
            path = f"/records/{n}/view/{name}"
            yield from requires(name in FIELDS, path, f"one of {', '.join(FIELDS)}", name)


service.frees(
    "/records/1/time", "when a prefill begins is between its neighbours, and in no metric"
)
service.frees(
    "/records/3/time", "when a prefill begins is between its neighbours, and in no metric"
)
service.frees("/limits/ttft", "a limit is chosen: another one with the same verdicts is as good")
service.frees("/limits/tbt", "a limit is chosen: another one with the same verdicts is as good")
