"""An adapter that is not as it must be is an error that says what to do; a partial one is judged in part."""

import inspect
import time

import pytest

from kvspec.models.adapter import Adapter, RefusedByCacheError
from kvspec.properties.conformance.errors import AdapterError
from kvspec.properties.conformance.run import load_factory, run_conformance
from kvspec.properties.stateful.reference import SpecBackend
from kvspec.spec.core import TINY, system


def raised(factory, **more) -> AdapterError:
    """The error of a run."""
    with pytest.raises(AdapterError) as caught:
        run_conformance(factory, instances=["TINY"], **more)
    return caught.value


class Empty(Adapter):
    """An adapter that says nothing."""

    def reset(self, instance):
        """Nothing."""

    def observe(self):
        """Nothing."""
        return {}


def declared(**more):
    """An adapter without actions that shows what it is told to."""
    body = {"not_offered": dict.fromkeys(system.actions, "a test"), **more}
    return type("Declared", (Empty,), body)


def test_an_action_that_is_neither_there_nor_declared_is_an_error() -> None:
    """The message lists them all and shows how to declare them (nothing is skipped in silence)."""
    error = raised(Empty)
    assert f"nothing about {len(system.actions)} of {len(system.actions)} actions" in error.message
    assert set(error.found.partition(": ")[2].split(", ")) == set(system.actions)
    assert 'not_offered = dict.fromkeys(["name", "name"], "why the cache has them not")' in error.do


def test_a_declared_action_that_does_not_exist_is_an_error() -> None:
    """The message lists the actions."""
    adapter = declared(not_offered={**dict.fromkeys(system.actions, "x"), "evcit": "x"})
    error = raised(adapter)
    assert error.found == "not_offered has evcit"
    assert "evict" in error.expected


def test_a_method_with_other_parameters_is_an_error() -> None:
    """The message shows the parameters that the action has."""

    def truncate(self, handle, rows):
        del self, handle, rows

    adapter = declared(
        not_offered={n: "x" for n in system.actions if n != "truncate"}, truncate=truncate
    )
    error = raised(adapter)
    assert "truncate(h, n), by these names" in error.expected
    assert "(handle, rows)" in error.found


def test_a_method_of_a_declared_action_is_told(planted) -> None:
    """What is declared as not offered and has a method is not called, and the reason says so."""
    cache = type("Both", (planted.Sound,), {"not_offered": {"evict": "no pool"}})
    report = run_conformance(cache, instances=["TINY"], only=["evict/accepted"])
    found = report.results["evict/accepted"]
    assert found.verdict == "not offered"
    assert found.reason == "no pool; its method evict() is not called"


@pytest.mark.parametrize(
    ("shown", "found", "expected"),
    [
        ([1], "a list", "a mapping"),
        ({"lenght": (0,)}, "unknown variables: lenght", "length"),
        ({"length": 0}, "length is a int", "a tuple of 1 value(s), one for each Handle"),
        ({"length": (0, 0)}, "length has 2 values", "1, one for each Handle"),
        ({"length": ("0",)}, "length has '0' (str) at place 0", "a whole number (an int)"),
        ({"length": (True,)}, "length has True (bool)", "a whole number (an int)"),
        ({"phase": ("READY",)}, "phase has 'READY'", "one of VACANT, DECODE_READY"),
        ({"abi": ("a",)}, "abi has 'a' (str)", "None, or the number of a Abi (an int)"),
        ({"filled": (1,)}, "filled has 1 (int)", "True or False"),
    ],
)
def test_an_observation_that_cannot_be_read_is_an_error(shown, found, expected) -> None:
    """Names, numbers and types are looked at; the message says which is wrong."""
    error = raised(declared(observe=lambda _: shown))
    assert found in error.found
    assert expected in error.expected


def test_variables_that_come_and_go_are_an_error() -> None:
    """What is shown once is shown always, or its rules would be skipped in silence."""

    def observe(self):
        self.seen = getattr(self, "seen", 0) + 1
        return {"length": (0,)} if self.seen < 2 else {}

    def evict(self, b):
        raise RefusedByCacheError

    adapter = declared(
        observe=observe, evict=evict, not_offered={n: "x" for n in system.actions if n != "evict"}
    )
    assert "length came or went" in raised(adapter).found


