"""Groups about two tiers: copies, eviction, queued sends, pins, and host rows of retracted requests."""

from __future__ import annotations

import attrs

from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.faults import Fault, also, drop_guard, loosen, mutant, put
from kvspec.properties.tiers import tiers as properties
from kvspec.spec.language import Counts, Expr, Instance, exists, forall, implies, one_of
from kvspec.spec.tiers import (
    evict_from_device,
    evict_from_host,
    make_instance,
    match,
    system,
)
from kvspec.spec.tiers_receipts import begin_read, decline, give_notice, send, time_out
from kvspec.spec.tiers_state import (
    COPY_IN_FLIGHT,
    LOOKUP_NOT_OPEN,
    NOT_ON_DEVICE,
    PINNED,
    READ_IN_FLIGHT,
    SEND_NOT_QUEUED,
    SEND_QUEUED,
    LookupState,
    Node,
    Read,
    Receiver,
    Send,
    SendState,
    above,
    is_loading,
    is_storing,
    lookup_state,
    on_device,
    on_path,
    read,
    receiver,
    reference,
    send_of,
    send_state,
)


def _case(shows: str, fault: Fault, claim: str, instance: Instance) -> Case:
    return Case(shows, fault, properties, claim, instance)


def _instance(name: str, doc: str, expected: Counts, *, pins: int = 0, **sizes: int) -> Instance:
    """An instance with no more layers, keys and rows than these faults need, which is none."""
    made = make_instance(name, doc, expected=expected, **sizes)
    return attrs.evolve(
        made,
        sizes={**made.sizes, "Layer": 0, "Key": 0},
        bounds={**made.bounds, "Length": 0, "Pins": pins},
        constants=dict.fromkeys(made.constants, 0),
    )


GOT = "no_client_gets_the_rows_of_another_prefix"

ONE_PREFIX = _instance(
    "ONE_PREFIX", "two requests and one prefix", Counts(159, 525, 9, 3), handles=2, slots=0
)
ONE_PATH = _instance(
    "ONE_PATH",
    "two requests and two prefixes",
    Counts(867, 3_087, 12, 9),
    handles=2,
    nodes=2,
    slots=0,
)
ONE_COPY = _instance("ONE_COPY", "one prefix and one host slot", Counts(46, 158, 9, 1))
REUSED_SLOT = _instance(
    "REUSED_SLOT", "two prefixes and one host slot", Counts(487, 2_022, 12, 3), nodes=2
)
ONE_LOOKUP = _instance(
    "ONE_LOOKUP", "one lookup of one copy", Counts(190, 755, 13, 3), pins=1, lookups=1
)
LATE_READ = _instance(
    "LATE_READ",
    "one lookup, and two prefixes that have the host slot in turn",
    Counts(3_187, 14_524, 20, 15),
    pins=1,
    nodes=2,
    lookups=1,
)
TWO_LOOKUPS = _instance(
    "TWO_LOOKUPS",
    "two lookups, one after the other, and two prefixes that have the host slot in turn",
    Counts(19_711, 94_722, 24, 75),
    pins=1,
    nodes=2,
    lookups=2,
)
ONE_SEND = _instance("ONE_SEND", "one send of one prefix", Counts(63, 205, 10, 5), slots=0, sends=1)
ON_THE_HOST = _instance(
    "ON_THE_HOST", "one request, and a host slot for it", Counts(9, 21, 4, 1), nodes=0
)


def _only_stores(s: Expr) -> Expr:
    return ~is_storing(s)


def _on_device_or_loading(n: Expr) -> Expr:
    return forall(Node, lambda m: implies(on_path(m, n), on_device(m) | is_loading(m)))


def _not_queued_nor_failed(n: Expr) -> Expr:
    states = SendState.QUEUED, SendState.FAILED
    return ~exists(Send, lambda x: one_of(send_state[x], *states) & (send_of[x] == n))


def _has_read(q: Expr) -> Expr:
    return (lookup_state[q] == LookupState.OPEN) & (read[q] == Read.DONE)


def _open_or_ended(q: Expr) -> Expr:
    return one_of(lookup_state[q], LookupState.OPEN, LookupState.ENDED)


