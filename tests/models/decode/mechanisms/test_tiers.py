"""Two tiers of real rows: their damage in numbers, and all that they can do."""

from importlib.resources import files
from pathlib import Path

import pytest
import torch
from graph_walks import answer_everything, sample

from kvspec.counterexamples.atlas_files import trace_of_case
from kvspec.counterexamples.files import read_trace
from kvspec.counterexamples.replay import replay
from kvspec.counterexamples.targets import faulty_backend, sound_backend
from kvspec.models.concrete import Event
from kvspec.models.decode.agreement import TOLERANCES, disagreement
from kvspec.models.decode.mechanisms import tiers_rows as rows
from kvspec.models.decode.mechanisms.tiers import Cache
from kvspec.models.explicit import explore
from kvspec.properties.atlas.run import run_case
from kvspec.properties.atlas.tiers import GROUPS
from kvspec.properties.tiers import tiers as claims
from kvspec.spec import tiers

CASES = {case.fault.name: case for group in GROUPS for case in group.cases}


COPIES = tiers.make_instance("COPIES", "one prefix and one host slot")
LARGER = (
    tiers.make_instance("LOOKUPS", "two lookups of one prefix", lookups=2),
    tiers.make_instance("SENDS", "a send of one prefix", sends=1),
    tiers.make_instance("NODES", "two prefixes and one host slot", nodes=2),
    tiers.make_instance("PAIR", "two requests and one prefix", handles=2, slots=0),
)


def test_the_sound_tiers_do_all_that_a_small_instance_allows():
    """Every transition, every action and every refusal of a small instance."""
    report = sample(Cache(), COPIES, claims, walks=2_000, examples=40)
    assert report.holds, report.text()
    assert report.touched == report.transitions


@pytest.mark.slow
@pytest.mark.parametrize("instance", LARGER, ids=lambda made: made.name)
def test_the_sound_tiers_answer_every_event_in_every_state(instance):
    """Accepted and refused as specified, with the same state after it and without damage."""
    found, _ = answer_everything(Cache(), instance)
    assert found == explore(instance, deadlock=False).states


def driven_by(*steps, faults=()):
    """A cache of an instance with room for all, after these events, each of them accepted."""
    cache = Cache(faults=faults)
    cache.reset(
        tiers.make_instance("SCENARIO", "", handles=2, nodes=2, slots=2, lookups=2, sends=1)
    )
    for action, values in steps:
        reply = cache.perform(Event(action, tuple(values.items())))
        assert reply.accepted, f"{action}: {reply.code}"
    return cache


TWO_NODES = (
    ("allocate", {"h": 0, "b": 0, "a": 0}),
    ("insert", {"h": 0, "n": 0}),
    ("insert", {"h": 0, "n": 1}),
)
TO_THE_HOST_AND_BACK = (
    ("cancel_request", {"h": 0}),
    ("release", {"h": 0}),
    ("store", {"n": 0, "s": 0}),
    ("end_store", {"s": 0}),
    ("evict_from_device", {"n": 0}),
    ("load", {"n": 0, "s": 0}),
    ("end_load", {"n": 0}),
)
ABORTED_ON_THE_HOST = (
    ("allocate", {"h": 0, "b": 0, "a": 0}),
    ("retract", {"h": 0, "s": 0}),
    ("cancel_request", {"h": 0}),
    ("release", {"h": 0}),
)


def test_rows_that_were_on_the_host_give_the_logits_of_an_uncached_run():
    """A path of which one node was stored, evicted and loaded back is read as it was computed."""
    cache = driven_by(*TWO_NODES, *TO_THE_HOST_AND_BACK)
    chain = cache.chain(1)
    assert chain == (0, 1)
    cached = rows.cached_logits(chain, (cache.pool[cache.page_of[n]] for n in chain))
    right = rows.uncached_logits(chain)
    assert disagreement(cached, right) <= TOLERANCES[right.dtype]
    assert not cache.damage()


def test_the_rows_of_another_prefix_give_other_logits():
    """A page with the other node's rows is far from the uncached run: the measure can tell."""
    cache = driven_by(*TWO_NODES)
    first, second = cache.requests[0].table
    rows.copy(cache.pool[first], cache.pool[second])
    harm = {found.kind: found for found in cache.damage() if found.where == "handle0"}
    assert harm["rows"].amount == rows.ROWS
    assert harm["logits"].amount > 1_000 * TOLERANCES[torch.float32]


def test_rows_that_were_evicted_are_there_until_their_page_is_used_again():
    """Eviction writes nothing: what was evicted is overwritten by who gets its page, and by nobody else."""
    cache = driven_by(*TWO_NODES, *TO_THE_HOST_AND_BACK[:-2])
    page = cache.free[-1]
    assert not rows.wrong_rows(cache.pool[page], (0,))
    assert not cache.damage()
    assert not rows.wrong_rows(cache.pool[page], (0,))
    cache.fill_what_is_free()
    assert rows.wrong_rows(cache.pool[page], (0,)) == rows.ROWS


