"""The numbers of a replica: what counts as an error, and when levels are written."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sundog.serve.replica_metrics import Level, ReplicaMetrics
from sundog.util import metrics
from tests.serve.fakes import FakeClock, FakeRegistry, replica_id

WHERE = ("Model", "r1", "shop")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> FakeRegistry:
    return FakeRegistry(monkeypatch)


def test_requests_and_errors_are_counted_by_route(registry: FakeRegistry) -> None:
    made = ReplicaMetrics(replica_id())
    for status in ("OK", "200", "404", "499", "CANCELLED"):
        made.ended("/buy", 0.25, status)
    for status in ("ERROR", "500"):
        made.ended("/sell", 0.5, status)
    assert registry.values("serve_deployment_request_counter") == {(*WHERE, "/buy"): 5}
    assert registry.values("serve_deployment_error_counter") == {(*WHERE, "/sell"): 2}
    assert registry.values("serve_deployment_processing_latency_ms") == {
        (*WHERE, "/buy"): 1250,
        (*WHERE, "/sell"): 1000,
    }


def test_metrics_are_not_made_before_a_request_has_ended(registry: FakeRegistry) -> None:
    ReplicaMetrics(replica_id())
    assert metrics.collect() == [] and registry.values("serve_deployment_request_counter") == {}


def test_a_replica_that_starts_is_counted_and_healthy(registry: FakeRegistry) -> None:
    ReplicaMetrics(replica_id()).started()
    assert registry.values("serve_deployment_replica_starts") == {(*WHERE, ""): 1}
    assert registry.values("serve_deployment_replica_healthy") == {WHERE: 1}


def test_health_follows_the_last_check(registry: FakeRegistry) -> None:
    made = ReplicaMetrics(replica_id())
    for answer in (True, False):
        made.is_healthy(answer)
        assert registry.values("serve_deployment_replica_healthy") == {WHERE: int(answer)}


def test_a_level_is_written_while_it_is_not_zero_and_once_more_when_it_is(registry: FakeRegistry) -> None:
    clock, ongoing = FakeClock(), [3, 1, 0]
    gauge = ReplicaMetrics(replica_id()).gauge("level", "Requests.")
    level = Level(cast(Any, clock), gauge, lambda: ongoing.pop(0))
    assert clock.timers == [] and not level.is_watched
    level.watch()
    for value, is_watched in ((3, True), (1, True), (0, False)):
        clock.ring()
        assert registry.values("level") == {WHERE: value} and level.is_watched is is_watched
    assert clock.timers == []
