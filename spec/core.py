"""The core system: handles, prefixes, the batch, appends, retries and the life of a request.

Instances are named from TINY (seconds) to WIDE (minutes). Their limits keep a search inside the
bounds: nothing begins that would need a version or a generation beyond the largest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kvspec.spec.append import Key, Txn, append, begin
from kvspec.spec.batch import Row, batch
from kvspec.spec.handles import (
    Abi,
    Generation,
    Handle,
    Layer,
    Length,
    Version,
    context,
    generation,
    handles,
    rewind,
    version,
)
from kvspec.spec.language import (
    Counts,
    Expr,
    Instance,
    Limit,
    System,
    forall,
    implies,
    instance,
    limit,
)
from kvspec.spec.lifecycle import allocate, fork, lifecycle, truncate
from kvspec.spec.prefix import Block, prefix
from kvspec.spec.retry import retry_module

system = System.of(
    "core",
    "The KV-cache lifecycle of a serving engine, for any number of requests, appends and layers.",
    handles,
    prefix,
    batch,
    append,
    retry_module,
    lifecycle,
)


@limit(begin)
def begins_below_the_last_version(h: Handle) -> Expr:
    """Publication needs one version more."""
    return version[h] < Version.top


@limit(truncate)
def truncates_below_the_last_version(h: Handle) -> Expr:
    """Truncation needs one version more."""
    return version[h] < Version.top


@limit(allocate)
def allocates_below_the_last_generation(h: Handle) -> Expr:
    """Release will need one generation more."""
    return generation[h] < Generation.top


@limit(fork)
def forks_below_the_last_generation(children: object) -> Expr:
    """Release of a child will need one generation more."""
    return forall(
        Handle,
        lambda c: implies(children[c], generation[c] < Generation.top),  # type: ignore[index]
    )


LIMITS = (
    begins_below_the_last_version,
    truncates_below_the_last_version,
    allocates_below_the_last_generation,
    forks_below_the_last_generation,
)


def make_instance(
    name: str,
    doc: str,
    *,
    handles: int,
    txns: int,
    layers: int,
    abis: int = 1,
    keys: int = 1,
    blocks: int = 1,
    rows: int = 0,
    longest: int = 1,
    versions: int = 1,
    generations: int = 1,
    rewinds: int | None = None,
    expected: Counts | None = None,
    slow: bool = False,
    of: System = system,
    more: Mapping[Any, int] | None = None,
    constants: Mapping[Any, int] | None = None,
    limits: Iterable[Limit] = (),
) -> Instance:
    """An instance of the core system by its sizes; `rewinds` is by default all rows.

    of: a system that extends the core, with `more` sizes for the sorts that it adds, the values of its
    `constants`, and its `limits` beside those of the core. The context limit is `longest`, and lengths
    have one value more, so that a rule which breaks the limit is seen to break it.
    """
    return instance(
        name,
        of,
        {
            Handle: handles,
            Txn: txns,
            Layer: layers,
            Abi: abis,
            Key: keys,
            Block: blocks,
            Row: rows,
            Length: longest + 1,
            Version: versions,
            Generation: generations,
            **(more or {}),
        },
        constants={
            context: longest,
            rewind: longest if rewinds is None else rewinds,
            **(constants or {}),
        },
        limits=(*LIMITS, *limits),
        expected=expected,
        doc=doc,
        slow=slow,
    )


TINY = make_instance(
    "TINY",
    "one request, one append, one layer, one batch row",
    handles=1,
    txns=1,
    layers=1,
    rows=1,
    expected=Counts(129, 519, 10, 3, 129),
)
REUSE = make_instance(
    "REUSE",
    "two handles, each given to two requests, and their forks",
    handles=2,
    txns=0,
    layers=1,
    generations=2,
    expected=Counts(917, 2_883, 17, 16, 468),
)
RACE = make_instance(
    "RACE",
    "two appends with two keys on one handle",
    handles=1,
    txns=2,
    layers=1,
    keys=2,
    versions=2,
    expected=Counts(7_276, 43_546, 16, 5, 1_990),
)
BATCH = make_instance(
    "BATCH",
    "two requests of different length in two batch rows",
    handles=2,
    txns=1,
    layers=1,
    rows=2,
    expected=Counts(15_279, 104_963, 20, 29, 4_743),
)
LAYERS = make_instance(
    "LAYERS",
    "one append of up to two rows to two layers, on a handle that is used twice",
    handles=1,
    txns=1,
    layers=2,
    abis=2,
    keys=2,
    longest=2,
    versions=2,
    generations=2,
    rewinds=1,
    expected=Counts(45_717, 258_099, 26, 14, 7_037),
)
BRANCH = make_instance(
    "BRANCH",
    "two handles with two blocks and two ABIs, one append, one batch row",
    handles=2,
    txns=1,
    layers=1,
    abis=2,
    blocks=2,
    rows=1,
    expected=Counts(61_997, 347_061, 20, 76, 7_947),
)
SMALL = make_instance(
    "SMALL",
    "two requests, two appends, two layers",
    handles=2,
    txns=2,
    layers=2,
    expected=Counts(323_327, 2_703_336, 31, 29, 48_972),
)
FAN_OUT = make_instance(
    "FAN_OUT",
    "three handles, two batch rows and no append: forks to several children and reorders",
    handles=3,
    txns=0,
    layers=1,
    abis=2,
    blocks=2,
    rows=2,
    expected=Counts(466_013, 3_068_090, 15, 400, 11_195),
)
WIDE = make_instance(
    "WIDE",
    "two requests, two appends, two layers, two ABIs, two blocks, two snapshots each",
    handles=2,
    txns=2,
    layers=2,
    abis=2,
    blocks=2,
    versions=2,
    expected=Counts(16_396_745, 147_639_377, 33, 212, 636_483),
    slow=True,
)

# Those that `kvspec verify` explores; WIDE takes minutes.
INSTANCES = (TINY, REUSE, RACE, BATCH, LAYERS, BRANCH, SMALL, FAN_OUT)