@pytest.mark.parametrize(
    "name",
    [
        "evict_from_device.drop-guard.COPY_IN_FLIGHT",
        "fork.drop-assignment.reference",
    ],
)
def test_without_reuse_there_is_no_wrong_row(name, monkeypatch):
    """The damage of an early eviction is what the next user of the page does, not the eviction itself."""
    monkeypatch.setattr(Cache, "fill_what_is_free", lambda _: None)
    found = replay(
        trace_of_case(run_case(CASES[name])),
        faulty_backend("tiers", name),
        faulty=True,
        faulty_system=CASES[name].fault.changed,
    )
    assert not {"rows", "logits"} & {harm.kind for harm in found.steps[-1].damage}


def test_a_send_brings_the_bytes_of_a_page():
    """The receiver's buffer has the rows of the node, and is not the sender's page."""
    sent = ("queue_send", {"x": 0, "h": 0, "n": 0}), ("send", {"x": 0})
    cache = driven_by(*TWO_NODES, *sent)
    assert not rows.wrong_rows(cache.sends[0].received, (0,))
    rows.copy(cache.pool[cache.page_of[0]], rows.empty())
    assert not rows.wrong_rows(cache.sends[0].received, (0,))


def test_rows_of_a_request_that_is_resumed_are_its_own():
    """They go to the host and come back to a block that was overwritten in between."""
    cache = driven_by(("allocate", {"h": 0, "b": 0, "a": 0}), ("retract", {"h": 0, "s": 0}))
    rows.copy(cache.blocks[0], rows.empty())
    assert cache.perform(Event("resume", (("h", 0), ("s", 0)))).accepted
    assert not rows.wrong_rows(cache.blocks[0], cache.own_chain(0))


def test_the_bytes_of_an_aborted_request_are_counted():
    """A released request holds a whole buffer on the host with the fault, and nothing without it."""
    cache = driven_by(*ABORTED_ON_THE_HOST, faults=("release.drop-assignment.kept_for",))
    (harm,) = cache.damage()
    shape = rows.rows_of((0,))
    assert harm.kind == "owner"
    assert harm.amount == sum(each.numel() * each.element_size() for each in shape.values())
    assert not driven_by(*ABORTED_ON_THE_HOST).damage()


READ = (
    ("store", {"n": 0, "s": 0}),
    ("end_store", {"s": 0}),
    ("look_up", {"q": 0, "s": 0}),
    ("begin_read", {"q": 0}),
)


def test_a_read_brings_the_bytes_of_a_host_buffer():
    """The client's buffer has the rows of the node, and keeps them when the host buffer is overwritten."""
    cache = driven_by(*TWO_NODES, *READ, ("end_read", {"q": 0}), ("retrieve", {"q": 0}))
    cache.buffers[0] = rows.empty()
    assert not rows.wrong_rows(cache.lookups[0].received, (0,))
    assert not [harm for harm in cache.damage() if harm.where == "the client of lookup0"]


def test_a_read_whose_pin_was_taken_brings_rows_of_another_node():
    """The timeout took the pin, node 1 has the buffer, and the client has its rows for those of node 0."""
    cache = driven_by(
        *TWO_NODES,
        *READ,
        ("time_out", {"q": 0}),
        ("evict_from_host", {"s": 0}),
        ("store", {"n": 1, "s": 0}),
        ("end_store", {"s": 0}),
        ("end_read", {"q": 0}),
        faults=("time_out.drop-guard.READ_IN_FLIGHT",),
    )
    (harm,) = cache.damage()
    assert (harm.kind, harm.where, harm.amount) == ("rows", "the client of lookup0", rows.ROWS)
    assert "of node1" in harm.text
    assert not rows.wrong_rows(cache.lookups[0].received, (0, 1))


def test_rows_of_an_append_are_not_staged_here():
    """The cache lets appends begin and end, and says that it has no rows of them."""
    cache = Cache()
    cache.reset(tiers.RETRACTION)
    with pytest.raises(ValueError, match=r"found the event stage_k, expected one that stages"):
        cache.perform(Event("stage_k", (("x", 0), ("l", 0), ("p", 0))))


@pytest.mark.parametrize(
    "name",
    [
        "begin.drop-guard.RETRACTED",
        "enter.drop-guard.RETRACTED",
        "retract.drop-guard.APPEND_IN_FLIGHT",
        "retract.drop-guard.ROW_HOLDS_HANDLE",
    ],
)
def test_where_the_tiers_meet_appends_and_the_batch_they_refuse_as_specified(name):
    """Traces of the library with an append or a batch row end where the sound cache refuses."""
    path = Path(str(files("kvspec.counterexamples.library"))) / "tiers" / f"{name}.json"
    found = replay(read_trace(path), sound_backend("tiers"))
    assert found.outcome == "refused_as_specified", found.message