B09 = Group(
    "A-B09",
    "A load to the device read a host slot that eviction had given to another prefix",
    "stale work, reuse under an outstanding access",
    Evidence.MERGED,
    (
        "sgl-project/sglang PR #31427",
        "sgl-project/sglang #27631, #26728",
        "bytedance-iaas/sglang PR #638",
    ),
    (
        "only the host has the rows of a prefix that a request wants, and their load begins",
        "the device is full, so that another prefix is moved to the host to make room",
        "the host is full as well, and gives up the very slot that the load is to read",
        "the other prefix goes into that slot",
        "the load brings the other rows, and requests read them as those of the first prefix",
    ),
    (
        _case(
            "a request reads the rows of another prefix, whose copy took the host slot under the load",
            loosen(
                system,
                evict_from_host,
                COPY_IN_FLIGHT,
                _only_stores,
                name="under-a-load",
                says="takes a host slot from which a load still reads",
            ),
            "a_request_reads_rows_of_its_own_prefix",
            REUSED_SLOT,
        ),
        _case(
            "a store to the host reads rows that were evicted from the device in the middle of it",
            drop_guard(
                system,
                evict_from_device,
                COPY_IN_FLIGHT,
                "evicts rows from the device while a store still reads them",
            ),
            "a_store_reads_rows_that_are_there",
            ONE_COPY,
        ),
        _case(
            "a request reads a prefix whose load has not brought its rows yet",
            loosen(
                system,
                match,
                NOT_ON_DEVICE,
                _on_device_or_loading,
                name="before-the-load-ends",
                says="takes a prefix for present as soon as its load has begun",
            ),
            "what_a_request_reads_is_on_the_device",
            ONE_COPY,
        ),
        _case(
            "a load that has brought its rows holds the host slot for ever",
            mutant(
                system,
                "end_load.drop-assignment.load_from",
                "leaves the load's hold on its host slot when the load has ended",
            ),
            "every_load_ends",
            ONE_COPY,
        ),
    ),
)

B54 = Group(
    "A-B54",
    "Locking a matched prefix left out the matched node itself",
    "shared-prefix ownership",
    Evidence.MERGED,
    ("sgl-project/mini-sglang PR #52",),
    (
        "a request matches node b, on the path root, a, b",
        "the lock goes from b's parent upwards, so that a is counted and b is not",
        "memory is short, and b is evicted as a node that nobody uses",
        "the request reads b",
    ),
    (
        _case(
            "a request reads a matched node that was evicted, since only the nodes above it were held",
            put(
                system,
                match,
                reference,
                lambda node_0, n: above[node_0, n],
                name="only-above",
                says="holds the nodes above the matched one, and not that one",
            ),
            "what_a_request_reads_is_on_the_device",
            ONE_PREFIX,
        ),
        _case(
            "a request reads a path whose first node was evicted, since only its last one was held",
            put(
                system,
                match,
                reference,
                lambda node_0, n: node_0 == n,
                name="only-the-last",
                says="holds the matched node, and none above it",
            ),
            "what_a_request_reads_is_on_the_device",
            ONE_PATH,
        ),
        _case(
            "a child reads a prefix that was evicted when its parent let go of it",
            mutant(
                system,
                "fork.drop-assignment.reference",
                "lets children read what the parent reads, and hold nothing of it themselves",
            ),
            "what_a_request_reads_is_on_the_device",
            ONE_PREFIX,
        ),
    ),
)

B59 = Group(
    "A-B59",
    "Rows of a released request evicted while their send was still in the queue",
    "shared-prefix ownership",
    Evidence.REPRODUCED,
    ("NVIDIA/TensorRT-LLM issue #12542",),
    (
        "the rows of a prompt are computed, and their send goes into a queue",
        "its request ends, so that the rows are kept for whoever matches them, and for nobody else",
        "they make room for another request before their turn in the queue comes",
        "the sender looks them up in vain, and tells only its log",
        "whoever was to receive them is told nothing, and waits on",
    ),
    (
        _case(
            "a receiver has a send that brought no rows, since they were gone from the device",
            drop_guard(
                system,
                evict_from_device,
                SEND_QUEUED,
                "evicts rows that a queued send has still to read",
            ),
            "a_receiver_has_the_rows_of_its_node",
            ONE_SEND,
        ),
        _case(
            "a send has failed, and its receiver waits for ever",
            mutant(
                system,
                "give_notice.drop-assignment.notice",
                "notes that a send failed, and sends the receiver no notice of it",
            ),
            "every_receiver_gets_rows_or_a_failure",
            ONE_SEND,
        ),
        _case(
            "the one notice of a failed send is lost, and the receiver waits for ever",
            also(
                system,
                give_notice,
                lambda step, x: step.assign(send_state[x], SendState.SENT),
                name="once",
                says="takes a notice that was given for one that has arrived",
            ),
            "every_receiver_gets_rows_or_a_failure",
            ONE_SEND,
        ),
        _case(
            "a send has failed, and its rows can never be evicted",
            loosen(
                system,
                evict_from_device,
                SEND_QUEUED,
                _not_queued_nor_failed,
                name="never-after-a-failed-send",
                says="takes a failed send for one that has still to read its rows",
            ),
            "what_nobody_reads_leaves_the_device",
            ONE_SEND,
        ),
        _case(
            "a receiver has crashed, and the send to it stays in the queue with its rows",
            loosen(
                system,
                send,
                SEND_NOT_QUEUED,
                lambda x: (send_state[x] == SendState.QUEUED) & (receiver[x] == Receiver.WAITING),
                name="only-to-who-waits",
                says="leaves a send in the queue as long as nobody is there to receive it",
            ),
            "every_send_leaves_the_queue",
            ONE_SEND,
        ),
    ),
)

