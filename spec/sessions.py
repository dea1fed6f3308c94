"""Sessions: turns of a client on rows that stay, and snapshots that are saved and restored.

The modules are `turns` (what an aborted turn and a client that is gone leave behind) and `images` (what a
failed restore leaves behind). Limits of the instances keep one version for the rollback of every turn.
"""

from __future__ import annotations

import attrs

from kvspec.spec import core
from kvspec.spec.append import begin
from kvspec.spec.handles import Handle, Version, version
from kvspec.spec.images import Image, begin_restore, images, save
from kvspec.spec.language import FALSE, Counts, Expr, Instance, Limit, System, limit
from kvspec.spec.turns import Token, disconnect, submit, turns

system = System.of(
    "sessions",
    "The core, with sessions that outlive their turns.",
    *core.system.modules,
    turns,
    images,
)


@limit(submit)
def submits_below_the_last_version(h: Handle) -> Expr:
    """The rollback of a turn needs one version more."""
    return version[h] < Version.top


@limit(begin)
def begins_two_below_the_last_version(h: Handle) -> Expr:
    """Publication needs one version more, and a rollback after it another one."""
    return version[h] + 1 < Version.top


@limit(begin_restore)
def restores_below_the_last_version(h: Handle) -> Expr:
    """A restored snapshot needs one version more."""
    return version[h] < Version.top


@limit(submit)
def only_new_sessions_have_turns(h: Handle) -> Expr:
    """A session has one turn, so that a search for branches stays small."""
    return version[h] == 0


@limit(save)
def nothing_is_saved() -> Expr:
    """No snapshot is saved."""
    return FALSE


@limit(disconnect)
def every_client_stays() -> Expr:
    """No client disconnects."""
    return FALSE


LIMITS = (
    submits_below_the_last_version,
    begins_two_below_the_last_version,
    restores_below_the_last_version,
)


def make_instance(
    name: str,
    doc: str,
    *,
    handles: int = 1,
    txns: int = 1,
    images: int = 1,
    rows: int = 0,
    versions: int = 2,
    generations: int = 1,
    longest: int = 1,
    rewinds: int | None = None,
    more_limits: tuple[Limit, ...] = (),
    expected: Counts | None = None,
) -> Instance:
    """An instance of one layer and one block, with a version left for every rollback."""
    made = core.make_instance(
        name,
        doc,
        of=system,
        handles=handles,
        txns=txns,
        layers=1,
        rows=rows,
        versions=versions,
        generations=generations,
        longest=longest,
        rewinds=rewinds,
        more={Image: images, Token: longest + 2},
        expected=expected,
    )
    return attrs.evolve(made, limits=(*made.limits, *LIMITS, *more_limits))


TURNS = make_instance(
    "TURNS",
    "one session of one or two turns of one row, one append, one image",
    longest=2,
    rewinds=1,
    versions=3,
    expected=Counts(3_793, 20_322, 28, 25),
)
RESUMED = make_instance(
    "RESUMED",
    "one handle for two sessions, one append, one image, one batch row",
    rows=1,
    generations=2,
    expected=Counts(7_421, 46_068, 32, 15),
)
NEIGHBOURS = make_instance(
    "NEIGHBOURS",
    "two sessions and their branches, one image, no append",
    handles=2,
    txns=0,
    expected=Counts(9_169, 52_492, 24, 54),
)
BRANCHES = make_instance(
    "BRANCHES",
    "two sessions of one turn and their branches, one append, no image, clients that stay",
    handles=2,
    more_limits=(only_new_sessions_have_turns, nothing_is_saved, every_client_stays),
    expected=Counts(5_285, 22_906, 28, 50),
)

INSTANCES = (TURNS, RESUMED, NEIGHBOURS, BRANCHES)
