"""Groups of the atlas about identity: fields that a match, or the key of a tier, does not tell apart."""

from __future__ import annotations

from kvspec.properties.atlas.index import OTHER_ADAPTER
from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.faults import drop_guard, loosen
from kvspec.properties.identity import identity
from kvspec.spec.identity import (
    OTHER_IMAGES,
    OTHER_LOADING,
    OTHER_MASK,
    OTHER_NAMES,
    OTHER_WEIGHTS,
    adapter,
    asks,
    digest,
    load,
    make_instance,
    match,
    object_key,
    salt,
    same_names,
    slot_key,
    system,
)
from kvspec.spec.language import Counts, Expr, Variable, is_some, the

ONE_NAME = make_instance(
    "ONE_NAME",
    "requests in turn, a name",
    names=1,
    expected=Counts(184, 400, 5, 0),
)
TWO_IMAGES = make_instance(
    "TWO_IMAGES",
    "requests in turn, two images",
    images=2,
    expected=Counts(48, 104, 5, 0),
)
TWO_MASKS = make_instance(
    "TWO_MASKS",
    "requests in turn, two masks",
    masks=2,
    expected=Counts(48, 104, 5, 0),
)
A_STORED_NAME = make_instance(
    "A_STORED_NAME",
    "a name and an object",
    names=1,
    objects=1,
    expected=Counts(776, 2_472, 16, 0),
)
STORED_IMAGES = make_instance(
    "STORED_IMAGES",
    "two images, an object",
    images=2,
    objects=1,
    expected=Counts(256, 820, 16, 0),
)
STORED_MASKS = make_instance(
    "STORED_MASKS",
    "two masks, an object",
    masks=2,
    objects=1,
    expected=Counts(256, 820, 16, 0),
)
TWO_LOADINGS = make_instance(
    "TWO_LOADINGS",
    "requests in turn, two loads of an adapter set",
    names=1,
    loadings=2,
    expected=Counts(728, 1_584, 5, 0),
)
STORED_LOADINGS = make_instance(
    "STORED_LOADINGS",
    "two loads of an adapter set, an object",
    names=1,
    loadings=2,
    objects=1,
    expected=Counts(2_856, 9_080, 16, 0),
)
STORED_WEIGHTS = make_instance(
    "STORED_WEIGHTS",
    "two weights, an object",
    weights=2,
    objects=1,
    expected=Counts(256, 820, 16, 0),
)


def same_list_of_names(i: Expr, j: Expr) -> Expr:
    """The names of both, adapter set first and salt second, are the same list: no name has a label."""
    return same_names(i, j) | crossed(i, j) | crossed(j, i)


def crossed(i: Expr, j: Expr) -> Expr:
    """The only name of the first is its adapter set, and it is the salt and only name of the second."""
    return is_some(adapter[i]) & ~is_some(salt[i]) & ~is_some(adapter[j]) & (adapter[i] == salt[j])


def found(r: Expr, s: Expr) -> tuple[Expr, Expr]:
    """The identity that a slot is found by, and the one that a request asks for."""
    return the(slot_key[s]), the(asks[r])


def stored(r: Expr, o: Expr) -> tuple[Expr, Expr]:
    """The identity that an object is found by, and the one that a request asks for."""
    return the(object_key[o]), the(asks[r])


def same(field: Variable, pair: tuple[Expr, Expr]) -> Expr:
    """Both identities have the same value in a field."""
    return field[pair[0]] == field[pair[1]]


ADAPTERS = Group(
    name="A-B30",
    title="The adapter of a request is not part of the match",
    kind="mixed schema or identity",
    evidence=Evidence.REPRODUCED,
    sources=("ggml-org/llama.cpp issue #26207 (open)",),
    happened=(
        "request 1 computes the rows of a prompt with adapter a, and its slot keeps them",
        "request 2 has the same prompt and adapter b",
        "the common prefix is found in the slot and used again",
        "what follows is computed by b over rows of a",
    ),
    cases=(
        Case(
            shows="rows are found by everything but the adapter set, and read under another one",
            fault=loosen(
                system,
                match,
                OTHER_NAMES,
                lambda r, s: same(salt, found(r, s)),
                name="without-adapter",
                says="a match compares every field but the adapter set",
            ),
            properties=identity,
            claim="a_request_reads_rows_of_its_adapter",
            instance=ONE_NAME,
        ),
        OTHER_ADAPTER,
        Case(
            shows="an adapter set is loaded anew under its name, and rows of the former one are read",
            fault=drop_guard(
                system,
                match,
                OTHER_LOADING,
                "a match takes the name of an adapter set for its weights",
            ),
            properties=identity,
            claim="a_request_reads_rows_of_the_adapter_as_it_is_loaded",
            instance=TWO_LOADINGS,
        ),
    ),
)

