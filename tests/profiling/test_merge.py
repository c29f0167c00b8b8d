"""Parts of profiles added up, and as tables."""

from __future__ import annotations

import re

from sundog.profiling import memory, merge
from sundog.profiling.rows import Allocation, LineTimes, MemoryProfile, Part
from tests.profiling.parts import HOT, F, profile, sampled


def test_samples_of_several_processes_are_added_by_remote_function() -> None:
    first, second = merge.by_function([sampled(1), sampled(2)])
    assert (first.label, first.seconds, first.samples, first.hottest) == ("f", 7.0, 700, HOT)
    assert second.label == "g"
    text = merge.table(profile("cpu", sampled(1), sampled(2)))
    assert "2.0% of one processor" in text and "f.py:7 hot (86%)" in text


def test_lines_and_memory_are_added_over_calls_and_processes() -> None:
    part = Part(1, "worker", "s", lines=[LineTimes("/x/f.py", 1, "f", {2: (10, 0.5), 3: (1, 0.1)})])
    (found,) = merge.lines_of([part, part._replace(pid=2)])
    assert found.lines == {2: (20, 1.0), 3: (2, 0.2)}
    one = MemoryProfile(9, [], [Allocation("f", (F, HOT), 5 << 20, 2)], {"f": (3, 9)})
    two = memory.add(one, one._replace(peak_bytes=12, calls={"f": (1, 12)}))
    assert two.kept[0].size_bytes == 10 << 20 and two.calls == {"f": (4, 12)} and two.peak_bytes == 12
    text = merge.table(profile("memory", Part(1, "worker", "s", memory=two)))
    assert re.search(r"10\.00 +4 +f +f\.py:7 hot", text), text


def test_a_profile_in_which_nothing_was_allocated_says_so() -> None:
    text = merge.table(profile("memory", Part(1, "worker", "s", memory=MemoryProfile(1 << 20, [], [], {}))))
    assert "Nothing was allocated while it was measured" in text
    assert "Not freed" not in text
