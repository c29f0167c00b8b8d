"""Sessions: started, joined, shared, left and swept; what `init` and `shutdown` promise."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import psutil
import pytest

import sundog
from sundog.config import Config
from sundog.engines import sessions
from sundog.node.sessions import publish
from sundog.store.folders import withdraw
from sundog.system.orphans import descendants
from sundog.wire.requests import Status
from tests.integration import drivers

if TYPE_CHECKING:
    from sundog.wire.dicts import SessionFacts

Start = Callable[..., ModuleType]


@pytest.fixture
def head(leak_check: Path) -> Iterator[sessions.SessionInfo]:
    """A session that stays until it is stopped."""
    info = sessions.start_head(num_cpus=2)
    yield info
    if sundog.is_initialized():
        sundog.shutdown()
    sessions.stop_session(info)


# ---------------------------------------------------------------------- init and its options
def test_init_describes_the_session(leak_check: Path) -> None:
    with sundog.init(num_cpus=3, resources={"slot": 2}, namespace="here") as info:
        assert info["namespace"] == "here"
        assert info["session_dir"].startswith(str(leak_check))
        assert info.address_info["node_id"] == sundog.get_runtime_context().get_node_id()
        totals = sundog.cluster_resources()
        assert (totals["CPU"], totals["slot"]) == (3.0, 2.0)
        assert sundog.is_initialized()
    assert not sundog.is_initialized()


def test_the_default_is_one_cpu_for_each_core_we_may_use(ray_session: Start) -> None:
    ray = ray_session()
    assert ray.cluster_resources()["CPU"] == len(os.sched_getaffinity(0))


def test_object_store_memory_is_the_size_of_the_store(ray_session: Start) -> None:
    ray = ray_session(object_store_memory=200 << 20)
    assert ray.cluster_resources()["object_store_memory"] == 200 << 20


def test_a_session_may_have_no_cpu_at_all(ray_session: Start) -> None:
    ray = ray_session(num_cpus=0)

    @ray.remote(num_cpus=0)
    def free() -> str:
        return "ran"

    assert ray.get(free.remote(), timeout=120) == "ran"
    assert "CPU" not in ray.available_resources()


def test_a_second_init_is_refused_unless_asked_for(ray: ModuleType) -> None:
    session = ray.get_runtime_context().get_job_id()
    with pytest.raises(RuntimeError, match="ignore_reinit_error"):
        ray.init()
    again = ray.init(ignore_reinit_error=True)
    assert again["job_id"] == session


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"num_cpu": 1}, TypeError, "num_cpus"),
        ({"num_cpus": -1}, ValueError, "num_cpus"),
        ({"num_gpus": "two"}, ValueError, "num_gpus"),
        ({"resources": [1]}, TypeError, "resources"),
        ({"resources": {"CPU": 1}}, ValueError, "num_cpus"),
        ({"resources": {"slot": -1}}, ValueError, "slot"),
        ({"namespace": ""}, ValueError, "namespace"),
        ({"object_store_memory": 0}, ValueError, "object_store_memory"),
        ({"runtime_env": "x"}, TypeError, "runtime_env"),
        ({"runtime_env": {"env_var": {}}}, (ValueError, TypeError), "env_var"),
        ({"_system_config": {"no_such_setting": 1}}, ValueError, "no_such_setting"),
        ({"address": "no-such-session"}, ConnectionError, "no-such-session"),
        ({"address": "auto", "num_cpus": 1}, ValueError, "num_cpus"),
        ({"address": "auto"}, ConnectionError, "sundog start"),
    ],
)
def test_wrong_arguments_are_refused_and_leave_nothing(
    arguments: dict[str, Any], error: Any, words: str
) -> None:
    with pytest.raises(error, match=words):
        sundog.init(**arguments)
    assert not sundog.is_initialized()


def test_shutdown_without_a_session_is_harmless() -> None:
    sundog.shutdown()
    sundog.shutdown()


def test_a_task_cannot_shut_its_session_down(ray: ModuleType) -> None:
    @ray.remote
    def end() -> None:
        ray.shutdown()

    with pytest.raises(RuntimeError, match="Only a driver can call shutdown"):
        ray.get(end.remote(), timeout=120)


def test_init_in_a_task_is_its_own_session(ray: ModuleType) -> None:
    @ray.remote
    def again() -> Any:
        return ray.init()["session_name"]

    mine = ray.init(ignore_reinit_error=True)["session_name"]
    assert ray.get(again.remote(), timeout=120) == mine


def test_refs_of_an_earlier_session_say_so(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1)
    ref = ray.put(1)
    ray.shutdown()
    with pytest.raises(ray.exceptions.RaySystemError):
        ray.get(ref)
    ray_session(num_cpus=1)
    with pytest.raises(ray.exceptions.ObjectLostError, match="session"):
        ray.get(ref, timeout=120)


def test_a_remote_function_works_in_the_next_session_too(ray_session: Start) -> None:
    @sundog.remote
    def double(x: int) -> int:
        return 2 * x

    for value in range(3):
        ray = ray_session(num_cpus=1)
        assert ray.get(double.remote(value), timeout=120) == 2 * value
        ray.shutdown()


def test_twenty_sessions_leave_nothing(leak_check: Path) -> None:
    """The leak check compares descriptors, threads, processes and segments afterwards."""

    @sundog.remote
    def one() -> int:
        return 1

    for number in range(20):
        # All folders of ended sessions stay: a session that lasts, on a slow machine, removes old ones.
        with sundog.init(num_cpus=1, _system_config={"session_keep": 20}):
            if number % 4 == 0:
                assert sundog.get(one.remote(), timeout=120) == 1
            elif number % 4 == 1:
                one.remote()
            elif number % 4 == 2:
                sundog.put(bytes(200_000))
    assert sum(1 for each in leak_check.iterdir() if each.name.startswith("session_2")) == 20


def test_the_first_remote_call_starts_a_session() -> None:
    lines = drivers.run(
        """
        @ray.remote
        def f(): return 7
        assert not ray.is_initialized()
        print(ray.get(f.remote()), ray.is_initialized())
        """
    )
    assert lines == ["7 True"]


def test_put_starts_a_session_too() -> None:
    assert drivers.run("print(ray.get(ray.put(3)))") == ["3"]


def test_a_folder_with_a_long_path_works(leak_check: Path) -> None:
    folder = leak_check / ("long-" * 20) / ("path-" * 20)
    assert len(str(folder)) > 200

    @sundog.remote
    def one() -> int:
        return 1

    with sundog.init(num_cpus=1, _temp_dir=str(folder)) as info:
        assert sundog.get(one.remote(), timeout=120) == 1
        # A second driver goes through the socket's path.
        joined = drivers.run(
            f"""
            ray.init(address={info["session_dir"]!r})
            @ray.remote
            def f(): return 2
            print(ray.get(f.remote()))
            """
        )
        assert joined == ["2"]


def test_a_folder_whose_file_system_keeps_no_modes_is_refused_in_one_sentence(
    leak_check: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = os.mkdir

    def make_open(path: str, mode: int = 0o777) -> None:
        really(path, mode)
        os.chmod(path, 0o777)

    leak_check.mkdir(mode=0o700, exist_ok=True)
    monkeypatch.setattr(os, "mkdir", make_open)
    with pytest.raises(ValueError, match="other users can write to it"):
        sessions.make_session(Config(temp_dir=str(leak_check), shm_dir=str(leak_check)))
    assert os.listdir(leak_check) == []


@pytest.mark.parametrize("setting", ["temp_dir", "shm_dir"])
def test_a_place_that_cannot_be_used_is_told_with_the_setting_that_names_it(
    leak_check: Path, setting: str
) -> None:
    with pytest.raises(ValueError, match=rf"/proc/none.*{setting}"):
        sundog.init(num_cpus=1, _system_config={setting: "/proc/none"})
    if setting == "shm_dir":
        assert not [each for each in leak_check.iterdir() if each.is_dir()], "the session's folder is left"


# ---------------------------------------------------------------------- the end of a driver
def test_a_driver_that_just_ends_leaves_nothing(leak_check: Path) -> None:
    lines = drivers.run(
        """
        info = ray.init(num_cpus=2)
        @ray.remote
        def f(): return 1
        ray.get([f.remote() for _ in range(10)])
        waiting = f.remote()
        print(info["session_dir"])
        """
    )
    drivers.await_nothing_left(lines[0])


def test_a_driver_that_raises_shows_its_own_error_and_leaves_nothing(leak_check: Path) -> None:
    with drivers.running(
        """
        info = ray.init(num_cpus=2)
        print(info["session_dir"])
        @ray.remote
        def f(): raise KeyError("mine")
        ray.get(f.remote())
        """
    ) as driver:
        session = driver.line()
        assert driver.end() == 1
        drivers.await_nothing_left(session)
    assert any("KeyError" in line for line in driver.errors)


@pytest.mark.parametrize(
    ("number", "says"),
    [(signal.SIGTERM, ""), (signal.SIGINT, "KeyboardInterrupt")],
    ids=["SIGTERM", "Ctrl-C"],
)
def test_a_driver_ended_by_a_signal_leaves_nothing(leak_check: Path, number: int, says: str) -> None:
    with drivers.running(
        """
        import time
        info = ray.init(num_cpus=1)
        @ray.remote
        def forever(): time.sleep(1000)
        ref = forever.remote()
        print(info["session_dir"])
        ray.get(ref)
        """
    ) as driver:
        session = driver.line()
        driver.kill(number)
        drivers.await_nothing_left(session)
    assert says in "".join(driver.errors)


# ---------------------------------------------------------------------- long-lived sessions
def test_a_started_session_is_joined_by_auto_name_and_path(head: sessions.SessionInfo) -> None:
    @sundog.remote
    def one() -> int:
        return 1

    for address in ("auto", head.name, head.path):
        with sundog.init(address=address) as info:
            assert info["session_name"] == head.name
            assert sundog.cluster_resources()["CPU"] == 2.0
            assert sundog.get(one.remote(), timeout=120) == 1
    assert sessions.is_alive(head.path)


@pytest.mark.parametrize("by", ["auto", "name", "path"])
def test_a_session_that_is_starting_is_waited_for_while_its_lock_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    session, lock = sessions.make_session(Config(temp_dir=str(tmp_path), shm_dir=str(tmp_path)))
    address = {"auto": "auto", "name": session["name"], "path": session["path"]}[by]
    facts: SessionFacts = {**session, "node_pid": 1, "node_id": b""}
    monkeypatch.setattr(sessions.time, "sleep", lambda _: publish(facts, {}, persistent=True))
    assert sessions.resolve(address, str(tmp_path)).path == session["path"]
    withdraw(session["path"])
    monkeypatch.setattr(sessions.time, "sleep", lambda _: os.close(lock))
    with pytest.raises(ConnectionError, match="no running session"):
        sessions.resolve(address, str(tmp_path))


def test_the_environment_can_name_the_session(
    head: sessions.SessionInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    with sundog.init() as info:
        assert info["session_name"] == head.name
    with sundog.init(address="local", num_cpus=1) as info:
        assert info["session_name"] != head.name


def test_a_session_that_does_not_come_up_in_time_is_ended(
    leak_check: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_UP_S", 0.0)
    with pytest.raises(sundog.exceptions.RaySystemError, match="The node did not start"):
        sessions.start_head(num_cpus=1)


def test_a_stopped_session_is_gone(leak_check: Path) -> None:
    info = sessions.start_head(num_cpus=1)
    assert [each.name for each in sessions.find_sessions()] == [info.name]
    sessions.stop_session(info)
    drivers.await_nothing_left(info.path)
    assert sessions.find_sessions() == []
    with pytest.raises(ConnectionError):
        sundog.init(address=info.name)


def test_stopping_a_session_by_force_leaves_nothing(leak_check: Path) -> None:
    info = sessions.start_head(num_cpus=1)
    with sundog.init(address="auto"):
        sundog.put(bytes(1 << 20))
        sessions.stop_session(info, force=True)
        drivers.await_true(lambda: not sundog.is_initialized(), "the driver's notice")
        with pytest.raises(sundog.exceptions.LocalRayletDiedError):
            sundog.put(1)
    drivers.await_nothing_left(info.path)


OTHER = """
    info = ray.init(address="auto", namespace={namespace!r})
    @ray.remote
    class Keeper:
        def value(self): return {namespace!r}
    keeper = Keeper.options(name="keeper").remote()
    print(ray.get(keeper.value.remote()), info["job_id"], flush=True)
    input()
    print(ray.get(keeper.value.remote()), flush=True)
    """


def test_two_drivers_have_jobs_and_namespaces_of_their_own(head: sessions.SessionInfo) -> None:
    with (
        drivers.running(OTHER.format(namespace="red")) as red,
        drivers.running(OTHER.format(namespace="blue")) as blue,
    ):
        (red_value, red_job), (blue_value, blue_job) = red.line().split(), blue.line().split()
        assert (red_value, blue_value) == ("red", "blue")
        assert red_job != blue_job
        with sundog.init(address="auto", namespace="red"):
            mine = sundog.get_actor("keeper")
            assert sundog.get(mine.value.remote(), timeout=120) == "red"
            theirs = sundog.get_actor("keeper", namespace="blue")
            assert sundog.get(theirs.value.remote(), timeout=120) == "blue"
            with pytest.raises(ValueError, match="keeper"):
                sundog.get_actor("keeper", namespace="green")
        red.go_on()
        blue.go_on()
        assert (red.line(), blue.line()) == ("red", "blue")
        assert (red.end(), blue.end()) == (0, 0)


def test_a_killed_driver_takes_only_its_own_work_along(head: sessions.SessionInfo) -> None:
    with (
        drivers.running(OTHER.format(namespace="red")) as red,
        drivers.running(OTHER.format(namespace="blue")) as blue,
    ):
        red.line()
        blue.line()
        red.kill()
        with sundog.init(address="auto", namespace="red"):
            drivers.await_true(lambda: _is_gone("keeper", "red"), "the end of red's actor")
            assert not _is_gone("keeper", "blue")
        blue.go_on()
        assert blue.line() == "blue"
        assert blue.end() == 0
        drivers.await_true(lambda: _resources(head, "available")["CPU"] == 2.0, "the return of all resources")


def _is_gone(name: str, namespace: str) -> bool:
    try:
        sundog.get_actor(name, namespace=namespace)
    except ValueError:
        return True
    return False


def _resources(info: sessions.SessionInfo, which: str) -> dict[str, float]:
    found = sessions.request(info, Status())["resources"]
    return found["total"] if which == "total" else found["available"]


def test_a_detached_actor_outlives_its_driver_in_a_started_session(head: sessions.SessionInfo) -> None:
    drivers.run(
        """
        ray.init(address="auto", namespace="shared")
        @ray.remote
        class Counter:
            def __init__(self): self.n = 0
            def add(self):
                self.n += 1
                return self.n
        counter = Counter.options(name="counter", lifetime="detached").remote()
        print(ray.get(counter.add.remote()))
        """
    )
    with sundog.init(address="auto", namespace="shared"):
        counter = sundog.get_actor("counter")
        assert sundog.get(counter.add.remote(), timeout=120) == 2
        sundog.kill(counter)


# ---------------------------------------------------------------------- stale sessions
@pytest.fixture
def own_shm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of shared memory that no other session on this machine looks at."""
    with tempfile.TemporaryDirectory(prefix="sd-shm-", dir="/dev/shm") as folder:
        monkeypatch.setenv("SUNDOG_shm_dir", folder)
        yield Path(folder)


def _freeze(pid: int) -> list[int]:
    """Stop a process and all below it, those too that the zygote forks meanwhile; returns all pids."""
    stopped: list[int] = []
    while found := [each for each in [pid, *descendants(pid)] if each not in stopped]:
        for each in found:
            os.kill(each, signal.SIGSTOP)
            drivers.await_true(
                lambda each=each: psutil.Process(each).status() == psutil.STATUS_STOPPED, "a stopped process"
            )
        stopped += found
    return stopped


def test_the_next_session_sweeps_what_a_crash_left(leak_check: Path, own_shm: Path) -> None:
    """All processes of a session are killed at once, so nobody is left to clean; the next one does it."""
    with drivers.running(
        """
        info = ray.init(num_cpus=1)
        ref = ray.put(bytes(1 << 20))
        @ray.remote
        def f(): return 1
        ray.get(f.remote())
        print(info["session_dir"])
        input()
        """
    ) as driver:
        session = driver.line()
        for pid in _freeze(driver.pid):
            os.kill(pid, signal.SIGKILL)
        driver.end()
    (left,) = own_shm.iterdir()
    with sundog.init(num_cpus=1):
        drivers.await_true(lambda: not left.exists(), "the sweep")
        drivers.await_nothing_left(session)
