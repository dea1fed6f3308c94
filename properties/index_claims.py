"""What is claimed of every state of the prefix index: a request reads rows of its prompt, ABI and epochs."""

from __future__ import annotations

from kvspec.properties.core import properties as core
from kvspec.spec.handles import Handle, abi, is_held
from kvspec.spec.index import (
    system,
)
from kvspec.spec.index_entries import (
    EntryState,
    asleep,
    coming,
    content,
    content_abi,
    content_weights,
    corrupt,
    entry,
    entry_abi,
    entry_key,
    entry_memory,
    entry_weights,
    kept,
    memory,
    nobody_holds_rows,
    prompt,
    reader,
    tier_weights,
    weights,
)
from kvspec.spec.language import (
    Expr,
    Properties,
    forall,
    implies,
    is_some,
)
from kvspec.spec.prefix import Block, filled, owner

index = Properties(system, given=core)


def is_indexed(b: Expr) -> Expr:
    """The block has an entry."""
    return entry[b] != EntryState.ABSENT


@index.invariant
def a_request_reads_rows_of_its_prompt() -> Expr:
    """What a request reads through the index are rows of its prompt, unless they were found corrupt."""
    return forall(
        Block,
        Handle,
        lambda b, h: implies(reader[b, h] & ~corrupt[b], content[b] == prompt[h]),
    )


@index.invariant
def a_request_reads_rows_of_its_abi() -> Expr:
    """What a request reads through the index was computed under its own ABI."""
    return forall(Block, Handle, lambda b, h: implies(reader[b, h], content_abi[b] == abi[h]))


@index.invariant
def a_request_reads_rows_of_the_weights_in_use() -> Expr:
    """What a request reads through the index was computed by the weights in use."""
    return forall(
        Block, Handle, lambda b, h: implies(reader[b, h], content_weights[b] == weights[()])
    )


@index.invariant
def a_block_of_a_request_has_rows_of_its_prompt() -> Expr:
    """The block that a request filled has rows of its prompt, unless they were found corrupt."""
    return forall(
        Block,
        Handle,
        lambda b, h: implies(owner[b, h] & ~corrupt[b], content[b] == prompt[h]),
    )


@index.invariant
def what_is_indexed_is_kept() -> Expr:
    """The index has a claim on exactly the blocks of its entries, and they are not free."""
    return forall(Block, lambda b: (kept[b] == is_indexed(b)) & implies(kept[b], filled[b]))


@index.invariant
def what_is_read_is_indexed() -> Expr:
    """A request reads blocks of the index alone, and none that is being loaded."""
    return forall(
        Block,
        Handle,
        lambda b, h: implies(reader[b, h], is_indexed(b) & (entry[b] != EntryState.RESERVED)),
    )


@index.invariant
def a_reader_holds_rows() -> Expr:
    """A request that has released its rows reads nothing."""
    return forall(Block, Handle, lambda b, h: implies(reader[b, h], is_held(h)))


@index.invariant
def a_corrupt_entry_is_withdrawn() -> Expr:
    """Nobody can match what was found corrupt."""
    return forall(Block, lambda b: implies(corrupt[b], entry[b] == EntryState.WITHDRAWN))


@index.invariant
def nobody_holds_rows_in_sleep() -> Expr:
    """While there is no memory, no request holds rows and nothing is loaded."""
    return implies(
        asleep[()],
        nobody_holds_rows() & forall(Block, lambda b: entry[b] != EntryState.RESERVED),
    )


@index.invariant
def a_load_goes_to_the_memory_in_use() -> Expr:
    """Rows are loaded into memory that was not dropped since the load began."""
    return forall(
        Block,
        lambda b: implies(entry[b] == EntryState.RESERVED, entry_memory[b] == memory[()]),
    )


@index.lemma
def an_owner_of_an_indexed_block_reads_it() -> Expr:
    """A request whose block is indexed reads it as any other does."""
    return forall(Block, Handle, lambda b, h: implies(kept[b] & owner[b, h], reader[b, h]))


@index.lemma
def an_owner_has_rows_of_its_abi_and_weights() -> Expr:
    """The block that a request filled was computed under its ABI and by the weights in use."""
    return forall(
        Block,
        Handle,
        lambda b, h: implies(
            owner[b, h], (content_abi[b] == abi[h]) & (content_weights[b] == weights[()])
        ),
    )


@index.lemma
def a_complete_entry_says_what_its_rows_are() -> Expr:
    """Rows of a complete entry are what it is found by; of dropped memory this is not said."""
    return forall(
        Block,
        lambda b: implies(
            entry[b] == EntryState.COMPLETE,
            (content_weights[b] == entry_weights[b])
            & implies(entry_memory[b] == memory[()], content[b] == entry_key[b]),
        ),
    )


@index.invariant
def a_load_brings_rows_of_what_it_is_found_by() -> Expr:
    """The rows that a load brings are of the content and the weights of its entry."""
    return forall(
        Block,
        lambda b: implies(
            entry[b] == EntryState.RESERVED,
            (coming[b] == entry_key[b]) & (content_weights[b] == entry_weights[b]),
        ),
    )


@index.invariant
def an_entry_is_of_the_abi_of_its_rows() -> Expr:
    """The rows of an entry, and those that are on their way, are of the ABI that it is found by."""
    return forall(Block, lambda b: implies(is_indexed(b), content_abi[b] == entry_abi[b]))


@index.lemma
def rows_come_by_a_load_alone() -> Expr:
    """Rows are on their way to the blocks of reserved entries, and to no others."""
    return forall(Block, lambda b: is_some(coming[b]) == (entry[b] == EntryState.RESERVED))


@index.lemma
def entries_are_of_no_later_epoch() -> Expr:
    """No entry is of an epoch that has not begun."""
    return forall(
        Block, lambda b: (entry_memory[b] <= memory[()]) & (entry_weights[b] <= weights[()])
    )


@index.lemma
def the_tier_is_of_no_later_epoch() -> Expr:
    """The rows of the tier were computed by weights that are or were in use."""
    return tier_weights[()] <= weights[()]


@index.lemma
def an_entry_has_a_key() -> Expr:
    """An entry is found by a content and an ABI, and a block without entry by nothing."""
    return forall(
        Block,
        lambda b: (
            (is_some(entry_key[b]) == is_indexed(b)) & (is_some(entry_abi[b]) == is_indexed(b))
        ),
    )


@index.lemma
def an_absent_entry_is_of_no_epoch() -> Expr:
    """A block without an entry says nothing of epochs."""
    return forall(
        Block,
        lambda b: implies(~is_indexed(b), (entry_memory[b] == 0) & (entry_weights[b] == 0)),
    )


@index.invariant
def no_rows_are_there_while_they_are_loaded() -> Expr:
    """The block of a reserved entry has no rows, neither new ones nor those that it had before."""
    return forall(Block, lambda b: implies(entry[b] == EntryState.RESERVED, ~is_some(content[b])))


@index.invariant
def corrupt_rows_are_rows_of_nothing() -> Expr:
    """Rows that were found corrupt are of no content."""
    return forall(Block, lambda b: implies(corrupt[b], ~is_some(content[b])))


@index.invariant
def there_are_no_rows_in_sleep() -> Expr:
    """While the server sleeps no block has rows."""
    return implies(asleep[()], forall(Block, lambda b: ~is_some(content[b])))


@index.lemma
def every_request_has_a_prompt() -> Expr:
    """A handle has a prompt while it holds rows, and none else."""
    return forall(Handle, lambda h: is_held(h) == is_some(prompt[h]))
