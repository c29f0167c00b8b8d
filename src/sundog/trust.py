"""What this user may trust on a machine with other users: folders, files, processes, and the peers of sockets.

Owns every check of ownership in sundog. A path that is read, joined, trusted or removed goes through here, and so does
a connection before a byte from it is unpickled. Trusted is what belongs to this effective user, is no link, and
cannot be written by others; root is a user like any other (root's own session must not read a stranger's files either).
Refuses to trust a name twice: a folder is opened first and judged by its descriptor, so that another user who swaps
the name in between gains nothing.

Used by every process, on any thread. Imports next to nothing, for every start waits for it.
See docs/security.md for what is promised.
"""

from __future__ import annotations

import _socket
import errno
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK the opening of a named pipe waits for its other end.
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_PRIVATE = 0o700
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_CREDENTIALS_BYTES = 12  # struct ucred: pid, uid, gid
_CONNECTIONS = "/proc/net/tcp"
_ESTABLISHED = "01"


class Untrusted(PermissionError):
    """Another user owns this, or could have put it there. `strerror` says why, `filename` what."""


def _refuse(why: str, path: str) -> Untrusted:
    return Untrusted(errno.EPERM, why, path)


# ---------------------------------------------------------------------- judging
def fault_of(info: os.stat_result, *, folder: bool) -> str:
    """Why a file or folder is not to be trusted, as half a sentence; "" if it is."""
    if info.st_uid != os.geteuid():
        return f"it belongs to another user (uid {info.st_uid})"
    if stat.S_ISLNK(info.st_mode):
        return "it is a link"
    if folder and not stat.S_ISDIR(info.st_mode):
        return "it is no folder"
    if not folder and not stat.S_ISREG(info.st_mode):
        return "it is no regular file"
    if info.st_mode & _OTHERS_WRITE:
        return "other users can write to it"
    return ""


def check_folder(path: str) -> None:
    """Raises: Untrusted: this is no folder of this user's own. OSError: it cannot be looked at."""
    if why := fault_of(os.lstat(path), folder=True):
        raise _refuse(why, path)


def is_ours(path: str) -> bool:
    """Whether this is a folder that only this user can write to; no if there is none."""
    try:
        return not fault_of(os.lstat(path), folder=True)
    except OSError:
        return False


def is_own_file(path: str) -> bool:
    """Whether this is a regular file that only this user can write to; no if there is none."""
    try:
        return not fault_of(os.lstat(path), folder=False)
    except OSError:
        return False