def test_a_variable_that_is_shown_on_small_instances_alone_is_an_error(planted) -> None:
    """What is shown on one instance is shown on all, or its rules would count there as kept."""

    class ShowsLess(planted.Sound):
        def observe(self):
            seen = self.seen()
            is_small = self.machine.instance.sizes["Layer"] == 1
            return seen if is_small else {n: seen[n] for n in seen if n != "k_rows"}

    with pytest.raises(AdapterError, match="on LONG another set than before: k_rows came or went"):
        run_conformance(ShowsLess, instances=["TINY", "LONG"])


def test_a_length_beyond_the_bounds_is_what_the_cache_shows() -> None:
    """A wrong value of the right type is a break, not an error of the adapter."""
    report = run_conformance(declared(observe=lambda _: {"length": (7,)}), instances=["TINY"])
    assert report.results["cache/starts-blank"].verdict == "breaks"


@pytest.mark.parametrize("method", ["reset", "damage", "can_try"])
def test_an_adapter_that_raises_where_no_call_is_made_is_an_error(method) -> None:
    """reset(), damage() and can_try() are the adapter's own: they give no verdict on the cache."""

    def fail(*_):
        raise ZeroDivisionError("oops")

    def evict(self, b):
        raise RefusedByCacheError

    body = {"evict": evict, "not_offered": {n: "x" for n in system.actions if n != "evict"}}
    assert "ZeroDivisionError: oops" in raised(declared(**{method: fail}, **body)).found


def test_a_method_that_returns_false_is_an_error() -> None:
    """A refusal is an exception; a False that was meant as one would pass for an acceptance."""
    adapter = declared(
        evict=lambda self, b: False, not_offered={n: "x" for n in system.actions if n != "evict"}
    )
    assert "raise RefusedByCacheError" in raised(adapter).do


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("nothing", "nothing"),
        ("no_such_module:make", "no module no_such_module"),
        ("json:make_cache", "no function or class make_cache"),
        ("json:dumps", "TypeError"),
        ("collections:OrderedDict", "a OrderedDict without reset, observe"),
        (".json:dumps", "TypeError"),
    ],
)
def test_a_target_that_makes_no_cache_is_an_error(target, found) -> None:
    """The message says what is missing."""
    assert found in raised(target).found


def test_an_unknown_rule_is_an_error() -> None:
    """The message has the nearest identifier."""
    error = raised(declared(), only=["publish/STALE"])
    assert "publish/STALE_" in error.expected


def test_a_cache_that_shows_and_offers_nothing_is_unknown() -> None:
    """What was not judged is no pass: everything is declared, and nothing holds."""
    report = run_conformance(declared(), instances=["TINY"])
    assert report.verdict == "unknown"
    assert {r.verdict for r in report.results.values() if r.rule.action} == {"not offered"}
    assert report.results["publish/accepted"].reason == "a test"


def test_a_partial_adapter_is_judged_in_part(tested) -> None:
    """A plain list of rows: what it has not is not offered, with the reason; what it lets through is told."""
    report = tested("LayerByLayer")
    by_rule = report.results
    assert by_rule["fork/accepted"].reason == "one request, whose rows are appended in place"
    assert by_rule["truncate/length"].reason == "length is not observed"
    assert by_rule["publish/HANDLE_TERMINAL"].verdict == "not offered"
    assert (
        "it arises only after finish, which is not offered"
        in by_rule["publish/HANDLE_TERMINAL"].reason
    )
    assert by_rule["publish/STALE_SNAPSHOT"].verdict == "not enforced"
    assert by_rule["stage_k/keeps-the-rest"].verdict == "breaks"
    assert by_rule["allocate/HANDLE_LIVE"].verdict == "kept"
    assert by_rule["cache/undamaged"].reason == "the adapter has no damage() of its own"
    assert "length" in report.filled


