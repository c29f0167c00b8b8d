"""Attacks by another user of the machine: what is planted is not read, run, joined, killed or removed.

Each attack is the one of docs/security.md. The victim is root, or a user without rights; the attacker is a process with
another user id, so these tests need root and are skipped without it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sundog
from sundog import trust
from sundog.config import Config
from sundog.engines import sessions
from sundog.node.sessions import publish
from sundog.runtime_env import normalize
from sundog.store.folders import make_lock
from sundog.wire.requests import Status
from tests.integration import drivers
from tests.integration.strangers import STRANGER, VICTIM, run_as, running_as, shared_folder
from tests.test_runtime_env import make_wheel

FAR = "session_9999-01-01_00-00-00_1_aaaaaaaa"

# A session that looks alive, whose node sends a pickle that runs a command as whoever reads it.
FAKE_SESSION = """
    import fcntl, json, os, pickle, select, socket, sys
    home, marker, shm_root, pid = sys.argv[1:5]
    path = f"{home}/session_9999-01-01_00-00-00_1_aaaaaaaa"
    for part in ("", "/logs", "/rings"):
        os.mkdir(path + part)
    lock = open(path + "/lock", "w+")
    os.symlink("session_9999-01-01_00-00-00_1_aaaaaaaa", path + "/.sundog")
    os.chmod(path + "/lock", 0o666)
    fcntl.flock(lock, fcntl.LOCK_EX)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path + "/node.sock")
    os.chmod(path + "/node.sock", 0o777)
    listener.listen(8)
    facts = {"name": os.path.basename(path), "path": path, "shm_root": shm_root, "node_pid": int(pid) or os.getpid(),
             "node_id": "00" * 16, "resources": {"CPU": 1.0}, "persistent": True}
    with open(path + "/session.json", "w") as file:
        json.dump(facts, file)
    class Bomb:
        def __reduce__(self):
            return os.system, (f"touch {marker}",)
    print("planted", flush=True)
    kept = []
    while True:
        one, _ = listener.accept()
        kept.append(one)
        try:
            one.send(pickle.dumps(Bomb()))
        except BrokenPipeError:
            pass
    """


@pytest.fixture
def shared(leak_check: Path) -> Iterator[Path]:
    """A folder like /tmp."""
    with shared_folder() as folder:
        yield folder


@pytest.fixture
def precious(leak_check: Path) -> Path:
    """What the victim does not want to lose."""
    folder = leak_check / "precious"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "file").write_text("x")
    return folder


def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sundog.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def plant_decoy(shm_dir: Path) -> Path:
    """What a dead session of this user left: when it is gone, a sweep has been here."""
    decoy = shm_dir / "sundog-1-dddddddd"
    decoy.mkdir(mode=0o700)
    (decoy / ".lock").touch(0o600)
    (decoy / ".session").symlink_to("/nowhere/session_1")
    os.utime(decoy, (1.0, 1.0))
    return decoy


def await_sweep(decoy: Path) -> None:
    drivers.await_true(lambda: not decoy.exists(), "the sweep of what a dead session left")
    sundog.nodes()  # the node answers when it is done with the sweep


# ---------------------------------------------------------------------- removing
def test_a_planted_folder_of_shared_memory_makes_nobody_delete_what_its_links_lead_to(
    shared: Path, precious: Path
) -> None:
    run_as(
        STRANGER,
        """
        import os, sys
        folder, data = sys.argv[1:3]
        session = f"{folder}/session_9999-01-01_00-00-00_1_aaaaaaaa"
        os.makedirs(session + "/spilled_objects")
        open(session + "/lock", "w").close()
        os.chmod(session + "/lock", 0o666)
        os.symlink("session_9999-01-01_00-00-00_1_aaaaaaaa", session + "/.sundog")
        os.symlink(data, session + "/spilled_objects/to-0")
        for name in ("sundog-1-aaaaaaaa", "sundog-1-eeeeeeee"):
            os.mkdir(f"{folder}/{name}", 0o777)
            open(f"{folder}/{name}/.lock", "w").close()
            os.chmod(f"{folder}/{name}/.lock", 0o666)
            os.symlink(session, f"{folder}/{name}/.session")
        os.symlink(data, f"{folder}/sundog-1-bbbbbbbb")
        """,
        str(shared),
        str(precious),
    )
    decoy = plant_decoy(shared)
    with sundog.init(num_cpus=1, _system_config={"shm_dir": str(shared)}):
        await_sweep(decoy)
    assert (precious / "below" / "file").exists()
    assert (shared / FAR / "lock").exists() and (shared / "sundog-1-aaaaaaaa").exists()


# Whoever may write to the folder above swaps the victim's folder for a link to what the victim wants to keep.
SWAPPER = """
    import os, sys
    folder, precious = sys.argv[1:3]
    os.chdir(folder)
    print("begun", flush=True)
    while True:
        try:
            os.rename("session", "moved")
            os.symlink(precious, "session")
            os.unlink("session")
            os.rename("moved", "session")
        except OSError:
            for name in ("session", "moved"):
                try:
                    os.unlink(name)
                except OSError:
                    pass
    """


def test_a_stranger_who_swaps_a_folder_for_a_link_while_it_is_removed_makes_nobody_lose_other_files(
    shared: Path, precious: Path
) -> None:
    shared.chmod(0o777)  # without the sticky bit others may rename what is in it
    removed = 0
    with running_as(STRANGER, SWAPPER, str(shared), str(precious)):
        for number in range(300):
            made = shared / f"new-{number}"
            (made / "below").mkdir(parents=True)
            (made / "below" / "file").touch()
            with contextlib.suppress(OSError):
                made.rename(shared / "session")
            removed += trust.remove(str(shared / "session"))
    assert removed and (precious / "below" / "file").read_text() == "x"


def test_old_sessions_are_removed_only_if_they_are_this_users(shared: Path, precious: Path) -> None:
    run_as(
        STRANGER,
        """
        import os, sys
        folder, data = sys.argv[1:3]
        for name in ("session_2000-01-01_00-00-00_1_aaaaaaaa", "session_2000-01-01_00-00-00_1_bbbbbbbb"):
            session = f"{folder}/{name}"
            os.mkdir(session)
            open(session + "/lock", "w").close()
            os.symlink(name, session + "/.sundog")
            os.chmod(session + "/lock", 0o666)
            os.utime(session + "/lock", (1.0, 1.0))
            os.mkdir(session + "/spilled_objects")
            os.symlink(data, session + "/spilled_objects/to-0")
        os.symlink(data, f"{folder}/session_2000-01-01_00-00-00_1_cccccccc")
        """,
        str(shared),
        str(precious),
    )
    mine = shared / "session_of_my_thesis"
    mine.mkdir(mode=0o700)
    (mine / "lock").touch()
    os.utime(mine / "lock", (1.0, 1.0))
    # The newest go first, so when this one is gone all others have been judged.
    oldest = shared / "session_1999-01-01_00-00-00_1_dddddddd"
    oldest.mkdir(mode=0o700)
    os.close(make_lock(str(oldest)))
    with sundog.init(num_cpus=1, _temp_dir=str(shared), _system_config={"session_keep": 0}):
        drivers.await_true(lambda: not oldest.exists(), "the removal of old sessions")
    assert (precious / "below" / "file").exists()
    assert mine.exists() and len(list(shared.glob("session_2000*"))) == 3


# ---------------------------------------------------------------------- joining and asking
def test_a_planted_session_is_not_joined_asked_or_stopped(
    shared: Path, precious: Path, leak_check: Path
) -> None:
    marker, home = leak_check / "pwned", shared / "home"
    run_as(STRANGER, "import os, sys; os.mkdir(sys.argv[1]); os.chmod(sys.argv[1], 0o777)", str(home))
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        with running_as(STRANGER, FAKE_SESSION, str(home), str(marker), str(precious), str(bystander.pid)):
            for address in ("auto", FAR, str(home / FAR)):
                with pytest.raises(
                    ConnectionError, match="another user" if address[0] == "/" else "no running session"
                ):
                    sundog.init(address=address, _temp_dir=str(home))
            assert cli("status", "--temp-dir", str(home)).returncode == 3
            assert cli("stop", "--temp-dir", str(home)).stdout == "No session is running.\n"
            assert (
                cli("stop", "--all", "--force", "--temp-dir", str(home)).stdout == "No session is running.\n"
            )
            assert cli("stop", "--session", FAR, "--temp-dir", str(home)).returncode == 1
            with pytest.raises(ValueError, match="belongs to another user"):
                sundog.init(num_cpus=1, _temp_dir=str(home))
        assert bystander.poll() is None, "it was killed"
    finally:
        bystander.kill()
        bystander.wait()
    assert not marker.exists()
    assert (precious / "below" / "file").exists()


def test_a_node_that_runs_as_another_user_is_not_read_from(shared: Path, leak_check: Path) -> None:
    """As if a stranger's process had got hold of a socket in the victim's own folder."""
    marker = leak_check / "pwned"
    session, lock = sessions.make_session(Config(temp_dir=str(shared), shm_dir=str(shared)))
    publish({**session, "node_pid": os.getpid(), "node_id": b""}, {}, persistent=True)
    os.chmod(session["path"], 0o733)
    with running_as(
        STRANGER,
        """
        import os, pickle, socket, sys
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(sys.argv[1] + "/node.sock")
        os.chmod(sys.argv[1] + "/node.sock", 0o777)
        listener.listen(8)
        class Bomb:
            def __reduce__(self):
                return os.system, (f"touch {sys.argv[2]}",)
        print("listening", flush=True)
        while True:
            one, _ = listener.accept()
            try:
                one.send(pickle.dumps(Bomb()))
            except BrokenPipeError:
                pass
        """,
        session["path"],
        str(marker),
    ):
        os.chmod(session["path"], 0o700)
        info = sessions.read_session(session["path"])
        assert info is not None
        with pytest.raises(ConnectionError, match="runs as another user"):
            sessions.request(info, Status())
        with pytest.raises(ConnectionError, match="runs as another user"):
            sundog.init(address=session["path"])
    os.close(lock)
    assert not marker.exists()


def test_the_node_reads_nothing_from_another_user(shared: Path, leak_check: Path) -> None:
    """As if a stranger had found a way to the socket, which a folder of mode 0700 hides."""
    marker = leak_check / "pwned"
    with sundog.init(num_cpus=1, _temp_dir=str(shared)) as info:
        session = Path(info["session_dir"])
        drivers.await_true(lambda: (session / "session.json").exists(), "the node")
        session.chmod(0o711)
        (session / "node.sock").chmod(0o777)
        done = run_as(
            STRANGER,
            """
            import os, pickle, select, socket, sys
            class Bomb:
                def __reduce__(self):
                    return os.system, (f"touch {sys.argv[2]}",)
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            sock.connect(sys.argv[1])
            try:
                sock.send(pickle.dumps(Bomb()))
                print(repr(sock.recv(100)))
            except ConnectionError:
                print(repr(b""))
            """,
            str(session / "node.sock"),
            str(marker),
        )
        assert done.stdout == "b''\n", "the node answered"
        assert "runs as another user" in (session / "logs" / "node.log").read_text()
        assert sundog.cluster_resources()["CPU"] == 1.0
    assert not marker.exists()


def test_stop_signals_no_process_that_does_not_hold_the_sessions_lock(leak_check: Path) -> None:
    """A pid in a file may be another process by now, of the same user even."""
    session, lock = sessions.make_session(Config(temp_dir=str(leak_check), shm_dir=str(leak_check)))
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        publish({**session, "node_pid": bystander.pid, "node_id": b""}, {}, persistent=True)
        info = sessions.read_session(session["path"])
        assert info is not None
        with pytest.raises(sundog.exceptions.RaySystemError, match="no signal was sent"):
            sessions.stop_session(info, force=True)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
        os.close(lock)


# ---------------------------------------------------------------------- the default folder
PROGRAM = """
    import os, subprocess, sys
    import sundog as ray
    info = ray.init(num_cpus=1)
    ray.put(bytes(300_000))
    assert ray.get(ray.remote(lambda: 7).remote()) == 7
    asked = subprocess.run([sys.executable, "-m", "sundog.cli", "status"], capture_output=True, text=True)
    assert info["session_name"] in asked.stdout, asked.stdout + asked.stderr
    joined = subprocess.run([sys.executable, "-c", "import sundog; print(sundog.init(address='auto')['session_name'])"],
                            capture_output=True, text=True)
    assert joined.stdout.split() == [info["session_name"]], joined.stderr
    home = os.path.dirname(info["session_dir"])
    print(home, oct(os.stat(home).st_mode & 0o7777), oct(os.stat(info["session_dir"]).st_mode & 0o7777))
    loose = [path for path, _, _ in os.walk(home) if path != home and os.path.dirname(path) == home
             and os.stat(path).st_mode & 0o077]
    assert not loose, loose
    """


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_users_share_no_folder_and_the_umask_opens_none(shared: Path, umask: int) -> None:
    for uid in (STRANGER, VICTIM):
        done = run_as(uid, PROGRAM, umask=umask, SUNDOG_temp_dir="", TMPDIR=str(shared))
        assert done.stdout.split() == [f"{shared}/sundog-{uid}", "0o700", "0o700"]
        assert [line for line in done.stderr.splitlines() if not line.startswith("(sundog) Started")] == []


@pytest.mark.parametrize("what", ["folder", "open folder", "link", "file"])
def test_a_user_whose_folder_somebody_else_made_first_gets_a_private_one(shared: Path, what: str) -> None:
    run_as(
        STRANGER,
        """
        import os, sys
        path, what = sys.argv[1:3]
        if what == "link":
            os.mkdir(path + ".trap", 0o777)
            os.symlink(path + ".trap", path)
        elif what == "file":
            open(path, "w").close()
        else:
            os.mkdir(path)
            os.chmod(path, 0o777 if what == "open folder" else 0o700)
        """,
        f"{shared}/sundog-{VICTIM}",
        what,
    )
    homes = set()
    for _ in range(2):
        done = run_as(VICTIM, PROGRAM, SUNDOG_temp_dir="", TMPDIR=str(shared))
        home, *modes = done.stdout.split()
        assert home.startswith(f"{shared}/sundog-{VICTIM}-") and modes == ["0o700", "0o700"]
        assert "belongs to another user" in done.stderr and "SUNDOG_temp_dir" in done.stderr
        assert os.stat(home).st_uid == VICTIM
        homes.add(home)
    assert len(homes) == 1, "the second session made another folder"


# ---------------------------------------------------------------------- packages
@pytest.mark.timeout(240)  # it makes a virtual environment
def test_a_planted_pip_environment_runs_in_nobody(shared: Path, leak_check: Path, tmp_path: Path) -> None:
    marker = leak_check / "pwned"
    runtime_env = {
        "pip": {
            "packages": [str(make_wheel(tmp_path / "wheels"))],
            "pip_install_options": ["--no-index"],
            "pip_check": False,
        }
    }
    name = os.path.basename(normalize(runtime_env, session_dir=str(tmp_path / "session")).pip_dir)
    run_as(
        STRANGER,
        """
        import os, sys
        home, name, marker = sys.argv[1:4]
        made = f"{home}/runtime_resources/pip/{name}"
        site = f"{made}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
        os.makedirs(site)
        open(site + "/x.pth", "w").write(f"import os; os.system('touch {marker}')\\n")
        open(site + "/tinydemo.py", "w").write("answer = 13\\n")
        open(made + "/.ready", "w").close()
        """,
        str(shared),
        name,
        str(marker),
    )

    with sundog.init(num_cpus=1, _temp_dir=str(shared)) as info:

        @sundog.remote(runtime_env=runtime_env)
        def answer() -> tuple[int, str]:
            import tinydemo  # type: ignore[import-not-found]

            return tinydemo.answer, tinydemo.__file__

        value, where = sundog.get(answer.remote(), timeout=200)
        assert value == 42 and where.startswith(info["session_dir"])
    assert not marker.exists()


# ---------------------------------------------------------------------- containers
def test_sessions_that_share_memory_but_not_the_temporary_folder_leave_each_other_alone(
    shared: Path, leak_check: Path
) -> None:
    """As with systemd's PrivateTmp, or containers with one IPC namespace: each has a /tmp of its own."""
    program = f"""
import os, sys
import sundog as ray
from sundog import engines
info = ray.init(num_cpus=1, _temp_dir={str(shared / "tmp")!r}, _system_config={{"shm_dir": {str(shared)!r}}})
ref = ray.put(bytes(1 << 20))
root = engines.current().owner.segments.shm_root
assert ray.get(ray.remote(len).remote(ref)) == 1 << 20
print("up", root, flush=True)
input()
again = ray.put(bytes(1 << 20))
assert ray.get(ray.remote(len).remote(ref)) == ray.get(ray.remote(len).remote(again)) == 1 << 20
print(len(os.listdir(root)) > 2, flush=True)
"""
    (shared / "tmp").mkdir()
    first = plant_decoy(shared)  # before the session is there: it sweeps once
    script = f'mount -t tmpfs tmpfs {shared / "tmp"} && exec {sys.executable} -u -c "$0"'
    private = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script, program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": drivers.SOURCE},
    )
    assert private.stdin is not None and private.stdout is not None
    try:
        up, _, theirs = private.stdout.readline().strip().partition(" ")
        if up != "up":
            shutil.rmtree(first)
            pytest.skip("nothing can be mounted here")
        os.utime(theirs, (1.0, 1.0))  # its age proves nothing either
        drivers.await_true(lambda: not first.exists(), "the sweep of the session that is there")
        decoy = plant_decoy(shared)
        settings = {"shm_dir": str(shared)}
        with sundog.init(num_cpus=1, _temp_dir=str(shared / "tmp"), _system_config=settings):
            await_sweep(decoy)
            private.stdin.write("\n")
            private.stdin.flush()
            assert private.stdout.readline() == "True\n"
        assert private.wait(drivers.TIMEOUT_S) == 0
    finally:
        private.kill()
        private.communicate()
    assert not list(shared.glob("sundog-*"))
