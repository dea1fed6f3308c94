"""What an event does to a state: accepted, refused with reasons, cut, or not tried at all."""

import pytest
from garden import (
    MACHINE,
    Colour,
    Node,
    Size,
    colour,
    event,
    flag,
    garden,
    make,
    most,
    size,
    state,
    system,
)

from kvspec.models.concrete import Event, Machine, State
from kvspec.spec.language import (
    ANY,
    Bool,
    Enum,
    ErrorCode,
    Map,
    Module,
    Open,
    Option,
    Step,
    System,
    instance,
    is_some,
    limit,
    member,
    the,
)


def test_an_accepted_step_assigns_from_the_state_before():
    """Assignments are simultaneous: connect paints what the node was linked to, and links it anew."""
    before = state(links=(1, None, None), lit=True)
    outcome = MACHINE.step(before, event("connect", n=0, o=2))
    assert outcome.kind == "accepted"
    assert outcome.code is None
    assert outcome.is_transition
    assert outcome.state == state(colours="RBR", links=(2, None, None), lit=True)


def test_what_is_not_assigned_stays():
    """A permutation of sizes leaves colours, links and the flag."""
    before = state(sizes=(1, 2, 3), colours="BRR", links=(None, 0, None), lit=True)
    outcome = MACHINE.step(before, event("shuffle", f=(2, 0, 1), s=(False, True, False)))
    assert outcome.state == state(
        sizes=(3, 1, 2), colours="BRR", links=(None, 0, None), lit=True, marks={(1, "RED")}
    )


def test_the_first_guard_that_fails_gives_the_code():
    """Both guards of shuffle fail, and the first is told (A12)."""
    before = state(colours="BBB")
    outcome = MACHINE.step(before, event("shuffle", f=(0, 0, 0), s=(True, True, True)))
    assert (outcome.kind, outcome.code) == ("refused", "NO_BIJECTION")
    assert outcome.state == before
    assert not outcome.effect
    assert not outcome.is_transition


def test_a_refusal_says_guard_expected_and_found():
    """The message has the code, the condition, and each variable that it reads with its value (A12)."""
    before = state(sizes=(0, 2, 0))
    outcome = MACHINE.step(before, event("grow", n=1, k=1))
    assert outcome.code == "TOO_LARGE"
    assert str(outcome.refusal) == (
        "TOO_LARGE: expected size[n] + k <= most; found size[node1] = 2, n = node1, k = 1"
    )


def test_a_refusal_of_a_quantified_guard_names_the_member_in_the_way():
    """What is found of `for all` is the first member that fails, and no other."""
    before = state(colours="RBB")
    outcome = MACHINE.step(before, event("shuffle", f=(0, 1, 2), s=(True, True, True)))
    assert outcome.code == "NOT_ALL_RED"
    assert str(outcome.refusal) == (
        "NOT_ALL_RED: expected for all n in Node: s[n] => colour[n] = RED; "
        "found s[node1] = true, colour[node1] = BLUE"
    )


def test_a_refusal_of_an_existential_guard_shows_all_that_it_looked_at():
    """What is found of `for some` is every member, since none would do."""
    outcome = MACHINE.step(state(sizes=(3, 1, 2)), event("jump", n=0))
    assert outcome.code == "UNLIT"
    for part in ("size[node1] = 1", "size[node2] = 2", "size[node0] = 3", "n = node0"):
        assert part in outcome.refusal.found


def test_a_refusal_of_a_map_shows_the_map():
    """A map that is no bijection is shown with all its values."""
    outcome = MACHINE.step(state(), event("shuffle", f=(1, 1, 0), s=(False,) * 3))
    assert str(outcome.refusal) == (
        "NO_BIJECTION: expected f is a bijection; "
        "found f[node0] = node1, f[node1] = node1, f[node2] = node0"
    )


def test_a_refusal_with_an_effect_is_a_transition():
    """Too large a growth raises the flag, and the sizes stay."""
    before = state(sizes=(2, 0, 0))
    outcome = MACHINE.step(before, event("grow", n=0, k=1))
    assert (outcome.kind, outcome.code, outcome.effect) == ("refused", "TOO_LARGE", True)
    assert outcome.is_transition
    assert outcome.state == state(sizes=(2, 0, 0), lit=True)


