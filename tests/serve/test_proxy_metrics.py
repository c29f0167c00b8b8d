"""The numbers of a proxy: requests, errors and milliseconds, by route, method, application and status."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sundog.serve import proxy_metrics
from sundog.serve.proxy_metrics import ProxyMetrics
from tests.serve.fakes import FakeClock, FakeRegistry


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> FakeRegistry:
    return FakeRegistry(monkeypatch)


def test_every_request_is_counted_by_what_it_asked_for_and_its_status(registry: FakeRegistry) -> None:
    made = ProxyMetrics()
    made.ended("/buy", "GET", 200, "shop", 0.25)
    made.ended("/buy", "GET", 200, "shop", 0.5)
    made.ended("/buy", "POST", 503, "shop", 1.0)
    assert registry.values("serve_num_http_requests") == {
        ("/buy", "GET", "shop", "200"): 2,
        ("/buy", "POST", "shop", "503"): 1,
    }
    assert registry.values("serve_http_request_latency_ms") == {
        ("/buy", "GET", "shop", "200"): 750,
        ("/buy", "POST", "shop", "503"): 1000,
    }


@pytest.mark.parametrize(("status", "is_error"), [(200, False), (399, False), (400, True), (599, True)])
def test_a_status_of_400_or_more_is_an_error(registry: FakeRegistry, status: int, is_error: bool) -> None:
    ProxyMetrics().ended("/", "GET", status, "shop", 0.1)
    expected = {("/", "GET", "shop", str(status)): 1.0} if is_error else {}
    assert registry.values("serve_num_http_error_requests") == expected


def test_requests_that_run_are_written_by_one_timer_however_many_there_are(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, ongoing = FakeClock(), [2, 0]
    monkeypatch.setattr(proxy_metrics.asyncio, "get_running_loop", lambda: cast(Any, clock))
    made = ProxyMetrics()
    for _ in range(3):
        made.watch(lambda: ongoing.pop(0))
    assert len(clock.timers) == 1
    clock.ring()
    assert registry.values("serve_num_ongoing_http_requests") == {(): 2}
    clock.ring()
    assert registry.values("serve_num_ongoing_http_requests") == {(): 0} and clock.timers == []
    made.watch(lambda: 1)
    assert len(clock.timers) == 1
