"""The state API: rows of a running session, filters, limits, summaries."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import os
import threading
from types import ModuleType
from typing import Any

import pytest

from sundog.util import state
from sundog.util.state import api
from sundog.util.state.exception import RayStateApiException, ServerUnavailable
from sundog.util.state.summary import count_actors, count_objects, count_tasks
from sundog.wire.requests import ListRows, Status
from tests.integration.gates import await_true


@pytest.fixture
def counter(ray: ModuleType) -> Any:
    """An actor with a name, ready to be listed."""

    class Counter:
        def ready(self) -> bool:
            return True

    made = ray.remote(num_cpus=0)(Counter).options(name="listed").remote()
    assert ray.get(made.ready.remote())
    return made


def test_actors_are_listed_with_their_columns(ray: ModuleType, counter: Any) -> None:
    [row] = state.list_actors(filters=[("name", "=", "listed")])
    assert row.state == row["state"] == row.get("state") == "ALIVE"
    assert row.class_name.split(".")[-1] == "Counter"
    assert row.actor_id == counter._actor_id.hex()
    assert isinstance(row.pid, int)
    assert row.required_resources is None
    assert set(row.asdict()) == set(type(row).list_columns())
    [detailed] = state.list_actors(filters=[("name", "=", "listed")], detail=True)
    assert detailed.is_detached is False


def test_actors_are_found_by_the_name_that_their_class_says_it_has(ray: ModuleType) -> None:
    class Local:
        def ready(self) -> bool:
            return True

    cls = ray.remote(num_cpus=0)(Local)
    made = cls.remote()
    assert ray.get(made.ready.remote())
    name = cls.__ray_metadata__.class_name
    assert name == Local.__qualname__ != Local.__name__
    [row] = state.list_actors(filters=[("class_name", "=", name), ("state", "=", "ALIVE")])
    assert row.actor_id == made._actor_id.hex()
    assert repr(made) == f"Actor({name}, {row.actor_id})"


def test_calls_that_wait_in_an_actor_which_runs_several_wait_for_their_turn(ray: ModuleType) -> None:
    class Slow:
        async def hold(self, gate: Any) -> None:
            await gate[0]

        async def work(self) -> int:
            return 1

    @ray.remote(num_cpus=0)
    class Gate:
        def __init__(self) -> None:
            self.opened = threading.Event()

        def wait(self) -> None:
            self.opened.wait()

        def open(self) -> None:
            self.opened.set()

    gate = Gate.options(max_concurrency=2).remote()
    slow = ray.remote(num_cpus=0)(Slow).options(max_concurrency=1).remote()
    held = slow.hold.remote([gate.wait.remote()])
    behind = [slow.work.remote() for _ in range(3)]
    wanted = [("name", "=", "Slow.work"), ("state", "=", "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY")]
    await_true(lambda: len(state.list_tasks(filters=wanted)) == 3, "the calls to be in the actor's process")
    ray.get(gate.open.remote())
    assert ray.get([held, *behind]) == [None, 1, 1, 1]


def test_an_actor_is_found_by_its_id(ray: ModuleType, counter: Any) -> None:
    found = state.get_actor(counter._actor_id.hex())
    assert found is not None and found.name == "listed"
    assert state.get_actor("00" * 16) is None


def test_a_killed_actor_is_listed_as_dead(ray: ModuleType, counter: Any) -> None:
    ray.kill(counter)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(counter.ready.remote())
    assert [row.state for row in state.list_actors(filters=[("name", "=", "listed")])] == ["DEAD"]


def test_filters_are_checked_before_anything_is_asked(ray: ModuleType) -> None:
    with pytest.raises(ValueError, match="predicate"):
        state.list_actors(filters=[("state", "~", "ALIVE")])
    with pytest.raises(ValueError, match="cannot be filtered"):
        state.list_actors(filters=[("death_cause", "=", "x")])
    with pytest.raises(RayStateApiException, match="maximum"):
        state.list_actors(limit=10_001)
    with pytest.raises(ValueError, match="limit=-1"):
        state.list_actors(limit=-1)


def test_a_worker_whose_lease_was_given_back_is_idle_again(ray: ModuleType) -> None:
    @ray.remote
    def pid() -> int:
        return os.getpid()

    ran_in = ray.get(pid.remote())

    def now() -> str:
        rows = ray.api.control(ListRows("workers"))[0]
        return str(next(row["state"] for row in rows if row["pid"] == ran_in))

    assert now() in ("leased", "idle")
    await_true(lambda: now() == "idle", "the worker is idle")
    assert "leased" not in ray.api.control(Status())["workers"]


def test_nodes_workers_and_jobs_are_listed(ray: ModuleType) -> None:
    here = ray.get_runtime_context().get_node_id()
    [node] = state.list_nodes()
    assert (node.node_id, node.state, node.is_head_node) == (here, "ALIVE", True)
    assert node.resources_total["CPU"] == 4
    found = state.get_node(here)
    assert found is not None and found.node_ip == node.node_ip
    drivers = state.list_workers(filters=[("worker_type", "=", "DRIVER")])
    assert len(drivers) == 1
    worker = state.get_worker(drivers[0].worker_id)
    assert worker is not None and worker.pid == drivers[0].pid
    [job] = state.list_jobs()
    assert job.type == "DRIVER"
    assert state.get_job(str(job.job_id)) is not None


def test_tasks_are_listed_and_summarised(ray: ModuleType) -> None:
    @ray.remote
    def listed_task() -> int:
        return 1

    ray.get([listed_task.options(name="listed_task").remote() for _ in range(3)])
    rows = state.list_tasks(filters=[("name", "=", "listed_task")])
    assert [row.state for row in rows] == ["FINISHED"] * 3
    assert {row.type for row in rows} == {"NORMAL_TASK"}
    found = state.get_task(rows[0].task_id)
    assert isinstance(found, type(rows[0])) and found.task_id == rows[0].task_id
    summary = state.summarize_tasks()["cluster"]
    assert summary["summary"]["listed_task"]["state_counts"] == {"FINISHED": 3}


def test_objects_are_listed(ray: ModuleType) -> None:
    ref = ray.put(b"x" * 1_000_000)
    rows = state.get_objects(ref.hex())
    assert rows and all(row.object_id == ref.hex() for row in rows)
    assert max(row.object_size for row in rows) >= 1_000_000
    assert state.summarize_objects()["cluster"]["total_objects"] >= 1


def test_placement_groups_are_listed(ray: ModuleType) -> None:
    from sundog.util.placement_group import placement_group, remove_placement_group

    group = placement_group([{"CPU": 1}], name="in_state")
    assert group.wait(120)
    [row] = state.list_placement_groups(filters=[("name", "=", "in_state")])
    assert (row.placement_group_id, row.state) == (group.id.hex(), "CREATED")
    assert state.get_placement_group(group.id.hex()) is not None
    remove_placement_group(group)


def test_a_session_that_is_not_there_cannot_be_asked(ray: ModuleType) -> None:
    with pytest.raises(ServerUnavailable, match=r"10\.1\.2\.3"):
        state.list_actors(address="10.1.2.3:6379")


def test_a_process_that_is_in_no_session_asks_without_joining_it(ray: ModuleType) -> None:
    import subprocess
    import sys

    path = ray.get_runtime_context().gcs_address
    program = (
        "import sundog; from sundog.util import state; "
        f"print(len(state.list_jobs({path!r})), len(state.list_jobs()), sundog.is_initialized())"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["1", "1", "False"]


ROWS: list[dict[str, Any]] = [
    {"actor_id": "b", "name": "One", "state": "ALIVE", "pid": 7, "class_name": "A"},
    {"actor_id": "a", "name": None, "state": "DEAD", "pid": None, "class_name": "A", "is_detached": True},
]


@pytest.fixture
def two_actors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that answers every question with the same two rows."""
    monkeypatch.setattr(api, "ask", lambda kind, detail, address, whole: ROWS)


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ([], ["a", "b"]),
        ([("name", "=", "one")], ["b"]),
        ([("NAME", "=", "one")], ["b"]),
        ([("name", "!=", "one")], ["a"]),
        ([("pid", "=", "7")], ["b"]),
        ([("pid", "=", 7)], ["b"]),
        ([("pid", "!=", 7)], ["a"]),
        ([("state", "=", "ALIVE"), ("pid", "=", 8)], []),
        ([("state", "!=", "x"), ("class_name", "=", "a")], ["a", "b"]),
    ],
)
def test_filters_choose_rows(two_actors: None, filters: list[Any], ids: list[str]) -> None:
    assert [row.actor_id for row in state.list_actors(filters=filters)] == ids