def check_container(path: str) -> str:
    """Look at a folder that the user chose for us to make folders in: /tmp, a scratch disk, /dev/shm.

    The folder need not be this user's: what is made there is private, and in a folder with the sticky bit no other user
    can replace it. The folders and links above it are the user's choice, and are warned of.

    Returns:
        The end of a warning, with what to do, if others could replace the folder or what is made there; "" if they
        cannot.

    Raises:
        Untrusted: it, or a link of its name, belongs to a user who is neither this user nor root.
        OSError: it cannot be looked at.
    """
    info = os.stat(path)
    for owner in (info.st_uid, os.lstat(path).st_uid):
        if owner not in (0, os.geteuid()) and not _is_unmapped(owner):
            raise _refuse(f"it belongs to another user (uid {owner})", path)
    if not stat.S_ISDIR(info.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    if _lets_others_rename(info):
        return f"other users can rename what is in it, because it has no sticky bit. Set the bit with: chmod +t {path}"
    return _hazard_above(path)


def _hazard_above(path: str) -> str:
    """The end of a warning if others could put another folder in the place of `path`, from above; "" if they cannot."""
    for whole in (os.path.abspath(path), os.path.realpath(path)):
        above = os.path.dirname(whole)
        while above != os.path.dirname(above):
            try:
                link, info = os.lstat(above), os.stat(above)
            except OSError:
                break  # a ".." behind a link: the real path has no such parts
            for uid in (link.st_uid, info.st_uid):
                if uid not in (0, os.geteuid()) and not _is_unmapped(uid):
                    return (
                        f"another user (uid {uid}) can put another folder in its place, for {above} is that user's. "
                        "Choose one below folders of this user or of root"
                    )
            if _lets_others_rename(info):
                return (
                    f"other users can rename what is in {above}, because that folder has no sticky bit. "
                    f"Set it with: chmod +t {above}"
                )
            above = os.path.dirname(above)
    return ""


def _lets_others_rename(info: os.stat_result) -> bool:
    writable = info.st_mode & _OTHERS_WRITE
    if writable == stat.S_IWGRP and _is_private_group(info.st_gid):
        return False
    return bool(writable and not info.st_mode & stat.S_ISVTX)


def _is_unmapped(uid: int) -> bool:
    """Whether a user id is the kernel's stand-in for ids that this user namespace does not know; root's may be one."""
    try:
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
            if uid != int(file.read()):
                return False
        with open("/proc/self/uid_map", encoding="ascii") as file:
            ranges = [[int(word) for word in line.split()] for line in file]
    except (OSError, ValueError):
        return False
    return not any(first <= uid < first + count for first, _, count in ranges)


def _is_private_group(gid: int) -> bool:
    """Whether a group has this user's name and no other member, as systems with the umask 002 make one for each."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and user.pw_name == group.gr_name and set(group.gr_mem) <= {user.pw_name}


# ---------------------------------------------------------------------- opening
def open_folder(path: str, dir_fd: int | None = None) -> int:
    """A descriptor of a trusted folder, to reach what is in it, also after it was renamed or removed.

    Raises:
        Untrusted: it is a link, another user's, or others can write to it.
        OSError: it cannot be opened.
    """
    return _judged(_open(path, _FOLDER, dir_fd), path, folder=True)


def open_file(path: str, dir_fd: int | None = None, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a trusted regular file. Raises as `open_folder`."""
    return _judged(_open(path, flags | _FILE, dir_fd), path, folder=False)


def read_file(path: str, dir_fd: int | None = None) -> bytes:
    """What is in a trusted regular file. Raises as `open_folder`."""
    with open(open_file(path, dir_fd), "rb") as file:
        return file.read()


def create_file(path: str) -> int:
    """A descriptor of a new file for this user alone, regardless of the umask; one that is there is replaced.

    Raises:
        OSError: it cannot be made.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileExistsError:
        os.unlink(path)
        return os.open(path, flags, 0o600)


def locked(fd: int) -> int | None:
    """The descriptor of a file, once this process holds the file's lock; closed, and None, if another process does.

    Closing the descriptor gives the lock back.
    """
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def open_log(path: str) -> int:
    """A descriptor to write at the end of a file, made if it is missing, in a folder that others may use too.

    Others cannot write to a new one; whether they can read it, the umask says. Of one that is there the user may have
    decided otherwise. A second name of a file (a hard link) is refused like a link: another user may have made it, to
    a file of this user that is no log.

    Raises:
        Untrusted: it is a link, no regular file, another user's, or has a second name.
        OSError: it cannot be opened.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _FILE, 0o644)
    except OSError:
        if why := _fault_of_log(os.lstat(path)):
            raise _refuse(why, path) from None
        raise
    if why := _fault_of_log(os.fstat(fd)):
        os.close(fd)
        raise _refuse(why, path)
    return fd


def _fault_of_log(info: os.stat_result) -> str:
    if info.st_uid != os.geteuid():
        return f"it belongs to another user (uid {info.st_uid})"
    if stat.S_ISLNK(info.st_mode):
        return "it is a link"
    if not stat.S_ISREG(info.st_mode):
        return "it is no regular file"
    return "it has a second name, which another user may have made" if info.st_nlink > 1 else ""


def _open(path: str, flags: int, dir_fd: int | None) -> int:
    try:
        return os.open(path, flags, dir_fd=dir_fd)
    except OSError:
        # The error for a link (ELOOP, ENOTDIR) or a stranger's folder (EACCES) does not explain the reason.
        info = os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
        if why := fault_of(info, folder=bool(flags & os.O_DIRECTORY)):
            raise _refuse(why, path) from None
        raise


