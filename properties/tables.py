"""What is claimed of tables: a pass reads the mapping that it captured, and the metadata of its own."""

from __future__ import annotations

from kvspec.properties import pass_claims
from kvspec.spec.language import (
    Expr,
    Properties,
    after,
    exists,
    fired,
    forall,
    implies,
    is_some,
    strong,
    the,
    weak,
    where,
)
from kvspec.spec.passes import Pass, has_passed, in_flight, pass_number, settle, unsettled
from kvspec.spec.tables import (
    Buffer,
    TableRow,
    captured,
    change_block,
    edition,
    is_awaited,
    outdated,
    pass_row,
    return_row,
    rewrite_row,
    row_fence,
    staged_for,
    staged_in,
    system,
    take_row,
    taken,
    upload,
    uploaded_for,
)

tables = Properties(system)


def settles(p: Expr) -> Expr:
    """The step is the settling of that pass."""
    return in_flight[p] & ~after(in_flight[p])


@tables.step
def a_pass_reads_the_mapping_that_it_captured() -> Expr:
    """When a pass reads its row, the row is as it was when the pass was dispatched."""
    return forall(Pass, lambda p: implies(settles(p), edition[the(pass_row[p])] == captured[p]))


@tables.step
def a_pass_uses_the_metadata_that_was_staged_for_it() -> Expr:
    """What a pass has on the device when it runs was staged for it, and for no later one."""
    return forall(Pass, lambda p: implies(settles(p), uploaded_for[p] == p))


@tables.invariant
def a_captured_row_is_not_written() -> Expr:
    """While a pass is in flight, its row stays as it was captured."""
    return forall(Pass, lambda p: implies(in_flight[p], edition[the(pass_row[p])] == captured[p]))


@tables.invariant
def a_row_that_can_be_written_has_no_reader() -> Expr:
    """A row whose fence has passed is read by no pass in flight."""
    return forall(Pass, lambda p: implies(in_flight[p], ~has_passed(row_fence[the(pass_row[p])])))


@tables.invariant
def a_buffer_keeps_what_is_still_to_be_uploaded() -> Expr:
    """Until the upload of a pass has run, its buffer holds its metadata."""
    return forall(
        Pass,
        lambda p: implies(is_some(staged_in[p]), staged_for[the(staged_in[p])] == p),
    )


@tables.invariant
def what_was_uploaded_is_the_passes_own() -> Expr:
    """A pass in flight whose upload has run has its own metadata on the device."""
    return forall(
        Pass,
        lambda p: implies(in_flight[p] & ~is_some(staged_in[p]), uploaded_for[p] == p),
    )


@tables.lemma
def a_fence_is_behind_every_reader() -> Expr:
    """The fence of a row is the last pass that captured it, or one that has settled."""
    return forall(
        Pass, lambda p: implies(in_flight[p], pass_number[p] <= row_fence[the(pass_row[p])])
    )


@tables.invariant
def only_a_row_of_a_request_is_outdated() -> Expr:
    """A row that nobody has is not to be written anew."""
    return forall(TableRow, lambda r: implies(outdated[r], taken[r]))


@tables.lemma
def a_fence_is_a_pass_that_was_dispatched() -> Expr:
    """No row waits for a pass that nobody dispatched."""
    return forall(TableRow, lambda r: row_fence[r] <= unsettled[()])


@tables.lemma
def only_a_pass_in_flight_has_an_upload_to_run() -> Expr:
    """A record of no pass has nothing to upload."""
    return forall(Pass, lambda p: implies(is_some(staged_in[p]), in_flight[p]))


@tables.lemma
def a_pass_in_flight_has_a_row() -> Expr:
    """A pass in flight names the row that it reads."""
    return forall(Pass, lambda p: implies(in_flight[p], is_some(pass_row[p])))


@tables.lemma
def a_settled_pass_has_captured_nothing() -> Expr:
    """A record of no pass is blank."""
    return forall(
        Pass,
        lambda p: implies(
            ~in_flight[p], ~is_some(pass_row[p]) & (captured[p] == 0) & ~is_some(uploaded_for[p])
        ),
    )


@tables.lemma
def a_pass_without_its_upload_has_no_metadata() -> Expr:
    """Before its upload has run, a pass has no metadata on the device."""
    return forall(Pass, lambda p: implies(is_some(staged_in[p]), ~is_some(uploaded_for[p])))


numbered = [
    tables.lemma(claim)
    for claim in (
        pass_claims.a_pass_in_flight_has_a_place_among_them,
        pass_claims.a_pass_in_flight_has_a_place_of_its_own,
        pass_claims.a_settled_pass_has_no_place,
    )
]
ordered = [
    tables.step(claim)
    for claim in (
        pass_claims.a_pass_settles_after_those_before_it,
        pass_claims.passes_are_counted_one_by_one,
        pass_claims.passes_keep_their_order,
    )
]