def test_a_step_out_of_bounds_is_cut():
    """A value above the bound is not taken: the state stays and the outcome says so."""
    before = state(sizes=(1, 1, 0))
    outcome = MACHINE.step(before, event("jump", n=0))
    assert (outcome.kind, outcome.state, outcome.code) == ("cut", before, None)
    assert not outcome.is_transition
    assert event("jump", n=0) not in [e for e, _ in MACHINE.transitions(before)]


def test_a_step_below_zero_is_cut():
    """A natural that would become negative is cut as well."""
    module = Module("below", "Below zero.")
    rows = module.variable("rows", to=Size, init=1, meaning="rows")

    @module.action
    def drop(step: Step) -> None:
        """Take two away."""
        step.assign(rows.value, rows.value - 2)

    machine = Machine(instance("one", System.of("below", "Below.", module), {Size: 3}))
    (start,) = machine.initial_states()
    assert machine.step(start, Event("drop")).kind == "cut"


def test_a_limit_says_what_is_tried():
    """An event outside a limit is neither a step nor a refusal of the instance; step() does not ask."""

    @limit(system.action("grow"))
    def grows_below_the_top(n, k):
        return (size[n] < Size.top) & (k >= 1)

    machine = Machine(make(largest=2, limits=(grows_below_the_top,)))
    top = state(sizes=(2, 0, 0))
    for tried, node, number in ((False, 0, 1), (False, 1, 0), (True, 1, 1)):
        assert machine.within_limits(top, event("grow", n=node, k=number)) == tried
    steps = [e for e, _ in machine.transitions(top) if e.action == "grow"]
    assert {e.names["n"] for e in steps} == {1, 2}
    assert machine.step(top, event("grow", n=0, k=0)).kind == "accepted"


def test_transitions_are_accepted_steps_and_refusals_with_effect():
    """enabled() lists the accepted ones alone."""
    before = state(sizes=(2, 0, 0))
    made = MACHINE.transitions(before)
    kinds = {(e.action, outcome.kind) for e, outcome in made}
    assert kinds == {
        ("grow", "accepted"),
        ("grow", "refused"),
        ("shuffle", "accepted"),
        ("jump", "accepted"),
    }
    assert set(MACHINE.enabled(before)) == {e for e, o in made if o.kind == "accepted"}
    assert all(MACHINE.step(before, e) == o for e, o in made)


def test_events_are_every_value_of_every_parameter():
    """Members, none and members, numbers up to the bound, and all maps."""
    count = dict.fromkeys(system.actions, 0)
    for each in MACHINE.events():
        count[each.action] += 1
    assert count == {"grow": 3 * 4, "connect": 3 * 4, "shuffle": 27 * 8, "jump": 3}
    assert len(set(MACHINE.events())) == len(MACHINE.events())


def test_a_variable_may_start_anywhere():
    """ANY gives one initial state for each value at each index; pinning leaves one."""
    assert MACHINE.initial_states() == [state(lit=False), state(lit=True)]
    assert Machine(make(initial={flag: True})).initial_states() == [state(lit=True)]
    module = Module("open", "Starts anywhere.")
    module.variable("where", Node, to=Option[Node], init=ANY, meaning="anywhere")
    module.variable("tone", to=Colour, init=ANY, meaning="any")
    anywhere = System.of("open", "Open.", module)
    starts = Machine(instance("two", anywhere, {Node: 2})).initial_states()
    assert len(starts) == len(set(starts)) == 3 * 3 * 2


def test_an_initial_value_may_be_the_index():
    """A function of the indices gives each index its own start."""
    module = Module("self", "Linked to itself.")
    own = module.variable("own", Node, to=Option[Node], init=lambda n: n, meaning="itself")

    @module.action
    def cut(step: Step, n: Node) -> None:
        """Drop a link."""
        step.require(is_some(own[n]), ErrorCode("FREE", "no link"))
        step.assign(own[n], None)

    machine = Machine(instance("three", System.of("self", "Self.", module), {Node: 3}))
    assert machine.initial_states() == [State(((0, 1, 2),))]
    assert machine.value(machine.initial_states()[0], "own", 2) == 2


