"""Counters and timers of iterators, shared along a chain."""

from __future__ import annotations

from sundog.util.iter_metrics import MetricsContext, SharedMetrics, Timer


def test_a_timer_counts_its_blocks_and_has_no_mean_before_the_first() -> None:
    timer = Timer()
    assert timer.mean == 0.0
    for _ in range(3):
        with timer:
            pass
    assert timer.count == 3 and 0 <= timer.mean <= timer.total_s


def test_a_block_that_raises_is_counted() -> None:
    timer = Timer()
    try:
        with timer:
            raise ValueError
    except ValueError:
        pass
    assert timer.count == 1


def test_what_is_saved_is_restored_but_for_the_timers() -> None:
    metrics = MetricsContext()
    metrics.counters["rows"] += 5
    metrics.info["epoch"] = 2
    with metrics.timers["load"]:
        pass
    saved = metrics.save()
    metrics.counters["rows"] += 1
    metrics.restore(saved)
    assert metrics.counters == {"rows": 5} and metrics.info == {"epoch": 2} and not metrics.timers


def test_a_context_that_is_set_reaches_every_parent() -> None:
    grandparent = SharedMetrics()
    parent = SharedMetrics(parents=[grandparent])
    child = SharedMetrics(parents=[parent])
    assert grandparent.get() is parent.get() is child.get()
    other = MetricsContext()
    child.set(other)
    assert grandparent.get() is other
