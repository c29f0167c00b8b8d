"""A session in a poor place (few descriptors or processes, folders that are gone): a sentence, or it works.

Each program runs in a process of its own, for its limits and mounts are its own too.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.integration import drivers, small_disks

# A user of this process alone: limits count what runs as one user, and tests run side by side.
STRANGER = str(40_000 + os.getpid() % 20_000)
ONE_TASK = """
    ray.init(num_cpus=1)
    @ray.remote
    def seven(): return 7
    print(ray.get(seven.remote(), timeout=120))
    ray.shutdown()
"""


def run(program: str, before: str = "", *prefix: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a driver to its end, after some lines of shell and under some command."""
    code = "import sundog as ray\n" + textwrap.dedent(program)
    shell = f'{before}\nexec "$0" -c "$1"'
    return subprocess.run(
        [*prefix, "bash", "-c", shell, sys.executable, code],
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=120,
        env={**os.environ, "PYTHONPATH": drivers.SOURCE, **environ},
        check=False,
    )


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one sentence by which init() refused: the last line, an error of ours, and nothing before its traceback."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert "During handling" not in done.stderr and "direct cause" not in done.stderr, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(("sundog.exceptions.RaySystemError: ", "ValueError: ")), done.stderr
    return last


# ---------------------------------------------------------------------- settings of Python itself
def test_a_timeout_that_a_program_gives_all_its_sockets_does_not_end_the_session() -> None:
    done = run("""
        import socket
        socket.setdefaulttimeout(0.001)
        ray.init(num_cpus=2)

        @ray.remote
        def twice(number):
            socket.setdefaulttimeout(0.001)
            return 2 * number

        @ray.remote
        class Keeper:
            def keep(self, refs):
                return ray.get(twice.remote(ray.get(refs[0])))

        keeper = Keeper.remote()
        print(sum(ray.get([twice.remote(number) for number in range(50)], timeout=120)))
        print(ray.get(keeper.keep.remote([twice.remote(5)]), timeout=120))
        ray.shutdown()
    """)
    assert done.stdout == "2450\n20\n", done.stderr


# ---------------------------------------------------------------------- descriptors
@pytest.mark.parametrize("limit", [64, 96])
def test_a_hard_limit_of_a_few_dozen_descriptors_is_enough_for_a_task(limit: int) -> None:
    done = run(ONE_TASK, f"ulimit -n {limit}")
    assert done.stdout == "7\n", done.stderr


@pytest.mark.parametrize("limit", [16, 32])
def test_fewer_descriptors_are_refused_with_the_limit_and_how_to_raise_it(limit: int) -> None:
    told = refused(run(ONE_TASK, f"ulimit -n {limit}"))
    assert f"may have {limit} file descriptors" in told and "ulimit -n" in told


@pytest.mark.parametrize("left", [2, 6, 9])
def test_a_program_that_has_used_up_its_descriptors_is_told_so(left: int) -> None:
    program = f"""
        import os, resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        try:
            while True: os.open("/dev/null", os.O_RDONLY)
        except OSError: pass
        os.closerange(100 - {left}, 100)
    """
    assert "100 file descriptors" in refused(run(textwrap.dedent(program) + textwrap.dedent(ONE_TASK)))


