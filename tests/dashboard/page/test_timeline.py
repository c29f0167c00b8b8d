"""Points of the timeline's chart."""

from __future__ import annotations

from sundog.dashboard.page.timeline import TimelineWindow, color_of, legend, rows_of, window_of
from sundog.dashboard.stream import TaskStream
from tests.dashboard.test_stream import Rows


def made() -> TaskStream:
    rows, stream = Rows(), TaskStream()
    rows.add(1, 1.0, 2.0)
    rows.add(2, 1.5, 2.5, 2, 1)
    stream.read(rows.index)
    return stream


def test_every_process_has_a_lane_and_what_runs_is_drawn_until_now() -> None:
    stream = made()
    labels, data, total = rows_of(stream, stream.bars(0.0, 3.0), [(11, "<b>", 2.5), (99, "h", 2.8)], 3.0)
    assert labels == ["store 12", "worker 11", "worker 99"] and total == 4
    failed, finished, running, elsewhere = data
    assert (failed[0], failed[4], failed[7]) == (0, 1, "g")
    assert finished[1:3] == [1000.0, 2000.0]
    assert (running[0], running[2], running[6], running[7]) == (1, 3000.0, 0, "&lt;b>")
    assert elsewhere[0] == 2


def test_the_window_follows_the_newest_minute_of_a_running_session() -> None:
    window, stream = TimelineWindow(), made()
    window.move(stream, False)
    assert (window.start_s, window.end_s) == (1.0, 2.5)
    window.move(stream, True)
    assert 59.0 < window.end_s - window.start_s < 61.0
    fixed = TimelineWindow(5.0, 6.0, follow=False)
    fixed.move(stream, True)
    assert (fixed.start_s, fixed.end_s) == (5.0, 6.0)


def test_two_functions_have_two_colours_in_chart_and_legend() -> None:
    stream = made()
    assert color_of(stream, 1) != color_of(stream, 2)
    assert color_of(stream, 1) in legend(stream) and "text=g" in legend(stream)


def test_nonsense_in_an_address_shows_the_newest_tasks() -> None:
    assert window_of("1.5", "2.5") == TimelineWindow(1.5, 2.5, follow=False)
    for start, end in (("", ""), ("x", "2"), ("3", "2"), ("nan", "2")):
        assert window_of(start, end) == TimelineWindow()