COLLISIONS = Group(
    name="A-B31",
    title="A short digest stands for the images in the key",
    kind="mixed schema or identity",
    evidence=Evidence.MERGED,
    sources=(
        "LMCache/LMCache issues #3301, #4086, #690",
        "LMCache/LMCache PR #4783 (merged)",
        "sgl-project/sglang issue #2151 (closed)",
    ),
    happened=(
        "request 1 asks about a text with image i, and its rows are kept under the digest of i",
        "request 2 has the same text and image j, whose digest is the same",
        "the rows of i are found",
        "j is answered from the rows of i",
    ),
    cases=(
        Case(
            shows="two identities have one digest, and the rows of one are read for the other",
            fault=loosen(
                system,
                match,
                OTHER_IMAGES,
                lambda r, s: same(digest, found(r, s)),
                name="digest-of-images",
                says="a match compares digests, and not the images",
            ),
            properties=identity,
            claim="a_request_reads_rows_of_its_images",
            instance=TWO_IMAGES,
        ),
        Case(
            shows="images are no part of the key at all, and any image finds the rows of the first",
            fault=drop_guard(system, match, OTHER_IMAGES, "a match does not ask for the images"),
            properties=identity,
            claim="a_request_reads_rows_of_its_images",
            instance=TWO_IMAGES,
        ),
        Case(
            shows="the external tier compares digests where the device compares identities",
            fault=loosen(
                system,
                load,
                OTHER_IMAGES,
                lambda r, o: same(digest, stored(r, o)),
                name="digest-of-images",
                says="a load takes what is found under the digest without comparing the images",
            ),
            properties=identity,
            claim="a_request_reads_rows_of_its_images",
            instance=STORED_IMAGES,
        ),
    ),
)

TIERS = Group(
    name="A-B32",
    title="The key of an external tier lacks fields that the device compares",
    kind="mixed schema or identity",
    evidence=Evidence.REPRODUCED,
    sources=(
        "sgl-project/sglang issue #37160 (open)",
        "vllm-project/vllm issue #53495 (open)",
        "vllm-project/vllm #51640, #42119",
    ),
    happened=(
        "tenant x stores a prefix under its salt",
        "on the device the index keeps x and y apart",
        "in the external tier the key is made of the tokens",
        "tenant y looks up the same tokens there and is given the rows of x",
    ),
    cases=(
        Case(
            shows="the key of the tier lacks the salt, and one tenant reads the rows of another",
            fault=loosen(
                system,
                load,
                OTHER_NAMES,
                lambda r, o: same(adapter, stored(r, o)),
                name="without-salt",
                says="a load compares every field but the salt",
            ),
            properties=identity,
            claim="a_request_reads_rows_of_its_tenant",
            instance=A_STORED_NAME,
        ),
        Case(
            shows="the key of the tier lacks the adapter set, and rows of another adapter are loaded",
            fault=loosen(
                system,
                load,
                OTHER_NAMES,
                lambda r, o: same(salt, stored(r, o)),
                name="without-adapter",
                says="a load compares every field but the adapter set",
            ),
            properties=identity,
            claim="a_request_reads_rows_of_its_adapter",
            instance=A_STORED_NAME,
        ),
        Case(
            shows="the key of the tier lacks the embeddings, and rows of other ones are loaded",
            fault=drop_guard(system, load, OTHER_IMAGES, "a load does not ask for the embeddings"),
            properties=identity,
            claim="a_request_reads_rows_of_its_images",
            instance=STORED_IMAGES,
        ),
        Case(
            shows="the key of the tier lacks the weights, and it outlives their replacement",
            fault=drop_guard(
                system, load, OTHER_WEIGHTS, "a load does not ask which weights computed the rows"
            ),
            properties=identity,
            claim="a_request_reads_rows_of_its_weights",
            instance=STORED_WEIGHTS,
        ),
        Case(
            shows="the key of the tier has the name of the adapter set alone, and outlives what was loaded",
            fault=drop_guard(
                system,
                load,
                OTHER_LOADING,
                "a load takes the name of an adapter set for its weights",
            ),
            properties=identity,
            claim="a_request_reads_rows_of_the_adapter_as_it_is_loaded",
            instance=STORED_LOADINGS,
        ),
    ),
)

LABELS = Group(
    name="A-B33",
    title="Fields of the key are not told apart, or one is missing",
    kind="mixed schema or identity",
    evidence=Evidence.REPRODUCED,
    sources=(
        "vllm-project/vllm issue #44701 (open)",
        "vllm-project/vllm issue #56655, PR #56656 (open)",
    ),
    happened=(
        "a request with an adapter named z computes the rows of some tokens",
        "a request without adapter has the same tokens and the salt z",
        "both keys are the tokens followed by z",
        "the second request reads rows that the adapter computed",
    ),
    cases=(
        Case(
            shows="a salt is the name of an adapter, and a request without adapter reads its rows",
            fault=loosen(
                system,
                match,
                OTHER_NAMES,
                lambda r, s: same_list_of_names(*found(r, s)),
                name="names-without-labels",
                says="a match compares a list of names that does not tell adapter sets from salts",
            ),
            properties=identity,
            claim="a_request_reads_rows_of_its_adapter",
            instance=ONE_NAME,
        ),
        Case(
            shows="the mask is missing, and embeddings are answered from rows of equal token numbers",
            fault=drop_guard(
                system,
                match,
                OTHER_MASK,
                "a match does not ask which inputs are tokens and which embeddings",
            ),
            properties=identity,
            claim="a_request_reads_rows_of_its_mask",
            instance=TWO_MASKS,
        ),
        Case(
            shows="keys of the external tier are lists of names, so that a name opens another's rows",
            fault=loosen(
                system,
                load,
                OTHER_NAMES,
                lambda r, o: same_list_of_names(*stored(r, o)),
                name="names-without-labels",
                says="a load compares a list of names that does not tell adapter sets from salts",
            ),
            properties=identity,
            claim="a_request_reads_rows_of_its_tenant",
            instance=A_STORED_NAME,
        ),
        Case(
            shows="the mask is missing in the external tier",
            fault=drop_guard(
                system, load, OTHER_MASK, "a load does not ask which inputs are tokens"
            ),
            properties=identity,
            claim="a_request_reads_rows_of_its_mask",
            instance=STORED_MASKS,
        ),
    ),
)

GROUPS = (ADAPTERS, COLLISIONS, TIERS, LABELS)
