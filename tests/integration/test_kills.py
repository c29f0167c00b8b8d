"""SIGKILL of any process at any moment: the survivors say why, and nothing is left behind."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog import engines
from sundog.engines import local, sessions
from sundog.system.orphans import descendants
from tests.integration import drivers
from tests.integration.gates import await_true

Start = Callable[..., ModuleType]

# ---------------------------------------------------------------------- the driver
MOMENTS = {
    "idle": """
        print("now", flush=True)
        input()
        """,
    "in_a_get": """
        ref = sleep.remote()
        print("now", flush=True)
        ray.get(ref)
        """,
    "during_a_burst_of_submissions": """
        print("now", flush=True)
        refs = []
        while True:
            refs.append(quick.remote(bytes(2000)))
        """,
    "during_large_puts": """
        print("now", flush=True)
        while True:
            ray.get(quick.remote(ray.put(bytes(3 << 20))))
        """,
    "while_an_actor_is_constructed": """
        actor = Slow.remote()
        ref = actor.hello.remote()
        print("now", flush=True)
        ray.get(ref)
        """,
    "with_nested_work": """
        ref = outer.remote()
        print("now", flush=True)
        ray.get(ref)
        """,
    "with_children_of_tasks": """
        ref = shell.remote()
        print("now", flush=True)
        ray.get(ref)
        """,
}

PROGRAM = """
    import subprocess, time
    info = ray.init(num_cpus=2)
    print(info["session_dir"], flush=True)
    @ray.remote
    def sleep(): time.sleep(1000)
    @ray.remote
    def quick(x): return len(x)
    @ray.remote
    def outer(): return ray.get([sleep.remote(), sleep.remote()])
    @ray.remote
    def shell(): subprocess.run(["sleep", "1000"], start_new_session=True)
    @ray.remote
    class Slow:
        def __init__(self): time.sleep(1000)
        def hello(self): return 1
    ray.get(quick.remote(b""))
    """


@pytest.fixture(params=MOMENTS)
def at_work(request: pytest.FixtureRequest, leak_check: Path) -> Iterator[tuple[drivers.Driver, str]]:
    """A driver of a session of its own, at one of several moments."""
    with drivers.running(drivers.join(PROGRAM, MOMENTS[request.param])) as driver:
        session = driver.line()
        assert driver.line() == "now"
        time.sleep(0.1)  # into the moment: the driver itself cannot say that it blocks
        yield driver, session


def test_a_killed_driver_leaves_nothing(at_work: tuple[drivers.Driver, str]) -> None:
    driver, session = at_work
    clock = drivers.Vanishing()
    driver.kill()
    drivers.await_nothing_left(session, clock)


def test_a_killed_node_leaves_nothing_and_its_driver_says_so(at_work: tuple[drivers.Driver, str]) -> None:
    driver, session = at_work
    os.kill(drivers.node_pid(driver.pid), signal.SIGKILL)
    if driver.process.stdin is not None:
        driver.go_on()
    driver.end()
    drivers.await_nothing_left(session)
    driver.close()
    if driver.process.returncode != 0:
        errors = "".join(driver.errors)
        assert "LocalRayletDiedError" in errors, errors


def test_a_driver_and_its_node_killed_together_leave_nothing(leak_check: Path) -> None:
    with drivers.running(drivers.join(PROGRAM, MOMENTS["with_nested_work"])) as driver:
        session = driver.line()
        driver.line()
        node = drivers.node_pid(driver.pid)
        clock = drivers.Vanishing()
        os.kill(node, signal.SIGKILL)
        driver.kill()
        drivers.await_nothing_left(session, clock)


def test_a_driver_killed_while_it_starts_leaves_nothing(leak_check: Path) -> None:
    for delay_s in (0.0, 0.01, 0.05):
        with drivers.running(
            """
            print("now", flush=True)
            info = ray.init(num_cpus=2)
            @ray.remote
            def f(): return 1
            print(ray.get(f.remote()))
            input()
            """
        ) as driver:
            driver.line()
            time.sleep(delay_s)
            driver.kill()
    for session in leak_check.glob("session_2*"):
        drivers.await_nothing_left(str(session))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_driver_killed_as_it_tells_its_node_of_the_session_leaves_no_shared_memory(
    leak_check: Path, tmp_path: Path, moment: str
) -> None:
    # In a place of its own: in /dev/shm any other session's sweep might remove what this one left.
    with drivers.running(
        """
        import sys, time
        from sundog import early
        tell = early.NodeProgram.tell
        def stay(*args):
            if sys.argv[1] == "after":
                tell(*args)
            print("now", flush=True)
            time.sleep(1000)
        early.NodeProgram.tell = stay
        ray.init(num_cpus=2, _system_config={"shm_dir": sys.argv[2]})
        """,
        moment,
        str(tmp_path),
    ) as driver:
        assert driver.line() == "now"
        driver.kill()
        drivers.await_nothing_left(str(leak_check))
        assert not list(tmp_path.glob("sundog-*"))


def test_a_node_killed_by_the_first_task_of_all_leaves_no_process_that_the_task_started(
    leak_check: Path,
) -> None:
    # Nobody may be orphaned before somebody adopts: the task runs within milliseconds of its worker's fork.
    with drivers.running(
        """
        import os, signal, subprocess, time
        info = ray.init(num_cpus=1)
        print(info["session_dir"], flush=True)
        @ray.remote(max_retries=0)
        def shell(node):
            subprocess.Popen(["sleep", "1000"], start_new_session=True)
            os.kill(node, signal.SIGKILL)
            time.sleep(1000)
        children = f"/proc/{os.getpid()}/task/{os.getpid()}/children"
        try:
            ray.get(shell.remote(int(open(children).read().split()[0])))
        except ray.exceptions.LocalRayletDiedError:
            print("told", flush=True)
        os._exit(0)
        """
    ) as driver:
        session = driver.line()
        assert driver.rest() == ["told"], driver.errors
        drivers.await_nothing_left(session)


# ---------------------------------------------------------------------- the node, seen by its driver
@sundog.remote
def _number() -> int:
    return 0


def test_a_node_killed_before_it_was_greeted_is_a_typed_error(
    leak_check: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn = sessions.spawn_node

    def spawn_and_kill(*args: Any, **kwargs: Any) -> tuple[int, Any]:
        pid, sock = spawn(*args, **kwargs)
        os.kill(pid, signal.SIGKILL)
        assert sock is not None
        assert select.select([sock], [], [], 30)[0]  # its end is closed
        return pid, sock

    monkeypatch.setattr(sessions, "spawn_node", spawn_and_kill)
    sundog.init(num_cpus=1)
    with pytest.raises(sundog.exceptions.LocalRayletDiedError, match="SIGKILL"):
        sundog.get(_number.remote(), timeout=120)
    sundog.shutdown()


def test_a_node_killed_while_it_cleans_up_leaves_that_to_its_driver(
    leak_check: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = sundog.init(num_cpus=1)["session_dir"]
    assert sundog.get(_number.remote(), timeout=120) == 0
    node, zygote = drivers.node_pid(os.getpid()), drivers.zygote_pid(os.getpid())
    os.kill(node, signal.SIGSTOP)  # it ends its zygote first, so it is alone when it is killed in this
    os.kill(zygote, signal.SIGKILL)
    monkeypatch.setattr(local, "_GOODBYE_S", 0.05)
    monkeypatch.setattr(local, "_END_S", 0.05)
    sundog.shutdown()
    drivers.await_nothing_left(session)


def test_every_verb_says_that_the_node_is_gone(ray: ModuleType) -> None:
    @ray.remote
    def forever() -> None:
        time.sleep(1000)

    @ray.remote
    class Actor:
        def hello(self) -> int:
            return 1

    actor = Actor.remote()
    ray.get(actor.hello.remote(), timeout=120)
    ref = forever.remote()
    died = ray.exceptions.LocalRayletDiedError
    caught: list[BaseException] = []

    def wait_in_a_thread() -> None:
        try:
            ray.wait([ref])
        except BaseException as error:
            caught.append(error)

    waiting = threading.Thread(target=wait_in_a_thread)
    waiting.start()
    threading.Timer(0.2, os.kill, (drivers.node_pid(os.getpid()), signal.SIGKILL)).start()
    with pytest.raises(died, match=r"node\.log"):
        ray.get(ref, timeout=120)
    waiting.join(120)
    assert isinstance(caught[0], died)
    for verb in (
        lambda: ray.put(1),
        lambda: ray.get(forever.remote(), timeout=120),
        lambda: ray.get(actor.hello.remote(), timeout=120),
        lambda: ray.wait([ref], timeout=120),
        lambda: ray.available_resources(),
        lambda: Actor.options(name="x").remote(),
    ):
        with pytest.raises(died):
            verb()
    ray.shutdown()


def test_a_new_session_can_be_started_after_the_node_was_killed(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1)
    os.kill(drivers.node_pid(os.getpid()), signal.SIGKILL)
    drivers.await_true(lambda: not ray.is_initialized(), "the notice")
    ray.shutdown()
    ray = ray_session(num_cpus=1)

    @ray.remote
    def one() -> int:
        return 1

    assert ray.get(one.remote(), timeout=120) == 1


# ---------------------------------------------------------------------- the zygote
def test_the_session_survives_its_zygote(ray: ModuleType) -> None:
    @ray.remote
    def pid() -> int:
        return os.getpid()

    @ray.remote
    class Keeper:
        def __init__(self) -> None:
            self.n = 0

        def add(self) -> int:
            self.n += 1
            return self.n

        def pid(self) -> int:
            return os.getpid()

    keeper = Keeper.remote()
    assert ray.get(keeper.add.remote(), timeout=120) == 1
    worker = ray.get(pid.remote(), timeout=120)
    os.kill(drivers.zygote_pid(os.getpid()), signal.SIGKILL)
    assert ray.get(keeper.add.remote(), timeout=120) == 2
    assert ray.get(pid.remote(), timeout=120) > 0
    # New workers can be forked, and deaths of the old ones are still noticed: they are the node's now.
    fresh = [Keeper.remote() for _ in range(6)]
    assert ray.get([each.add.remote() for each in fresh], timeout=120) == [1] * 6
    os.kill(worker, signal.SIGKILL)
    os.kill(ray.get(keeper.pid.remote(), timeout=120), signal.SIGKILL)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(keeper.add.remote(), timeout=120)
    assert ray.get(pid.remote(), timeout=120) != worker


def test_tasks_in_flight_survive_the_zygote(ray: ModuleType) -> None:
    @ray.remote(max_retries=0)
    def slow(i: int) -> int:
        time.sleep(0.05)
        return i

    refs = [slow.remote(i) for i in range(12)]
    ray.wait(refs)
    os.kill(drivers.zygote_pid(os.getpid()), signal.SIGKILL)
    assert ray.get(refs, timeout=120) == list(range(12))


# ---------------------------------------------------------------------- workers
def test_a_killed_worker_is_named_with_its_signal(ray: ModuleType) -> None:
    @ray.remote(max_retries=0)
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ray.exceptions.WorkerCrashedError, match="SIGKILL") as caught:
        ray.get(die.remote(), timeout=120)
    assert caught.value.signal == signal.SIGKILL


def test_a_killed_worker_is_retried(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote(max_retries=2)
    def die_twice() -> int:
        attempt = len(list(tmp_path.iterdir()))
        (tmp_path / f"{attempt}").touch()
        if attempt < 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return attempt

    assert ray.get(die_twice.remote(), timeout=120) == 2


def test_killing_idle_workers_disturbs_nothing(ray: ModuleType) -> None:
    @ray.remote(max_retries=0)
    def pid() -> int:
        return os.getpid()

    for _ in range(3):
        pids = set(ray.get([pid.remote() for _ in range(20)], timeout=120))
        ray.available_resources()  # gives idle leases back
        for each in pids:
            os.kill(each, signal.SIGKILL)
        for each in pids:
            drivers.await_true(lambda each=each: not Path(f"/proc/{each}").exists(), "the end")
    assert ray.get(pid.remote(), timeout=120) not in pids


def test_a_worker_killed_with_a_queue_fails_only_what_it_had_begun(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote(max_retries=0)
    def work(i: int) -> int:
        if i == 50:
            os.kill(os.getpid(), signal.SIGKILL)
        return i

    refs = [work.remote(i) for i in range(200)]
    crashed = []
    for i, ref in enumerate(refs):
        try:
            assert ray.get(ref, timeout=120) == i
        except ray.exceptions.WorkerCrashedError:
            crashed.append(i)
    assert crashed == [50]


def test_objects_owned_by_a_dead_worker_say_so(ray: ModuleType) -> None:
    @ray.remote
    class Maker:
        def make(self) -> list[Any]:
            # Still pending when its owner dies, so that nobody has a copy.
            return [ray.remote(num_cpus=0)(time.sleep).remote(1000)]

        def put(self) -> list[Any]:
            return [ray.put(bytes(300_000))]

    maker = Maker.remote()
    (pending,) = ray.get(maker.make.remote(), timeout=120)
    (stored,) = ray.get(maker.put.remote(), timeout=120)
    ray.kill(maker)
    for ref in (pending, stored):
        with pytest.raises(ray.exceptions.OwnerDiedError, match="gone"):
            ray.get(ref, timeout=120)


def test_a_get_that_waits_learns_of_its_owners_death(ray: ModuleType) -> None:
    @ray.remote
    class Maker:
        def make(self) -> list[Any]:
            return [ray.remote(num_cpus=0)(time.sleep).remote(1000)]

    maker = Maker.remote()
    (pending,) = ray.get(maker.make.remote(), timeout=120)
    threading.Timer(0.2, ray.kill, (maker,)).start()
    with pytest.raises(ray.exceptions.OwnerDiedError):
        ray.get(pending, timeout=120)


def test_what_a_task_started_ends_with_its_worker(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote(max_retries=0)
    def start_then_die(new_session: bool) -> None:
        import subprocess

        child = subprocess.Popen(["sleep", "1000"], start_new_session=new_session)
        (tmp_path / str(child.pid)).touch()
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(start_then_die.remote(False), timeout=120)
    (child,) = tmp_path.iterdir()
    drivers.await_true(lambda: not Path(f"/proc/{child.name}").exists(), "the child's end")


# ---------------------------------------------------------------------- actors
@pytest.mark.parametrize("moment", ["idle", "in_a_call", "in_its_constructor"])
def test_a_killed_actor_is_named_with_its_signal(ray: ModuleType, tmp_path: Path, moment: str) -> None:
    @ray.remote
    class Actor:
        def __init__(self) -> None:
            (tmp_path / str(os.getpid())).touch()
            if moment == "in_its_constructor":
                time.sleep(1000)

        def hello(self) -> int:
            return 1

        def sleep(self) -> None:
            (tmp_path / "asleep").touch()
            time.sleep(1000)

    actor = Actor.remote()
    drivers.await_true(lambda: any(tmp_path.iterdir()), "the constructor's start")
    (file,) = tmp_path.iterdir()
    if moment == "idle":
        ray.get(actor.hello.remote(), timeout=120)
    ref = actor.sleep.remote() if moment == "in_a_call" else None
    if ref is not None:
        drivers.await_true(lambda: (tmp_path / "asleep").exists(), "the call's start")
    os.kill(int(file.name), signal.SIGKILL)
    if ref is None:
        ref = actor.hello.remote()
    with pytest.raises(ray.exceptions.ActorDiedError, match="SIGKILL"):
        ray.get(ref, timeout=120)


def test_a_killed_actor_comes_back_and_calls_are_made_again(ray: ModuleType) -> None:
    @ray.remote(max_restarts=2, max_task_retries=-1)
    class Actor:
        def pid(self) -> int:
            return os.getpid()

        def slow(self, i: int) -> int:
            time.sleep(0.01)
            return i

    actor = Actor.remote()
    for _ in range(2):
        pid = ray.get(actor.pid.remote(), timeout=120)
        refs = [actor.slow.remote(i) for i in range(20)]
        ray.get(refs[3], timeout=120)
        os.kill(pid, signal.SIGKILL)
        assert ray.get(refs, timeout=120) == list(range(20))
        assert ray.get(actor.pid.remote(), timeout=120) != pid
    os.kill(ray.get(actor.pid.remote(), timeout=120), signal.SIGKILL)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(actor.pid.remote(), timeout=120)


@pytest.mark.parametrize("lives", [1, 2])
def test_what_a_dead_actor_made_is_removed_when_its_last_ref_goes(ray: ModuleType, lives: int) -> None:
    @ray.remote(max_restarts=lives - 1, max_task_retries=-1)
    class Maker:
        def make(self) -> bytes:
            return bytes(3 << 20)

        def pid(self) -> int:
            return os.getpid()

    maker = Maker.remote()
    ref = maker.make.remote()
    assert len(ray.get(ref)) == 3 << 20
    engine: Any = engines.current()
    root, prefix = engine.owner.segments.shm_root, f"{engine.owner.me.hex()}-"
    made = [name for name in os.listdir(root) if name.startswith(prefix)]
    assert len(made) == 1
    os.kill(ray.get(maker.pid.remote()), signal.SIGKILL)
    if lives > 1:
        # Its next life must not be told of it: it might not live to hear.
        os.kill(ray.get(maker.pid.remote(), timeout=120), signal.SIGSTOP)
    else:
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(maker.pid.remote(), timeout=120)
    assert os.listdir(root).count(made[0]) == 1
    del ref
    await_true(lambda: made[0] not in os.listdir(root), "the end of the segment")
    ray.kill(maker)


def test_every_process_of_a_session_may_be_killed_in_turn(leak_check: Path) -> None:
    """One session for each kind of process below the driver; the session ends or lives on, but cleanly."""
    with sundog.init(num_cpus=2):

        @sundog.remote(max_retries=5)
        def add(x: int) -> int:
            return x + 1

        assert sundog.get(add.remote(1), timeout=120) == 2
        node = drivers.node_pid(os.getpid())
        zygote = drivers.zygote_pid(os.getpid())
        for pid in [each for each in descendants(node) if each != zygote]:
            refs = [add.remote(i) for i in range(50)]
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            assert sundog.get(refs, timeout=120) == list(range(1, 51))
