"""The cells of `sundog top` and `sundog status -v`."""

from sundog.cli import top_rows
from sundog.observe.activity import Activity, Function, WorkerActivity
from sundog.wire.looks import RunningCall, Who


def worker(pid: int, *calls: RunningCall, kind: str = "worker", silent: bool = False) -> WorkerActivity:
    who = Who(pid, f"{pid:x}", kind, "leased", "01", float(pid), entrypoint="train.py")
    return WorkerActivity(who, calls, silent, core_share=0.5, rss_bytes=2048, own_bytes=1024)


def look(*workers: WorkerActivity) -> Activity:
    functions = [Function("a", done=1, total_s=9.0), Function("b", failed=2, running=1, waiting=1, rate=3.0)]
    status = {"uptime_s": 5.0, "pending": [{"waited_s": 2.0, "why": "all CPUs are in use"}]}
    memory, store = {"used_bytes": 1024, "total_bytes": 2048}, {"used_bytes": 0, "limit_bytes": 2048}
    return Activity(100.0, functions, list(workers), 0.25, 4, memory, store, status)


def test_functions_are_sorted_by_what_the_user_chose() -> None:
    names = {
        key: [name for name, _ in top_rows.function_rows(look(), key)] for key in top_rows.FUNCTION_SORTS
    }
    assert names["active"] == names["failures"] == ["b", "a"]
    assert names["time"] == names["name"] == ["a", "b"]
    cells = dict(zip(top_rows.FUNCTION_COLUMNS, dict(top_rows.function_rows(look(), "name"))["b"]))
    assert (cells["done"], cells["running"], cells["failed"], cells["rate"]) == ("0", "1", "2", "3.0/s")


def test_a_worker_says_what_it_runs_for_how_long_and_whether_it_answers() -> None:
    rows = dict(
        top_rows.worker_rows(
            look(
                worker(1, kind="driver"),
                worker(2, RunningCall("t", "f", 98.0)),
                worker(3, RunningCall("t", "f", 0.0), silent=True),
                worker(4, *(RunningCall(str(number), "g", 99.0) for number in range(5))),
                worker(5),
            ),
            "start",
        )
    )
    assert [row[2:4] for row in rows.values()] == [
        ("", ""),
        ("f", "2.0 s"),
        ("f (no answer)", ""),
        ("5 × g", "1.0 s"),
        ("idle", ""),
    ]
    assert rows["2"][4:] == ("50%", "2.0 KiB", "1.0 KiB")


def test_the_lines_above_say_what_the_machine_does_and_what_waits() -> None:
    text = top_rows.headline("session_x", look(worker(2, RunningCall("t", "f", 98.0))))
    assert "1 running, 1 waiting, 2 failed" in text
    assert " 25% of 4 cores" in text and "waits 2.0 s: all CPUs are in use" in text


def test_a_bar_never_leaves_its_width() -> None:
    assert {len(top_rows.bar(part, 3)) for part in (0, 0.01, 1, 2.999, 3, 99)} == {16}
    assert top_rows.bar(1, 0).strip() == ""
