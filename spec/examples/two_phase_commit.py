"""Two-phase commit: resource managers, one transaction manager, messages that are never taken back.

The classic model TwoPhase of the TLA+ examples; with three resource managers it has 288 states.
"""

from __future__ import annotations

from kvspec.spec.language import (
    Bool,
    Counts,
    Enum,
    ErrorCode,
    Expr,
    Module,
    Open,
    Properties,
    Step,
    System,
    forall,
    implies,
    instance,
    member,
    one_of,
)


class Rm(Open):
    """A resource manager."""


class Work(Enum):
    """What a resource manager has decided."""

    WORKING = member()
    PREPARED = member()
    COMMITTED = member()
    ABORTED = member()


class Decision(Enum):
    """What the transaction manager has decided."""

    INIT = member()
    DONE_COMMITTED = member()
    DONE_ABORTED = member()


commit = Module("two_phase", "Two-phase commit.")
work = commit.variable("work", Rm, to=Work, init=Work.WORKING, meaning="state of the manager")
decision = commit.variable("decision", to=Decision, init=Decision.INIT, meaning="the outcome")
ready = commit.variable("ready", Rm, to=Bool, init=False, meaning="known to be prepared")
said = commit.variable("said", Rm, to=Bool, init=False, meaning="Prepared(rm) was sent")
commit_sent = commit.variable("commit_sent", to=Bool, init=False, meaning="Commit was sent")
abort_sent = commit.variable("abort_sent", to=Bool, init=False, meaning="Abort was sent")

DECIDED = ErrorCode("DECIDED", "the transaction manager has decided")
NOT_SAID = ErrorCode("NOT_SAID", "no such message was sent")
SOME_UNREADY = ErrorCode("SOME_UNREADY", "some resource manager is not known to be prepared")
NOT_WORKING = ErrorCode("NOT_WORKING", "the resource manager has decided")


@commit.action
def receive_prepared(step: Step, r: Rm) -> None:
    """The transaction manager learns that a resource manager is prepared."""
    step.require(decision.value == Decision.INIT, DECIDED)
    step.require(said[r], NOT_SAID)
    step.assign(ready[r], True)


@commit.action
def decide_commit(step: Step) -> None:
    """The transaction manager commits once all are prepared."""
    step.require(decision.value == Decision.INIT, DECIDED)
    step.require(forall(Rm, lambda r: ready[r]), SOME_UNREADY)
    step.assign(decision.value, Decision.DONE_COMMITTED)
    step.assign(commit_sent.value, True)


@commit.action
def decide_abort(step: Step) -> None:
    """The transaction manager aborts at any time before."""
    step.require(decision.value == Decision.INIT, DECIDED)
    step.assign(decision.value, Decision.DONE_ABORTED)
    step.assign(abort_sent.value, True)


@commit.action
def prepare(step: Step, r: Rm) -> None:
    """A resource manager says that it is prepared."""
    step.require(work[r] == Work.WORKING, NOT_WORKING)
    step.assign(work[r], Work.PREPARED)
    step.assign(said[r], True)


@commit.action
def choose_abort(step: Step, r: Rm) -> None:
    """A working resource manager aborts by itself."""
    step.require(work[r] == Work.WORKING, NOT_WORKING)
    step.assign(work[r], Work.ABORTED)


@commit.action
def follow_commit(step: Step, r: Rm) -> None:
    """A resource manager is told to commit."""
    step.require(commit_sent.value, NOT_SAID)
    step.assign(work[r], Work.COMMITTED)


@commit.action
def follow_abort(step: Step, r: Rm) -> None:
    """A resource manager is told to abort."""
    step.require(abort_sent.value, NOT_SAID)
    step.assign(work[r], Work.ABORTED)


system = System.of("two_phase_commit", "Two-phase commit as in the TLA+ examples.", commit)
properties = Properties(system)


@properties.invariant
def outcomes_agree() -> Expr:
    """No resource manager commits while another aborts."""
    return forall(Rm, Rm, lambda a, b: implies(work[a] == Work.COMMITTED, work[b] != Work.ABORTED))


@properties.lemma
def what_was_sent_was_decided() -> Expr:
    """Commit was sent exactly if the outcome is to commit, and Abort if it is to abort."""
    committed, aborted = (
        sent == (decision.value == outcome)
        for sent, outcome in (
            (commit_sent.value, Decision.DONE_COMMITTED),
            (abort_sent.value, Decision.DONE_ABORTED),
        )
    )
    return committed & aborted


@properties.lemma
def commitment_needs_all_prepared() -> Expr:
    """Once Commit was sent, every resource manager is known to be prepared."""
    return implies(commit_sent.value, forall(Rm, lambda r: ready[r]))


@properties.lemma
def who_is_known_to_be_prepared_has_said_so() -> Expr:
    """The transaction manager knows only what was sent to it."""
    return forall(Rm, lambda r: implies(ready[r], said[r]))


@properties.lemma
def who_is_prepared_aborts_only_when_told() -> Expr:
    """A resource manager that said Prepared does not work any more, and aborts only after Abort."""
    return forall(
        Rm,
        lambda r: implies(
            said[r],
            (work[r] != Work.WORKING) & implies(work[r] == Work.ABORTED, abort_sent.value),
        ),
    )


@properties.lemma
def who_commits_was_told_to() -> Expr:
    """A resource manager commits only after Commit."""
    return forall(Rm, lambda r: implies(work[r] == Work.COMMITTED, commit_sent.value))


@properties.witness
def reaches_commitment() -> Expr:
    """All resource managers commit."""
    return forall(Rm, lambda r: work[r] == Work.COMMITTED)


@properties.witness
def reaches_a_mixture() -> Expr:
    """One is done while others are not."""
    return ~forall(Rm, lambda r: ~one_of(work[r], Work.COMMITTED, Work.ABORTED))


@properties.end
def all_have_decided() -> Expr:
    """It ends where every resource manager has committed or aborted."""
    return forall(Rm, lambda r: one_of(work[r], Work.COMMITTED, Work.ABORTED))


THREE = instance("three", system, {Rm: 3}, expected=Counts(288, 1_145, 10, 28))
