"""The node's program is started before the API is imported, and leaves nothing when it was not needed."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

from sundog.engines import sessions
from tests.integration import drivers

CHILDREN = """
    import os
    def children():
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return len(file.read().split())
"""


def test_init_before_anything_else_starts_a_session(leak_check: Path) -> None:
    program = """
        import sys
        assert "sundog.api" not in sys.modules
        ray.init(num_cpus=1)
        assert ray.init is sys.modules["sundog.api"].init
        print(ray.get(ray.put(7)))
        ray.shutdown()
    """

    assert drivers.run(program) == ["7"]


def test_an_init_that_is_refused_leaves_no_program(leak_check: Path) -> None:
    program = drivers.join(
        CHILDREN,
        """
        for options in ({"num_cpus": -1}, {"nonsense": 1}, {"_temp_dir": "/proc/none"}):
            try:
                ray.init(**options)
            except (TypeError, ValueError, OSError) as error:
                print(type(error).__name__, children())
        """,
    )

    lines = drivers.run(program)

    assert [line.split()[1] for line in lines] == ["0", "0", "0"], lines


def test_an_init_that_joins_a_session_starts_no_node(leak_check: Path) -> None:
    info = sessions.start_head(num_cpus=1)
    try:
        program = drivers.join(
            CHILDREN,
            f"""
            from sundog import early
            early.begin = lambda: print("begun")
            ray.init(address={info.path!r})
            print(children())
            """,
        )
        assert drivers.run(program) == ["0"]
    finally:
        sessions.stop_session(info)


def test_init_can_be_looked_at_without_a_session() -> None:
    program = """
        import inspect
        from sundog import init
        print("num_cpus" in inspect.signature(init).parameters, init.__name__, "Start a session" in init.__doc__)
    """

    assert drivers.run(program) == ["True init True"]


def test_a_driver_that_dies_while_the_api_is_imported_leaves_no_program(leak_check: Path) -> None:
    program = """
        from sundog import early
        early.begin()
        print(early._begun[0].pid, flush=True)
        input()
    """
    with drivers.running(program) as driver:
        (pid,) = driver.numbers()
        known = [psutil.Process(pid)]
        driver.kill()
        deadline = time.monotonic() + drivers.TIMEOUT_S
        while any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in known):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_workers_copy_past_the_caches_and_users_do_not_see_how(leak_check: Path) -> None:
    program = """
        import os, signal
        from tests.integration import drivers
        ray.init(num_cpus=1)

        @ray.remote(max_calls=1)
        def seen():
            with open("/proc/self/environ", "rb") as file:
                started = dict(each.split(b"=", 1) for each in file.read().split(b"\\0") if each)
            # The C library has cut it into pieces there, so only the first can be seen.
            return started[b"GLIBC_TUNABLES"].decode().partition(":")[0], os.environ["GLIBC_TUNABLES"]

        first = ray.get(seen.remote())
        os.kill(drivers.zygote_pid(os.getpid()), signal.SIGKILL)
        assert ray.get(seen.remote()) == first, "of a zygote that was started later"
        print(*first)
        ray.shutdown()
    """

    expected = "glibc.cpu.x86_non_temporal_threshold=0x800000 glibc.malloc.perturb=0"
    assert drivers.run(program, GLIBC_TUNABLES="glibc.malloc.perturb=0") == [expected]