def test_a_claim_is_told_which_values_are_taken_from_the_specification(tested) -> None:
    """A claim that reads what is not shown is judged with what the calls amount to, and says so."""
    page = tested("LayerByLayer").pages["claim/nothing_staged_is_seen"]
    assert "The cache does not show length, version; there the calls so far count." in " ".join(
        page.split()
    )


def test_calls_that_cannot_be_tried_are_counted(tested) -> None:
    """What can_try() declines is told by action; a rule with no other case is not offered."""
    report = tested("LayerByLayer", "LONG")
    assert report.declined["stage_k"] > 0
    assert "stage_k: " in report.table()


def test_a_budget_leaves_rules_unknown(planted) -> None:
    """A run that is cut is never a pass: what was not tried is unknown, with the reason."""
    report = run_conformance(planted.Sound, budget=0.2)
    assert report.verdict == "unknown"
    reasons = {found.reason for found in report.of("unknown")}
    assert all(reason.startswith("the time was up before") for reason in reasons)
    started = time.monotonic()
    nothing = run_conformance(planted.Sound, budget=0)
    assert time.monotonic() - started < 5
    assert {found.verdict for found in nothing.results.values()} == {"unknown"}


@pytest.mark.parametrize("budget", [float("nan"), -5.0])
def test_a_budget_that_is_no_time_is_an_error(budget) -> None:
    """A number that no clock reaches would be no budget."""
    assert raised(declared(), budget=budget).found == str(budget)


def test_rules_can_be_asked_for_by_name(planted) -> None:
    """The report is about them alone, and fewer calls are made."""
    report = run_conformance(
        planted.AcceptsStale, instances=[TINY], only=["publish/STALE_SNAPSHOT"]
    )
    assert list(report.results) == ["publish/STALE_SNAPSHOT"]
    assert report.verdict == "violated"
    assert report.parts[0].calls < 3000


def test_a_factory_keeps_its_name() -> None:
    """A class is named as it is, a text as it was given."""
    assert load_factory(Empty) == (Empty, "Empty")
    factory, name = load_factory("kvspec.properties.stateful.reference:SpecBackend")
    assert inspect.isclass(factory)
    assert name.endswith(":SpecBackend")


class CancelledTask(BaseException):
    """What ends a task, as asyncio's own does: no Exception."""


ENDS = [SystemExit(0), CancelledTask()]


@pytest.mark.parametrize("end", ENDS, ids=str)
@pytest.mark.parametrize("method", ["evict", "observe"])
def test_what_tries_to_end_the_program_is_a_crash(end, method) -> None:
    """sys.exit() or a cancelled task in the cache is a break of its rule, not the end of the suite."""

    class Ends(declared(not_offered={n: "x" for n in system.actions if n != "evict"})):
        is_asked = False

        def reset(self, instance):
            self.is_asked = False

        def evict(self, b):
            self.is_asked = True
            if method == "evict":
                raise end

        def observe(self):
            if self.is_asked:
                raise end
            return {}

    found = run_conformance(Ends, instances=["TINY"]).results["evict/BLOCK_EMPTY"]
    assert found.verdict == "breaks"
    assert type(end).__name__ in found.trace.finding.did


@pytest.mark.parametrize("end", ENDS, ids=str)
@pytest.mark.parametrize("method", ["reset", "observe", "damage", "can_try", "factory"])
def test_what_tries_to_end_the_program_elsewhere_is_an_error(end, method) -> None:
    """In the factory or in the adapter's own methods it is an error of the adapter."""

    def fail(*_, **__):
        raise end

    def evict(self, b):
        raise RefusedByCacheError

    body = {"evict": evict, "not_offered": {n: "x" for n in system.actions if n != "evict"}}
    made = fail if method == "factory" else declared(**{method: fail}, **body)
    assert type(end).__name__ in raised(made).found


def test_words_that_cannot_be_told_are_no_end(planted) -> None:
    """describe() that ends the program leaves the verdicts as they are, and the page says so."""

    class Mute(planted.AcceptsStale):
        def describe(self):
            raise SystemExit(0)

    report = run_conformance(Mute, instances=["TINY"], only=["publish/STALE_SNAPSHOT"])
    assert "describe() raised SystemExit" in report.pages["publish/STALE_SNAPSHOT"]


