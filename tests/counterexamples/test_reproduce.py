"""A trace as a pytest file runs as it is, and fails when the specification or a cache differs."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from kvspec.counterexamples import as_test, targets
from kvspec.counterexamples.errors import TraceError
from kvspec.counterexamples.format import Departure, Trace
from kvspec.counterexamples.record import run_events, trace_of
from kvspec.counterexamples.replay import replay
from kvspec.counterexamples.targets import SOUND, faulty_backend, load_backend, sound_backend
from kvspec.models.concrete import Machine

IMPORT = (
    "import sound_backend\n",
    "import load_backend as load\nfrom kvspec.counterexamples.targets import sound_backend\n",
)


def run_tests(folder: Path, **texts: str) -> subprocess.CompletedProcess:
    """Run pytest files by themselves, warnings as errors."""
    for name, text in texts.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-W", "error", "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)


@pytest.mark.slow
def test_it_runs_as_it_is(stale: Trace, tmp_path: Path) -> None:
    """The specification's answers are as written; a cache is tried where there is one."""
    text = as_test(stale, "some/where/Stale-Publish.itf.json")
    assert '("publish", {"x": "txn1"}, "STALE_SNAPSHOT"),' in text
    assert '    "state[txn1]: PREPARED -> REJECTED",' in text
    assert "some/where" not in text
    done = run_tests(tmp_path, it=text)
    assert done.returncode == 0, done.stdout
    assert "PASSED test_it.py::test_stale_publish\n" in done.stdout


LIAR = """
from kvspec.models.backend import Reply
from kvspec.models.concrete import Machine

class Liar:
    def reset(self, instance): self.state = Machine(instance).initial_states()[0]
    def perform(self, event): return Reply(True)
    def observe(self): return self.state
    def damage(self): return []
"""
CHANGED = {
    "answer": ('{"x": "txn1"}, "STALE_SNAPSHOT")', '{"x": "txn1"}, "accepted")'),
    "change": ("PREPARED -> REJECTED", "PREPARED -> PUBLISHED"),
    "cache": ('sound_backend("core")', 'load("liar:Liar")'),
}


@pytest.mark.slow
def test_it_fails_where_something_differs(stale: Trace, tmp_path: Path) -> None:
    """Another answer, another change, and a cache that differs each make it fail."""
    (tmp_path / "liar.py").write_text(LIAR)
    text = as_test(stale, "stale.json")
    assert all(old in text for old, _ in CHANGED.values())
    texts = {name: text.replace(*pair).replace(*IMPORT) for name, pair in CHANGED.items()}
    done = run_tests(tmp_path, **texts)
    failed = {line.split(" ")[1] for line in done.stdout.splitlines() if line.startswith("FAILED")}
    assert failed == {
        "test_answer.py::test_stale",
        "test_change.py::test_stale",
        "test_cache.py::test_stale_on_a_cache",
    }
    assert "expected refused" not in done.stdout
    assert "step 1: expected phase" in done.stdout or "phase[handle0]: expected" in done.stdout


@pytest.mark.slow
def test_a_trace_from_the_middle_keeps_its_beginning(pair, stale_events, tmp_path: Path) -> None:
    """A state that is not initial is written out."""
    machine = Machine(pair)
    start = run_events(machine, stale_events[:3])[-1].state
    text = as_test(trace_of(machine, run_events(machine, stale_events[3:5], start)))
    assert "INITIAL = {" in text
    done = run_tests(tmp_path, it=text.replace('sound_backend("core")', "None"))
    assert done.returncode == 0, done.stdout
    assert "1 passed, 1 skipped" in done.stdout


def test_the_text_names_calls_answers_and_changes(stale: Trace) -> None:
    """What is written is Python, and has the specification's answer to every call."""
    text = as_test(stale, "folder/Stale-Publish.itf.json")
    names: dict[str, object] = {}
    exec(compile(text, "test_it.py", "exec"), names)  # noqa: S102  # the text is our own
    assert len(names["STEPS"]) == 15
    assert names["STEPS"][-1] == ("publish", {"x": "txn1"}, "STALE_SNAPSHOT")
    assert names["CHANGES"][0] == "state[txn1]: PREPARED -> REJECTED"
    names["test_stale_publish"]()
    assert "folder" not in text


def test_what_cannot_be_reproduced_is_refused(stale: Trace) -> None:
    """A trace without steps, and one whose last step the specification cannot take, say so."""
    empty = msgspec.structs.replace(stale, steps=[], sound=None)
    with pytest.raises(TraceError, match="found a trace without steps"):
        as_test(empty)
    cut = msgspec.structs.replace(stale, sound=Departure(step=15, outcome="cut", code=None))
    with pytest.raises(TraceError, match="make the trace on a larger instance"):
        as_test(cut)


def test_a_backend_is_loaded_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way in which a name can be wrong has its own words."""
    (tmp_path / "caches_for_tests.py").write_text("class Bare: pass\nthing = 3\n")
    (tmp_path / "caches_that_lack.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name, message in {
        "caches_for_tests": "found 'caches_for_tests', expected module:factory",
        ":x": "expected module:factory",
        "no_such_cache:x": "found no module no_such_cache",
        "no_such_cache.inner:x": "found no module no_such_cache",
        "caches_for_tests:thing": "found no function or class thing in caches_for_tests",
        "caches_for_tests:Bare": "found a Bare without reset, perform, observe, damage",
        "caches_that_lack:x": "ModuleNotFoundError: No module named 'no_such_library'",
    }.items():
        with pytest.raises(TraceError) as caught:
            load_backend(name)
        assert message in str(caught.value)


def test_there_is_no_cache_for_every_system() -> None:
    """A system without a cache has none, sound or faulty."""
    assert sound_backend("peer") is None
    assert faulty_backend("peer", "publish.drop-guard.STALE_GENERATION") is None


def test_without_torch_there_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torch is not installed the answer is none, and no error."""
    monkeypatch.setattr(targets.importlib.util, "find_spec", lambda name: None)
    assert sound_backend("core") is None
    assert faulty_backend("core", "publish.drop-guard.STALE_SNAPSHOT") is None


@pytest.mark.slow
def test_the_torch_caches_do_as_the_trace_says(stale: Trace) -> None:
    """The sound one refuses the stale publication; the one with the fault shows wrong logits."""
    pytest.importorskip("torch")
    backend = sound_backend("core")
    if backend is None:
        pytest.skip(f"{SOUND['core']} is not there")
    found = replay(stale, backend)
    assert found.outcome == "refused_as_specified", found.show()
    assert faulty_backend("core", "no.such.mutation") is None
    faulty = faulty_backend("core", stale.mutation.name)
    found = replay(stale, faulty, faulty=True)
    assert found.outcome == "damage_shown", found.show()
    assert {harm.kind for harm in found.damage} >= {"rows", "logits"}
    assert replay(stale, faulty).outcome == "disagrees"
