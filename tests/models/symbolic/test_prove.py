"""Proofs hold of the sound system, fail on planted faults, and never pass what is undecided."""

from typing import Any

import pytest

from kvspec.models.concrete import Machine
from kvspec.models.symbolic import ReplayError, prove
from kvspec.models.symbolic.counterexample import counterexample
from kvspec.models.symbolic.obligations import obligations
from kvspec.models.symbolic.small import SmallModel, SmallModels
from kvspec.spec.examples import peer
from kvspec.spec.language import (
    ANY,
    Bool,
    Enum,
    ErrorCode,
    Map,
    Module,
    Natural,
    Open,
    Option,
    Properties,
    System,
    after,
    bijective,
    exists,
    fired,
    forall,
    implies,
    is_some,
    member,
    the,
)

NEVER = ErrorCode("NEVER", "this cannot be")
TOO_MANY = ErrorCode("TOO_MANY", "more than there are")
BUSY = ErrorCode("BUSY", "in use")


class Thing(Open):
    """Any number of things."""


class Count(Natural):
    """How many."""


class Color(Enum):
    """A color."""

    RED = member()
    BLUE = member()


@pytest.fixture(scope="module")
def peer_report() -> Any:
    """The proof of the peer system in solver processes."""
    return prove(peer.system, peer.properties, workers=2)


def test_the_peer_system_is_proved(peer_report: Any) -> None:
    """Every obligation of the peer system is proved, by a solver or by its form."""
    assert peer_report.verdict == "holds", peer_report.show()
    assert (peer_report.failed, peer_report.unknown) == (0, 0)
    assert peer_report.obligations == peer_report.proved + peer_report.trivial
    by = {(i.kind, i.how) for i in peer_report.items}
    assert ("inductive", "frame") in by
    assert ("natural", "syntax") in by
    assert ("enabled", "model") in by


def test_the_verdicts_are_the_same_each_time(peer_report: Any) -> None:
    """Another run, in this process alone, gives the same verdicts in the same order."""
    again = prove(peer.system, peer.properties, workers=0)
    first = [(i.name, i.verdict, i.how) for i in peer_report.items]
    assert [(i.name, i.verdict, i.how) for i in again.items] == first


@pytest.mark.parametrize(
    ("action", "code", "broken"),
    [
        (
            "publish",
            "STALE_GENERATION",
            "step:publication_is_of_the_captured_generation:publish",
        ),
        (
            "prepare",
            "LAYER_INCOMPLETE",
            "inductive:a_prepared_append_staged_every_layer:prepare",
        ),
    ],
)
def test_a_planted_fault_has_a_counterexample(
    planted: Any, action: str, code: str, broken: str
) -> None:
    """A guard left out is found, with a small state, the step, and the guards that let it through."""
    system = planted(action, code)
    report = prove(system, peer.properties, workers=0, only=["step:*", "inductive:*"])
    assert report.verdict == "violated"
    found = report[broken].counterexample
    assert found is not None
    assert set(found.instance.sizes.values()) == {1}
    assert code not in [guard.code for guard in found.guards]
    assert len(found.guards) == len(system.action(action).guards)
    machine = Machine(found.instance)
    assert found.event is not None
    assert machine.step(found.before, found.event).state == found.after
    text = found.show()
    assert f"step {action}(t=txn0)" in text
    assert "status[txn0]: " in text
    assert text in report.show().replace("\n  ", "\n")


def test_a_reach_function_labels_counterexamples(planted: Any) -> None:
    """The caller's search says whether the state before the step was reached."""
    system = planted("publish", "STALE_GENERATION")
    name = "step:publication_is_of_the_captured_generation:publish"
    labels, told = [], []
    for answer in (True, False, None):
        report = prove(system, peer.properties, workers=0, only=[name], reach=lambda _, a=answer: a)
        found = report[name].counterexample
        assert found is not None
        labels.append(found.label)
        told.append("no run is known that breaks it" in found.show())
    assert labels[0] == "reachable"
    assert labels[1].startswith("not reached on peer/counterexample")
    assert labels[2] == "not searched"
    assert told == [False, True, False]


def drops(*, guarded: bool) -> tuple[System, Properties]:
    """A counter from which things are taken away, with or without a look at what is there."""
    module = Module("drops", "A counter.")
    limit = module.constant("limit", Count, meaning="most that is dropped at once")
    rows = module.variable("rows", Thing, to=Count, init=0, meaning="rows")

    @module.action
    def add(step: Any, t: Thing) -> None:
        """One row more."""
        step.assign(rows[t], rows[t] + 1)

    @module.action
    def drop(step: Any, t: Thing, n: Count) -> None:
        """Take n rows away."""
        step.require(n <= limit, TOO_MANY)
        if guarded:
            step.require(n <= rows[t], NEVER)
        step.assign(rows[t], rows[t] - n)

    system = System.of("drops", "A counter.", module)
    return system, Properties(system)


