"""The worked lifecycle of the text, told from the document and from its replay on the specification (B5)."""

import attrs
import pytest

from kvspec.counterexamples.negative_cases import load_document
from kvspec.models.documents import convert
from kvspec.properties.documents import find_kind
from kvspec.properties.documents.lifecycle import REFUSALS, steps
from kvspec.properties.documents.lifecycle_replay import replay
from kvspec.spec.documents.lifecycle import ARGUMENTS, Call, fingerprint
from kvspec.spec.failures import CODES

KIND = find_kind("lifecycle")
TRACE = convert(KIND, load_document("lifecycle"), "lifecycle.json")


def of(operation, **arguments):
    """The operations of a name with these arguments, in order."""
    return [
        each
        for each in TRACE.operations
        if each.operation == operation and arguments.items() <= each.arguments.items()
    ]


def stored(request):
    """The snapshots of a request: generation, phase, and rows that each layer shows."""
    return [
        (one.generation, one.phase, one.keys, one.values)
        for each in TRACE.operations
        for one in each.stored
        if one.request == request
    ]


def test_the_fixture_starts_at_generation_1_with_four_rows():
    """The first publication gives generation 1 with [4,4] (B5)."""
    assert stored("H")[1] == (1, "DECODE_READY", (4, 4), (4, 4))
    manifest = load_document("manifest")
    assert TRACE.cache_abi_sha256 == manifest["digests"]["cache_abi_sha256"]
    assert TRACE.layers == manifest["cache_schema"]["layers"]


def test_step_one():
    """Two appends capture generation 1; a read between sees [4,4]; one publication gives [5,5] (B5)."""
    begins = [one.arguments["txn"] for one in of("begin", generation=1, request="H")]
    assert begins == ["txn-win", "txn-lose"]
    assert of("read", generation=1, request="H")[0].seen.keys == (4, 4)
    (published,) = of("publish", txn="txn-win")
    assert published.receipt == 2
    assert stored("H")[2] == (2, "DECODE_READY", (5, 5), (5, 5))
    read_between = of("read", generation=1, request="H")[0].number
    staged = [one.number for one in of("stage", txn="txn-win")]
    assert staged[0] < read_between < staged[1] < published.number


def test_step_two():
    """A retry is told generation 2 again; the competitor finishes later and is stale (B5, A5)."""
    told = [(one.outcome, one.receipt) for one in of("retry", txn="txn-win")]
    assert told == [("accepted", 2), ("KEY_CONFLICT", None), ("accepted", 2)]
    (lost,) = of("publish", txn="txn-lose")
    assert lost.outcome == "STALE_SNAPSHOT"
    assert lost.stored == ()


def test_step_three():
    """Generation 2 is forked in two; coupled rows swap; A is cut to 3 rows and B cancelled (B5, A6)."""
    (fork,) = of("fork")
    assert [(c.request, c.generation, c.parent, c.keys) for c in fork.stored] == [
        ("A", 0, "H", (5, 5)),
        ("B", 0, "H", (5, 5)),
    ]
    assert len({one.sha256 for one in fork.stored}) == 2
    before, after = of("enter")[-1].batch, of("reorder")[0].batch
    assert after == before[::-1]
    assert stored("A")[-1] == (1, "DECODE_READY", (3, 3), (3, 3))
    assert stored("B")[-1][:2] == (1, "CANCELLED")


def test_step_four():
    """The half staged append to B is aborted; its completion and publication come too late (B5, A7)."""
    late = [one.outcome for one in of("stage", txn="txn-child")]
    assert late == ["accepted", "TXN_CLOSED"]
    assert of("publish", txn="txn-child")[0].outcome == "NOT_PREPARED"


def test_step_five():
    """H ends at generations 3 and 4; slot 17 has another owner; the delayed append is stale (B5, A9)."""
    assert [one[:2] for one in stored("H")[3:]] == [(3, "FINISHED"), (4, "RELEASED")]
    tombstone = of("release")[0].stored[0]
    assert (tombstone.committed_length, tombstone.keys) == (5, (0, 0))
    (seen,) = of("observe")
    assert seen.arguments == {"slot": 17, "owner": "J"}
    assert {one.stored[0].slot for one in of("allocate")} == {17}
    assert of("publish", txn="txn-delayed")[0].outcome == "STALE_GENERATION"
    assert of("prepare", txn="txn-delayed")[0].outcome == "accepted"
    assert of("read", request="H", generation=4)[0].outcome == "READ_OF_RELEASED"


