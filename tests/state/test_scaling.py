"""Which nodes to start for work that waits."""

from __future__ import annotations

from sundog.state.scaling import NodeType, to_start

SMALL = NodeType("small", {"CPU": 2.0}, {}, 0, 3)
LARGE = NodeType("large", {"CPU": 8.0, "GPU": 1.0}, {}, 0, 1)
TYPES = [LARGE, SMALL]


def test_the_smallest_type_that_fits_is_started_and_filled() -> None:
    assert to_start(TYPES, {}, [], [{"CPU": 1.0}] * 4, 8) == ["small", "small"]
    assert to_start(TYPES, {}, [], [{"GPU": 1.0}], 8) == ["large"]


def test_work_that_fits_in_what_is_free_starts_nothing() -> None:
    assert to_start(TYPES, {"small": 1}, [{"CPU": 2.0}], [{"CPU": 1.0}] * 2, 8) == []
    assert to_start(TYPES, {"small": 1}, [{"CPU": 2.0}], [{"CPU": 1.0}] * 3, 8) == ["small"]


def test_each_type_and_all_together_have_a_limit() -> None:
    assert to_start(TYPES, {"small": 2}, [], [{"CPU": 2.0}] * 9, 8) == ["small", "large"]
    assert to_start(TYPES, {"small": 2}, [], [{"CPU": 2.0}] * 9, 3) == ["small"]


def test_the_least_number_is_started_without_work() -> None:
    assert to_start([SMALL._replace(min_count=2)], {"small": 1}, [{"CPU": 0.0}], [], 8) == ["small"]


def test_what_no_type_could_meet_starts_nothing() -> None:
    assert to_start(TYPES, {}, [], [{"CPU": 9.0}, {"TPU": 1.0}], 8) == []