def test_a_natural_below_zero_is_found() -> None:
    """A subtraction without a guard leaves the naturals, and the counterexample shows it."""
    report = prove(*drops(guarded=False), workers=0)
    item = report["natural:rows:drop"]
    assert item.verdict == "failed"
    assert item.counterexample is not None
    assert item.counterexample.after is None
    assert "below 0" in item.counterexample.show()
    assert prove(*drops(guarded=True), workers=0).verdict == "holds"


def test_contradictory_guards_are_named() -> None:
    """An action that is never enabled fails, and the guard in the way is named."""
    module = Module("stuck", "A thing of one color.")
    color = module.variable("color", Thing, to=Color, init=Color.RED, meaning="its color")

    @module.action
    def paint(step: Any, t: Thing) -> None:
        """Paint a thing that is red and blue."""
        step.require(color[t] == Color.RED, BUSY)
        step.require(color[t] == Color.BLUE, NEVER)
        step.assign(color[t], Color.BLUE)

    @module.action
    def wipe(step: Any, t: Thing) -> None:
        """Paint a thing again, after looking twice."""
        step.require(color[t] == Color.BLUE, BUSY)
        step.require(color[t] != Color.RED, NEVER)
        step.assign(color[t], Color.RED)

    system = System.of("stuck", "A thing of one color.", module)
    properties = Properties(system)

    @properties.invariant
    def a_thing_of_both_colors_is_nothing() -> Any:
        """What is red and blue is blue."""
        return forall(
            Thing,
            lambda t: implies(
                (color[t] == Color.RED) & (color[t] == Color.BLUE), color[t] == Color.BLUE
            ),
        )

    report = prove(system, properties, workers=0)
    assert report["enabled:paint"].verdict == "failed"
    assert "NEVER `color[t] = BLUE` cannot hold" in report["enabled:paint"].reason
    assert report["refuses:wipe!NEVER"].verdict == "failed"
    assert "NEVER `color[t] != RED` never refuses" in report["refuses:wipe!NEVER"].reason
    item = report["antecedent:a_thing_of_both_colors_is_nothing"]
    assert (item.verdict, "says nothing" in item.reason) == ("failed", True)


def test_an_initial_state_is_checked() -> None:
    """An invariant that fails at the beginning is shown with the initial state."""
    system, properties = drops(guarded=True)
    rows = system.variables["rows"]

    @properties.invariant
    def there_is_a_row() -> Any:
        """Every thing has a row."""
        return forall(Thing, lambda t: rows[t] >= 1)

    item = prove(system, properties, workers=0)["initial:there_is_a_row"]
    assert item.verdict == "failed"
    assert item.counterexample is not None
    assert item.counterexample.label == "an initial state"
    assert "rows[thing0] = 0" in item.counterexample.show()


def test_refusals_with_effect_maps_and_colors_are_translated() -> None:
    """Refusals are transitions; a map can be a bijection; a variable can be indexed by a color."""
    module = Module("tags", "Things carry tags of two colors.")
    tag = module.variable("tag", Thing, Color, to=Count, init=0, meaning="tag of each color")
    lost = module.variable("lost", to=Count, init=0, meaning="refusals so far")

    @module.action
    def permute(step: Any, to: Map[Thing, Thing]) -> None:
        """Carry the tags over along a bijection; count what is none."""
        step.require(bijective(to), BUSY, refused={lost.value: lost.value + 1})
        for t in step.every(Thing):
            for c in step.every(Color):
                step.assign(tag[t, c], tag[to[t], c])

    @module.action
    def mark(step: Any, t: Thing, c: Color) -> None:
        """Tag a thing with a number that no thing has."""
        step.require(forall(Thing, Color, lambda s, d: tag[s, d] != lost.value + 1), NEVER)
        step.assign(tag[t, c], lost.value + 1)

    system = System.of("tags", "Things carry tags of two colors.", module)
    properties = Properties(system)

    @properties.invariant
    def a_tag_is_on_one_thing() -> Any:
        """Two things with the same red tag, not 0, are one."""
        return forall(
            Thing,
            Thing,
            lambda s, t: implies(
                (tag[s, Color.RED] == tag[t, Color.RED]) & (tag[s, Color.RED] >= 1), s == t
            ),
        )

    @properties.step
    def a_permutation_loses_no_tag() -> Any:
        """Every tag is still on some thing after a permutation."""
        return forall(
            Thing,
            Color,
            lambda t, c: implies(
                fired(permute), exists(Thing, lambda s: after(tag[s, c]) == tag[t, c])
            ),
        )

    @properties.step
    def only_a_refused_permutation_is_counted() -> Any:
        """What is counted are refusals."""
        return implies(lost.value != after(lost.value), fired(permute, BUSY))

    report = prove(system, properties, workers=0)
    assert report.verdict == "holds", report.show()
    assert report["enabled:permute!BUSY"].how == "model"
    assert report["step:a_permutation_loses_no_tag:permute"].how == "solver"
    assert report["step:only_a_refused_permutation_is_counted:permute!BUSY"].how == "solver"