def _judged(fd: int, path: str, *, folder: bool) -> int:
    if why := fault_of(os.fstat(fd), folder=folder):
        os.close(fd)
        raise _refuse(why, path)
    return fd


# ---------------------------------------------------------------------- making
def make_folder(path: str) -> None:
    """Make a folder for this user alone, regardless of the umask, and parents that are missing likewise.

    Raises:
        Untrusted: it is there, and not to be trusted.
        OSError: it cannot be made.
    """
    make_missing(path)
    check_folder(path)


def make_new(path: str) -> None:
    """Make one folder for this user alone, regardless of the umask.

    Raises:
        Untrusted: the umask closes new folders to their owner, too. None is left.
        OSError: it cannot be made, or there is one.
    """
    os.mkdir(path, _PRIVATE)
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
        os.rmdir(path)
        raise _refuse(
            "the umask of this program closes new folders to their owner (set another: umask 077)", path
        )


def make_missing(path: str) -> None:
    """Make a folder, private to this user, unless something of that name is there; parents that are missing likewise.

    Raises:
        OSError: it cannot be made.
    """
    try:
        make_new(path)
    except FileExistsError:
        pass
    except FileNotFoundError:
        parent = os.path.dirname(path)
        if parent in ("", path) or os.path.lexists(parent):
            raise
        make_missing(parent)
        try:
            make_new(path)
        except FileExistsError:
            pass


def make_home(default: str) -> tuple[str, str]:
    """The folder that all sessions of this user share by default; a private one if another user took its name.

    Returns:
        Its path, and half a sentence why it is not `default`, if it is not.

    Raises:
        OSError: none can be made.
    """
    try:
        make_new(default)
        return default, ""
    except FileExistsError:
        pass
    except FileNotFoundError:
        make_folder(default)
        return default, ""
    try:
        fd = os.open(default, _FOLDER)
    except OSError as error:
        if error.errno in _PASSING:
            raise  # this process is short of something: that says nothing of the folder
        return _private_home(default, fault_of(os.lstat(default), folder=True) or "it cannot be opened")
    try:
        info = os.fstat(fd)
        if info.st_uid == os.geteuid() and info.st_mode & _OTHERS_WRITE:
            # The folder has sundog's name. Its files are checked one by one, so it can be closed to others
            # and used.
            os.fchmod(fd, _PRIVATE)
            info = os.fstat(fd)
    finally:
        os.close(fd)
    why = fault_of(info, folder=True)
    return _private_home(default, why) if why else (default, "")


def homes(default: str) -> list[str]:
    """Where sessions of this user may be that were started with the default: that folder, and the private ones.

    Whether others can write there does not matter to a reader, who judges each session by itself.
    """
    return [path for path in (default, *_private_homes(default)) if _belongs_to_us(path)]


def _belongs_to_us(path: str) -> bool:
    try:
        info = os.lstat(path)
    except OSError:
        return False
    return info.st_uid == os.geteuid() and stat.S_ISDIR(info.st_mode)


def _private_home(default: str, why: str) -> tuple[str, str]:
    for path in _private_homes(default):
        if is_ours(path):
            return path, why
    while True:
        path = f"{default}-{os.urandom(6).hex()}"
        try:
            make_new(path)
            return path, why
        except FileExistsError:
            continue


def _private_homes(default: str) -> list[str]:
    folder, name = os.path.split(default)
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return []
    return [os.path.join(folder, each) for each in sorted(names) if each.startswith(f"{name}-")]


# ---------------------------------------------------------------------- removing
def remove(path: str, last: tuple[str, ...] = ()) -> bool:
    """Remove a folder of this user with all that is in it; returns whether nothing is left of it.

    Follows no link and enters no other file system. Of a folder that is another user's, or of what is no folder,
    nothing is removed. What cannot be removed stays.

    Args:
        path: The folder.
        last: Files in it that go after all else, in this order: by them the next process knows what is left to do,
            should this one be killed.
    """
    folder, name = os.path.split(path)
    try:
        parent = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        return _remove_at(parent, name, last)
    finally:
        os.close(parent)


