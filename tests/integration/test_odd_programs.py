"""Programs that change their own interpreter in odd ways, before or while a session runs: it works.

Each program runs in a process of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.integration import drivers
from tests.integration.gates import await_true

DEFINE = """
    @ray.remote
    def seven():
        import colorsys
        return 7

    @ray.remote
    class Actor:
        def eight(self): return 8
"""
ASK = """
    print(ray.get([seven.remote(), Actor.remote().eight.remote()], timeout=120))
    ray.shutdown()
"""


def run(*parts: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, put together of these parts."""
    code = "import sundog as ray\n" + "".join(map(textwrap.dedent, parts))
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PYTHONPATH": drivers.SOURCE, **environ},
        check=False,
    )


@pytest.mark.parametrize("when", ["before init", "after init"])
@pytest.mark.parametrize(
    "how", ["sys.path.clear()", "sys.path[:] = [None, b'/', __import__('pathlib').Path('/')]"]
)
def test_a_program_may_empty_its_import_path(when: str, how: str) -> None:
    empty = f"import sys; {how}\n"
    begin = "ray.init(num_cpus=1)\n"
    parts = [empty, begin] if when == "before init" else [begin, empty]
    done = run(*parts, DEFINE, ASK)
    assert done.stdout == "[7, 8]\n", done.stderr


@pytest.mark.parametrize("variable", ["PYTHONHOME", "PYTHONPLATLIBDIR"])
def test_a_program_may_set_a_variable_that_hides_the_library_from_its_children(variable: str) -> None:
    lie = f"import os; os.environ[{variable!r}] = '/nonexistent'\n"
    done = run(lie, "ray.init(num_cpus=1)\n", DEFINE, ASK)
    assert done.stdout == "[7, 8]\n", done.stderr


def test_a_task_sees_such_a_variable_as_its_program_set_it() -> None:
    done = run(
        """
        import os
        os.environ["PYTHONHOME"] = "/nonexistent"
        ray.init(num_cpus=1)
        print(ray.get(ray.remote(os.environ.get).remote("PYTHONHOME"), timeout=120))
        """
    )
    assert done.stdout == "/nonexistent\n", done.stderr


def test_a_program_that_blocks_all_signals_hears_of_the_end_of_a_worker() -> None:
    done = run(
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n",
        "ray.init(num_cpus=1)\n",
        DEFINE,
        """
        import os
        try:
            ray.get(ray.remote(max_retries=0)(os._exit).remote(3), timeout=120)
        except ray.exceptions.WorkerCrashedError as error:
            print(error.exit_code)
        """,
        ASK,
    )
    assert done.stdout == "3\n[7, 8]\n", done.stderr


def test_a_program_may_have_no_arguments() -> None:
    done = run("import sys; del sys.argv\n", "ray.init(num_cpus=1)\n", DEFINE, ASK)
    assert done.stdout == "[7, 8]\n", done.stderr


def test_a_program_that_patched_the_library_is_told_by_init() -> None:
    done = run("import select; del select.epoll\n", "ray.init(num_cpus=1)\n")
    assert "sundog.exceptions.RaySystemError: sundog needs select.epoll" in done.stderr, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its root folder")
def test_a_program_that_changes_its_root_folder_is_told_why_modules_are_missing(tmp_path: Path) -> None:
    done = run("ray.init(num_cpus=1)\n", DEFINE, f"import os; os.chroot({str(tmp_path)!r})\n", ASK)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: The module sundog.") and "os.chroot" in last, done.stderr


def test_a_session_ends_with_its_driver_though_a_forked_child_lives_on(tmp_path: Path) -> None:
    (tmp_path / "shm").mkdir()
    done = run(
        "ray.init(num_cpus=1)\n",
        DEFINE,
        """
        import os, signal
        print(ray.get(seven.remote(), timeout=120), len(os.listdir(os.environ["SUNDOG_shm_dir"])))
        child = os.fork()
        if not child:
            for fd in range(3): os.close(fd)  # the pipes that the test reads to their end
            signal.pause()
        print(child, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        SUNDOG_shm_dir=str(tmp_path / "shm"),
    )
    seven, child = done.stdout.splitlines()
    try:
        assert seven == "7 1"
        await_true(lambda: not os.listdir(tmp_path / "shm"), "the end of the session")
        os.kill(int(child), 0)  # it lives
    finally:
        os.kill(int(child), signal.SIGKILL)


@pytest.mark.parametrize("name", ["resource", "select", "logging"])
def test_a_file_of_the_program_in_place_of_a_module_of_the_library_is_named(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / f"{name}.py").touch()
    done = run(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {name}\n", "ray.init(num_cpus=1)\n"
    )
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"The program's own file {tmp_path}/{name}.py stands in place of"), done.stderr


def test_work_goes_on_elsewhere_when_a_task_left_its_worker_no_memory_for_messages() -> None:
    done = run(
        "ray.init(num_cpus=1)\n",
        DEFINE,
        """
        @ray.remote
        def starve():
            import resource
            resource.setrlimit(resource.RLIMIT_DATA, (1 << 20, -1))

        ray.get(starve.remote(), timeout=120)
        """,
        ASK,
    )
    assert done.stdout == "[7, 8]\n", done.stderr
