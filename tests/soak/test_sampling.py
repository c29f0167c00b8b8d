"""The soak's readings: what lasts has a line of its own, what comes and goes has one together; all of it is drawn."""

from __future__ import annotations

import os
from pathlib import Path

from tests.soak.judge import DESCRIPTORS, MEMORY, judge
from tests.soak.picture import draw
from tests.soak.sampling import Sample, children_of, folder_of, lines_of, status_of


def samples(count: int = 40) -> list[tuple[float, Sample]]:
    """A worker 7 that stays, and others in each sample: one, and from the middle on two."""
    return [
        (
            float(at),
            {
                "memory of the node": 10.0 + at,
                "memory of worker 7": 5.0,
                f"memory of worker {100 + at}": 3.0,
                **({f"memory of worker {200 + at}": 3.0} if at >= count // 2 else {}),
                "descriptors of the node": 12.0,
                "processes": 4.0,
            },
        )
        for at in range(count)
    ]


def test_workers_that_come_and_go_are_one_line_however_many_there_are_at_a_moment() -> None:
    others = "memory of workers that come and go, each"
    lines = {line.name: line for line in lines_of(samples())}
    assert {"memory of worker 7", "memory of the node", others} <= lines.keys()
    assert not any(name.startswith(("memory of worker 1", "memory of worker 2")) for name in lines)
    assert {value for _, value in lines[others].points} == {3.0}
    assert lines["memory of the node"].kind is MEMORY
    assert lines["descriptors of the node"].kind is DESCRIPTORS


def test_a_picture_shows_each_line_and_names_what_grows() -> None:
    verdicts = [judge(line) for line in lines_of(samples())]
    text = draw(verdicts, "A soak <of> 40 s")
    assert text.count("<polyline") == len(verdicts)
    assert "A soak &lt;of&gt; 40 s" in text
    assert text.count("GROWS") == 1 and "the node GROWS" in text


def test_a_process_and_a_folder_are_read(tmp_path: Path) -> None:
    memory, threads = status_of(os.getpid())
    assert memory > 1 and threads >= 1
    assert children_of(os.getpid()) is not None
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(bytes(100_000))
    files, megabytes = folder_of(str(tmp_path))
    assert files == 1 and 0.09 < megabytes < 0.2
