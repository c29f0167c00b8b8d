"""Options and summaries of the state API as objects: what contradicts itself is refused."""

from __future__ import annotations

import pytest

from sundog.util.state.common import (
    ActorSummaries,
    GetApiOptions,
    GetLogOptions,
    Humanify,
    ListApiOptions,
    ObjectSummaries,
    TaskSummaries,
    TaskSummaryPerFuncOrClassName,
)


def test_the_server_gets_a_share_of_the_time_and_at_least_a_second() -> None:
    assert ListApiOptions(timeout=30).timeout == 24 == GetApiOptions(timeout=30).timeout
    assert ListApiOptions(timeout=1).timeout == 1


def test_a_predicate_is_equal_or_not_equal() -> None:
    ListApiOptions(filters=[("state", "!=", "FAILED")])
    with pytest.raises(ValueError, match="'>'"):
        ListApiOptions(filters=[("pid", ">", 5)])


def test_filters_that_no_row_can_meet_are_warned_of() -> None:
    options = ListApiOptions(filters=[("state", "=", "FAILED"), ("state", "=", "RUNNING")])
    with pytest.warns(UserWarning, match="no row matches"):
        assert options.has_conflicting_filters()
    assert not ListApiOptions(filters=[("state", "=", "A"), ("name", "=", "B")]).has_conflicting_filters()


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"node_id": "n"},
        {"node_id": "n", "node_ip": "i", "pid": 3},
        {"actor_id": "a", "suffix": "log"},
        {"actor_id": "a", "media_type": "tail"},
    ],
)
def test_a_log_must_be_named_once_and_fully(given: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        GetLogOptions(timeout=3, **given)  # type: ignore[arg-type]


def test_numbers_of_a_log_may_come_as_text() -> None:
    options = GetLogOptions(timeout=3, node_id="n", pid="12", lines="5")  # type: ignore[arg-type]
    assert (options.pid, options.lines) == (12, 5)


def test_summaries_hold_rows() -> None:
    rows = [{"name": "f", "type": "NORMAL_TASK", "state": "FINISHED"}]
    found = TaskSummaries.to_summary_by_func_name(tasks=rows)
    assert found.summary == {"f": TaskSummaryPerFuncOrClassName("f", "NORMAL_TASK", {"FINISHED": 1})}
    assert ActorSummaries.to_summary(actors=[]).total_actors == 0
    assert ObjectSummaries.to_summary(objects=[]).total_size_mb == 0


def test_figures_for_people() -> None:
    assert Humanify.duration(61_500) == "0:01:01.500000" and Humanify.memory(2048) == "2.000 KiB"