def test_details_are_left_out_unless_asked_for(two_actors: None) -> None:
    assert state.list_actors()[0].is_detached is None
    assert state.list_actors(detail=True)[0].is_detached is True


def test_a_limit_cuts_the_list_and_says_so(two_actors: None, caplog: pytest.LogCaptureFixture) -> None:
    assert len(state.list_actors(limit=1)) == 1
    assert "1 of 2 actors" in caplog.text


def test_boolean_columns_read_the_text_of_a_filter() -> None:
    for text in ("true", "True", "1"):
        assert api.matches({"is_alive": True}, [("is_alive", "=", text)])
    assert api.matches({"is_alive": False}, [("is_alive", "=", "false")])
    assert not api.matches({"is_alive": True}, [("is_alive", "=", "maybe")])


def test_summaries_count_by_name_class_and_call_site() -> None:
    tasks = [
        {"name": "f", "type": "NORMAL_TASK", "state": "FINISHED"},
        {"name": "f", "type": "NORMAL_TASK", "state": "FAILED"},
        {"name": "A.m", "type": "ACTOR_TASK", "state": "RUNNING"},
        {"name": "A.__init__", "type": "ACTOR_CREATION_TASK", "state": "FINISHED"},
    ]
    counted = count_tasks(tasks)
    assert counted["summary"]["f"] == {
        "func_or_class_name": "f",
        "type": "NORMAL_TASK",
        "state_counts": {"FINISHED": 1, "FAILED": 1},
    }
    totals = [counted[key] for key in ("total_tasks", "total_actor_tasks", "total_actor_scheduled")]
    assert totals == [2, 1, 1]
    assert count_actors(ROWS)["summary"]["A"]["state_counts"] == {"ALIVE": 1, "DEAD": 1}
    row = {"call_site": "a.py:1", "pid": 1, "ip": "i", "task_status": "NIL", "attempt_number": 0}
    objects = [
        {**row, "object_size": 1024**2, "reference_type": "LOCAL_REFERENCE"},
        {**row, "object_size": -1, "reference_type": "PINNED_IN_MEMORY"},
    ]
    summary = count_objects(objects)
    assert (summary["total_objects"], summary["total_size_mb"]) == (2, 1.0)
    assert summary["summary"]["a.py:1"]["total_num_workers"] == 1


