import json
import shutil

import attrs
import pytest

from kvspec.counterexamples import evidence_binding, negative_cases
from kvspec.counterexamples.negative_cases import load_document, verdict
from kvspec.models.documents import convert, replaced
from kvspec.properties.documents import closure as replays
from kvspec.properties.documents import evidence, find_kind
from kvspec.properties.documents.closure import replay_drafts, replay_releases
from kvspec.properties.documents.evidence import codes_of, content
from kvspec.properties.documents.runs import Run
from kvspec.properties.mutation import mutate
from kvspec.spec import core, serving
from kvspec.spec.documents.closure import TokenRow, all_evidence
from kvspec.spec.documents.closure_rules import OWNERS, RULES

KIND = find_kind("closure")
DATA = load_document("closure")
CLOSURE = convert(KIND, DATA, "closure.json")
FILES = [binding.file for binding in CLOSURE.bindings]


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """The evidence in a folder of its own, where files can be changed."""
    for file in FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(content(file))
    monkeypatch.setattr(evidence, "files", lambda _: tmp_path)
    return tmp_path


def test_nine_classes_and_four_ways():
    """The nine classes of the text are there, and each way of closing one has its owner."""
    assert [failure.name for failure in CLOSURE.failures] == list(RULES)
    assert len(RULES) == 9
    assert {rule.way for rule in RULES.values()} == set(OWNERS)


@pytest.mark.parametrize("name", RULES)
def test_codes_are_guards_of_the_specification(name):
    """Each refusal is a guard of some action, and refusals are told in the order of their classes."""
    actions = [*core.system.actions.values(), *serving.system.actions.values()]
    guards = {guard.code for action in actions for guard in action.guards}
    codes = RULES[name].codes
    assert set(codes) <= guards
    assert [code.order for code in codes] == sorted(code.order for code in codes)


def test_references_go_to_earlier_documents_and_to_traces():
    """There are seventeen or more, to eight sets of other kinds and to traces of both systems."""
    assert sum(1 for _ in all_evidence(CLOSURE)) == CLOSURE.references >= 17
    folders = {file.rsplit("/", 1)[0] for file in FILES}
    assert folders == {"library", "library/serving", "negatives"}
    assert "negatives/closure.json" not in FILES
    assert sum(file.startswith("negatives/") for file in FILES) >= 8


def test_a_shared_prefix_is_handed_on():
    """{A, B}, then {B}, then nobody, and only then may the block be freed."""
    found, refused = replay_releases(CLOSURE.shared_prefix)
    assert refused is None
    assert found == [(("A", "B"), False), (("B",), False), ((), True)]


def test_a_specification_that_frees_owned_blocks_is_noticed(monkeypatch):
    """Without its guard on owners the specification would free early, and the document is refused."""
    mutated = mutate(core.system)
    (mutant,) = (m for m in mutated.mutants if m.name == "evict.drop-guard.STILL_OWNED")

    def faulty(**sizes):
        made = core.make_instance("FAULTY", "", txns=1, layers=1, versions=2, handles=2, longest=1)
        return Run(attrs.evolve(made, system=mutated.select(mutant), expected=None))

    monkeypatch.setattr(replays, "core_run", faulty)
    replay_releases.cache_clear()
    try:
        assert verdict(KIND, DATA) == "EVICTION"
    finally:
        replay_releases.cache_clear()


def test_a_rejected_suffix():
    """Base 100, two of four drafts accepted: 102 rows, and 103 after the correction's own append."""
    suffix = CLOSURE.rejected_suffix
    assert (suffix.base, suffix.accepted, suffix.correction) == (100, 2, "c2")
    assert replay_drafts(suffix) == (102, 103)
    assert suffix.published == (TokenRow(100, "d0"), TokenRow(101, "d1"))
    assert suffix.emitted == ("d0", "d1", "c2")


@pytest.mark.parametrize("position", [100, 101, 103])
def test_the_correction_stands_where_rows_end(position):
    """At any position but 102 the specification refuses its append."""
    row = TokenRow(position, "c2")
    refused = replay_drafts(attrs.evolve(CLOSURE.rejected_suffix, correction_row=row))
    assert refused.code == "POSITION_MISMATCH"


def test_a_changed_file_is_noticed_and_bound_again(copied, tmp_path, monkeypatch):
    """A blank in a file of evidence breaks its digest; binding the document again mends it."""
    (copied / FILES[-1]).write_bytes(content(FILES[-1]) + b"\n")
    assert verdict(KIND, DATA) == "FILE_DIGEST"
    monkeypatch.setattr(negative_cases, "DOCUMENTS", tmp_path)
    shutil.copy(negative_cases.NEGATIVES.parent / "documents" / "closure.json", tmp_path)
    assert evidence_binding.bind_closure()
    assert verdict(KIND, load_document("closure")) is None
    assert not evidence_binding.bind_closure()


def test_a_lost_file_is_noticed(copied):
    """A file that is gone has no digest."""
    (copied / FILES[0]).unlink()
    assert verdict(KIND, DATA) == "FILE_DIGEST"
    assert evidence_binding.bound(DATA) == DATA


def test_a_lost_case_is_noticed(copied):
    """A file that was bound again after a case was dropped still lacks the case."""
    file = "negatives/saved-work.json"
    kept = json.loads(content(file))
    kept["cases"] = [case for case in kept["cases"] if case["name"] != "rejected-row-relabelled"]
    (copied / file).write_text(json.dumps(kept), encoding="utf-8")
    assert verdict(KIND, evidence_binding.bound(DATA)) == "NO_CASE"


def test_a_case_that_fails_otherwise_is_noticed(copied):
    """A case that has another code by now is told, and binding again takes the code over."""
    file = "negatives/saved-work.json"
    text = content(file).decode().replace('"ROW_TOKEN"', '"ROW_TOKENS"')
    (copied / file).write_text(text, encoding="utf-8")
    bound = evidence_binding.bound(DATA)
    assert verdict(KIND, bound) is None
    place = FILES.index(file)
    digests = replaced(DATA, f"/bindings/{place}/sha256", bound["bindings"][place]["sha256"])
    assert verdict(KIND, digests) == "EVIDENCE_CODE"


@pytest.mark.parametrize(
    "file",
    [
        "documents/closure.json",
        "negatives/../documents/closure.json",
        "/negatives/manifest.json",
        "negatives/nothing.json",
        "library/serving/more/x.json",
        "negatives/manifest.json\n",
        "",
    ],
)
def test_evidence_is_in_its_folders(file):
    """Nothing else is read, whatever a document names."""
    assert content(file) is None
    assert codes_of(file) == {}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cases": [{"name": "x"}]}', "\N{SNOWMAN}", "1"])
@pytest.mark.parametrize("file", ["negatives/x.json", "library/x.json"])
def test_other_files_have_no_case(file, text, tmp_path, monkeypatch):
    """A file of another form has no case, and stops nothing."""
    monkeypatch.setattr(evidence, "files", lambda _: tmp_path)
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).write_text(text, encoding="utf-8")
    assert codes_of(file) == {}


def test_a_long_base_is_no_matter():
    """A million rows before the drafts give the same, a million further on."""
    suffix = attrs.evolve(
        CLOSURE.rejected_suffix, base=1_000_000, correction_row=TokenRow(1_000_002, "c2")
    )
    assert replay_drafts(suffix) == (1_000_002, 1_000_003)
