"""Identity of content: a record of named fields, digests that may collide, and one identity in every tier.

Rows are of an identity: the tokens, the weights and the adapter set that computed them, with the load that
brought the adapter set under its name, the salt of the tenant, the mask that says which inputs were tokens
and which embeddings, and the images. A request that reads rows of an identity that differs in any field reads
rows that are not its own.

Modelled: identities and their fields are given once and never change; a digest of an identity is any
function at all, so that two identities may have the same one. An adapter set that is loaded anew under its
name is another identity, as an update of the weights is. Rows are kept in slots of the device and in
objects of an external tier. A tier has at most one object under a digest, and what is found under a digest is
compared field by field. Adapters and salts are names of one kind, so that only the field tells one from the
other. `slot_rows` and `object_rows` are ghosts: the identity that rows really are of, which no guard can see.
Left out: ownership, epochs and repair of what is indexed (see `index`), transfers that fail half way, how a
digest is computed.
This system stands alone: nothing of it depends on what a handle does between its begin and its end.
"""

from __future__ import annotations

from kvspec.spec.failures import FailureClass, error_code
from kvspec.spec.language import (
    ANY,
    Counts,
    Expr,
    Instance,
    Module,
    Open,
    Option,
    Step,
    System,
    forall,
    implies,
    instance,
    is_some,
    none,
    the,
)


class Identity(Open):
    """What rows are of, told apart by its fields."""


class Tokens(Open):
    """The tokens of a prefix."""


class Weights(Open):
    """Weights of the model, those of each update for themselves."""


class Name(Open):
    """A name that an adapter set or a salt may have."""


class Loading(Open):
    """Which load of an adapter set under its name: each brings weights of its own."""


class Mask(Open):
    """Which positions of a prefix are tokens, and which are embeddings."""


class Image(Open):
    """The images of a prefix, or other embeddings."""


class Digest(Open):
    """A short value that stands for an identity."""


class Request(Open):
    """A request."""


class Slot(Open):
    """Room for the rows of a prefix on the device."""


class Object(Open):
    """Room for the rows of a prefix in an external tier."""


REQUEST_OPEN = error_code("REQUEST_OPEN", "the request is open")
REQUEST_CLOSED = error_code("REQUEST_CLOSED", "the request is not open")
READS_ALREADY = error_code("READS_ALREADY", "the request reads rows already")
SLOT_EMPTY = error_code("SLOT_EMPTY", "the slot has no rows")
OBJECT_EMPTY = error_code("OBJECT_EMPTY", "the object has no rows")
OTHER_TOKENS = error_code("OTHER_TOKENS", "the rows are of other tokens", FailureClass.ABI)
OTHER_WEIGHTS = error_code("OTHER_WEIGHTS", "the rows are of other weights", FailureClass.ABI)
OTHER_NAMES = error_code(
    "OTHER_NAMES", "the rows are of another adapter set or salt", FailureClass.ABI
)
OTHER_LOADING = error_code(
    "OTHER_LOADING", "the adapter set was loaded anew under its name since", FailureClass.ABI
)
OTHER_MASK = error_code(
    "OTHER_MASK", "the rows are of tokens where embeddings are", FailureClass.ABI
)
OTHER_IMAGES = error_code("OTHER_IMAGES", "the rows are of other images", FailureClass.ABI)
SLOT_IN_USE = error_code("SLOT_IN_USE", "the slot has rows", FailureClass.OWNERSHIP)
OBJECT_IN_USE = error_code("OBJECT_IN_USE", "the object has rows", FailureClass.OWNERSHIP)
DIGEST_TAKEN = error_code(
    "DIGEST_TAKEN", "the tier has an object under the digest", FailureClass.OWNERSHIP
)
SLOT_READ = error_code("SLOT_READ", "some request reads the slot", FailureClass.OWNERSHIP)

identity = Module("identity", "Identity of content in every tier.")

