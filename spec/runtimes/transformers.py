"""Transformers v4.57.0: a cache object of layers, held by a generation loop that owns all else.

Modelled: `Cache.update` changes one layer while the forward pass walks through the layers, layer 0 first;
`get_seq_length` asks layer 0 alone; `crop`, `reorder_cache` and `batch_repeat_interleave` change all layers.
The loop around it has the token ids, decides when it stops, and drops the object. Neither of the two has a
request identity, a generation, a snapshot or a receipt.

Left out: what `update` returns, static, sliding and offloaded layers, drafts, batches of unlike requests.
Assumed: one handle is one row of the batch; a forward pass appends the rows of all tokens that have none;
layers after layer 0 come in any order; the loop that crops or reorders does so to its token ids as well.
"""

from __future__ import annotations

from kvspec.spec.canonical_lifecycle import PROMPT_TOO_LONG, Request, longest
from kvspec.spec.handles import Handle, Layer, Length
from kvspec.spec.language import (
    ANY,
    Bool,
    Counts,
    Enum,
    ErrorCode,
    Expr,
    Module,
    Step,
    System,
    forall,
    instance,
    limit,
    member,
)


class Loop(Enum):
    """Where the generation loop of a row is."""

    IDLE = member()
    LOOPING = member()
    STOPPED = member()


transformers = Module("transformers", "A cache object and the loop that holds it.")
transformers.share(longest)

layer_rows = transformers.variable(
    "layer_rows", Handle, Layer, to=Length, init=0, meaning="rows that the layer of the cache has"
)
layer_0 = transformers.variable(
    "layer_0", to=Layer, init=ANY, meaning="the layer that a forward pass comes to first; fixed"
)
loop = transformers.variable(
    "loop", Handle, to=Loop, init=Loop.IDLE, meaning="the caller's loop over the row"
)
prompt_ids = transformers.variable(
    "prompt_ids", Handle, to=Length, init=0, meaning="token ids that the caller began with"
)
input_ids = transformers.variable(
    "input_ids", Handle, to=Length, init=0, meaning="token ids that the caller has"
)
pass_end = transformers.variable(
    "pass_end",
    Handle,
    to=Length,
    init=0,
    meaning="rows after the running forward pass; 0: none runs",
)
has_logits = transformers.variable(
    "has_logits", Handle, to=Bool, init=False, meaning="the caller can choose a next token"
)

NOT_IDLE = ErrorCode("NOT_IDLE", "the caller's loop over the row has begun")
NO_PROMPT = ErrorCode("NO_PROMPT", "the prompt has no token")
NOT_LOOPING = ErrorCode("NOT_LOOPING", "the caller's loop does not run")
PASS_RUNS = ErrorCode("PASS_RUNS", "a forward pass runs")
NO_PASS = ErrorCode("NO_PASS", "no forward pass runs")
NO_NEW_TOKEN = ErrorCode("NO_NEW_TOKEN", "every token id has its row")
NO_ROOM = ErrorCode("NO_ROOM", "there are more token ids than rows allowed")
LAYER_DONE = ErrorCode("LAYER_DONE", "the pass has updated the layer")
LAYER_ORDER = ErrorCode("LAYER_ORDER", "layer 0 comes first")
LAYERS_LEFT = ErrorCode("LAYERS_LEFT", "the pass has not updated every layer")
NO_LOGITS = ErrorCode("NO_LOGITS", "no forward pass has given logits for a next token")
CUTS_PROMPT = ErrorCode("CUTS_PROMPT", "the cut goes into the prompt")
NOT_SHORTER = ErrorCode("NOT_SHORTER", "the cut keeps every row")
NO_ROWS = ErrorCode("NO_ROWS", "there are no rows to go on from")
SAME_ROW = ErrorCode("SAME_ROW", "a row cannot take its own place")
OTHER_PROMPT = ErrorCode("OTHER_PROMPT", "the two rows have prompts of different lengths")
NOT_STOPPED = ErrorCode("NOT_STOPPED", "the caller's loop has not stopped")


def seq_length(h: Expr) -> Expr:
    """What `get_seq_length` answers: the rows of layer 0."""
    return layer_rows[h, layer_0.value]


@transformers.action
def start(step: Step, h: Handle, r: Request, n: Length) -> None:  # noqa: ARG001  # nobody is told r
    """The caller begins a loop with n token ids and an empty cache; for which request, it alone knows."""
    step.require(loop[h] == Loop.IDLE, NOT_IDLE)
    step.require(n >= 1, NO_PROMPT)
    step.require(n <= longest, PROMPT_TOO_LONG)
    step.assign(loop[h], Loop.LOOPING)
    step.assign(prompt_ids[h], n)
    step.assign(input_ids[h], n)


@transformers.action
def begin_forward(step: Step, h: Handle) -> None:
    """A forward pass begins, for the token ids that have no rows."""
    step.require(loop[h] == Loop.LOOPING, NOT_LOOPING)
    step.require(pass_end[h] == 0, PASS_RUNS)
    step.require(seq_length(h) < input_ids[h], NO_NEW_TOKEN)
    step.require(input_ids[h] <= longest, NO_ROOM)
    step.assign(pass_end[h], input_ids[h])


