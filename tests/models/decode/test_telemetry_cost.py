"""What telemetry costs is measured, and stays of the order of the work that it tells of."""

import pytest

pytest.importorskip("prometheus_client")
pytest.importorskip("opentelemetry.sdk")

from kvspec.models.decode.telemetry_cost import ALL, BARE, LOG, measure, text


@pytest.mark.bench
def test_telling_costs_less_than_the_work_it_tells_of() -> None:
    """With log, spans and metrics a tiny decoder takes less than twice the CPU time of telling nothing."""
    found = measure(requests=2, steps=8, repeats=7)
    assert list(found) == [BARE, LOG, ALL]
    assert len({cost.steps for cost in found.values()}) == 1
    assert found[BARE].events == 0
    assert found[LOG].events == found[ALL].events > 50
    assert found[ALL].cpu_seconds < 2 * found[BARE].cpu_seconds, text(found)
    assert text(found).count("decode steps/s") == 3