tokens = identity.variable("tokens", Identity, to=Tokens, init=ANY, meaning="its tokens")
weights = identity.variable(
    "weights", Identity, to=Weights, init=ANY, meaning="weights that compute its rows"
)
adapter = identity.variable(
    "adapter", Identity, to=Option[Name], init=ANY, meaning="adapter set that computes its rows"
)
adapter_epoch = identity.variable(
    "adapter_epoch",
    Identity,
    to=Loading,
    init=ANY,
    meaning="load of the adapter set that computes its rows; without an adapter set it says nothing",
)
salt = identity.variable(
    "salt", Identity, to=Option[Name], init=ANY, meaning="salt of the tenant, if it has one"
)
mask = identity.variable(
    "mask", Identity, to=Mask, init=ANY, meaning="which inputs are tokens and which embeddings"
)
images = identity.variable("images", Identity, to=Image, init=ANY, meaning="its images")
digest = identity.variable(
    "digest", Identity, to=Digest, init=ANY, meaning="value that it is found under"
)
asks = identity.variable(
    "asks",
    Request,
    to=Option[Identity],
    init=none(Identity),
    meaning="identity that the request needs rows of, while it is open",
)
reads = identity.variable(
    "reads", Request, to=Option[Slot], init=none(Slot), meaning="slot that the request reads"
)
slot_key = identity.variable(
    "slot_key",
    Slot,
    to=Option[Identity],
    init=none(Identity),
    meaning="identity that the slot is found by",
)
slot_rows = identity.variable(
    "slot_rows",
    Slot,
    to=Option[Identity],
    init=none(Identity),
    meaning="ghost: identity that the rows of the slot really are of",
)
object_key = identity.variable(
    "object_key",
    Object,
    to=Option[Identity],
    init=none(Identity),
    meaning="identity that the object is found by",
)
object_rows = identity.variable(
    "object_rows",
    Object,
    to=Option[Identity],
    init=none(Identity),
    meaning="ghost: identity that the rows of the object really are of",
)

FIELDS = (tokens, weights, adapter, salt, mask, images)
"""The fields of an identity; what has them and the load of an adapter set in common has the same rows."""


def same_names(i: Expr, j: Expr) -> Expr:
    """The adapter sets are the same, and the salts are the same: each field for itself."""
    return (adapter[i] == adapter[j]) & (salt[i] == salt[j])


def same_loading(i: Expr, j: Expr) -> Expr:
    """The adapter set of the first, if it has one, is of the same load as that of the second."""
    return implies(is_some(adapter[i]), adapter_epoch[i] == adapter_epoch[j])


def same_identity(i: Expr, j: Expr) -> Expr:
    """Every field of both identities is the same."""
    same = [field[i] == field[j] for field in FIELDS]
    made = same[0]
    for each in same[1:]:
        made = made & each
    return made & same_loading(i, j)


def _require_identity(step: Step, found: Expr, asked: Expr) -> None:
    """What was found under a digest must agree with what is asked for in every field."""
    step.require(tokens[found] == tokens[asked], OTHER_TOKENS)
    step.require(weights[found] == weights[asked], OTHER_WEIGHTS)
    step.require(same_names(found, asked), OTHER_NAMES)
    step.require(same_loading(found, asked), OTHER_LOADING)
    step.require(mask[found] == mask[asked], OTHER_MASK)
    step.require(images[found] == images[asked], OTHER_IMAGES)


@identity.action
def submit(step: Step, r: Request, i: Identity) -> None:
    """Open a request that needs rows of an identity."""
    step.require(~is_some(asks[r]), REQUEST_OPEN)
    step.assign(asks[r], i)


@identity.action
def compute(step: Step, r: Request, s: Slot) -> None:
    """Compute the rows of a request into an empty slot; they are found by its identity from then on."""
    step.require(is_some(asks[r]), REQUEST_CLOSED)
    step.require(~is_some(reads[r]), READS_ALREADY)
    step.require(~is_some(slot_key[s]), SLOT_IN_USE)
    step.assign(slot_key[s], asks[r])
    step.assign(slot_rows[s], asks[r])
    step.assign(reads[r], s)


@identity.action
def match(step: Step, r: Request, s: Slot) -> None:
    """Read rows of the device that are of the request's identity, field by field."""
    step.require(is_some(asks[r]), REQUEST_CLOSED)
    step.require(~is_some(reads[r]), READS_ALREADY)
    step.require(is_some(slot_key[s]), SLOT_EMPTY)
    _require_identity(step, the(slot_key[s]), the(asks[r]))
    step.assign(reads[r], s)