@transformers.action
def update(step: Step, h: Handle, l: Layer) -> None:
    """`Cache.update`: the pass reaches a layer and appends its rows there."""
    step.require(pass_end[h] >= 1, NO_PASS)
    step.require(layer_rows[h, l] < pass_end[h], LAYER_DONE)
    step.require((l == layer_0.value) | (seq_length(h) == pass_end[h]), LAYER_ORDER)
    step.assign(layer_rows[h, l], pass_end[h])


@transformers.action
def end_forward(step: Step, h: Handle) -> None:
    """The forward call returns to the caller, with logits."""
    step.require(pass_end[h] >= 1, NO_PASS)
    step.require(forall(Layer, lambda l: layer_rows[h, l] == pass_end[h]), LAYERS_LEFT)
    step.assign(pass_end[h], 0)
    step.assign(has_logits[h], True)


@transformers.action
def append_token(step: Step, h: Handle) -> None:
    """The caller appends the token that it chose to its token ids."""
    step.require(loop[h] == Loop.LOOPING, NOT_LOOPING)
    step.require(has_logits[h], NO_LOGITS)
    step.assign(input_ids[h], input_ids[h] + 1)
    step.assign(has_logits[h], False)


@transformers.action
def crop(step: Step, h: Handle, n: Length) -> None:
    """`Cache.crop` to n rows, and the caller cuts its token ids alike."""
    step.require(loop[h] == Loop.LOOPING, NOT_LOOPING)
    step.require(pass_end[h] == 0, PASS_RUNS)
    step.require(prompt_ids[h] <= n, CUTS_PROMPT)
    step.require(n < seq_length(h), NOT_SHORTER)
    for layer in step.every(Layer):
        step.assign(layer_rows[h, layer], n)
    step.assign(input_ids[h], n)
    step.assign(has_logits[h], True)


@transformers.action
def reorder_cache(step: Step, h: Handle, p: Handle) -> None:
    """`Cache.reorder_cache`: beam h goes on from the rows of beam p, and the caller moves its token ids."""
    step.require(h != p, SAME_ROW)
    step.require((loop[h] == Loop.LOOPING) & (loop[p] == Loop.LOOPING), NOT_LOOPING)
    step.require((pass_end[h] == 0) & (pass_end[p] == 0), PASS_RUNS)
    step.require((seq_length(h) >= 1) & (seq_length(p) >= 1), NO_ROWS)
    step.require(prompt_ids[h] == prompt_ids[p], OTHER_PROMPT)
    for layer in step.every(Layer):
        step.assign(layer_rows[h, layer], layer_rows[p, layer])
    step.assign(input_ids[h], input_ids[p])
    step.assign(has_logits[h], has_logits[p])


@transformers.action
def repeat_interleave(
    step: Step,
    p: Handle,
    h: Handle,
    r: Request,  # noqa: ARG001  # as in start
) -> None:
    """`Cache.batch_repeat_interleave`: a row of the batch becomes two, of whatever request."""
    step.require(loop[p] == Loop.LOOPING, NOT_LOOPING)
    step.require(pass_end[p] == 0, PASS_RUNS)
    step.require(seq_length(p) >= 1, NO_ROWS)
    step.require(loop[h] == Loop.IDLE, NOT_IDLE)
    for layer in step.every(Layer):
        step.assign(layer_rows[h, layer], layer_rows[p, layer])
    step.assign(loop[h], Loop.LOOPING)
    step.assign(prompt_ids[h], prompt_ids[p])
    step.assign(input_ids[h], input_ids[p])
    step.assign(has_logits[h], has_logits[p])


@transformers.action
def stop(step: Step, h: Handle) -> None:
    """The caller's stopping rule ends the loop; the cache object is still there."""
    step.require(loop[h] == Loop.LOOPING, NOT_LOOPING)
    step.require(pass_end[h] == 0, PASS_RUNS)
    step.assign(loop[h], Loop.STOPPED)
    step.assign(has_logits[h], False)


@transformers.action
def drop(step: Step, h: Handle) -> None:
    """The caller lets go of the cache object; when its memory is free again, the allocator knows."""
    step.require(loop[h] == Loop.STOPPED, NOT_STOPPED)
    for layer in step.every(Layer):
        step.assign(layer_rows[h, layer], 0)
    step.assign(loop[h], Loop.IDLE)
    step.assign(prompt_ids[h], 0)
    step.assign(input_ids[h], 0)


system = System.of("transformers", "A cache object that its caller holds.", transformers)


@limit(append_token)
def appends_within_bounds(h: Handle) -> Expr:
    """The token ids can be counted."""
    return input_ids[h] < Length.top


LIMITS = (appends_within_bounds,)

ONE = instance(
    "ONE",
    system,
    {Handle: 1, Layer: 2, Request: 2, Length: 4},
    constants={longest: 3},
    limits=LIMITS,
    expected=Counts(98, 148, 17, 0, 49),
    doc="one row of a batch, two layers",
)

BEAMS = instance(
    "BEAMS",
    system,
    {Handle: 2, Layer: 2, Request: 1, Length: 3},
    constants={longest: 2},
    limits=LIMITS,
    expected=Counts(1_352, 3_744, 19, 0, 351),
    doc="two beams, two layers",
)