def _remove_at(parent: int, name: str, last: tuple[str, ...]) -> bool:
    try:
        fd = os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        info = os.fstat(fd)
        if info.st_uid != os.geteuid():
            return False
        _empty(fd, info.st_dev, last)
        if not set(os.listdir(fd)) - set(last):
            for file in last:
                _unlink(file, fd)
    except OSError:
        return False
    finally:
        os.close(fd)
    try:
        # Only an empty folder is removed: if another program has taken the name, its files stay.
        os.rmdir(name, dir_fd=parent)
    except OSError:
        return False
    return True


def _unlink(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass


def _empty(folder: int, device: int, last: tuple[str, ...] = ()) -> None:
    with os.scandir(folder) as entries:
        found = [entry for entry in entries if entry.name not in last]
    for entry in found:
        try:
            if entry.is_dir(follow_symlinks=False):
                _remove_below(folder, entry.name, device)
            else:
                os.unlink(entry.name, dir_fd=folder)
        except (OSError, RecursionError):
            continue  # each level needs a descriptor and a stack frame: both may run out


def _remove_below(parent: int, name: str, device: int) -> None:
    fd = os.open(name, _FOLDER, dir_fd=parent)
    try:
        if os.fstat(fd).st_dev != device:
            return
        _empty(fd, device)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=parent)


# ---------------------------------------------------------------------- processes
def check_peer(sock: _socket.socket) -> int:
    """The pid of the process at the other end of a Unix socket, as the kernel noted it when they met.

    Of a socket that connected it is the process that listens. Call this before anything is read.

    Raises:
        Untrusted: it runs as another user.
        OSError: the socket is no Unix socket.
    """
    raw = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS_BYTES)
    pid = int.from_bytes(raw[0:4], sys.byteorder)
    uid = int.from_bytes(raw[4:8], sys.byteorder)
    if uid != os.geteuid():
        raise _refuse(f"it runs as another user (uid {uid})", f"process {pid}")
    return pid


def connected_user(sock: _socket.socket) -> int | None:
    """The user at the other end of a TCP connection of this machine that was accepted; None if that cannot be told.

    Call this before anything is read.
    """
    try:
        client, server = sock.getpeername()[:2], sock.getsockname()[:2]
        with open(_CONNECTIONS, encoding="ascii") as table:
            return user_of(table, client, server)
    except OSError:
        return None


def user_of(table: Iterable[str], client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """The user whose socket `client` is, by the kernel's table of connections; None if it is not (or no longer) there.

    A row that no process holds any more names user 0, so only established connections with an inode count.

    >>> head = "sl local rem st tx tr retr uid timeout inode"
    >>> row = "0: 0100007F:9C40 0100007F:1F90 01 0:0 00:0 0 1000 0 777"
    >>> user_of([head, row], ("127.0.0.1", 40000), ("127.0.0.1", 8080))
    1000
    """
    wanted = [_in_table(*client), _in_table(*server), _ESTABLISHED]
    for line in table:
        fields = line.split()
        if len(fields) > 9 and fields[1:4] == wanted and fields[9] != "0":
            return int(fields[7])
    return None


def _in_table(host: str, port: int) -> str:
    return f"{int.from_bytes(_socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"


def is_own_process(pid: int) -> bool:
    """Whether there is a process of this number, and it runs as this user."""
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.geteuid()
    except OSError:
        return False


def open_holder(pid: int, file: int) -> int | None:
    """A pidfd of a process of this user that has a file open; None if there is no such process.

    A signal sent through it reaches that process or none, even if the pid is given to another one.

    Args:
        pid: The process, as a file or a message names it.
        file: A descriptor of the file that proves it: a session's lock, which only its node keeps open.
    """
    if pid <= 0:
        return None
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return None
    try:
        wanted = os.fstat(file)
        if is_own_process(pid):
            for name in os.listdir(f"/proc/{pid}/fd"):
                if _is_same(f"/proc/{pid}/fd/{name}", wanted):
                    return pidfd
    except OSError:
        pass
    os.close(pidfd)
    return None


def _is_same(path: str, wanted: os.stat_result) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)
