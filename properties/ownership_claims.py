"""What is claimed of prefix blocks: who owns them, and when they are freed."""

from __future__ import annotations

from kvspec.properties.claims import core
from kvspec.properties.vocabulary import stays
from kvspec.spec.handles import Handle, abi, is_free, is_held, parent
from kvspec.spec.language import Expr, after, exists, fired, forall, implies
from kvspec.spec.lifecycle import fork, release
from kvspec.spec.prefix import Block, evict, filled, owner


@core.invariant
def owned_blocks_are_filled() -> Expr:
    """A block that a handle owns holds rows."""
    return forall(Block, Handle, lambda b, h: implies(owner[b, h], filled[b]))


@core.invariant
def a_held_handle_owns_a_block() -> Expr:
    """A handle that holds rows owns a block."""
    return forall(Handle, lambda h: implies(is_held(h), exists(Block, lambda b: owner[b, h])))


@core.invariant
def a_free_handle_owns_nothing() -> Expr:
    """A vacant or released handle has no claim on any block."""
    return forall(Block, Handle, lambda b, h: implies(is_free(h), ~owner[b, h]))


@core.invariant
def owners_of_a_block_share_an_abi() -> Expr:
    """All owners of a block read its rows under the same ABI."""
    return forall(
        Block,
        Handle,
        Handle,
        lambda b, h, g: implies(owner[b, h] & owner[b, g], abi[h] == abi[g]),
    )


@core.step
def a_block_is_taken_empty_or_inherited() -> Expr:
    """A handle becomes owner of a block that was empty, or that its parent owns."""
    return forall(
        Block,
        Handle,
        lambda b, h: implies(
            ~owner[b, h] & after(owner[b, h]),
            ~filled[b] | exists(Handle, lambda p: after(parent[h] == p) & owner[b, p]),
        ),
    )


@core.step
def a_child_inherits_every_block() -> Expr:
    """A forked child owns exactly the blocks that its parent owns."""
    return forall(
        Block,
        Handle,
        Handle,
        lambda b, c, p: implies(
            fired(fork) & is_free(c) & after(is_held(c)) & after(parent[c] == p),
            after(owner[b, c]) == owner[b, p],
        ),
    )


@core.step
def an_owner_keeps_its_block() -> Expr:
    """A handle that holds rows before and after a step keeps its blocks, and they stay filled."""
    return forall(
        Block,
        Handle,
        lambda b, h: implies(
            owner[b, h] & is_held(h) & after(is_held(h)), after(owner[b, h] & filled[b])
        ),
    )


@core.step
def an_eviction_frees_a_block() -> Expr:
    """Evict empties a block that held rows."""
    return implies(fired(evict), exists(Block, lambda b: filled[b] & ~after(filled[b])))


@core.step
def release_evicts_nothing() -> Expr:
    """A release gives up claims; the blocks stay filled until they are evicted."""
    return forall(Block, lambda b: implies(fired(release), stays(filled[b])))
