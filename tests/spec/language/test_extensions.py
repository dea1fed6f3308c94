"""A module extends or observes an action of another: one joined action, and every misuse is an error."""

from language_toys import EARLY, LATE, OTHER, Edge, Node, Size, grown, refuses, toy

from kvspec.models.concrete import Event, Machine
from kvspec.spec.language import (
    Bool,
    ErrorCode,
    ExtensionStep,
    Module,
    Properties,
    Step,
    System,
    forall,
    instance,
    limit,
    weak,
)

BETWEEN = ErrorCode("BETWEEN", "of the first class as well", 1)


def base():
    """A module with one action that has guards of two classes, and a refusal with an effect."""
    t = toy()

    @t.module.action
    def grow(step: Step, n: Node, k: Size) -> None:
        """Make a node larger."""
        step.require(k <= t.most, EARLY)
        step.require(~t.flag[()], LATE, refused={t.flag[()]: False})
        step.assign(t.size[n], t.size[n] + k)

    return t, grow


def watcher(t):
    """A module that uses the toy, with variables of its own."""
    module = Module("watch", "A watcher.", uses=(t.module,))
    count = module.variable("count", Node, to=Size, init=0, meaning="times that a node grew")
    failed = module.variable("failed", to=Bool, init=False, meaning="a growth was refused")
    return module, count, failed


def joined():
    """The toy with an extension of its action: a parameter, a guard, an assignment, an effect."""
    t, grow = base()
    module, count, failed = watcher(t)

    @module.extend(grow)
    def count_growth(step: ExtensionStep, n: Node, d: Size) -> None:
        """A growth is counted d times."""
        step.refused(lambda effect: effect.assign(failed[()], True))
        step.require(d <= 2, BETWEEN)
        step.assign(count[n], count[n] + d)

    return t, grow, System.of("both", "Toy and watcher.", t.module, module)


def test_an_extended_action_is_one_action():
    """It has the parameters, guards and assignments of both, guards in the order of their classes."""
    _, grow, system = joined()
    found = system.action("grow")
    assert [p.name for p in found.parameters] == ["n", "k", "d"]
    assert [g.code.name for g in found.guards] == ["EARLY", "BETWEEN", "LATE"]
    assert [done.variable.name for done in found.assignments] == ["size", "count"]
    assert [done.variable.name for done in found.guard("LATE").refusal] == ["flag", "failed"]
    assert found.guard("EARLY").refusal == ()
    assert found.extends is grow
    assert found.doc == "Make a node larger. A growth is counted d times."
    assert system.own(grow) is found
    assert len(grow.guards) == 2, "the action itself stays as it is"


def test_a_joined_step_does_both_or_neither():
    """The interpreter takes a joined step as one: both assignments, or the refusal of either."""
    t, _, system = joined()
    machine = Machine(instance("I", system, {Node: 1, Size: 5, Edge: 0}, constants={t.most: 3}))
    (state,) = machine.initial_states()
    done = machine.step(state, Event("grow", (("n", 0), ("k", 1), ("d", 2))))
    assert machine.value(done.state, "size", 0) == 1
    assert machine.value(done.state, "count", 0) == 2
    refused = machine.step(state, Event("grow", (("n", 0), ("k", 1), ("d", 3))))
    assert (refused.kind, refused.code) == ("refused", "BETWEEN")
    assert refused.state == state


def test_limits_and_fairness_may_name_the_action_that_is_extended():
    """What was said of the action holds of the joined one as well."""
    t, grow, system = joined()

    @limit(grow)
    def slowly(k):
        return k <= 1

    made = instance(
        "I", system, {Node: 1, Size: 5, Edge: 0}, constants={t.most: 3}, limits=(slowly,)
    )
    machine = Machine(made)
    (state,) = machine.initial_states()
    assert {event.names["k"] for event in machine.enabled(state)} == {0, 1}
    claims = Properties(system)

    @claims.leads_to(weak(grow))
    def it_grows():
        """Something grows."""
        flag = t.flag[()]
        return flag, ~flag

    assert it_grows.fairness[0].action is grow


def test_claims_that_are_given_are_found_by_name():
    """Invariants of a system hold where its modules are extended, and can be named there."""
    t, _ = base()
    alone = System.of("alone", "The toy.", t.module)
    claims = Properties(alone)

    @claims.invariant
    def sizes_are_small():
        """No node is large."""
        return forall(Node, lambda n: t.size[n] <= 9)

    module, _, _ = watcher(t)
    both = Properties(System.of("both", "Both.", t.module, module), given=claims)
    assert both["sizes_are_small"] is sizes_are_small
    assert both.inherited() == [sizes_are_small]
    assert both.by_name == {}

    def other():
        Properties(grown(toy()), given=claims)  # fault

    refuses(other, "toy is given the claims of a system with Module(toy), which it lacks")


def test_an_extension_is_of_an_action_that_is_used():
    """An action of a module that is not used cannot be extended."""
    _, grow = base()
    stranger = Module("stranger", "No use.")
    mine = stranger.variable("mine", to=Bool, init=False, meaning="a flag")

    def define():
        @stranger.extend(grow)  # fault
        def more(step: Step, n: Node) -> None:
            """Add something."""
            step.assign(mine[()], True)

    refuses(define, "more extends grow of module toy, which Module(stranger) does not use")


def test_a_parameter_of_the_same_name_has_the_same_sort():
    """A parameter that the action has is that one, and cannot be of another sort."""
    t, grow = base()
    module, count, _ = watcher(t)

    def define():
        @module.extend(grow)  # fault
        def more(step: Step, k: Node) -> None:
            """Add something."""
            step.assign(count[k], 1)

    refuses(define, "more: parameter k is of Node, but of Size in grow, which it extends")


