"""What is trusted and what is not: owners, modes, links, swaps between a check and its use, peers, processes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sundog import trust
from tests.shortages import no_descriptor_free


@contextlib.contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


@pytest.fixture
def as_somebody_else(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on, what this user made belongs to another one."""
    uid = os.geteuid()
    return lambda: monkeypatch.setattr(os, "geteuid", lambda: uid + 1)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


# ---------------------------------------------------------------------- judging and opening
def test_a_private_folder_of_this_user_is_trusted(tmp_path: Path) -> None:
    trust.make_folder(str(tmp_path / "mine"))
    trust.check_folder(str(tmp_path / "mine"))
    assert trust.is_ours(str(tmp_path / "mine"))
    fd = trust.open_folder(str(tmp_path / "mine"))
    try:
        assert os.path.samestat(os.fstat(fd), os.stat(tmp_path / "mine"))
    finally:
        os.close(fd)


@pytest.mark.parametrize("bits", [0o720, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_can_write_to_is_not_trusted(tmp_path: Path, bits: int) -> None:
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(bits)
    with pytest.raises(trust.Untrusted, match="other users can write to it"):
        trust.check_folder(str(loose))
    with pytest.raises(trust.Untrusted, match="other users can write to it"):
        trust.open_folder(str(loose))
    assert not trust.is_ours(str(loose))


def test_a_link_is_not_trusted_wherever_it_leads(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "mine" / "file").touch(0o600)
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    (tmp_path / "link-to-file").symlink_to(tmp_path / "mine" / "file")
    for attempt in (trust.check_folder, trust.open_folder, trust.make_folder):
        with pytest.raises(trust.Untrusted, match="it is a link"):
            attempt(str(tmp_path / "link"))
    with pytest.raises(trust.Untrusted, match="it is a link"):
        trust.open_file(str(tmp_path / "link-to-file"))


def test_what_belongs_to_another_user_is_not_trusted(
    tmp_path: Path, as_somebody_else: Callable[[], None]
) -> None:
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir(mode=0o700)
    file.touch(0o600)
    as_somebody_else()
    for attempt in (trust.check_folder, trust.open_folder, trust.make_folder):
        with pytest.raises(trust.Untrusted, match="belongs to another user") as refused:
            attempt(str(folder))
        assert refused.value.filename == str(folder)
    with pytest.raises(trust.Untrusted, match="belongs to another user"):
        trust.read_file(str(file))
    assert not trust.is_ours(str(folder))


def test_a_file_is_trusted_only_if_it_is_regular_and_private(tmp_path: Path) -> None:
    os.close(trust.create_file(str(tmp_path / "file")))
    assert trust.read_file(str(tmp_path / "file")) == b""
    (tmp_path / "file").chmod(0o666)
    with pytest.raises(trust.Untrusted, match="other users can write to it"):
        trust.read_file(str(tmp_path / "file"))
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(trust.Untrusted, match="no regular file"):
        trust.read_file(str(tmp_path / "pipe"))
    with pytest.raises(FileNotFoundError):
        trust.read_file(str(tmp_path / "nothing"))


def test_a_folder_that_is_swapped_for_a_link_after_it_was_opened_is_still_the_one_that_was_checked(
    tmp_path: Path,
) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    for folder, text in ((mine, b"mine"), (other, b"planted")):
        trust.make_folder(str(folder))
        fd = trust.create_file(str(folder / "session.json"))
        os.write(fd, text)
        os.close(fd)
    fd = trust.open_folder(str(mine))
    try:
        mine.rename(tmp_path / "moved")
        mine.symlink_to(other)
        assert trust.read_file("session.json", fd) == b"mine"
    finally:
        os.close(fd)


# ---------------------------------------------------------------------- containers
def test_a_shared_folder_with_the_sticky_bit_may_hold_ours(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert trust.check_container(str(tmp_path)) == ""
    assert trust.check_container("/tmp") == ""
    tmp_path.chmod(0o755)
    assert trust.check_container(str(tmp_path)) == ""


def test_a_shared_folder_without_the_sticky_bit_is_warned_of(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert "sticky bit" in trust.check_container(str(tmp_path))


def test_a_folder_above_without_the_sticky_bit_is_warned_of_by_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "shared" / "ours").mkdir(parents=True)
    (tmp_path / "shared").chmod(0o777)
    assert trust.check_container(str(tmp_path / "shared" / "ours")).endswith(f"chmod +t {tmp_path}/shared")
    (tmp_path / "shared").chmod(0o1777)
    assert trust.check_container(str(tmp_path / "shared" / "ours")) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("given", ["theirs/ours", "theirs/link/deep", "link/deep", "open/../theirs/ours"])
def test_a_folder_that_a_stranger_above_it_can_swap_is_warned_of(tmp_path: Path, given: str) -> None:
    for folder in ("theirs/ours", "ours/deep", "open"):
        (tmp_path / folder).mkdir(parents=True)
    for link in ("theirs/link", "link"):
        (tmp_path / link).symlink_to(tmp_path / "ours")
    assert trust.check_container(str(tmp_path / given)) == ""
    for taken in ("theirs", "link"):
        os.lchown(tmp_path / taken, 54321, 54321)
    assert "54321" in trust.check_container(str(tmp_path / given))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link to another user")
def test_a_link_of_another_user_to_a_folder_of_ours_may_not_hold_ours(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    assert trust.check_container(str(tmp_path / "link")) == ""
    os.lchown(tmp_path / "link", 54321, 54321)
    with pytest.raises(trust.Untrusted, match="54321"):
        trust.check_container(str(tmp_path / "link"))


def test_a_folder_of_another_user_may_not_hold_ours(
    tmp_path: Path, as_somebody_else: Callable[[], None]
) -> None:
    if os.geteuid() == 0:
        os.chown(tmp_path, 12345, 12345)
    else:
        as_somebody_else()
    with pytest.raises(trust.Untrusted, match="another user"):
        trust.check_container(str(tmp_path))


def test_a_group_that_has_only_this_user_is_no_danger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o775)
    monkeypatch.setattr(trust, "_is_private_group", lambda gid: True)
    assert trust.check_container(str(tmp_path)) == ""
    monkeypatch.setattr(trust, "_is_private_group", lambda gid: False)
    assert trust.check_container(str(tmp_path)) != ""


# ---------------------------------------------------------------------- making
@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o077])
def test_what_is_made_is_private_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    with umask(mask):
        trust.make_folder(str(tmp_path / "a" / "b" / "c"))
        home, _ = trust.make_home(str(tmp_path / "x" / "home"))
        os.close(trust.create_file(str(tmp_path / "file")))
    for path in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c", Path(home)):
        assert mode(path) == 0o700
    assert mode(tmp_path / "file") == 0o600


@pytest.mark.parametrize("where", ["/proc/none/below", "/dev/null/below"])
def test_a_folder_that_cannot_be_made_is_an_error(where: str) -> None:
    for attempt in (trust.make_folder, trust.make_missing, trust.make_home):
        with pytest.raises(OSError):
            attempt(where)


def test_a_new_file_never_goes_where_a_planted_link_leads(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("precious")
    (tmp_path / "file").symlink_to(target)
    fd = trust.create_file(str(tmp_path / "file"))
    os.write(fd, b"new")
    os.close(fd)
    assert target.read_text() == "precious"
    assert (tmp_path / "file").read_text() == "new" and not (tmp_path / "file").is_symlink()


def test_a_new_file_leaves_a_file_whose_second_name_was_planted_as_it_is(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("x")
    precious.chmod(0o640)
    os.link(precious, tmp_path / "new")
    os.close(trust.create_file(str(tmp_path / "new")))
    assert precious.read_text() == "x" and mode(precious) == 0o640
    assert (tmp_path / "new").stat().st_size == 0 and mode(tmp_path / "new") == 0o600


def test_a_log_that_is_there_is_continued_and_a_new_one_cannot_be_written_by_others(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with umask(0):
        for line in (b"one\n", b"two\n"):
            fd = trust.open_log(str(path))
            os.write(fd, line)
            os.close(fd)
    assert path.read_text() == "one\ntwo\n" and mode(path) == 0o644


@pytest.mark.parametrize(
    ("plant", "why"),
    [
        (lambda log, precious: log.symlink_to(precious), "a link"),
        (lambda log, precious: log.hardlink_to(precious), "a second name"),
        (lambda log, precious: os.mkfifo(log), "no regular file"),
        (lambda log, precious: log.mkdir(), "no regular file"),
    ],
)
def test_a_log_never_goes_where_a_planted_name_leads(
    tmp_path: Path, plant: Callable[[Path, Path], None], why: str
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    plant(tmp_path / "log", precious)
    with pytest.raises(trust.Untrusted, match=why):
        trust.open_log(str(tmp_path / "log"))
    assert precious.read_text() == "precious"


def test_a_log_of_another_user_is_not_continued(tmp_path: Path, as_somebody_else: Callable[[], None]) -> None:
    path = tmp_path / "log"
    path.touch()
    as_somebody_else()
    with pytest.raises(trust.Untrusted, match="another user"):
        trust.open_log(str(path))


def test_the_home_of_sessions_is_the_default_if_that_is_ours(tmp_path: Path) -> None:
    default = str(tmp_path / "sundog-7")
    assert trust.make_home(default) == (default, "")
    assert trust.make_home(default) == (default, "")
    assert trust.homes(default) == [default]


def test_a_home_that_an_open_umask_left_open_is_closed(tmp_path: Path) -> None:
    default = tmp_path / "sundog-7"
    default.mkdir()
    default.chmod(0o777)
    assert trust.homes(str(default)) == [str(default)]
    assert trust.make_home(str(default)) == (str(default), "")
    assert mode(default) == 0o700


@pytest.mark.parametrize("what", ["a link", "a file", "a dangling link"])
def test_a_home_whose_name_is_taken_is_a_private_one_that_is_found_again(tmp_path: Path, what: str) -> None:
    default = tmp_path / "sundog-7"
    (tmp_path / "else").mkdir()
    if what == "a file":
        default.touch()
    else:
        default.symlink_to(tmp_path / ("else" if what == "a link" else "nothing"))
    home, why = trust.make_home(str(default))
    assert home.startswith(f"{default}-") and why
    assert mode(Path(home)) == 0o700
    assert trust.make_home(str(default)) == (home, why), "no second one"
    assert trust.homes(str(default)) == [home]
    assert os.listdir(tmp_path / "else") == []
    default.unlink()
    assert trust.make_home(str(default)) == (str(default), "")
    assert trust.homes(str(default)) == [str(default), home], "sessions that run there are found still"


def test_a_private_home_of_another_user_is_not_taken_for_ours(
    tmp_path: Path, as_somebody_else: Callable[[], None]
) -> None:
    default = tmp_path / "sundog-7"
    default.mkdir(mode=0o700)
    (tmp_path / "sundog-7-aaaa").mkdir(mode=0o700)
    as_somebody_else()
    assert trust.homes(str(default)) == []
    home, why = trust.make_home(str(default))
    assert home not in (str(default), str(tmp_path / "sundog-7-aaaa"))
    assert "another user" in why


# ---------------------------------------------------------------------- removing
def tree(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "file").write_text("x")
    (folder / "a" / "b" / "file").write_text("x")


def test_a_folder_goes_with_all_that_is_in_it_and_links_go_alone(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    tree(precious)
    victim = tmp_path / "victim"
    tree(victim)
    (victim / "to").symlink_to(precious)
    (victim / "a" / "to").symlink_to(precious / "a")
    (victim / "a" / "to-file").symlink_to(precious / "a" / "file")
    assert trust.remove(str(victim))
    assert not victim.exists()
    assert (precious / "a" / "b" / "file").read_text() == "x" and (precious / "a" / "file").exists()
    assert trust.remove(str(victim)), "what is not there is gone"
    assert trust.remove(str(victim / "below"))


def test_of_a_file_with_a_second_name_elsewhere_only_the_name_in_the_folder_goes(tmp_path: Path) -> None:
    precious, victim = tmp_path / "precious", tmp_path / "victim"
    tree(victim)
    precious.write_text("x")
    precious.chmod(0o640)
    os.link(precious, victim / "a" / "planted")
    os.link(precious, victim / "lock")
    assert trust.remove(str(victim), last=("lock",))
    assert precious.read_text() == "x" and mode(precious) == 0o640


def test_what_says_that_a_folder_is_to_go_goes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path / "victim")
    for name in ("lock", "mark"):
        (tmp_path / "victim" / name).touch()
    gone: list[str] = []
    really_unlink = os.unlink

    def unlink(path: str, *, dir_fd: int | None = None) -> None:
        gone.append(path)
        if path == "stuck":
            raise PermissionError
        really_unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", unlink)
    (tmp_path / "victim" / "stuck").touch()
    assert not trust.remove(str(tmp_path / "victim"), last=("mark", "lock"))
    assert sorted(os.listdir(tmp_path / "victim")) == ["lock", "mark", "stuck"]
    (tmp_path / "victim" / "stuck").rename(tmp_path / "victim" / "loose")
    assert trust.remove(str(tmp_path / "victim"), last=("mark", "lock", "not there"))
    assert gone[-4:] == ["loose", "mark", "lock", "not there"]


def test_a_link_in_place_of_the_folder_is_not_followed_nor_removed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    tree(precious)
    (tmp_path / "link").symlink_to(precious)
    assert not trust.remove(str(tmp_path / "link"))
    assert (precious / "a" / "b" / "file").exists() and (tmp_path / "link").is_symlink()


def test_the_folder_of_another_user_is_not_removed(
    tmp_path: Path, as_somebody_else: Callable[[], None]
) -> None:
    tree(tmp_path / "theirs")
    as_somebody_else()
    assert not trust.remove(str(tmp_path / "theirs"))
    assert (tmp_path / "theirs" / "a" / "b" / "file").exists()


def test_a_sub_folder_that_becomes_a_link_while_it_is_removed_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious, victim = tmp_path / "precious", tmp_path / "victim"
    tree(precious)
    tree(victim)
    really_open = os.open

    def open_late(path: str, flags: int, *args: object, dir_fd: int | None = None) -> int:
        if path == "a" and (victim / "a").is_dir() and not (victim / "a").is_symlink():
            (victim / "a").rename(
                tmp_path / "moved"
            )  # after it was found to be a folder, before it is opened
            (victim / "a").symlink_to(precious / "a")
        return really_open(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", open_late)
    assert not trust.remove(str(victim))
    assert (precious / "a" / "b" / "file").exists() and (precious / "a" / "file").exists()


def test_a_folder_that_is_swapped_while_it_is_removed_costs_nothing_but_what_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious, victim = tmp_path / "precious", tmp_path / "victim"
    tree(precious)
    tree(victim)
    really_rmdir = os.rmdir

    def rmdir_late(path: str, *, dir_fd: int | None = None) -> None:
        if path == "victim":
            victim.rename(tmp_path / "moved")
            precious.rename(victim)
        really_rmdir(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", rmdir_late)
    assert not trust.remove(str(victim))
    assert (victim / "a" / "b" / "file").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_another_file_system_below_is_not_entered(tmp_path: Path) -> None:
    program = """
import os, subprocess, sys
from sundog import trust
folder = sys.argv[1]
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder + "/a/b"], check=True)
open(folder + "/a/b/precious", "w").close()
assert not trust.remove(folder)
print(os.listdir(folder + "/a"), os.listdir(folder + "/a/b"))
"""
    tree(tmp_path / "victim")
    command = ["unshare", "--mount", sys.executable, "-c", program, str(tmp_path / "victim")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    assert done.stdout == "['b'] ['precious']\n", done.stderr


def test_a_tree_deeper_than_python_can_descend_is_no_error(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    os.mkdir("deep", dir_fd=fd)
    for _ in range(1200):
        name = "deep" if _ == 0 else "d"
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
        os.mkdir("d", dir_fd=fd)
    os.close(fd)
    trust.remove(str(tmp_path / "deep"))  # as far as it goes
    subprocess.run(["rm", "-rf", str(tmp_path / "deep")], check=True)


# ---------------------------------------------------------------------- processes
def test_a_peer_of_this_user_is_known_by_its_pid(as_somebody_else: Callable[[], None]) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        assert trust.check_peer(ours) == os.getpid()
        as_somebody_else()
        with pytest.raises(trust.Untrusted, match="runs as another user"):
            trust.check_peer(ours)


def test_a_process_is_known_by_the_file_that_it_keeps_open(tmp_path: Path) -> None:
    lock, other = tmp_path / "lock", tmp_path / "other"
    fds = [trust.create_file(str(path)) for path in (lock, other)]
    child = subprocess.Popen(["sleep", "100"], pass_fds=fds[:1])
    try:
        assert trust.open_holder(child.pid, fds[1]) is None
        assert trust.open_holder(0, fds[0]) is None
        assert trust.open_holder(-1, fds[0]) is None, "a negative number means a whole group to kill()"
        pidfd = trust.open_holder(child.pid, fds[0])
        assert pidfd is not None
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)
        assert child.wait() == -signal.SIGKILL
        assert trust.open_holder(child.pid, fds[0]) is None
    finally:
        child.kill()
        child.wait()
        for fd in fds:
            os.close(fd)


def test_a_process_is_this_users_or_not(as_somebody_else: Callable[[], None]) -> None:
    assert trust.is_own_process(os.getpid()) and not trust.is_own_process(1 << 30)
    as_somebody_else()
    assert not trust.is_own_process(os.getpid())


def test_a_lock_is_held_by_one_descriptor_until_it_is_closed(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    first, second, third = (trust.open_file(str(tmp_path / "lock"), flags=os.O_RDWR) for _ in range(3))
    assert trust.locked(first) == first
    assert trust.locked(second) is None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.close(second)
    os.close(first)
    assert trust.locked(third) == third
    os.close(third)


def test_an_untrusted_path_survives_pickling() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(trust.Untrusted(1, "it is a link", "/tmp/x")))
    assert (type(error), error.strerror, error.filename) == (trust.Untrusted, "it is a link", "/tmp/x")


# ---------------------------------------------------------------------- users of connections
ROW = "  1: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 {user} 0 {inode} 1 0 20"
CLIENT, SERVER = ("127.0.0.1", 40000), ("127.0.0.1", 8080)


def row(state: str = "01", user: int = 1000, inode: int = 7, *, turned: bool = False) -> str:
    local, remote = trust._in_table(*CLIENT), trust._in_table(*SERVER)
    if turned:
        local, remote = remote, local
    return ROW.format(local=local, remote=remote, state=state, user=user, inode=inode)


@pytest.mark.parametrize(
    ("rows", "user"),
    [
        ([row()], 1000),
        ([row(turned=True, user=5), row(user=6)], 6),  # the server's own end of the connection is no answer
        ([row(state="06", user=0, inode=0)], None),  # closed: the kernel names user 0 for it
        ([row(user=0, inode=0)], None),
        ([], None),
    ],
)
def test_the_user_of_a_connection_is_read_from_the_kernels_table(rows: list[str], user: int | None) -> None:
    assert trust.user_of(["  sl  local_address …", *rows], CLIENT, SERVER) == user


def test_the_user_of_a_real_connection_is_this_one_and_of_a_closed_one_nobody() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        with server.accept()[0] as accepted:
            assert trust.connected_user(accepted) == os.geteuid()
            client.close()
            assert trust.connected_user(accepted) is None
        with socket.socket() as unconnected:
            assert trust.connected_user(unconnected) is None


def test_a_umask_that_closes_new_folders_to_their_owner_is_named_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_args, **_named: False)  # what root is told otherwise
    with umask(0o777):
        for made in (trust.make_missing, trust.make_new, trust.make_home):
            with pytest.raises(trust.Untrusted, match="umask 077"):
                made(str(tmp_path / "new"))
            assert os.listdir(tmp_path) == []


def test_a_home_that_cannot_be_opened_for_want_of_a_descriptor_is_not_given_up(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    trust.make_home(home)
    with no_descriptor_free(), pytest.raises(OSError, match="Too many open files"):
        trust.make_home(home)
    assert os.listdir(tmp_path) == ["home"]