# ---------------------------------------------------------------------- the columns of tasks
def tasks_named(name: str, **filters: str) -> list[Any]:
    given: list[Any] = [("name", "=", name), *((key, "=", value) for key, value in filters.items())]
    return state.list_tasks(filters=given, detail=True)


def test_a_task_carries_its_job_its_parent_and_what_it_held(ray: ModuleType) -> None:
    @ray.remote
    def child() -> int:
        return 1

    @ray.remote(num_cpus=2)
    def parent() -> Any:
        return ray.get(child.options(name="mine").remote()), ray.get_runtime_context().get_task_id()

    _, parent_id = ray.get(parent.remote())
    job = ray.get_runtime_context().get_job_id()
    [outer], [inner] = tasks_named("parent"), tasks_named("mine")
    assert (outer.job_id, inner.job_id) == (job, job)
    assert (inner.func_or_class_name, inner.parent_task_id) == ("child", parent_id)
    assert outer.parent_task_id == "f" * 40 + job
    assert (outer.required_resources, inner.required_resources) == ({"CPU": 2.0}, {"CPU": 1.0})
    assert outer.error_type is None and outer.language == "PYTHON"
    assert [event["state"] for event in outer.events][-1] == "FINISHED"


def test_a_failed_attempt_carries_the_type_and_the_text_of_its_error(ray: ModuleType) -> None:
    @ray.remote(max_retries=1, retry_exceptions=True)
    def fails() -> None:
        raise ValueError("for this reason")

    @ray.remote
    def takes(value: Any) -> None:
        return None

    @ray.remote(max_retries=0)
    def dies() -> None:
        os._exit(1)

    for ref in (takes.remote(fails.remote()), dies.remote()):
        with pytest.raises(ray.exceptions.RayError):
            ray.get(ref)
    rows = tasks_named("fails") + tasks_named("takes")
    assert [row.attempt_number for row in rows] == [0, 1, 0]
    assert {row.error_type for row in rows} == {"TASK_EXECUTION_EXCEPTION"}
    assert all("for this reason" in row.error_message for row in rows)
    [dead] = tasks_named("dies")
    assert (dead.state, dead.error_type) == ("FAILED", "WORKER_DIED")
    assert "exited by itself with code 1" in dead.error_message