def test_an_extension_writes_what_it_declares_and_what_is_not_written():
    """It assigns to its own module, and to nothing that the action assigns."""
    t, grow = base()
    module, _, _ = watcher(t)

    def foreign():
        @module.extend(grow)
        def more(step: Step, n: Node) -> None:
            """Add something."""
            step.assign(t.flag[()], True)  # fault

    refuses(foreign, "which watch does not declare to write")
    second = Module("second", "Writes sizes.", uses=(t.module,), writes=(t.size,))

    def twice():
        @second.extend(grow)
        def again(step: Step, n: Node) -> None:
            """Grow it twice."""
            step.assign(t.size[n], t.size[n] + 1)  # fault

        System.of("both", "Both.", t.module, second)

    refuses(twice, "again assigns size, which grow assigns already")


def test_codes_and_parameters_are_told_apart():
    """Two guards of one code, and two new parameters of one name, are refused."""
    t, grow = base()
    module, count, _ = watcher(t)

    def codes():
        @module.extend(grow)
        def more(step: Step, n: Node) -> None:
            """Add a guard."""
            step.require(count[n] <= 3, LATE)  # fault

        System.of("both", "Both.", t.module, module)

    refuses(codes, "more refuses with LATE, as grow does already: give each guard its own code")
    t, grow = base()
    one, count, _ = watcher(t)
    two = Module("two", "Another.", uses=(t.module,))
    other = two.variable("other", Node, to=Size, init=0, meaning="another count")

    @one.extend(grow)
    def add(step: Step, n: Node, d: Size) -> None:
        """Count it."""
        step.require(d <= 1, OTHER)
        step.assign(count[n], d)

    def parameters():
        @two.extend(grow)  # fault
        def add_too(step: Step, n: Node, d: Size) -> None:
            """Count it."""
            step.require(d <= 1, BETWEEN)
            step.assign(other[n], d)

        System.of("all", "All.", t.module, one, two)

    refuses(parameters, "add_too adds a parameter d to grow, which another extension adds as well")


def test_an_observer_neither_hinders_nor_meddles():
    """An observer without guards and parameters writes into its own variables alone."""
    t, grow = base()
    module, count, _ = watcher(t)

    def hinders():
        @module.observe(grow)  # fault
        def stop(step: Step, n: Node) -> None:
            """Hinder it."""
            step.require(count[n] <= 3, OTHER)

    refuses(
        hinders, "stop observes grow and has OTHER: an observer has neither guards nor parameters"
    )
    meddler = Module("meddler", "Writes.", uses=(t.module,), writes=(t.flag,))

    def meddles():
        @meddler.observe(grow)
        def set_flag(step: Step) -> None:
            """Set a flag."""
            step.assign(t.flag[()], True)  # fault

    refuses(meddles, "set_flag observes grow and assigns flag of another module")


def test_an_extension_says_what_it_adds():
    """Without a docstring, and without anything added, it is refused."""
    t, grow = base()
    module, count, _ = watcher(t)

    def silent():
        @module.extend(grow)  # fault
        def more(step: Step, n: Node) -> None:
            step.assign(count[n], 1)

    refuses(silent, "more has no docstring: say in one sentence what it adds")

    def empty():
        @module.extend(grow)  # fault
        def nothing(step: Step, n: Node) -> None:
            """Add nothing."""

    refuses(empty, "nothing adds neither guards nor assignments to grow")


def test_effects_of_refusals_do_not_hang_on_the_order_of_modules():
    """What one extension adds to refusals is added to those of another, whichever comes first."""
    t, grow = base()
    one, _, failed = watcher(t)
    two = Module("two", "Another.", uses=(t.module,))
    other = two.variable("other", to=Bool, init=False, meaning="another flag")

    @one.extend(grow)
    def note(step: ExtensionStep, n: Node) -> None:
        """Note each refusal."""
        step.refused(lambda effect: effect.assign(failed[()], True))
        step.assign(failed[()], False)

    @two.extend(grow)
    def hinder(step: Step, n: Node) -> None:
        """Refuse, with an effect."""
        step.require(~other[()], BETWEEN, refused={other[()]: True})

    effects = []
    for order in ((one, two), (two, one)):
        system = System.of("both", "Both.", t.module, *order)
        guards = system.action("grow").guards
        effects.append({g.code.name: {d.variable.name for d in g.refusal} for g in guards})
    assert effects[0] == effects[1]
    assert effects[0] == {
        "EARLY": set(),
        "BETWEEN": {"other", "failed"},
        "LATE": {"flag", "failed"},
    }


def test_an_effect_of_refusals_is_said_once_and_has_a_refusal():
    """A second refused(), and one where no other refusal has an effect, are mistakes."""
    t, grow = base()
    module, count, failed = watcher(t)

    def twice():
        @module.extend(grow)
        def note(step: ExtensionStep, n: Node) -> None:
            """Note it twice."""
            step.refused(lambda effect: effect.assign(failed[()], True))
            step.refused(lambda effect: effect.assign(count[n], 0))  # fault

    refuses(twice, "refused() twice: make one effect of both")
    t = toy()

    @t.module.action
    def shrink(step: Step, n: Node) -> None:
        """Take a node's size."""
        step.assign(t.size[n], 0)

    module, _, failed = watcher(t)

    def void():
        @module.extend(shrink)  # fault
        def note(step: ExtensionStep, n: Node) -> None:
            """Note a refusal that there is not."""
            step.refused(lambda effect: effect.assign(failed[()], True))
            step.assign(failed[()], False)

        System.of("both", "Both.", t.module, module)

    refuses(void, "note adds to refusals of shrink, of which none but its own has an effect")