@identity.action
def store(step: Step, s: Slot, o: Object) -> None:
    """Copy the rows of a slot to an external tier, under a digest that it does not have yet."""
    step.require(is_some(slot_key[s]), SLOT_EMPTY)
    step.require(~is_some(object_key[o]), OBJECT_IN_USE)
    step.require(
        forall(
            Object,
            lambda p: implies(
                is_some(object_key[p]), digest[the(object_key[p])] != digest[the(slot_key[s])]
            ),
        ),
        DIGEST_TAKEN,
    )
    step.assign(object_key[o], slot_key[s])
    step.assign(object_rows[o], slot_rows[s])


@identity.action
def load(step: Step, r: Request, o: Object, s: Slot) -> None:
    """Copy rows of the request's identity, field by field, from the external tier into an empty slot."""
    step.require(is_some(asks[r]), REQUEST_CLOSED)
    step.require(~is_some(reads[r]), READS_ALREADY)
    step.require(is_some(object_key[o]), OBJECT_EMPTY)
    _require_identity(step, the(object_key[o]), the(asks[r]))
    step.require(~is_some(slot_key[s]), SLOT_IN_USE)
    step.assign(slot_key[s], asks[r])
    step.assign(slot_rows[s], object_rows[o])
    step.assign(reads[r], s)


@identity.action
def close(step: Step, r: Request) -> None:
    """End a request, at any moment; what it computed stays."""
    step.require(is_some(asks[r]), REQUEST_CLOSED)
    step.assign(asks[r], none(Identity))
    step.assign(reads[r], none(Slot))


@identity.action
def evict_slot(step: Step, s: Slot) -> None:
    """Empty a slot that nobody reads."""
    step.require(is_some(slot_key[s]), SLOT_EMPTY)
    step.require(forall(Request, lambda r: reads[r] != s), SLOT_READ)
    step.assign(slot_key[s], none(Identity))
    step.assign(slot_rows[s], none(Identity))


@identity.action
def evict_object(step: Step, o: Object) -> None:
    """Empty an object of the external tier, at any moment."""
    step.require(is_some(object_key[o]), OBJECT_EMPTY)
    step.assign(object_key[o], none(Identity))
    step.assign(object_rows[o], none(Identity))


system = System.of("identity", "Identity of content in two tiers.", identity)


def make_instance(
    name: str,
    doc: str,
    *,
    identities: int = 2,
    tokens: int = 1,
    weights: int = 1,
    names: int = 0,
    loadings: int = 1,
    masks: int = 1,
    images: int = 1,
    digests: int = 1,
    requests: int = 1,
    slots: int = 1,
    objects: int = 0,
    expected: Counts | None = None,
) -> Instance:
    """An instance in which only those fields can differ whose sorts have several members."""
    return instance(
        name,
        system,
        {
            Identity: identities,
            Tokens: tokens,
            Weights: weights,
            Name: names,
            Loading: loadings,
            Mask: masks,
            Image: images,
            Digest: digests,
            Request: requests,
            Slot: slots,
            Object: objects,
        },
        expected=expected,
        doc=doc,
    )


NAMES = make_instance(
    "NAMES",
    "one name, as adapter set or as salt",
    names=1,
    objects=1,
    expected=Counts(776, 2_472, 16, 0),
)
LOADINGS = make_instance(
    "LOADINGS",
    "one name, two loads of an adapter set",
    names=1,
    loadings=2,
    objects=1,
    expected=Counts(2_856, 9_080, 16, 0),
)
INPUTS = make_instance(
    "INPUTS",
    "two prompts, two masks",
    tokens=2,
    masks=2,
    objects=1,
    expected=Counts(776, 2_472, 16, 0),
)
PICTURES = make_instance(
    "PICTURES",
    "two images, two weights",
    weights=2,
    images=2,
    objects=1,
    expected=Counts(776, 2_472, 16, 0),
)
TIERS = make_instance(
    "TIERS",
    "two slots, two objects and two digests",
    digests=2,
    slots=2,
    objects=2,
    expected=Counts(7_892, 38_800, 30, 0),
)
READERS = make_instance(
    "READERS",
    "two requests and two tokens",
    tokens=2,
    requests=2,
    objects=1,
    expected=Counts(1_136, 5_328, 18, 0),
)

INSTANCES = (NAMES, LOADINGS, INPUTS, PICTURES, TIERS, READERS)