@tables.step
def a_row_is_taken_free_and_written_for_its_request() -> Expr:
    """A request takes a row that nobody has, and finds a mapping of its own in it."""
    return implies(
        fired(take_row),
        exists(
            TableRow,
            lambda r: ~taken[r] & after(taken[r]) & (after(edition[r]) == edition[r] + 1),
        ),
    )


@tables.step
def a_row_is_rewritten_for_the_request_that_has_it() -> Expr:
    """A row gets another mapping while a request has it, whose mapping is another."""
    return implies(
        fired(rewrite_row),
        exists(
            TableRow,
            lambda r: (
                taken[r] & outdated[r] & ~after(outdated[r]) & (after(edition[r]) == edition[r] + 1)
            ),
        ),
    )


@tables.step
def a_row_that_waits_to_be_written_gets_no_reader() -> Expr:
    """No pass is dispatched on a row whose mapping is not the one that its request has."""
    return forall(
        Pass,
        TableRow,
        lambda p, r: implies(
            ~in_flight[p] & after(in_flight[p]) & after(pass_row[p] == r), ~outdated[r]
        ),
    )


@tables.step
def a_changed_mapping_is_written_or_given_up() -> Expr:
    """A row is outdated by a change, and until it is written anew or its request is gone."""
    return forall(
        TableRow,
        lambda r: where(
            outdated[r],
            after(outdated[r]) | fired(rewrite_row) | ~after(taken[r]),
            implies(after(outdated[r]), fired(change_block)),
        ),
    )


@tables.step
def a_change_is_of_a_row_that_was_current() -> Expr:
    """A block changes under a row that a request has and that held its mapping."""
    return implies(
        fired(change_block),
        exists(TableRow, lambda r: taken[r] & ~outdated[r] & after(outdated[r])),
    )


@tables.step
def a_row_is_returned_once() -> Expr:
    """A request gives back a row that it has."""
    return implies(fired(return_row), exists(TableRow, lambda r: taken[r] & ~after(taken[r])))


@tables.step
def a_pass_captures_a_row_of_a_request() -> Expr:
    """A pass is dispatched on a row that a request has, as the row is then."""
    return forall(
        Pass,
        TableRow,
        lambda p, r: implies(
            ~in_flight[p] & after(in_flight[p]) & after(pass_row[p] == r),
            taken[r] & after(captured[p] == edition[r]) & is_some(after(staged_in[p])),
        ),
    )


@tables.step
def an_upload_runs_once() -> Expr:
    """An upload that runs was to run, and is not to run again."""
    return implies(
        fired(upload),
        exists(Pass, lambda p: is_some(staged_in[p]) & ~is_some(after(staged_in[p]))),
    )


@tables.witness
def reaches_a_returned_row_that_is_still_read() -> Expr:
    """A row was given back while a pass that captured it is in flight."""
    return exists(Pass, lambda p: in_flight[p] & ~taken[the(pass_row[p])])


@tables.witness
def reaches_an_upload_behind_a_later_dispatch() -> Expr:
    """The upload of a pass has still to run when the host has dispatched the next one."""
    return exists(Pass, lambda p: is_some(staged_in[p]) & (pass_number[p] < unsettled[()]))


@tables.witness
def reaches_a_row_written_again() -> Expr:
    """A row is read in its second edition."""
    return exists(Pass, lambda p: captured[p] >= 2)


@tables.end
def nothing_is_in_flight() -> Expr:
    """The system may stop where no pass is in flight."""
    return forall(Pass, lambda p: ~in_flight[p])


@tables.leads_to(weak(upload, "p"), weak(settle, "p"))
def every_row_can_be_written_in_the_end(r: TableRow) -> tuple[Expr, Expr]:
    """A row that was given back can be taken again in the end."""
    return ~taken[r], taken[r] | has_passed(row_fence[r])


@tables.leads_to(weak(upload, "p"), weak(settle, "p"), strong(rewrite_row, "r"))
def every_changed_row_is_rewritten_in_the_end(r: TableRow) -> tuple[Expr, Expr]:
    """A row that is to be written anew is, however far the host runs ahead, or its request ends."""
    return outdated[r], ~outdated[r]


@tables.leads_to(weak(upload, "p"))
def every_buffer_is_free_in_the_end(s: Buffer) -> tuple[Expr, Expr]:
    """A buffer can be written again in the end."""
    return is_awaited(s), ~is_awaited(s)
