"""Points of charts, from facts and tasks."""

from __future__ import annotations

from sundog.dashboard.facts import Fact, FactTail
from sundog.dashboard.page.charts import machine_series, metrics_html, rate_series
from sundog.dashboard.stream import TaskStream
from sundog.observe.metric_files import COUNTER, GAUGE, HISTOGRAM, Series, SeriesKey
from tests.dashboard.test_stream import Rows


def test_samples_of_the_machine_become_points(tmp_path: object) -> None:
    facts = FactTail(str(tmp_path))
    for second in range(1000):
        facts.machine.append(
            Fact(
                float(second),
                "machine",
                "x",
                {"cpu": 0.5, "memory_used": 1, "memory_total": 4, "subject": "x"},
            )
        )
    series = machine_series(facts, 400.0)
    assert series["CPU"][0] == [400_000, 50.0] and series["memory"][0][1] == 25.0
    assert 200 <= len(series["CPU"]) <= 400 and "subject" not in series


def test_functions_beyond_the_first_are_drawn_together() -> None:
    rows, stream = Rows(), TaskStream()
    for name in range(3, 15):
        rows.db.execute("INSERT INTO names VALUES(?, ?)", (name, f"f{name}"))
        for _ in range(20 - name):
            rows.add(1, 1.0, 2.0, name)
    stream.read(rows.index)
    series = rate_series(stream, 1.0, 3.0)
    assert [name for name, _ in series][-1] == "others" and len(series) == 9
    assert sum(point[1] for _, points in series for point in points) == stream.total


def test_user_metrics_are_a_table() -> None:
    series = [
        Series(SeriesKey("seen", COUNTER, "<b>", (("k", "v"),)), (3.0,)),
        Series(SeriesKey("depth", GAUGE, "", ()), (7.5, 1.0), "abcdef0123"),
        Series(SeriesKey("took", HISTOGRAM, "", (), (1.0,)), (9.0, 2.0, 1.0)),
    ]
    text = metrics_html(series)
    for part in ("k=v", "7.5", "process abcdef01", "3 values, mean 3", "&lt;b&gt;"):
        assert part in text
    assert "sundog.util.metrics" in metrics_html([])
