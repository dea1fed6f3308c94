"""A service trace made from its inputs: views, frontiers, indices, bytes, metrics and rates."""

from __future__ import annotations

import attrs

from kvspec.properties.documents.service import computed_metrics, computed_view, frontiers
from kvspec.spec.documents.cache_abi import coefficient
from kvspec.spec.documents.canonical import digest
from kvspec.spec.documents.contracts import Binding
from kvspec.spec.documents.service import EMITS, FIELDS, Record, ServiceTrace, service


def prepared(t: ServiceTrace) -> ServiceTrace:
    """The trace with its outputs counted, and the token of each decode that names none, as its rows say."""
    outputs: dict[str, list[str]] = {}
    prompts = {request.name: request.prompt_tokens for request in t.requests}
    records = []
    for each in t.records:
        own = outputs.setdefault(each.request, [])
        index = len(own) if each.operation in EMITS else None
        token = each.token
        if each.operation == "publish_decode" and token is None:
            token = _token_of(each, own, prompts.get(each.request, 0))
        records.append(attrs.evolve(each, output_index=index, token=token))
        if index is not None:
            own.append(each.token or "")
    return attrs.evolve(t, records=tuple(records))


def _token_of(each: Record, outputs: list[str], prompt: int) -> str | None:
    """The output whose row a decode publishes, if there is one."""
    place = -1 if each.rows is None else each.rows.start - prompt
    return outputs[place] if 0 <= place < len(outputs) else None


def completed(t: ServiceTrace) -> ServiceTrace:
    """The trace with all that follows from its limits, requests and records, which must be lawful."""
    t = attrs.evolve(t, cache_abi_sha256=digest(t.cache_abi), token_bytes=coefficient(t.cache_abi))
    records = []
    for n, (each, frontier) in enumerate(zip(t.records, frontiers(t), strict=True)):
        found = computed_view(t, n)
        view = {name: found[name] for name in FIELDS}
        records.append(attrs.evolve(each, frontier=frontier, view=view))
    metrics, aggregate = computed_metrics(t)
    return attrs.evolve(t, records=tuple(records), metrics=metrics, aggregate=aggregate)


service.binding = Binding(
    (
        "/cache_abi_sha256",
        "/token_bytes",
        "/records/*/output_index",
        "/records/*/frontier",
        "/records/*/view",
        "/metrics",
        "/aggregate",
    ),
    completed,
    prepared,
    nullable=("/records/*/rows", "/records/*/token"),
)
