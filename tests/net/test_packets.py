"""Control connections: what is read from a process that died, and messages that are larger than a packet."""

from __future__ import annotations

import _socket
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog.net import packets
from sundog.net.packets import Connection, make_pair

BIG = ("big", bytes(400_000))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Connection, Connection]]:
    ours, theirs = (Connection(sock, str(tmp_path)) for sock in make_pair())
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.mark.parametrize("unread", [0, 1, 5])
def test_the_last_messages_of_the_dead_are_read_whatever_they_had_not_read(
    pair: tuple[Connection, Connection], unread: int
) -> None:
    ours, theirs = pair
    theirs.send(("forked", 1))
    theirs.send(("exit", 2))
    for number in range(unread):
        ours.send(("fork", number))
    theirs.close()
    assert ours.receive() == (("forked", 1), [])
    assert ours.receive() == (("exit", 2), [])
    assert ours.receive() is None
    assert ours.receive() is None


def test_descriptors_that_the_dead_had_sent_arrive_too(pair: tuple[Connection, Connection]) -> None:
    ours, theirs = pair
    read, write = os.pipe()
    theirs.send(("peer",), (write,))
    ours.send(("never read",))
    theirs.close()
    os.close(write)
    received = ours.receive()
    assert received is not None
    message, (fd,) = received
    os.write(fd, b"here")
    assert (message, os.read(read, 10)) == (("peer",), b"here")
    for each in (fd, read):
        os.close(each)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Folders that have no room for a file."""
    folders: list[str] = []
    write = packets._write_file

    def write_if(path: str, data: bytes) -> str:
        if os.path.dirname(path) in folders:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, data)

    monkeypatch.setattr(packets, "_write_file", write_if)
    return folders


def files_below(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("packet-*")]


def test_a_large_message_leaves_no_file_behind(pair: tuple[Connection, Connection], tmp_path: Path) -> None:
    ours, theirs = pair
    ours.send(BIG)
    assert files_below(tmp_path)
    assert theirs.receive() == (BIG, [])
    assert not files_below(tmp_path)


def test_a_large_message_goes_to_the_disk_when_shared_memory_is_full(
    pair: tuple[Connection, Connection], tmp_path: Path, full: list[str]
) -> None:
    ours, theirs = pair
    (tmp_path / "session").mkdir()
    (tmp_path / ".session").symlink_to(tmp_path / "session")
    full.append(str(tmp_path))
    ours.send(BIG)
    assert files_below(tmp_path / "session")
    assert theirs.receive() == (BIG, [])
    assert not files_below(tmp_path)


def test_a_large_message_stays_in_memory_when_the_disk_is_full_too_and_is_freed_once_read(
    pair: tuple[Connection, Connection], tmp_path: Path, full: list[str]
) -> None:
    ours, theirs = pair
    full.append(str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        ours.send(BIG)
        assert theirs.receive() == (BIG, [])
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    [fd] = packets._unread
    assert os.fstat(fd).st_size == 0
    packets._unread.clear()
    os.close(fd)


def test_a_large_message_that_died_with_its_sender_is_skipped(
    pair: tuple[Connection, Connection], tmp_path: Path, full: list[str]
) -> None:
    ours, theirs = pair
    full.append(str(tmp_path))
    pid = os.fork()
    if not pid:
        ours.send(BIG)
        ours.send(("small",))
        os._exit(0)
    os.waitpid(pid, 0)
    assert theirs.receive() == (("small",), [])


def test_a_large_packet_that_was_not_sent_is_removed(tmp_path: Path) -> None:
    data = packets.encode(BIG, str(tmp_path))
    assert files_below(tmp_path)
    packets.discard(data)
    assert not files_below(tmp_path)


def test_a_receive_buffer_takes_memory_only_for_what_was_received() -> None:
    def own_bytes() -> int:
        with open("/proc/self/statm", encoding="ascii") as file:
            return (int(file.read().split()[1])) * os.sysconf("SC_PAGE_SIZE")

    before = own_bytes()
    kept = [packets.receive_buffer() for _ in range(32)]
    assert own_bytes() - before < 32 * packets.RECV_BYTES // 4
    assert {len(each) for each in kept} == {packets.RECV_BYTES}


class Refusing(_socket.socket):
    """A socket for which the kernel has no memory at first."""

    left = 0

    def send(self, data: bytes, flags: int = 0, /) -> int:  # type: ignore[override]
        if self.left:
            self.left -= 1
            raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))
        return super().send(data, flags)


@pytest.mark.parametrize("message", [("small",), BIG])
def test_a_message_that_the_kernel_has_no_memory_for_is_to_be_sent_again(
    tmp_path: Path, message: tuple[object, ...]
) -> None:
    one, other = make_pair()
    refusing = Refusing(fileno=one.detach())
    ours, theirs = Connection(refusing, str(tmp_path)), Connection(other, str(tmp_path))
    refusing.left = 1
    with pytest.raises(packets.NoRoom, match="No buffer space"):
        ours.send(message)
    assert not files_below(tmp_path)
    ours.send(message)
    assert theirs.receive() == (message, [])
    ours.close()
    theirs.close()
