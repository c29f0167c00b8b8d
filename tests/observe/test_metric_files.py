"""User metrics in files: what is read of living and dead processes."""

from __future__ import annotations

import os
from pathlib import Path

from sundog.observe import metric_files
from sundog.observe.metric_files import COUNTER, GAUGE, HISTOGRAM, MetricFile, SeriesKey

ONE, TWO = b"\x01" * 8, b"\x02" * 8
SEEN = SeriesKey("seen", COUNTER, "how many", (("route", "ä"),))
DEPTH = SeriesKey("depth", GAUGE, "", ())
TOOK = SeriesKey("took", HISTOGRAM, "", (), (1.0, 5.0))


def write(path: Path, process: bytes, key: SeriesKey, *values: float) -> None:
    file = MetricFile(str(path), process)
    at = file.add(key)
    for index, value in enumerate(values, at):
        file.values[index] = value
    file.close()


def test_what_a_process_wrote_is_read_back_with_its_tags(tmp_path: Path) -> None:
    write(tmp_path, ONE, SEEN, 3.0)
    [found] = metric_files.read(str(tmp_path))
    assert (found.key, found.values, found.process) == (SEEN, (3.0,), ONE.hex())


def test_a_file_grows_with_the_number_of_series(tmp_path: Path) -> None:
    file = MetricFile(str(tmp_path), ONE)
    for number in range(500):
        at = file.add(SeriesKey(f"metric_{number}", COUNTER, "x" * 50, ()))
        file.values[at] = number
    file.close()
    assert [each.values[0] for each in metric_files.read(str(tmp_path))] == list(map(float, range(500)))


def test_counters_and_histograms_are_added_up_and_gauges_are_not(tmp_path: Path) -> None:
    for process in (ONE, TWO):
        file = MetricFile(str(tmp_path), process)
        for key, values in ((SEEN, (2.0,)), (DEPTH, (7.0, 0.0)), (TOOK, (4.0, 1.0, 0.0, 1.0))):
            at = file.add(key)
            for index, value in enumerate(values, at):
                file.values[index] = value
        file.close()
    found = metric_files.summed(metric_files.read(str(tmp_path)))
    assert [each.values for each in found if each.key == SEEN] == [(4.0,)]
    assert [each.values for each in found if each.key == TOOK] == [(8.0, 2.0, 0.0, 2.0)]
    assert [each.process for each in found if each.key == DEPTH] == [ONE.hex(), TWO.hex()]


def test_a_dead_process_is_folded_once_and_its_file_removed(tmp_path: Path) -> None:
    write(tmp_path, ONE, SEEN, 3.0)
    assert metric_files.fold(str(tmp_path), ONE, now=100.0)
    assert not metric_files.fold(str(tmp_path), ONE, now=100.0)
    assert os.listdir(tmp_path / "metrics") == ["folded.json"]
    write(tmp_path, ONE, SEEN, 3.0)  # as a reader sees it that lists files before the node removes one
    [found] = metric_files.read(str(tmp_path), now=100.0)
    assert found.values == (3.0,)


def test_the_gauge_of_a_dead_process_is_shown_for_some_time(tmp_path: Path) -> None:
    write(tmp_path, ONE, DEPTH, 7.0, 0.0)
    metric_files.fold(str(tmp_path), ONE, now=100.0)
    assert len(metric_files.read(str(tmp_path), now=101.0)) == 1
    assert metric_files.read(str(tmp_path), now=101.0 + metric_files.GAUGE_KEPT_S) == []


def test_a_broken_file_is_read_as_far_as_it_is_whole(tmp_path: Path) -> None:
    write(tmp_path, ONE, SEEN, 3.0)
    [path] = (tmp_path / "metrics").iterdir()
    good = path.read_bytes()
    for data in (b"", good[:5], b"x" * 100, good[:20], good[:16] + b"\xff" * 64, good[:24] + b"{" * 4000):
        path.write_bytes(data)
        assert metric_files.read(str(tmp_path)) == []


def test_too_many_series_are_refused(tmp_path: Path) -> None:
    file = MetricFile(str(tmp_path), ONE)
    added = 0
    try:
        for added in range(100):
            file.add(SeriesKey("long", COUNTER, "x" * 100_000, (("n", str(added)),)))
    except OSError as error:
        assert "too many" in str(error)
    file.close()
    assert 0 < added < 99
    assert len(metric_files.read(str(tmp_path))) == added