def test_what_a_solver_cannot_settle_is_unknown_and_no_pass() -> None:
    """A claim that only an infinite state refutes runs out of time: `unknown`, with the reason."""
    module = Module("endless", "Each thing has a next one, which is higher.")
    level = module.variable("level", Thing, to=Count, init=0, meaning="its level")
    following = module.variable("following", Thing, to=Option[Thing], init=ANY, meaning="the next")

    marked = module.variable("marked", Thing, to=Bool, init=False, meaning="it is marked")

    @module.action
    def mark(step: Any, t: Thing) -> None:
        """Mark a thing."""
        step.assign(marked[t], True)

    system = System.of("endless", "Each thing has a next one, which is higher.", module)
    properties = Properties(system)

    @properties.lemma
    def the_next_is_higher() -> Any:
        """Every thing has a next one, and it is higher: no finite state is like this."""
        return forall(
            Thing,
            lambda t: is_some(following[t]) & (level[the(following[t])] == level[t] + 1),
        )

    @properties.invariant
    def nothing_is_marked() -> Any:
        """No thing is marked."""
        return forall(Thing, lambda t: ~marked[t])

    name = "inductive:nothing_is_marked:mark"
    report = prove(system, properties, workers=0, seconds_per_obligation=0.2, only=[name])
    assert [i.verdict for i in report.items] == ["unknown"]
    assert report.items[0].reason
    assert report.verdict == "unknown"


def test_nothing_to_prove_is_no_pass() -> None:
    """A choice of obligations that matches nothing is `unknown`."""
    assert prove(peer.system, peer.properties, only=["typo:*"], workers=0).verdict == "unknown"


def test_a_model_that_the_concrete_engine_refuses_is_loud() -> None:
    """A wrong model is never shown as a counterexample: it is an error of the translation."""
    known = peer.properties.of_kind("invariant", "lemma")
    chosen = next(
        o
        for o in obligations(peer.system, peer.properties)
        if o.name == "inductive:a_prepared_append_staged_every_layer:prepare"
    )
    wrong = SmallModel(
        {"Handle": 1, "Txn": 1, "Layer": 1},
        {"max_length": 1, "max_generation": 1},
        {
            "gen": (0,),
            "len": (0,),
            "phase": ("READY",),
            "status": ("OPEN",),
            "base": (0,),
            "base_gen": (0,),
            "staged_k": (True,),
            "staged_v": (False,),
        },
        {"t": 0},
    )
    with pytest.raises(ReplayError, match="is refused LAYER_INCOMPLETE"):
        counterexample(peer.system, known, chosen, wrong, 10)


def test_small_models_do_not_find_what_is_not_there() -> None:
    """A proved obligation has no small model."""
    known = peer.properties.of_kind("invariant", "lemma")
    small = SmallModels(peer.system, known, [], [], seconds=10.0)
    chosen = [
        o
        for o in obligations(peer.system, peer.properties)
        if o.kind == "inductive" and o.settled is None and "publish" in o.name
    ]
    assert chosen
    assert [small.find(o) for o in chosen] == [None] * len(chosen)


def test_a_step_that_lacks_a_guard_is_no_step_of_the_given_system():
    """Claims are not taken over for an action whose guard or assignment of the core is gone (C2)."""
    import attrs

    from kvspec.models.symbolic.obligations import is_step_of
    from kvspec.models.symbolic.world import Outcome
    from kvspec.properties.serving import serving

    begin = serving.system.action("begin")
    assert is_step_of(serving, Outcome(begin))
    fewer = tuple(g for g in begin.guards if g.code.name != "ABI_MISMATCH")
    assert not is_step_of(serving, Outcome(attrs.evolve(begin, guards=fewer)))
    less = tuple(d for d in begin.assignments if d.variable.name != "base_version")
    assert not is_step_of(serving, Outcome(attrs.evolve(begin, assignments=less)))
    publish = serving.system.action("publish")
    stale = [g.code.name for g in publish.guards].index("STALE_SNAPSHOT")
    assert is_step_of(serving, Outcome(publish, stale))
    guard = attrs.evolve(publish.guards[stale], refusal=publish.guards[stale].refusal[1:])
    guards = (*publish.guards[:stale], guard, *publish.guards[stale + 1 :])
    assert not is_step_of(serving, Outcome(attrs.evolve(publish, guards=guards), stale))
    frontier = [g.code.name for g in publish.guards].index("STALE_FRONTIER")
    assert not is_step_of(serving, Outcome(publish, frontier)), "a refusal of the extension itself"
    assert not is_step_of(serving, Outcome(serving.system.action("verify")))


def test_a_core_without_a_guard_is_not_proved_by_the_claims_of_the_core():
    """The serving system without a check of the core breaks an invariant that is given (C2, C3)."""
    import attrs

    from kvspec.properties.serving import serving

    system = serving.system
    begin = system.action("begin")
    fewer = tuple(g for g in begin.guards if g.code.name != "ABI_MISMATCH")
    broken = attrs.evolve(
        system, actions={**system.actions, "begin": attrs.evolve(begin, guards=fewer)}
    )
    only = ["inductive:an_append_is_of_its_handles_abi:begin"]
    assert prove(system, serving, only=only, workers=0).verdict == "holds"
    assert prove(broken, serving, only=only, workers=0).verdict == "violated"
