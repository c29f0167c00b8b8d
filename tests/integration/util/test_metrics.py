"""Counters, gauges and histograms in one process: values, tags, checks, threads, and pickling."""

from __future__ import annotations

import itertools
import pickle
import threading
import warnings
from types import ModuleType
from typing import Any

import pytest

from sundog.util import metrics
from sundog.util.metrics import Counter, Gauge, Histogram

_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    """A metric name that no other test uses: the registry lives as long as the process."""
    return f"metric_of_test_{next(_numbers)}"


def family(name: str) -> metrics.Family:
    [found] = [family for family in metrics.collect() if family.name == name]
    return found


def values(name: str) -> dict[tuple[tuple[str, str], ...], float]:
    return {tuple(sample.tags.items()): sample.value for sample in family(name).samples}


def test_a_counter_adds_up_per_set_of_tags(name: str) -> None:
    counter = Counter(name, description="requests", tag_keys=("route",))
    counter.inc(tags={"route": "a"})
    counter.inc(2.5, tags={"route": "a"})
    counter.inc(1, tags={"route": "b"})
    assert values(name) == {(("route", "a"),): 3.5, (("route", "b"),): 1.0}
    assert (family(name).kind, family(name).description) == ("counter", "requests")


@pytest.mark.parametrize("wrong", [0, -1])
def test_a_counter_never_goes_down(name: str, wrong: int) -> None:
    with pytest.raises(ValueError, match=">0"):
        Counter(name).inc(wrong)


def test_a_gauge_keeps_the_last_value_and_ignores_none(name: str) -> None:
    gauge = Gauge(name)
    gauge.set(5)
    gauge.set(-2)
    gauge.set(None)
    assert values(name) == {(): -2.0}


def test_a_histogram_counts_per_bucket(name: str) -> None:
    histogram = Histogram(name, boundaries=[1.0, 10.0])
    for value in (0.5, 1.0, 7, 100):
        histogram.observe(value)
    [sample] = family(name).samples
    assert sample.buckets == ((1.0, 2), (10.0, 3), (float("inf"), 4))
    assert (sample.count, sample.value) == (4, 108.5)


@pytest.mark.parametrize("boundaries", [None, [], [0, 1], [-1.0]])
def test_a_histogram_needs_positive_boundaries(name: str, boundaries: list[float] | None) -> None:
    with pytest.raises(ValueError):
        Histogram(name, boundaries=boundaries)


def test_default_tags_hold_unless_a_record_says_otherwise(name: str) -> None:
    gauge = Gauge(name, tag_keys=("a", "b")).set_default_tags({"a": "1"})
    gauge.set(1, tags={"b": "2"})
    gauge.set(2, tags={"a": "9", "b": "2"})
    assert values(name) == {(("a", "1"), ("b", "2")): 1.0, (("a", "9"), ("b", "2")): 2.0}
    with pytest.raises(ValueError, match=r"no value: b"):
        gauge.set(3)


def test_wrong_tags_are_refused(name: str) -> None:
    counter = Counter(name, tag_keys=("a",))
    with pytest.raises(ValueError, match="Unrecognized tag key"):
        counter.set_default_tags({"z": "1"})
    with pytest.raises(TypeError):
        counter.set_default_tags({"a": 1})  # type: ignore[dict-item]
    with pytest.raises(TypeError):
        counter.inc(tags={"a": 1})  # type: ignore[dict-item]
    with pytest.raises(TypeError):
        Counter(name, tag_keys="a")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Counter(name, tag_keys=(1,))  # type: ignore[arg-type]


def test_values_must_be_numbers(name: str) -> None:
    records: list[Any] = [
        Counter(name + "_c").inc,
        Gauge(name + "_g").set,
        Histogram(name + "_h", boundaries=[1]).observe,
    ]
    for record in records:
        with pytest.raises(TypeError, match="takes a number"):
            record("1")


def test_an_invalid_name_warns_and_records_nothing() -> None:
    with pytest.warns(UserWarning, match="Invalid metric name"):
        counter = Counter("no-dashes")
    counter.inc()
    assert not [family for family in metrics.collect() if family.name == "no-dashes"]
    with pytest.raises(ValueError):
        Counter("")
    with pytest.warns(FutureWarning, match="colon"):
        Counter("a:b")


def test_two_objects_of_one_name_share_their_values(name: str) -> None:
    Counter(name).inc()
    Counter(name).inc()
    assert values(name) == {(): 2.0}
    Histogram(name + "_h", boundaries=[1.0])
    with pytest.warns(UserWarning, match="boundaries"):
        Histogram(name + "_h", boundaries=[2.0])


def test_info_describes_the_metric(name: str) -> None:
    histogram = Histogram(name, description="d", boundaries=[1.0], tag_keys=("a",)).set_default_tags(
        {"a": "b"}
    )
    assert histogram.info == {
        "name": name,
        "description": "d",
        "tag_keys": ("a",),
        "default_tags": {"a": "b"},
        "boundaries": [1.0],
    }


def test_metrics_survive_pickling_with_their_default_tags(name: str) -> None:
    made = [
        Counter(name + "_c", "d", ("a",)),
        Gauge(name + "_g", "d", ("a",)),
        Histogram(name + "_h", "d", [1.0], ("a",)),
    ]
    for metric in made:
        metric.set_default_tags({"a": "1"})
        copy = pickle.loads(pickle.dumps(metric))
        assert type(copy) is type(metric)
        assert copy.info == metric.info


def test_threads_lose_no_count(name: str) -> None:
    counter = Counter(name)

    def count() -> None:
        for _ in range(2000):
            counter.inc()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values(name) == {(): 8000.0}


def test_an_actor_can_keep_metrics(ray: ModuleType, name: str) -> None:
    class Server:
        def __init__(self, counter: Counter) -> None:
            self.counter = counter

        def serve(self) -> float:
            self.counter.inc(tags={"kind": "get"})
            [found] = [f for f in metrics.collect() if f.name == name]
            return found.samples[0].value

    server = ray.remote(Server).remote(Counter(name, tag_keys=("kind",)))
    assert ray.get([server.serve.remote() for _ in range(3)]) == [1.0, 2.0, 3.0]


def test_a_valid_metric_warns_of_nothing(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Counter(name).inc()
