"""User metrics reach the exporter from the driver and from every worker, also after a worker was killed."""

from __future__ import annotations

import os
import signal

import pytest
from prometheus_client.parser import text_string_to_metric_families

import sundog
from sundog.dashboard.exposition import Exporter
from sundog.observe.sessions import open_session
from sundog.owner import context
from sundog.util.metrics import Counter, Gauge, Histogram
from tests.integration.gates import await_true


def test_metrics_of_all_processes_are_exported_and_outlive_them() -> None:
    Counter("before_init").inc(2)
    sundog.init(num_cpus=2, log_to_driver=False)
    path = str(context.facts.session["path"])
    try:

        @sundog.remote(max_retries=0)
        def serve(number: int) -> int:
            Counter("served", tag_keys=("even",)).inc(tags={"even": str(number % 2 == 0)})
            Histogram("took", boundaries=[1.0, 3.0]).observe(number)
            Gauge("last").set(number)
            if number == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            return number

        assert sundog.get([serve.remote(number) for number in range(5)]) == list(range(5))
        with pytest.raises(sundog.exceptions.WorkerCrashedError):
            sundog.get(serve.remote(5))
        await_true(lambda: open_session(path).is_live, "the session is told of")
        exporter = Exporter(open_session(path))
        # The node adds up what the dead counted, and removes their files.
        await_true(lambda: os.path.exists(f"{path}/metrics/folded.json"), "the dead are added up")
        _check(exporter)
        await_true(lambda: _deaths(exporter) == 1.0, "the death is counted")
    finally:
        sundog.shutdown()
    ended = Exporter(open_session(path))
    _check(ended)
    assert _values(ended)["sundog_up", ()] == 0.0


def _values(exporter: Exporter) -> dict[tuple[str, tuple[str, ...]], float]:
    from sundog.dashboard.exposition import render

    found = {}
    for family in text_string_to_metric_families(render(exporter.families()).decode()):
        for sample in family.samples:
            labels = {
                key: value for key, value in sample.labels.items() if key not in ("SessionName", "WorkerId")
            }
            found[sample.name, tuple(labels.values())] = sample.value
    return found


def _deaths(exporter: Exporter) -> float:
    return _values(exporter).get(("sundog_process_deaths_total", ("signal",)), 0.0)


def _check(exporter: Exporter) -> None:
    found = _values(exporter)
    assert found["ray_before_init_total", ()] == 2.0
    assert found["ray_served_total", ("True",)] == 3.0
    assert found["ray_served_total", ("False",)] == 3.0
    assert found["ray_took_bucket", ("3.0",)] == 4.0
    assert found["ray_took_sum", ()] == 15.0
    assert ("sundog_last", ()) in found
