"""`kvspec test`: a cache of one's own is driven; a difference is shrunk, shown and saved."""

import sys
from pathlib import Path

import pytest

PEER = ("test", "peer", "1,1,1,2,2", "--profile", "ci", "--examples", "60")


@pytest.fixture(autouse=True)
def _samples(monkeypatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)


def test_an_obedient_cache_holds(kvspec) -> None:
    """All actions are taken and all refusals probed."""
    ran = kvspec(*PEER, "--backend", "sample_cache:Obedient", "--json")
    data = ran.json
    assert (ran.code, data["verdict"]) == (0, "holds")
    assert data["transitions"] == 284
    assert data["never_taken"] == data["never_probed"] == []
    assert data["failure"] is None


def test_a_forgetful_cache_is_caught(kvspec, tmp_path) -> None:
    """The run is shrunk to the event at fault, printed, and saved as a trace that replays."""
    path = tmp_path / "found.json"
    words = (*PEER, "--backend", "sample_cache:Forgetful")
    ran = kvspec(*words, "--trace-out", str(path), "--junit", str(tmp_path / "junit.xml"))
    assert ran.code == 1
    assert "finish(h=handle0)" in ran.out
    assert 'failures="1"' in (tmp_path / "junit.xml").read_text()
    assert kvspec("replay", str(path), "--json").json["outcome"] == "agrees"
    failure = kvspec(*words, "--json").json["failure"]
    assert [step["action"] for step in failure["trace"]] == [None, "finish"]


@pytest.mark.parametrize(
    ("words", "found", "do"),
    [
        (("test", "peer"), "no --backend", "write one"),
        (("test", "peer", "--backend", "no.such:cache"), "no module no", "check"),
        (("test", "peer", "--backend", "sample_cache:Nothing"), "Nothing", "check"),
        (("test", "peer", "--backend", "sample_cache:Unfinished"), "without reset", "methods"),
        (
            ("test", "--backend", "sample_cache:Adapted"),
            "the Adapter Adapted",
            "use kvspec conform",
        ),
        ((*PEER[:3], "--backend", "sample_cache:Obedient", "--profile", "x"), "x", "choose"),
    ],
    ids=str,
)
def test_what_is_no_cache_is_an_error_of_usage(kvspec, words, found: str, do: str) -> None:
    """A factory that is missing, or makes something else, ends with 2."""
    ran = kvspec(*words)
    assert ran.code == 2
    assert found in ran.err
    assert do in ran.err.splitlines()[-1]


def test_the_current_folder_is_looked_into(kvspec, tmp_path, monkeypatch) -> None:
    """A cache beside the shell is found without more, as for kvspec conform."""
    (tmp_path / "cache_from_here.py").write_text("from sample_cache import Obedient as Mine\n")
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    ran = kvspec(*PEER, "--backend", "cache_from_here:Mine", "--json")
    assert ran.code == 0, ran.err


def test_without_torch_the_default_cache_is_missed(kvspec, monkeypatch) -> None:
    """The error says how to install it."""
    monkeypatch.setattr("kvspec.cli.test.torch_absent", lambda: "torch is not installed")
    ran = kvspec("test")
    assert ran.code == 2
    assert "kvspec[torch]" in ran.err


@pytest.mark.slow
def test_layer_zero_alone_is_caught_by_the_stage_of_two_layers(monkeypatch) -> None:
    """What TINY cannot show, the second test stage of `verify` does: its settings are enough."""
    pytest.importorskip("torch")
    from kvspec.cli import plan

    monkeypatch.setattr(plan, "STATIC", "sample_cache:layer_zero_alone")
    found = plan.layers_stage("core", plan.LAYERED, lambda *_: None)
    assert found.verdict == "violated"
    assert "layer1" in found.text
    assert not found.data["one_layer"]
    assert "NEVER" not in found.text
    assert found.text.count(found.data["failure"]["message"]) == 1


def test_one_layer_is_told(kvspec) -> None:
    """With one layer, faults between layers cannot show; who reads the result is told."""
    pytest.importorskip("torch")
    ran = kvspec("test", "core", "TINY", "--profile", "ci", "--examples", "1")
    assert "one layer: faults between layers cannot show" in ran.out


def test_layer_zero_alone_passes_with_one_layer(kvspec) -> None:
    """That is why there is a second stage."""
    pytest.importorskip("torch")
    words = ("--backend", "sample_cache:layer_zero_alone", "--profile", "ci", "--examples", "1")
    assert kvspec("test", "core", "TINY", *words, "--json").json["failure"] is None
