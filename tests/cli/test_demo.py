"""`sundog demo`: what it reads from a timeline, from made-up recordings."""

from sundog.cli.demo import Summary, summarise


def bar(name: str, start_s: float, seconds: float, worker: str = "w1") -> dict[str, object]:
    kind = "actor_task" if "." in name else "task"
    return {
        "ph": "X",
        "cat": kind,
        "name": name,
        "ts": start_s * 1e6,
        "dur": seconds * 1e6,
        "tid": worker,
    }


def test_calls_are_added_up_by_function_in_order_of_their_first_call() -> None:
    events = [bar("late", 5, 1), bar("early", 0, 1), bar("early", 2, 1, "w2")]
    assert summarise(events) == [Summary("early", 2, 2.0, 3.0, 2), Summary("late", 1, 1.0, 1.0, 1)]


def test_phases_waits_arrows_and_constructors_are_not_counted() -> None:
    events: list[dict[str, object]] = [
        bar("work", 0, 1),
        {**bar("execute", 0, 1), "cat": "phase"},
        {**bar("get", 0, 1), "cat": "driver"},
        {**bar("submit work", 0, 1), "cat": "submit"},
        {**bar("Counter.__init__", 0, 1), "cat": "actor_creation"},
        {"ph": "s", "cat": "flow", "ts": 0, "id": 1},
        {"ph": "M", "name": "process_name"},
    ]
    assert [summary.name for summary in summarise(events)] == ["work"]


def test_an_empty_recording_has_no_summary() -> None:
    assert summarise([]) == []


def test_a_recording_of_no_length_has_no_overlap_rather_than_an_error() -> None:
    assert Summary("work", 1, 0.0, 0.0, 1).at_a_time == 0.0
