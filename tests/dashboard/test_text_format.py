"""The text format of Prometheus, read back by Prometheus' own client."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from sundog.dashboard.figures import MetricFamily
from sundog.dashboard.text_format import number, render


def read(*families: MetricFamily) -> list[tuple[str, dict[str, str], float]]:
    return [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(render(families).decode())
        for sample in family.samples
    ]


def test_labels_and_help_keep_every_character() -> None:
    odd = 'a"b\\n\n\\"{},=é'
    family = MetricFamily("x", "gauge", "two\nlines \\ here")
    family.add(1.5, name=odd, other="")
    assert read(family) == [("x", {"name": odd, "other": ""}, 1.5)]


def test_a_counter_ends_in_total_once() -> None:
    plain, named = MetricFamily("x", "counter", "h"), MetricFamily("y_total", "counter", "h")
    plain.add(1)
    named.add(2)
    assert read(plain, named) == [("x_total", {}, 1.0), ("y_total", {}, 2.0)]


def test_a_histogram_has_buckets_count_and_sum() -> None:
    family = MetricFamily("h", "histogram", "h")
    family.histograms.append(({"a": "b"}, [("1.0", 2.0), ("+Inf", 3.0)], 7.5))
    assert read(family) == [
        ("h_bucket", {"a": "b", "le": "1.0"}, 2.0),
        ("h_bucket", {"a": "b", "le": "+Inf"}, 3.0),
        ("h_count", {"a": "b"}, 3.0),
        ("h_sum", {"a": "b"}, 7.5),
    ]


def test_numbers_that_are_none_are_written_as_prometheus_does() -> None:
    assert [number(each) for each in (1, 0.1, float("-inf"), float("nan"))] == ["1.0", "0.1", "-Inf", "NaN"]


def test_a_family_without_series_is_still_announced() -> None:
    assert render([MetricFamily("x", "gauge", "h")]) == b"# HELP x h\n# TYPE x gauge\n"