def test_a_keyboard_interrupt_ends_the_suite() -> None:
    """Whoever waits can stop it."""

    def fail(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_conformance(declared(reset=fail), instances=["TINY"])


def test_a_module_that_ends_the_program_is_an_error(tmp_path, monkeypatch) -> None:
    """sys.exit() at import is told as what it is."""
    (tmp_path / "ends_at_import.py").write_text("import sys\n\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "SystemExit" in raised("ends_at_import:make").found


EVICT = {"not_offered": {n: "x" for n in system.actions if n != "evict"}}


async def late(self, b):
    """Nothing, later."""


def piecemeal(self, b):
    """Nothing, when asked for the next piece."""
    yield


async def _late():
    return []


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"refusals": PermissionError}, "PermissionError"),
        ({"refusals": ("PermissionError",)}, "'PermissionError'"),
        ({"refusals": (KeyboardInterrupt,)}, "KeyboardInterrupt"),
        ({"not_offered": list(system.actions)}, "['evict', 'enter'"),
        ({"not_offered": dict.fromkeys(system.actions)}, "None"),
        ({"name": 3}, "3"),
        ({"damage": lambda _: ["broken"]}, "'broken'"),
        ({"damage": lambda _: 0.25}, "0.25"),
        ({"damage": lambda _: _late()}, "coroutine"),
        ({"reset": lambda _, i: _late()}, "coroutine"),
        ({"observe": lambda _: _late()}, "coroutine"),
        ({"evict": late, **EVICT}, "async def"),
        ({"evict": piecemeal, **EVICT}, "yield"),
        ({"evict": lambda _, b: _late(), **EVICT}, "coroutine"),
        ({"evict": lambda _, b: (n for n in [b]), **EVICT}, "generator"),
        ({"can_try": lambda *_: None, "evict": lambda _, b: None, **EVICT}, "None"),
        ({"can_try": late, "evict": lambda _, b: None, **EVICT}, "async def"),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine")
def test_an_adapter_that_is_made_wrong_is_an_error(body, found) -> None:
    """What is declared in another form, or runs only later, is told as an error of the adapter."""
    assert found in raised(declared(**body)).found


@pytest.mark.parametrize("text", ["raise RuntimeError('no gpu')", "def f(:", "import no_such_lib"])
def test_a_module_that_cannot_be_imported_is_an_error(text, tmp_path, monkeypatch) -> None:
    """Whatever its import raises is told, and where to see it."""
    (tmp_path / "cannot_be_imported.py").write_text(f"{text}\n")
    monkeypatch.syspath_prepend(tmp_path)
    error = raised("cannot_be_imported:make")
    assert error.where == "the import of cannot_be_imported"
    assert any(part in error.found for part in ("no gpu", "SyntaxError", "no_such_lib"))


def test_a_refusal_with_an_empty_code_tells_none() -> None:
    """An empty text is no code, so that it is no wrong one."""

    def evict(self, b):
        raise RefusedByCacheError("")

    report = run_conformance(declared(evict=evict, **EVICT), instances=["TINY"])
    found = report.results["evict/BLOCK_EMPTY"]
    assert (found.verdict, found.untold) == ("kept", found.tried)


def test_an_adapter_with_a_helper_named_perform_is_an_adapter(planted) -> None:
    """A method of this name makes no Backend of it."""

    class Performs(planted.Sound):
        def perform(self, event):
            raise AssertionError(event)

    report = run_conformance(Performs, instances=["TINY"], only=["evict/BLOCK_EMPTY"])
    assert report.verdict == "holds"


def test_a_backend_that_gives_no_reply_is_an_error() -> None:
    """So is one that is returned as its class."""

    class Mute(SpecBackend):
        def perform(self, event):
            return None

    assert "perform() of Mute returned no reply" in raised(Mute).message
    assert raised(lambda: Mute).found == "a type"