def test_a_program_with_more_than_1024_descriptors_joins_and_asks_a_session() -> None:
    program = """
        import os, resource
        from sundog.engines import sessions
        from sundog.wire.requests import Status
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard < 2000:
            raise SystemExit("skip")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        info = sessions.start_head(num_cpus=1)
        try:
            held = [os.open("/dev/null", os.O_RDONLY) for _ in range(1500)]
            ray.init(address=info.address)
            @ray.remote
            def seven(): return 7
            print(ray.get(seven.remote(), timeout=120), sessions.request(info, Status())["drivers"] != ())
            ray.shutdown()
        finally:
            sessions.stop_session(info)
    """
    done = run(program)
    if "skip" in done.stderr:
        pytest.skip("the hard limit of descriptors is too low here")
    assert done.stdout == "7 True\n", done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_program_that_was_started_without_its_standard_files_prints_into_no_socket(
    tmp_path: Path, closed: str
) -> None:
    program = f"""
        import os
        ray.init(num_cpus=1)
        @ray.remote
        def seven(): return 7
        told = [ray.get(seven.remote(), timeout=120), *[os.readlink(f"/proc/self/fd/{{fd}}") for fd in range(3)]]
        for fd in (1, 2): os.write(fd, b"as a library of C does")
        ray.shutdown()
        open({str(tmp_path / "told")!r}, "w").write("\\n".join(map(str, told)))
    """
    code = "import sundog as ray\n" + textwrap.dedent(program)
    done = subprocess.run(
        ["bash", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": drivers.SOURCE},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seven, *leads_to = (tmp_path / "told").read_text().splitlines()
    assert seven == "7" and not any("socket" in each or "anon" in each for each in leads_to), leads_to


# ---------------------------------------------------------------------- processes
@functools.cache
def no_stranger() -> str:
    """Why nothing can be run as another user, who may still read the interpreter; "" if it can."""
    if shutil.which("setpriv") is None:
        return "there is no setpriv"
    tried = subprocess.run(
        [*as_stranger(), sys.executable, "-c", ""], capture_output=True, text=True, check=False
    )
    return "" if tried.returncode == 0 else tried.stderr.strip() or "setpriv failed"


def as_stranger() -> list[str]:
    # The limit is not enforced for root. The capability is for reading an interpreter below /root.
    caps = ["--inh-caps", "+dac_override", "--ambient-caps", "+dac_override"]
    return ["setpriv", "--reuid", STRANGER, "--regid", STRANGER, "--clear-groups", *caps]


@pytest.fixture
def strangers_folder(tmp_path: Path) -> str:
    if no_stranger():
        pytest.skip(f"nothing can be run as another user here: {no_stranger()}")
    folder = tmp_path / "stranger"
    folder.mkdir()
    os.chown(folder, int(STRANGER), int(STRANGER))
    return str(folder)


def test_a_user_who_may_have_no_thread_more_is_told_so_by_init(strangers_folder: str) -> None:
    program = "import resource; resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))\n" + textwrap.dedent(
        ONE_TASK
    )
    told = refused(run(program, "", *as_stranger(), SUNDOG_temp_dir=strangers_folder))
    assert "may have 1 (ulimit -u)" in told


@pytest.mark.parametrize("limit", [4, 5])
def test_workers_that_cannot_start_are_told_of_and_do_not_loop(strangers_folder: str, limit: int) -> None:
    program = """
        import glob
        session = ray.init(num_cpus=1)["session_dir"]
        @ray.remote
        def seven(): return 7
        try:
            ray.get(seven.remote(), timeout=3)
        except ray.exceptions.GetTimeoutError:
            log = open(session + "/logs/node.log").read()
            print(log.count("a worker could not start"))
        ray.shutdown()
    """
    done = run(program, f"ulimit -u {limit}", *as_stranger(), SUNDOG_temp_dir=strangers_folder)
    assert f"may have {limit} (ulimit -u)" in done.stderr
    if "A session cannot be started" in done.stderr:
        return  # the node's own threads, which come and go, took the last place
    assert done.stderr.count("Workers cannot start now") == 1, done.stderr
    # 0.1 s, then twice as long each time: five attempts and a few in three seconds, not thousands.
    assert 1 <= int(done.stdout) <= 10


# ---------------------------------------------------------------------- folders
@pytest.mark.parametrize("how", ["chdir", "start"])
def test_a_working_folder_that_was_removed_before_init_does_not_matter(tmp_path: Path, how: str) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    if how == "start":
        done = run(ONE_TASK, f"cd {gone} && rmdir {gone}")
    else:
        done = run(
            f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})\n" + textwrap.dedent(ONE_TASK)
        )
    assert done.stdout == "7\n", done.stderr


