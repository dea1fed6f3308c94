"""`kvspec atlas`: the table, a page, and what is not as it must be."""

import json

import attrs
import pytest

from kvspec.cli import atlas as command
from kvspec.cli.atlas_cases import Asked, tell
from kvspec.cli.main import main
from kvspec.counterexamples import atlas_files
from kvspec.properties.atlas import groups
from kvspec.properties.core import properties
from kvspec.properties.faults import drop_guard
from kvspec.spec import core, failures
from kvspec.spec.prefix import evict

FIRST = "A-B30"


def run(capsys, *words):
    """The exit code and what was printed."""
    code = main(["atlas", *words])
    return code, capsys.readouterr()


def test_a_page_explains_a_group(capsys) -> None:
    """It says what happened, the rule, the shortest trace, and what the sound rule does."""
    group = groups()[FIRST]
    code, out = run(capsys, FIRST.lower())
    assert code == 0
    for part in (
        group.title,
        group.happened[0],
        group.sources[0],
        group.cases[0].fault.name,
        group.cases[0].claim,
        "initial state",
        "The sound rule keeps every claim on the same instance: holds",
        f"counterexamples/atlas/{FIRST}.json",
    ):
        assert part in out.out


def test_a_page_for_programs(capsys) -> None:
    """With --json there is one object, with an entry for each case."""
    code, out = run(capsys, FIRST, "--json")
    data = json.loads(out.out)
    assert (code, data["verdict"], data["groups"]) == (0, "holds", 1)
    case = data["cases"][0]
    assert (case["faulty"], case["sound"], case["verdict"]) == ("violated", "holds", "holds")
    assert case["steps"] >= 1
    assert case["states"] >= 1


def test_a_claim_can_be_proved_for_all_sizes(capsys) -> None:
    """--prove tells whether Z3 proves the claim of the sound rule."""
    code, out = run(capsys, FIRST, "--prove", "--json")
    data = json.loads(out.out)
    assert code == 0
    proofs = {case["proof"].split()[0] for case in data["cases"]}
    assert proofs <= {"proved", "searched"}


def test_an_unknown_group_is_an_error_of_usage(capsys) -> None:
    """It lists what there is, with exit code 2, and guesses no other number."""
    for asked in ("A-B99", "A-B999"):
        code, out = run(capsys, asked)
        assert code == 2
        assert "A-B01, A-B02" in out.err
        assert "did you mean" not in out.err


@pytest.mark.parametrize("asked", ["a-b30", "AB30", "A-B030", "A-B30-2", "A-B30.json"])
def test_a_group_is_known_however_it_is_written(asked: str) -> None:
    """Small letters, zeros and the name of a case or of its file are names of the group."""
    assert command.group_name(asked) == FIRST
    assert command.is_group(asked)
    assert not command.is_group("allocate.drop-guard.X")


@pytest.mark.parametrize("words", [("atlas", "A-B30-77"), ("replay", "A-B30-77")])
def test_an_unknown_case_is_an_error_of_usage(capsys, words: tuple[str, ...]) -> None:
    """It tells how many cases the group has, with exit code 2."""
    assert main(words) == 2
    assert f"a case from 1 to {len(groups()[FIRST].cases)}" in " ".join(
        capsys.readouterr().err.split()
    )


def test_a_changed_trace_is_noticed(monkeypatch, tmp_path) -> None:
    """A stored trace that is not what the search finds makes the case `violated`."""
    monkeypatch.setattr(atlas_files, "folder", lambda: tmp_path)
    group = groups()[FIRST]
    told, _ = tell(group, 1, Asked())
    assert told.verdict == "violated"
    assert "is missing" in told.message
    told, _ = tell(group, 1, Asked(write=True))
    assert told.verdict == "holds"
    path = tmp_path / f"{FIRST}.json"
    path.write_text(path.read_text(encoding="utf-8").replace(" 1", " 0", 1), encoding="utf-8")
    told, _ = tell(group, 1, Asked())
    assert told.verdict == "violated"
    assert "is not the trace that the search finds" in told.message


def sample(**changes):
    """A group whose only case evicts a block that somebody owns, with changes to the case."""
    group = groups()[FIRST]
    fault = drop_guard(core.system, evict, failures.STILL_OWNED, "evicts what is owned")
    case = attrs.evolve(
        group.cases[0],
        fault=fault,
        properties=properties,
        claim="owned_blocks_are_filled",
        instance=core.TINY,
    )
    return attrs.evolve(group, cases=(attrs.evolve(case, **changes),))


def test_a_fault_that_breaks_nothing_is_noticed(monkeypatch, tmp_path) -> None:
    """A case whose claim is kept by the faulty rule is `violated`, and says so."""
    monkeypatch.setattr(atlas_files, "folder", lambda: tmp_path)
    told, _ = tell(sample(claim="no_handle_is_in_two_rows"), 1, Asked())
    assert (told.verdict, told.faulty) == ("violated", "holds")
    assert "the fault does not break no_handle_is_in_two_rows" in told.message


def test_a_sound_rule_that_fails_is_noticed(monkeypatch, tmp_path) -> None:
    """Counts that differ on the sound side make the case `violated`."""
    monkeypatch.setattr(atlas_files, "folder", lambda: tmp_path)
    wrong = attrs.evolve(core.TINY, expected=attrs.evolve(core.TINY.expected, states=7))
    told, _ = tell(sample(instance=wrong), 1, Asked(write=True))
    assert (told.verdict, told.sound) == ("violated", "violated")
    assert "expected 7" in told.message


def test_an_open_group_is_unknown() -> None:
    """A group without a case counts as open, and the verdict is `unknown`."""
    still_open = attrs.evolve(groups()[FIRST], cases=(), open="nobody knows how")
    made = command.answer([], [still_open])
    assert made.verdict == "unknown"
    assert "1 groups open" in made.text
    assert made.data["open"] == [{"group": FIRST, "reason": "nobody knows how"}]


@pytest.mark.parametrize("name", command.systems())
def test_the_stages_cover_every_case(name: str) -> None:
    """Each system that groups are shown on is known, so that `verify` has a stage for it."""
    from kvspec.counterexamples import find_system

    assert find_system(name).name == name


def test_a_case_whose_damage_is_gone_is_noticed(monkeypatch, tmp_path) -> None:
    """The faulty cache must show damage: what goes wrong without a number is `violated`."""
    pytest.importorskip("torch")
    from kvspec.models.decode.backend import DecodeBackend

    monkeypatch.setattr(atlas_files, "folder", lambda: tmp_path)
    told, _ = tell(sample(), 1, Asked(write=True))
    assert told.verdict == "holds"
    assert told.cache
    monkeypatch.setattr(DecodeBackend, "damage", lambda self: [])
    told, _ = tell(sample(), 1, Asked())
    assert told.verdict == "violated"
    assert "the faulty cache shows no damage" in told.message


def test_a_trace_that_no_cache_can_take_is_an_error_of_usage(capsys) -> None:
    """`kvspec replay` on a cache that is not there ends with 2, and says what can be done."""
    assert main(["replay", "A-B40-3", "--target", "faulty"]) == 2
    assert "use --target spec" in capsys.readouterr().err
