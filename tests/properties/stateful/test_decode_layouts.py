"""The torch cache with a sliding window, and offloaded to the host, held against the core system.

In TINY and LAYERS no row may be dropped: with as many rows as they allow, a truncation leads back to where
each is read. There the window parts the queries from rows of the prompt, which stand in a block. In the
two instances below rows are dropped.
"""

from collections.abc import Iterator

import pytest

from kvspec.properties.core import properties
from kvspec.properties.stateful import StatefulReport, make_plan, run
from kvspec.spec import core
from kvspec.spec.language import Instance

torch = pytest.importorskip("torch")

CLAIMS = list(properties.by_name.values())

LONGER = core.make_instance(
    "LONGER",
    "one request of up to four rows in two layers, of which a truncation takes one back",
    handles=1,
    txns=1,
    layers=2,
    longest=4,
    rewinds=1,
    versions=2,
)
FORWARD = core.make_instance(
    "FORWARD",
    "LAYERS without rewinding",
    handles=1,
    txns=1,
    layers=2,
    abis=2,
    keys=2,
    longest=2,
    versions=2,
    generations=2,
    rewinds=0,
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """The tensors are tiny, so threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def hold(
    instance: Instance, layout: str, window: int | None, walks: int, examples: int
) -> tuple[StatefulReport, int]:
    """One run of a decode backend, and the most rows that a reader found dropped."""
    from kvspec.models.decode.backend import DecodeBackend
    from kvspec.models.decode.backend_reading import NotReadableError

    class Counting(DecodeBackend):
        dropped = 0

        def damage(self):
            for handle in range(instance.sizes["Handle"]):
                try:
                    rows = self.read(handle).entry.rows
                except NotReadableError:
                    continue
                pairs = zip(rows.lengths(), rows.kept(), strict=True)
                self.dropped = max(self.dropped, *(long[0] - kept[0] for long, kept in pairs))
            return super().damage()

    backend = Counting(layout, window=window)
    plan = make_plan(instance, CLAIMS, most=walks)
    report = run(instance, CLAIMS, lambda: backend, max_examples=examples, profile="ci", plan=plan)
    return report, backend.dropped


CACHES = [("window", 1), ("window", 2), ("offloaded", None)]


@pytest.mark.parametrize(("layout", "window"), [CACHES[0], CACHES[2]])
def test_all_that_tiny_allows_is_done(layout: str, window: int | None) -> None:
    """Every one of TINY's 519 transitions, every action and every refusal (D2)."""
    report, dropped = hold(core.TINY, layout, window, walks=1200, examples=40)
    assert report.holds, report.text()
    assert report.touched == report.transitions == 519
    assert dropped == 0


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "window"), CACHES)
@pytest.mark.parametrize(
    ("instance", "transitions"),
    [(core.LAYERS, 3000), (core.RACE, 2000), (core.BRANCH, 4000)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_part_of_what_larger_instances_allow_is_done(
    instance: Instance, transitions: int, layout: str, window: int | None
) -> None:
    """Every action and refusal of LAYERS, RACE and BRANCH, and a few thousand transitions each."""
    report, _ = hold(instance, layout, window, walks=100, examples=24)
    assert report.holds, report.text()
    assert report.touched >= transitions, report.text()


@pytest.mark.parametrize(
    ("instance", "window", "dropped"),
    [(LONGER, 1, 2), (LONGER, 2, 1), (FORWARD, 1, 1)],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a_cache_that_drops_rows_is_as_specified(
    instance: Instance, window: int, dropped: int
) -> None:
    """Lengths and logits are as specified while rows behind window and rewind are gone (D2)."""
    report, most = hold(instance, "window", window, walks=60, examples=12)
    assert report.holds, report.text()
    assert report.touched >= 1000, report.text()
    assert most == dropped == instance.constants["context"] - window - instance.constants["rewind"]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "length"), [("window_early", 8), ("row_as_position", 12)])
def test_a_window_that_is_off_is_caught(
    fault: str, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row dropped too early, or a position counted from the wrong row, shows as harm (D4)."""
    from kvspec.models.decode import LayoutFaults

    faults = LayoutFaults(**{fault: True})
    monkeypatch.setattr("kvspec.models.decode.backend.layout_faults", lambda _: faults)
    report, _ = hold(FORWARD, "window", 1, walks=60, examples=12)
    assert report.verdict == "violated", report.text()
    assert report.failure is not None
    assert (report.failure.kind, report.failure.length) == ("damage", length), report.text()