def test_calls_are_named_by_what_their_actor_calls_itself(ray: ModuleType) -> None:
    @ray.remote
    class Named:
        def __repr__(self) -> str:
            return "me"

        def m(self) -> int:
            return 1

    actor = Named.options(name="known").remote()
    ray.get([actor.m.remote(), actor.m.options(name="own").remote()])
    rows = state.list_tasks(filters=[("actor_id", "=", actor._actor_id.hex())], detail=True)
    assert {(row.name, row.func_or_class_name) for row in rows} == {
        ("known:Named.__init__", "Named.__init__"),
        ("me.m", "Named.m"),
        ("own", "Named.m"),
    }
    assert state.get_actor(actor._actor_id.hex()).repr_name == "me"  # type: ignore[union-attr]


def test_a_task_that_ends_without_having_run_is_listed_with_the_reason(ray: ModuleType) -> None:
    @ray.remote
    class Dead:
        def __init__(self) -> None:
            raise RuntimeError("not today")

        def m(self) -> None:
            return None

    @ray.remote(num_cpus=1000)
    def waits() -> None:
        return None

    actor, waiting = Dead.remote(), waits.remote()
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(actor.m.remote())
    [waits_row] = tasks_named("waits")
    assert (waits_row.state, waits_row.worker_id, waits_row.start_time_ms) == (
        "PENDING_NODE_ASSIGNMENT",
        None,
        None,
    )
    ray.cancel(waiting)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(waiting)
    assert [row.error_type for row in tasks_named("waits")] == ["TASK_CANCELLED"]
    assert [row.error_type for row in tasks_named("Dead.m")] == ["ACTOR_DIED"]
    [made] = tasks_named("Dead.__init__")
    assert made.error_type == "TASK_EXECUTION_EXCEPTION" and "not today" in made.error_message


def test_several_calls_of_one_actor_are_told_to_run_at_a_time(ray: ModuleType) -> None:
    import threading

    class Waits:
        def __init__(self) -> None:
            self.gate = threading.Event()

        def open(self) -> None:
            self.gate.set()

        def wait(self) -> None:
            self.gate.wait()

    actor = ray.remote(max_concurrency=3)(Waits).remote()
    refs = [actor.wait.remote() for _ in range(2)]
    await_true(lambda: len(tasks_named("Waits.wait", state="RUNNING")) == 2, "both calls run")
    assert all(row.start_time_ms for row in tasks_named("Waits.wait"))
    ray.get([actor.open.remote(), *refs])


