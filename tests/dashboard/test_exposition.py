"""The text that Prometheus reads."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from sundog.dashboard.exposition import user_families
from sundog.dashboard.figures import MetricFamily
from sundog.dashboard.text_format import render
from sundog.observe.metric_files import COUNTER, GAUGE, HISTOGRAM, Series, SeriesKey


def parsed(families: list[MetricFamily]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = render(families).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_user_metrics_have_rays_name_and_ours() -> None:
    series = [
        Series(SeriesKey("seen", COUNTER, "how many", (("http-status", 'a"b\n'),)), (3.0,)),
        Series(SeriesKey("depth", GAUGE, "", ()), (7.0, 1.0), "ab"),
        Series(SeriesKey("took", HISTOGRAM, "", (), (1.0, 5.0)), (9.0, 1.0, 2.0, 1.0)),
    ]
    found = parsed(user_families(series, {}, set()))
    for prefix in ("ray_", "sundog_"):
        assert found[f"{prefix}seen_total", (("http_status", 'a"b\n'),)] == 3.0
        assert found[f"{prefix}depth", (("WorkerId", "ab"),)] == 7.0
        assert found[f"{prefix}took_bucket", (("le", "5.0"),)] == 3.0
        assert found[f"{prefix}took_bucket", (("le", "+Inf"),)] == 4.0
        assert found[f"{prefix}took_count", ()] == 4.0
        assert found[f"{prefix}took_sum", ()] == 9.0


def test_a_user_metric_never_replaces_one_of_ours_nor_another_of_its_name() -> None:
    series = [
        Series(SeriesKey("tasks", GAUGE, "", ()), (1.0, 1.0), "ab"),
        Series(SeriesKey("x", COUNTER, "", ()), (1.0,)),
        Series(SeriesKey("x", GAUGE, "", ()), (5.0, 1.0), "ab"),
    ]
    found = user_families(series, {}, {"ray_tasks", "sundog_tasks"})
    assert [(family.name, family.kind) for family in found] == [("ray_x", "counter"), ("sundog_x", "counter")]


def test_series_of_one_family_may_have_different_labels() -> None:
    family = MetricFamily("sundog_x", "gauge", "help")
    family.add(1, a="1")
    family.add(2, b="2")
    assert parsed([family]) == {
        ("sundog_x", (("a", "1"), ("b", ""))): 1.0,
        ("sundog_x", (("a", ""), ("b", "2"))): 2.0,
    }
