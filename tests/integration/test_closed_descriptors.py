"""A program that closes the descriptors of sundog, as libraries do that make a program a daemon: one sentence, no hang.

Each program runs in a process of its own: the descriptors of the test's process are not to be closed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.integration import drivers

BEGIN = """
    import os, select, socket, sys, threading
    import sundog as ray
    ray.init(num_cpus=1)

    @ray.remote
    def seven(): return 7

    @ray.remote
    def sleep(): threading.Event().wait()

    @ray.remote
    class Actor:
        def eight(self): return 8

    def told(verb, *args, **options):
        try:
            return verb(*args, **options)
        except ray.exceptions.RaySystemError as error:
            assert "The program closed sockets and files of sundog" in str(error), error
            return "told"

    actor = Actor.remote()
    assert ray.get([seven.remote(), actor.eight.remote()]) == [7, 8]
    large = ray.put(bytes(1_000_000))
    small = ray.put(1)
"""
END = """
    ray.shutdown()
    print(os.listdir(os.environ["SUNDOG_shm_dir"]))
    ray.init(num_cpus=1)
    print(ray.get(seven.remote()))
    ray.shutdown()
    try:
        print("left:", os.waitpid(-1, os.WNOHANG))
    except ChildProcessError:
        print("no child is left")
"""
NO_CHILD = ["7", "no child is left"]


def run(tmp_path: Path, middle: str) -> list[str]:
    """Run a driver whose session begins and ends as above; its lines but for those of the end, which are as wanted."""
    shm = tmp_path / "shm"
    shm.mkdir()
    code = "".join(map(textwrap.dedent, (BEGIN, middle, END)))
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PYTHONPATH": drivers.SOURCE, "SUNDOG_shm_dir": str(shm)},
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-3:] == ["[]", *NO_CHILD], done.stdout + done.stderr
    return lines[:-3]


@pytest.mark.parametrize("last", [100, 1000])
def test_each_verb_says_that_the_program_closed_the_sockets_of_sundog(tmp_path: Path, last: int) -> None:
    lines = run(
        tmp_path,
        f"""
        os.closerange(3, {last})
        print(told(lambda: ray.get(seven.remote())), told(lambda: ray.get(actor.eight.remote())))
        print(told(lambda: ray.get(Actor.remote().eight.remote())), told(lambda: ray.wait([seven.remote()])))
        print(told(ray.nodes), told(ray.put, bytes(1_000_000)), told(lambda: ray.get([small, seven.remote()])))
        """,
    )
    assert lines == ["told told", "told told", "told told told"]


def test_threads_that_wait_for_results_are_told(tmp_path: Path) -> None:
    lines = run(
        tmp_path,
        """
        def wait(refs): results.append(told(ray.get, refs))
        results = []
        threads = [threading.Thread(target=wait, args=(refs,)) for refs in (sleep.remote(), [sleep.remote()])]
        for thread in threads: thread.start()
        os.closerange(3, 1000)
        for thread in threads: thread.join()
        print(*results)
        """,
    )
    assert lines == ["told told"]


def test_futures_and_generators_are_told(tmp_path: Path) -> None:
    lines = run(
        tmp_path,
        """
        @ray.remote(num_returns="streaming")
        def count():
            yield 1
            threading.Event().wait()

        items, future = count.options(num_cpus=0).remote(), sleep.remote().future()
        print(ray.get(next(items)))
        os.closerange(3, 1000)
        print(told(future.result, 120), told(next, items))
        """,
    )
    assert lines == ["1", "told told"]


def test_a_program_that_joined_a_session_leaves_it_and_joins_again(tmp_path: Path) -> None:
    lines = run(
        tmp_path,
        """
        from sundog.engines import sessions
        ray.shutdown()
        info = sessions.start_head(num_cpus=1)
        ray.init(address=info.address)
        print(ray.get(seven.remote()))
        os.closerange(3, 1000)
        print(told(lambda: ray.get(seven.remote())))
        ray.shutdown()
        ray.init(address=info.address)
        print(ray.get(seven.remote()))
        ray.shutdown()
        sessions.stop_session(info)
        ray.init(num_cpus=1)
        """,
    )
    assert lines == ["7", "told", "7"]


def test_what_the_program_opens_under_the_same_numbers_is_neither_written_nor_closed(tmp_path: Path) -> None:
    lines = run(
        tmp_path,
        """
        os.closerange(3, 1000)
        files = [open(f"file-{number}", "w+b", buffering=0) for number in range(20)]
        sockets = [end for _ in range(5) for end in socket.socketpair()]
        loops = [select.epoll() for _ in range(3)]
        print(told(lambda: ray.get(seven.remote())))
        ray.shutdown()
        files += [open(f"more-{number}", "w+b", buffering=0) for number in range(600)]
        ray.init(num_cpus=1)
        print(ray.get(seven.remote()))
        ray.shutdown()
        for each in sockets: each.setblocking(False)
        print([file.name for file in files if file.seek(0, 2) or not file.write(b"x")])
        print([each for each in sockets if each in select.select(sockets, [], [], 0)[0]])
        print([each.poll(0) for each in loops])
        """,
    )
    assert lines == ["told", "7", "[]", "[]", "[[], [], []]"]


def test_a_program_with_many_files_of_its_own_keeps_them_as_they_are(tmp_path: Path) -> None:
    lines = run(
        tmp_path,
        """
        os.closerange(3, 1000)
        files = [open(f"file-{number}", "w+b", buffering=0) for number in range(600)]
        print(told(lambda: ray.get(small)) in (1, "told"), told(ray.nodes))
        ray.shutdown()
        print([file.name for file in files if file.seek(0, 2) or not file.write(b"x")])
        """,
    )
    assert lines == ["True told", "[]"]


@pytest.mark.parametrize("kind", ["task", "actor", "threads", "asyncio"])
def test_a_worker_whose_code_closes_its_sockets_ends_with_a_sentence(tmp_path: Path, kind: str) -> None:
    lines = run(
        tmp_path,
        f"""
        def rob(): os.closerange(3, 1000)

        class Robber:
            def rob(self): rob()

        class Later:
            async def rob(self): rob()

        makes = {{"task": lambda: ray.remote(max_retries=0)(rob).remote(),
                  "actor": lambda: ray.remote(Robber).remote().rob.remote(),
                  "threads": lambda: ray.remote(Robber).options(max_concurrency=2).remote().rob.remote(),
                  "asyncio": lambda: ray.remote(Later).remote().rob.remote()}}
        del actor
        try:
            ray.get(makes[{kind!r}]())
        except (ray.exceptions.WorkerCrashedError, ray.exceptions.RayActorError) as error:
            print("closed sockets and files of sundog" in str(error), "Traceback" in str(error))
        print(ray.get(seven.remote()))
        """,
    )
    assert lines == ["True False", "7"]