B62 = Group(
    "A-B62",
    "Pins of host objects: never dropped, dropped twice, freed in spite of them",
    "accounting",
    Evidence.MERGED,
    (
        "LMCache/LMCache issues #987, #1034, #3381",
        "LMCache/LMCache PR #993, #3884",
    ),
    (
        "a lookup finds a chunk on the host and pins it",
        "the engine has the tokens already, so that it retrieves nothing",
        "nobody drops the pin",
        "the host fills up with chunks that cannot be evicted",
        "elsewhere, two paths drop one reference, and another lookup's chunk is freed",
        "a timeout that drops forgotten pins takes one under which a client still reads",
    ),
    (
        _case(
            "a lookup was declined, and the copy that it found can never be evicted",
            mutant(
                system,
                "decline.drop-assignment.pins",
                "ends a lookup that is of no use and leaves its pin",
            ),
            "what_nobody_reads_leaves_the_host",
            ONE_LOOKUP,
        ),
        _case(
            "a client that looked up and never came back keeps its pin for ever",
            loosen(
                system,
                time_out,
                LOOKUP_NOT_OPEN,
                _has_read,
                name="only-after-a-read",
                says="drops the pins of those clients alone that have read what they found",
            ),
            "every_pin_is_dropped",
            ONE_LOOKUP,
        ),
        _case(
            "the timeout and a client drop one pin, and another client reads what took the slot of its copy",
            loosen(
                system,
                decline,
                LOOKUP_NOT_OPEN,
                _open_or_ended,
                name="a-second-time",
                says="drops the pin of a lookup that has ended once more",
            ),
            GOT,
            TWO_LOOKUPS,
        ),
        _case(
            "a client reads another prefix, whose copy took the slot in spite of the pin",
            drop_guard(
                system,
                evict_from_host,
                PINNED,
                "takes a host slot in spite of its pins",
            ),
            GOT,
            LATE_READ,
        ),
        _case(
            "a timeout takes the pin of a client that reads, and another copy takes the slot under the read",
            drop_guard(
                system,
                time_out,
                READ_IN_FLIGHT,
                "drops the pin of a client that it has not heard of, though its read is in flight",
            ),
            GOT,
            LATE_READ,
        ),
        _case(
            "a client comes to read after the timeout, and reads what has taken the place of its copy",
            loosen(
                system,
                begin_read,
                LOOKUP_NOT_OPEN,
                _open_or_ended,
                name="without-a-receipt",
                says="lets a client read the slot that it found, without asking for its pin",
            ),
            GOT,
            LATE_READ,
        ),
    ),
)

B63 = Group(
    "A-B63",
    "A request that was aborted while its rows were on the host left them there",
    "accounting",
    Evidence.REPRODUCED,
    ("sgl-project/sglang issue #18701",),
    (
        "the scheduler takes a request off the device and keeps its rows on the host",
        "its client gives up before its turn comes again",
        "the abort cleans up the device, where nothing was left, and not the host",
        "each such abort costs a host slot, until none is left",
    ),
    (
        _case(
            "a request is released, and its rows are still on the host",
            mutant(
                system,
                "release.drop-assignment.kept_for",
                "gives up what a request has on the device alone",
            ),
            "a_free_handle_holds_nothing_on_the_host",
            ON_THE_HOST,
        ),
        _case(
            "the host slot of a request that was aborted is never free again",
            mutant(
                system,
                "release.drop-assignment.kept_for",
                "gives up what a request has on the device alone",
            ),
            "an_ended_request_leaves_the_host",
            ON_THE_HOST,
        ),
    ),
)

GROUPS = (B09, B54, B59, B62, B63)
