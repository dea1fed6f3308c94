"""Short ways to tell events, and to audit a few of them."""

import attrs

from kvspec.properties.audit import Acceptor, Limits
from kvspec.properties.audit.synthetic import HEADER
from kvspec.spec.documents.event import TYPES, make_event


class Teller:
    """Tells events of one request or several; each source counts for itself."""

    def __init__(self):
        self.numbers = {}

    def __call__(self, kind, request="r", **fields):
        """The next event of its component."""
        component = TYPES[kind].component
        source = fields.pop("source_instance", f"{component}-0")
        number = fields.pop("local_sequence", self.numbers.get(source, 0))
        self.numbers[source] = number + 1
        outcomes = TYPES[kind].outcomes
        made = {
            "event_id": f"{source}/{number}",
            "trace_id": "t",
            "source_instance": source,
            "source_component": component,
            "local_sequence": number,
            "monotonic_ns": 1_000 * number,
            "observed_wall_time": "2026-07-27T09:30:00Z",
            "request_id": request,
            "handle_generation": 0,
            "event_type": kind,
            **({"outcome": outcomes[0]} if outcomes else {}),
        }
        return make_event(**{**made, **fields})

    def allocate(self, request="r", **more):
        """A generation begins."""
        return self(
            "request_allocate", request, **{"result_snapshot": 0, "committed_tokens": 0, **more}
        )

    def start(self, operation, base, first, end, request="r", **more):
        """An append begins."""
        interval = {"interval_start": first, "interval_end": end}
        base = {"operation_id": operation, "base_snapshot": base}
        return self("append_start", request, **{**base, **interval, **more})

    def publish(self, operation, base, tokens, request="r", **more):
        """An append is published."""
        told = {"base_snapshot": base, "result_snapshot": base + 1, "committed_tokens": tokens}
        return self("append_publish", request, **{"operation_id": operation, **told, **more})

    def fail(self, operation, base, request="r", **more):
        """An append fails."""
        told = {"operation_id": operation, "base_snapshot": base, "reason": "device error"}
        return self("failure", request, **{**told, **more})

    def emit(self, base, index, request="r", **more):
        """A token is put out."""
        told = {"base_snapshot": base, "output_index": index, "token_id": 5}
        return self("output_emit", request, **{**told, **more})

    def fork(self, base, child, tokens, request="r", **more):
        """A child begins."""
        told = {"child_request_id": child, "child_generation": 0, "child_snapshot": 0}
        return self(
            "fork", request, **{"base_snapshot": base, "child_tokens": tokens, **told, **more}
        )

    def truncate(self, base, tokens, request="r", **more):
        """A shorter snapshot."""
        told = {"base_snapshot": base, "result_snapshot": base + 1, "committed_tokens": tokens}
        return self("truncate", request, **{**told, **more})

    def finish(self, base, tokens, request="r", **more):
        """Generation ends."""
        told = {"base_snapshot": base, "result_snapshot": base, "committed_tokens": tokens}
        return self("finish", request, **{**told, **more})

    def release(self, base, request="r", **more):
        """Ownership ends."""
        told = {"base_snapshot": base, "result_snapshot": base + 1, "committed_tokens": 0}
        after = more.get("handle_generation", 0) + 1
        return self("release", request, **{**told, "result_generation": after, **more})

    def slots(self, cause, blocks, slots, used, request="r", **more):
        """The allocator is seen."""
        told = {"allocated_blocks": blocks, "allocated_slots": slots, "used_slots": used}
        return self("allocator_observe", request, **{"caused_by_event_id": cause, **told, **more})

    def bytes(self, cause, size, request="r", **more):
        """Payload is seen."""
        told = {"tier": "gpu", "resident_payload_bytes": size, "caused_by_event_id": cause}
        return self("residency_observe", request, **{**told, **more})

    def running(self, request="r", **more):
        """A request with a prefill of four rows and one decode step."""
        o = f"{request}-{more.get('handle_generation', 0)}"
        return [
            self.allocate(request, **more),
            self.start(f"{o}-p", 0, 0, 4, request, **more),
            self.publish(f"{o}-p", 0, 4, request, **more),
            self.emit(1, 0, request, **more),
            self.start(f"{o}-d", 1, 4, 5, request, **more),
            self.publish(f"{o}-d", 1, 5, request, **more),
        ]

    def whole(self, request="r", **more):
        """The same, with its end."""
        return [
            *self.running(request, **more),
            self.finish(2, 5, request, **more),
            self.release(2, request, **more),
        ]


def audit(*events, header=HEADER, **limits):
    """The summary of an audit of these events, in lines from 1."""
    acceptor = Acceptor(header, Limits(**limits))
    for line, event in enumerate(events, 1):
        acceptor.feed(line, event)
    return acceptor.close()


def codes(*events, **more):
    """The codes of what is found, in order of lines."""
    return [finding.code for finding in audit(*events, **more).findings]


def sampled():
    """The header of a sampled log."""
    return attrs.evolve(HEADER, completeness="sampled")