def test_a_start_outside_of_the_bound_is_an_error():
    """An initial value above the bound of the instance is named."""
    module = Module("high", "Begins high.")
    module.variable("rows", to=Size, init=5, meaning="rows")
    machine = Machine(instance("low", System.of("high", "High.", module), {Size: 3}))
    with pytest.raises(ValueError, match=r"rows starts at 5, outside Size in high/low \(Size=3\)"):
        machine.initial_states()


def test_an_index_may_come_from_the_state():
    """An assignment to `colour[the(link[n])]` goes where the link led; without one to member 0."""
    outcome = MACHINE.step(state(lit=True), event("connect", n=2, o=None))
    assert outcome.state == state(colours="BRR", lit=True)


def test_a_value_is_found_by_its_index():
    """Tables are row-major, and an enumeration among the indices is named."""
    found = state(marks={(1, "BLUE")}, lit=True)
    assert MACHINE.value(found, "mark", 1, "BLUE") is True
    assert MACHINE.value(found, "mark", 1, "RED") is False
    assert MACHINE.value(found, "flag") is True


def test_claims_are_evaluated_on_states_and_steps():
    """holds() takes a formula of a state, and of a step with its event and outcome."""
    from kvspec.spec.language import after, fired, forall

    before = state(sizes=(2, 0, 0))
    try_ = event("grow", n=0, k=1)
    outcome = MACHINE.step(before, try_)
    assert MACHINE.holds(forall(Node, lambda n: colour[n] == Colour.RED), before)
    assert MACHINE.holds(fired("grow", "TOO_LARGE") & after(flag.value), before, try_, outcome)
    assert not MACHINE.holds(fired("grow"), before, try_, outcome)


def test_a_machine_reads_the_mutant_it_is_told():
    """Variant numbers choose among the trees of a mutated system."""
    from kvspec.properties.mutation import mutate

    mutated = mutate(system)
    chosen = mutated.named("grow.drop-guard.TOO_LARGE")
    before, large = state(sizes=(2, 0, 0)), event("grow", n=0, k=1)
    inside = mutated.on(make())
    assert Machine(inside).step(before, large).code == "TOO_LARGE"
    assert Machine(inside, chosen.number).step(before, large).state == state(sizes=(3, 0, 0))


def test_a_map_to_an_enumeration_is_a_parameter():
    """A function-valued parameter may give colours, applied in guards and values."""
    module = Module("paint", "Paint by a plan.")
    tone = module.variable("tone", Node, to=Colour, init=Colour.RED, meaning="tone")

    @module.action
    def paint(step: Step, plan: Map[Node, Colour], n: Node) -> None:
        """Paint all nodes."""
        step.require(plan[n] != tone[n], ErrorCode("SAME", "the same"))
        for m in step.every(Node):
            step.assign(tone[m], plan[m])

    machine = Machine(instance("two", System.of("paint", "Paint.", module), {Node: 2}))
    (start,) = machine.initial_states()
    assert len(machine.events()) == 4 * 2
    done = machine.step(start, Event("paint", (("plan", ("RED", "BLUE")), ("n", 1))))
    assert done.state == State((("RED", "BLUE"),))
    assert machine.step(start, Event("paint", (("plan", ("RED", "BLUE")), ("n", 0)))).code == "SAME"


def test_toy_is_as_declared():
    """The garden uses one variable of each type and one constant."""
    assert [v.type.kind for v in garden.variables.values()] == [
        "enum",
        "natural",
        "option",
        "bool",
        "bool",
    ]
    assert system.constants == {"most": most}


def test_the_kinds_of_sorts_are_all_there_are():
    """Open, Enum, Option and Bool values are listed in order; an option begins with none."""
    from kvspec.models.concrete.state import values_of
    from kvspec.spec.language import type_of

    class Only(Enum):
        """One member."""

        ONE = member()

    class Nobody(Open):
        """Nobody."""

    found = make()
    listed = [type_of(kind) for kind in (Bool, Only, Node, Option[Node], Size)]
    assert [values_of(kind, found) for kind in listed] == [
        [False, True],
        ["ONE"],
        [0, 1, 2],
        [None, 0, 1, 2],
        [0, 1, 2, 3],
    ]
    assert [found.members(kind) for kind in listed if kind.name != "Only"] == [2, 3, 4, 4]
    assert the(MACHINE.system.variables["link"][NODE]).type == type_of(Node)


NODE = system.action("jump").parameters[0]