def test_every_stored_snapshot_has_equal_lengths():
    """K and V of all layers are equally long in each snapshot of the replay, not only as written (B5, A1)."""
    found = [one for step in steps(TRACE) for one in step.stored]
    assert len(found) == 10
    for one in found:
        assert len({*one.keys, *one.values}) == 1
        assert one.phase == "RELEASED" or one.keys[0] == one.committed_length


def test_refusals_are_codes_of_the_specification():
    """What is refused is refused with a code of the specification, or of a reader of it (B5, A12)."""
    own = {"UNKNOWN_SNAPSHOT", "STALE_BASE", "READ_OF_RELEASED", "OTHER_OWNER", "TRUNCATE_GROWS"}
    assert set(REFUSALS) - own <= set(CODES)
    outcomes = {each.outcome for each in TRACE.operations} - {"accepted"}
    assert outcomes - own <= set(CODES)
    assert len(outcomes) == 7


def test_every_operation_is_in_the_trace():
    """No operation is known to the format that the worked trace does not show (B5)."""
    assert {each.operation for each in TRACE.operations} == set(ARGUMENTS)


def make(*calls):
    """What the specification says of calls on a cache of two layers."""
    return replay(2, tuple(Call(name, tuple(arguments.items())) for name, arguments in calls))


ALLOCATE = ("allocate", {"request": "H", "slot": 3})


def begin(txn="t", generation=0, start=0):
    """A call that begins an append of one row to H."""
    more = {"generation": generation, "start": start, "count": 1}
    return ("begin", {"txn": txn, "key": "k", "request": "H", **more})


def test_an_operation_on_a_slot_that_was_given_away_is_stale():
    """The old request's name does not reach the new one's rows, whatever the address says (B5, A9)."""
    gone = [("finish", {"request": "H", "generation": 0})]
    gone.append(("release", {"request": "H", "generation": 1}))
    reused = ("allocate", {"request": "J", "slot": 3})
    late = ("finish", {"request": "H", "generation": 2})
    assert make(ALLOCATE, *gone, late)[-1].refusal.code == "HANDLE_TERMINAL"
    assert make(ALLOCATE, *gone, reused, late)[-1].refusal.code == "STALE_GENERATION"
    cancel = ("cancel_request", {"request": "J", "generation": 0})
    assert make(ALLOCATE, *gone, reused, late, cancel)[-1].stored[0].generation == 1


def test_a_request_whose_making_was_refused_has_no_snapshot():
    """What follows a refused allocation is told, and nothing breaks (B5)."""
    again = ("allocate", {"request": "J", "slot": 3})
    enter = ("enter", {"request": "J", "row": 0})
    found = make(ALLOCATE, again, enter)
    assert [step.refusal and step.refusal.code for step in found] == [
        None,
        "HANDLE_LIVE",
        "UNKNOWN_SNAPSHOT",
    ]


@pytest.mark.parametrize("field", ["txn", "key", "request", "start", "count"])
def test_a_fingerprint_tells_every_part_of_a_call_apart(field):
    """Another transaction, key, request or interval gives another fingerprint (A5)."""
    (one,) = of("retry", txn="txn-win", key="step-1")[:1]
    call = Call("retry", tuple(one.arguments.items()))
    base = of("publish", txn="txn-prefill")[0].stored[0]
    value = one.arguments[field]
    other = dict(one.arguments) | {field: value + 1 if isinstance(value, int) else "another"}
    changed = Call("retry", tuple(other.items()))
    abi = TRACE.cache_abi_sha256
    assert fingerprint(call, base, abi) == one.fingerprint
    assert fingerprint(changed, base, abi) != one.fingerprint
    assert fingerprint(call, attrs.evolve(base, sha256="0" * 64), abi) != one.fingerprint
    assert fingerprint(call, base, "0" * 64) != one.fingerprint
