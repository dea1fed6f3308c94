"""`kvspec manifest`: the tables of a manifest, or the bytes of a model shape and what moves them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from kvspec.cli.bind import deliver_bound
from kvspec.cli.check import answer as check_answer
from kvspec.cli.check import document_check
from kvspec.cli.documents import read_given, read_kind
from kvspec.cli.errors import UsageError, unknown
from kvspec.cli.output import CheckOutput, Flag, check_outputs, deliver
from kvspec.cli.verdicts import HOLDS, Answer, Check

if TYPE_CHECKING:
    from kvspec.cli.documents import Given
    from kvspec.spec.documents.manifest_predicates import Predicate
    from kvspec.spec.documents.manifest_record import Manifest

Size = Annotated[int | None, Parameter(validator=Number(gt=0, lte=10**12))]
_DO = "kvspec manifest FILE, or kvspec manifest --layers 32 --kv-heads 8 --head-width 128"


@attrs.frozen
class Shape:
    """The sizes of a model's cache. tokens: of one request. query_heads: if they are known."""

    layers: int
    kv_heads: int
    head_width: int
    key_bytes: int
    value_bytes: int
    tokens: int
    query_heads: int | None

    def token_bytes(self) -> int:
        """Bytes of one committed token."""
        from kvspec.spec.formulas import token_bytes

        sizes = (self.layers, self.kv_heads, self.head_width, self.key_bytes, self.value_bytes)
        found: int = token_bytes(*sizes)
        return found

    def request_bytes(self) -> int:
        """Bytes of all tokens of the request."""
        from kvspec.spec.formulas import committed_bytes

        found: int = committed_bytes(self.tokens, self.token_bytes())
        return found

    def group(self) -> int | None:
        """Query heads for each K/V head; None if they are not known, or do not go evenly."""
        heads = self.query_heads
        return None if heads is None or heads % self.kv_heads else heads // self.kv_heads