def test_a_working_folder_that_is_removed_under_a_session_does_not_matter(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    program = f"""
        import os
        os.chdir({str(gone)!r})
        ray.init(num_cpus=2)
        @ray.remote
        def seven(): return 7
        @ray.remote
        class Actor:
            def eight(self): return 8
        first = ray.get(seven.remote(), timeout=120)
        os.rmdir({str(gone)!r})
        actors = [Actor.remote() for _ in range(3)]
        print(first, ray.get([each.eight.remote() for each in actors], timeout=120), ray.get(seven.remote()))
    """
    assert run(program).stdout == "7 [8, 8, 8] 7\n"


@pytest.mark.parametrize("when", ["before the first task", "after it"])
def test_a_session_goes_on_when_its_folder_is_removed(when: str) -> None:
    program = f"""
        import os, shutil, time
        session = ray.init(num_cpus=2)["session_dir"]
        @ray.remote
        def seven(): return 7
        @ray.remote(max_retries=0)
        def die(runs):
            with open(runs, "a") as file: file.write("x")
            os._exit(3)
        @ray.remote
        class Actor:
            def eight(self): return 8
        if {when == "after it"}:
            print(ray.get(seven.remote(), timeout=120))
        shutil.rmtree(session)
        print(ray.get(seven.remote(), timeout=120))
        actors = [Actor.remote() for _ in range(3)]
        print(ray.get([each.eight.remote() for each in actors], timeout=120))
        runs = os.path.dirname(session) + "/runs"
        try:
            ray.get(die.remote(runs), timeout=120)
        except ray.exceptions.WorkerCrashedError:
            print("died", open(runs).read())
        print(len(ray.get(ray.put(bytes(1_000_000)))))
        while not os.path.exists(session + "/session.json"): time.sleep(0.02)
        from sundog.engines import sessions
        from sundog.wire.requests import Status
        print(sessions.request(sessions.resolve(session), Status())["uptime_s"] > 0)
        ray.shutdown()
    """
    done = run(program)
    lines = done.stdout.splitlines()
    assert lines[-5:] == ["7", "[8, 8, 8]", "died x", "1000000", "True"], done.stdout + done.stderr


def test_a_temporary_folder_whose_name_is_no_text_works(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/odd-\xff\xfe"
    program = f"import os; where = os.fsdecode({folder!r})\n" + textwrap.dedent(ONE_TASK).replace(
        "num_cpus=1", "num_cpus=1, _temp_dir=where"
    )
    done = run(program)
    assert done.stdout == "7\n", done.stderr
    assert any(name.startswith(b"session_") for name in os.listdir(folder))


@pytest.mark.parametrize("folder", ["/etc/passwd", "/proc/nothing"])
def test_a_bad_temporary_folder_is_refused_by_the_name_of_its_setting(folder: str) -> None:
    told = refused(run(ONE_TASK.replace("num_cpus=1", f"num_cpus=1, _temp_dir={folder!r}")))
    assert f"cannot be kept in {folder}:" in told and "_temp_dir" in told


@pytest.mark.parametrize("folder", ["/etc/passwd", "/nothing/there"])
def test_a_bad_folder_for_shared_memory_is_refused_by_the_name_of_its_setting(folder: str) -> None:
    done = run(ONE_TASK, "", SUNDOG_shm_dir=folder)
    told = refused(done)
    assert f"cannot be kept in {folder}:" in told and "shm_dir" in told


def test_shared_memory_that_cannot_be_written_is_refused_by_the_name_of_its_setting() -> None:
    small_disks.needs_mounts()
    told = refused(run(ONE_TASK, "mount -t tmpfs -o ro none /dev/shm", "unshare", "-m"))
    assert "cannot be kept in /dev/shm: Read-only file system" in told and "shm_dir" in told


def test_a_session_goes_on_on_a_file_system_that_becomes_read_only_and_another_is_refused(
    tmp_path: Path,
) -> None:
    small_disks.needs_mounts()
    program = f"""
        import os, subprocess
        disk = {str(tmp_path)!r}
        ray.init(num_cpus=1)
        def mount(*how): return not subprocess.run(["mount", *how, disk], stderr=subprocess.DEVNULL).returncode
        # Busy where the node opened a file for writing in between.
        while not (mount("--bind", disk) and mount("-o", "remount,ro,bind")):
            subprocess.run(["umount", "-l", disk], check=True)
        @ray.remote
        def size(data): return len(data)
        @ray.remote
        class Actor:
            def eight(self): return 8
        print(ray.get(size.remote(ray.put(bytes(1_000_000))), timeout=120))
        print(ray.get(Actor.remote().eight.remote(), timeout=120))
        ray.shutdown()
        try:
            ray.init(num_cpus=1)
        except ray.exceptions.RaySystemError as error:
            print(error)
        subprocess.run(["umount", "-l", disk], check=True)
        ray.init(num_cpus=1)
        print(ray.get(size.remote(b"again"), timeout=120))
    """
    done = run(program, "", "unshare", "-m", SUNDOG_temp_dir=str(tmp_path / "sessions"))
    assert done.returncode == 0, done.stderr
    large, eight, refusal, again = done.stdout.splitlines()
    assert (large, eight, again) == ("1000000", "8", "5")
    assert "Read-only file system" in refusal and "_temp_dir" in refusal


def test_a_machine_without_proc_is_refused_in_a_sentence() -> None:
    small_disks.needs_mounts()
    told = refused(run(ONE_TASK, "mount -t tmpfs none /proc", "unshare", "-m"))
    assert "needs the file system /proc" in told


def test_start_says_the_same_sentences(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sundog.cli", "start", "--head", "--temp-dir", "/proc/nothing"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": drivers.SOURCE},
        timeout=120,
        check=False,
    )
    assert done.returncode != 0 and "SUNDOG_temp_dir" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr, done.stderr


def test_a_session_that_does_not_say_yet_that_it_can_be_joined_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    from sundog.engines import sessions

    monkeypatch.setattr(sessions, "_STARTING_S", 0.1)
    path = tmp_path / "session_2026-01-01_00-00-00_1_aaaaaaaa"
    path.mkdir(mode=0o700)
    with open(path / "lock", "w") as lock:
        os.chmod(path / "lock", 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(
            ConnectionError, match=r"is still starting: it has no session\.json yet.*node\.log"
        ):
            sessions.resolve(str(path))
        (path / "session.json").write_text("{}")
        os.chmod(path / "session.json", 0o600)
        with pytest.raises(ConnectionError, match="There is no running session"):
            sessions.resolve(str(path))