def test_processes_that_are_gone_are_listed_with_the_way_they_went(ray: ModuleType) -> None:
    @ray.remote(max_retries=0)
    def dies() -> None:
        os._exit(3)

    @ray.remote
    class Fails:
        def __init__(self) -> None:
            raise RuntimeError("no")

    actor = Fails.remote()
    for ref in (dies.remote(), actor.__ray_ready__.remote()):
        with pytest.raises(ray.exceptions.RayError):
            ray.get(ref)

    def ends() -> set[Any]:
        return {row.exit_type for row in state.list_workers(filters=[("is_alive", "=", False)], detail=True)}

    await_true(lambda: {"SYSTEM_ERROR", "USER_ERROR"} <= ends(), "both ends are told")
    dead: list[Any] = [row for row in state.list_workers(detail=True) if row.exit_type == "SYSTEM_ERROR"]
    assert "code 3" in dead[0].exit_detail and dead[0].end_time_ms > 0


# ---------------------------------------------------------------------- objects, environments, filters
def test_an_object_is_told_with_what_it_is_held_for(ray: ModuleType) -> None:
    @ray.remote
    def never() -> None:
        return None

    @ray.remote
    def takes(value: Any) -> None:
        return None

    waits = never.options(num_cpus=1000).remote()
    behind = takes.remote(waits)
    put = ray.put(b"x" * 200_000)
    nest = ray.put([ray.put("inner")])
    rows = {row.object_id: row for row in state.list_objects(limit=1000)}
    assert rows[put.hex()].object_size >= 200_000 and rows[put.hex()].task_status == "FINISHED"
    assert (rows[waits.hex()].object_size, rows[waits.hex()].task_status) == (-1, "PENDING_NODE_ASSIGNMENT")
    assert rows[waits.hex()].reference_type == "USED_BY_PENDING_TASK"
    assert rows[behind.hex()].task_status == "PENDING_ARGS_AVAIL"
    assert "CAPTURED_IN_OBJECT" in {row.reference_type for row in rows.values()}
    assert rows[nest.hex()].reference_type == "LOCAL_REFERENCE"


def test_runtime_environments_are_listed(ray: ModuleType) -> None:
    @ray.remote(runtime_env={"env_vars": {"LISTED": "1"}})
    def f() -> int:
        return 1

    ray.get(f.remote())
    [row] = [row for row in state.list_runtime_envs(detail=True) if row.runtime_env.get("env_vars")]
    assert (row.success, row.error, row.runtime_env["env_vars"]) == (True, None, {"LISTED": "1"})
    [task] = tasks_named("f")
    assert '"LISTED": "1"' in task.runtime_env_info["serialized_runtime_env"]


def test_a_filter_whose_value_its_column_can_never_have_is_refused(ray: ModuleType) -> None:
    with pytest.raises(RayStateApiException, match="attempt_number"):
        state.list_tasks(filters=[("attempt_number", "=", "first")])
    with pytest.raises(RayStateApiException, match="pid"):
        state.list_actors(filters=[("pid", "=", "seven")])
    with pytest.raises(RayStateApiException, match="nonsense"):
        state.list_tasks(filters=[("nonsense", "=", "1")])


# ---------------------------------------------------------------------- logs
def test_the_log_of_a_task_is_what_that_task_printed(ray: ModuleType) -> None:
    import sys

    @ray.remote
    def says(text: str) -> None:
        print(text)
        print(text.upper(), file=sys.stderr)

    refs = [says.remote(f"number {i}") for i in range(4)]
    ray.get(refs)
    for i, ref in enumerate(refs):
        task_id = ref.task_id().hex()
        assert "".join(state.get_log(task_id=task_id)) == f"number {i}\n"
        assert "".join(state.get_log(task_id=task_id, suffix="err")) == f"NUMBER {i}\n"