def manifest(
    *file: Annotated[str, Parameter(allow_leading_hyphen=True)],
    layers: Size = None,
    kv_heads: Size = None,
    head_width: Size = None,
    key_bytes: Size = None,
    value_bytes: Size = None,
    tokens: Size = None,
    query_heads: Size = None,
    bind: Flag = False,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Print the identities, the six quantities and the ledger of a manifest, or the bytes of a shape.

    Without a file and without sizes, the manifest on file is shown. With sizes, the bytes of a
    token and of a request, and what each size does to them when it is halved or doubled.

    Args:
        file: a manifest document; - reads standard input.
        layers: layers that produce K and V.
        kv_heads: K/V heads of a layer on this shard.
        head_width: scalars of a head.
        key_bytes: bytes of a key's scalar, by default 2.
        value_bytes: bytes of a value's scalar, by default 2.
        tokens: committed tokens of the request, by default 4096.
        query_heads: query heads, which no byte depends on.
        bind: print the document with its ledger and its digests made anew, and nothing else.
        output: how the answer is told.
    """
    check_outputs(output)
    sizes = {
        "layers": layers,
        "kv-heads": kv_heads,
        "head-width": head_width,
        "key-bytes": key_bytes,
        "value-bytes": value_bytes,
        "tokens": tokens,
        "query-heads": query_heads,
    }
    given = [f"--{name}" for name, value in sizes.items() if value is not None]
    _refuse(file, given, [*(f"--{name}" for name in sizes), "--bind"])
    if bind and given:
        told, found = "a document is bound, not a shape", f"--bind and {given[0]}"
        raise UsageError(told, found, "one of the two", "kvspec manifest", _DO)
    if bind:
        return _bound(*file, output=output)
    if given:
        return deliver(shape_answer(_shape(sizes)), output)
    return deliver(document_answer(_given(*file)), output)


def _refuse(files: tuple[str, ...], given: list[str], options: list[str]) -> None:
    """A word with a hyphen is an option that does not exist; one file, or sizes."""
    for word in files:
        if word.startswith("-") and word != "-":
            known, do = (
                [*options, "--json", "--junit", "--sarif", "--help"],
                "see kvspec manifest --help",
            )
            raise unknown("option", word, known, "kvspec manifest", do)
    if len(files) > 1:
        found, expected = f"{len(files)} files", "one file"
        raise UsageError("one manifest at a time is shown", found, expected, "kvspec manifest", _DO)
    if files and given:
        told, found = "a file has its own sizes", f"FILE and {given[0]}"
        raise UsageError(told, found, "one of the two", "kvspec manifest", _DO)


def _on_file() -> str:
    from kvspec.counterexamples.negative_cases import DOCUMENTS

    return str(DOCUMENTS / "manifest.json")


def _bound(file: str | None = None, *, output: CheckOutput) -> int:
    from kvspec.spec.documents.manifest import MANIFEST

    return deliver_bound(file or _on_file(), "manifest", output, MANIFEST)


def _given(file: str | None = None) -> Given:
    from kvspec.spec.documents.manifest import MANIFEST

    if file is None:
        found = read_given(_on_file())
        return attrs.evolve(found, where="the manifest on file")
    return read_kind(file, MANIFEST)


def _shape(sizes: dict[str, int | None]) -> Shape:
    """The shape, with the usual sizes for those that were left out."""
    usual = {"key-bytes": 2, "value-bytes": 2, "tokens": 4096}
    found = {name: usual.get(name) if value is None else value for name, value in sizes.items()}
    missing = [f"--{n}" for n, value in found.items() if value is None and n != "query-heads"]
    if missing:
        told, expected = "the shape is not complete", "--layers, --kv-heads and --head-width"
        raise UsageError(told, f"no {missing[0]}", expected, "kvspec manifest", _DO)
    shape = Shape(**{name.replace("-", "_"): value for name, value in found.items()})  # type: ignore[arg-type]
    if shape.query_heads is not None and shape.group() is None:
        raise UsageError(
            "query heads do not go evenly over K/V heads",
            f"{shape.query_heads} query heads and {shape.kv_heads} K/V heads",
            f"a multiple of {shape.kv_heads}",
            "--query-heads of kvspec manifest",
            f"--query-heads {shape.kv_heads * max(1, round(shape.query_heads / shape.kv_heads))}",
        )
    return shape


def document_answer(given: Given) -> Answer:
    """The tables of a manifest that keeps its contracts, or the contract that it breaks."""
    from kvspec.report.tables import text_table
    from kvspec.spec.documents.canonical import plain
    from kvspec.spec.documents.manifest_predicates import predicates

    checked = given.checked
    if checked.broken:
        return attrs.evolve(check_answer([given]), command="manifest")
    m: Manifest = checked.document
    made_of = _made_of(m)
    digests = plain(m.digests)
    identities = [(name, digests[name], ", ".join(parts)) for name, parts in made_of.items()]
    found = predicates(m)
    values = [(one.name, _value(one), one.meaning) for one in found]
    ledger = _ledger_rows(m)
    who = m.request_identity
    state = f"generation {m.state_snapshot.generation}, {m.state_snapshot.phase}"
    parts = [
        f"{given.where}: {who.namespace}/{who.request_id}, attempt {who.attempt}, {state}",
        text_table(("identity", "SHA-256", "made of"), identities),
        text_table(("snapshot", "value", "what it counts"), values),
        text_table(("ledger", "bytes", "from"), ledger),
        f"{HOLDS}: it keeps all {len(checked.kind.contracts)} contracts",
    ]
    data = {
        "verdict": HOLDS,
        "file": given.where,
        "request": plain(who),
        "identities": {n: {"sha256": digests[n], "made_of": list(p)} for n, p in made_of.items()},
        "predicates": {one.name.replace(" ", "_"): _data(one) for one in found},
        "ledger": plain(m.ledger),
    }
    return Answer("manifest", HOLDS, data, "\n\n".join(parts), (document_check(given),))


def _made_of(m: Manifest) -> dict[str, list[str]]:
    """The parts of the record that each identity is made of."""
    from kvspec.spec.documents import manifest_digests as made

    return {
        "prompt_sha256": ["prompt_token_ids"],
        "cache_abi_sha256": list(made.abi_projection(m)),
        "prefix_identity_sha256": list(made.prefix_projection(m)),
        "snapshot_sha256": list(made.snapshot_projection(m)),
    }


def _value(one: Predicate) -> str:
    """A quantity for a reader."""
    from kvspec.report.units import bytes_text
    from kvspec.spec.documents.manifest_record import Interval

    if isinstance(one.value, Interval):
        return f"[{one.value.begin}, {one.value.end})"
    if isinstance(one.value, tuple):
        return ", ".join(f"{tier} {bytes_text(count)}" for tier, count in one.value)
    return f"{one.value:,} {one.unit}"


def _data(one: Predicate) -> Any:
    """A quantity for a program."""
    from kvspec.spec.documents.canonical import plain

    return dict(one.value) if isinstance(one.value, tuple) else plain(one.value)


def _ledger_rows(m: Manifest) -> list[tuple[str, str, str]]:
    """The three lines of the ledger, each with what it was computed from."""
    from kvspec.report.units import bytes_text

    c, s, each = m.cache_schema, m.state_snapshot, m.ledger.token_bytes
    row = f"{c.layers} x {c.kv_heads} x {c.head_width} x ({c.key_bytes} + {c.value_bytes})"
    return [
        ("one token", bytes_text(each), f"{row}: layers, K/V heads, width, bytes of K and of V"),
        ("committed", bytes_text(m.ledger.committed_bytes), f"{s.committed_length} rows x {each}"),
        ("reserved", bytes_text(m.ledger.reserved_bytes), f"{s.reserved_tokens} slots x {each}"),
    ]


def shape_answer(shape: Shape) -> Answer:
    """The bytes of a shape, and what one size at a time does to them."""
    from kvspec.report.tables import text_table
    from kvspec.report.units import bytes_text

    token, request, rows, data = shape.token_bytes(), shape.request_bytes(), [], []
    for name, change, before, to, one in _changes(shape):
        control = f"{name.replace('_', ' ')} {change}"
        rows.append((control, f"{before:,}", f"{to:,}", *_moved(shape, one)))
        data.append(
            {
                "control": name,
                "change": change,
                "from": before,
                "to": to,
                "token_bytes": one.token_bytes(),
                "request_bytes": one.request_bytes(),
            }
        )
    group = shape.group()
    queries = "" if group is None else f", each read by {group} of {shape.query_heads} query heads"
    scalar = f"({shape.key_bytes} + {shape.value_bytes}) bytes"
    heads = f"{shape.layers} layers x {shape.kv_heads} K/V heads"
    parts = [
        f"{heads} x {shape.head_width} scalars x {scalar}{queries}",
        f"a token    {bytes_text(token)}\na request  {bytes_text(request)}, {shape.tokens:,} tokens",
        text_table(("one control", "from", "to", "a token", "a request"), rows, right=(1, 2)),
    ]
    whole = {
        "verdict": HOLDS,
        "shape": attrs.asdict(shape),
        "query_group": group,
        "token_bytes": token,
        "request_bytes": request,
        "sensitivity": data,
    }
    checks = (Check("manifest", "the shape", HOLDS),)
    return Answer("manifest", HOLDS, whole, "\n\n".join(parts), checks)


def _changes(shape: Shape) -> Iterator[tuple[str, str, int, int, Shape]]:
    """Each size that is known halved and doubled, where that leaves whole sizes and whole groups."""
    for name, before in attrs.asdict(shape).items():
        for change, to in (("halved", (before or 0) // 2), ("doubled", 2 * (before or 0))):
            one = attrs.evolve(shape, **{name: to}) if to else shape
            whole = to and to in (before / 2, before * 2)
            if whole and (shape.query_heads is None or one.group() is not None):
                yield name, change, before, to, one


def _moved(before: Shape, after: Shape) -> tuple[str, str]:
    """Bytes of a token and of a request after a change, or that they are what they were."""
    from kvspec.report.units import bytes_text

    pairs = (
        (before.token_bytes(), after.token_bytes()),
        (before.request_bytes(), after.request_bytes()),
    )
    told = ["unchanged" if one == two else bytes_text(two) for one, two in pairs]
    return told[0], told[1]