def test_logs_are_found_by_actor_process_and_name_and_can_be_cut_and_followed(ray: ModuleType) -> None:
    @ray.remote
    class Says:
        def say(self, *texts: str) -> int:
            print(*texts, sep="\n")
            return os.getpid()

    actor = Says.remote()
    pid = ray.get(actor.say.remote("a", "b", "c"))
    node = state.list_nodes()[0].node_id
    by_actor = "".join(state.get_log(actor_id=actor._actor_id.hex()))
    assert by_actor == "".join(state.get_log(pid=pid, node_id=node)) == "a\nb\nc\n"
    assert "".join(state.get_log(pid=pid, node_id=node, tail=1)) == "c\n"
    named = [name for name in state.list_logs(node_id=node)["worker_out"] if name.endswith(".out")]
    assert any("".join(state.get_log(filename=name, node_id=node)) == by_actor for name in named)
    followed = state.get_log(actor_id=actor._actor_id.hex(), follow=True, _interval=0.05)
    assert next(followed) == by_actor
    ray.get(actor.say.remote("d"))
    assert next(followed) == "d\n"
    followed.close()


def test_a_log_that_is_not_there_is_refused(ray: ModuleType) -> None:
    node = state.list_nodes()[0].node_id
    with pytest.raises(RayStateApiException, match="no log"):
        list(state.get_log(filename="../session.json", node_id=node))
    with pytest.raises(RayStateApiException, match="no actor"):
        list(state.get_log(actor_id="00" * 16))
    with pytest.raises(ValueError, match="Name the log"):
        list(state.get_log(node_id=node))
    with pytest.raises(ValueError, match="Name the node"):
        list(state.get_log(filename="node.log"))
    with pytest.raises(AssertionError):
        state.list_logs()


# ---------------------------------------------------------------------- what is recorded on request
def test_tasks_without_events_are_not_listed(ray: ModuleType) -> None:
    @ray.remote(enable_task_events=False)
    def quiet(fail: bool = False) -> None:
        if fail:
            raise ValueError

    @ray.remote(enable_task_events=False)
    class Quiet:
        def m(self) -> None:
            return None

    @ray.remote
    class Loud:
        def m(self) -> None:
            return None

    with pytest.raises(ValueError):
        ray.get(quiet.remote(True))
    hidden, shown = Quiet.remote(), Loud.remote()
    ray.get(
        [
            quiet.remote(),
            hidden.m.remote(),
            shown.m.options(enable_task_events=False).remote(),
            shown.m.remote(),
        ]
    )
    await_true(lambda: len(state.list_tasks()) > 1, "both are in the records")
    assert [row.name for row in state.list_tasks()] == ["Loud.__init__", "Loud.m"]


def test_call_sites_are_recorded(ray: ModuleType) -> None:
    @ray.remote
    def f() -> int:
        return 1

    @ray.remote
    class A:
        def m(self) -> int:
            return 1

    actor = A.remote()
    assert ray.get([f.remote(), actor.m.remote()]) == [1, 1]
    sites = {row.name: row.call_site for row in state.list_tasks(detail=True)}
    assert set(sites) == {"f", "A.m", "A.__init__"}
    assert all(str(site).startswith(f"{__file__}:") for site in sites.values())
    assert state.list_actors(detail=True)[0].call_site == sites["A.__init__"]


def test_what_a_driver_leaves_behind_is_listed_as_failed(tmp_path: Any) -> None:
    import subprocess
    import sys

    import sundog
    from sundog.engines import sessions

    info = sessions.start_head(num_cpus=1)
    program = """
import time, sundog
sundog.init(address="auto")
@sundog.remote
def left(): time.sleep(1000)
refs = [left.remote() for _ in range(2)]
while not [row for row in sundog.util.state.list_tasks() if row.state == "RUNNING"]: time.sleep(0.01)
"""
    try:
        subprocess.run([sys.executable, "-c", "import sundog.util.state\n" + program], check=True)
        rows = state.list_tasks(filters=[("name", "=", "left")], detail=True)
        assert [(row.state, row.error_type) for row in rows] == [("FAILED", "WORKER_DIED")] * 2
        assert all("Job 01000000 ended" in str(row.error_message) for row in rows)
        [job] = state.list_jobs()
        assert (job.status, job.job_id) == ("SUCCEEDED", "01000000")
        assert not sundog.is_initialized()
    finally:
        sessions.stop_session(info, force=True)
