"""One listening socket that several holders share and hand over."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from sundog.serve.port import Giver, bound_socket, take


async def taken(folder: Path) -> socket.socket | None:
    return await asyncio.get_running_loop().run_in_executor(None, take, str(folder))


def test_what_is_taken_is_the_same_socket_and_outlives_its_giver(tmp_path: Path) -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        sock = bound_socket("127.0.0.1", 0)
        address = sock.getsockname()
        giver = Giver(sock, str(tmp_path / "port"), loop)
        sock.close()
        second = await taken(tmp_path / "port")
        assert second is not None and second.getsockname() == address
        giver.close()
        assert await taken(tmp_path / "port") is None  # nobody answers any more
        with second, socket.create_connection(address) as client:  # and yet the port is open
            second.settimeout(120)
            accepted, _ = second.accept()
            with accepted:
                accepted.sendall(b"hello")
                assert client.recv(5) == b"hello"

    asyncio.run(scene())


def test_no_holder_ever_makes_the_socket_block_for_the_others(tmp_path: Path) -> None:
    """A proxy whose connection another one has accepted would wait in accept() and serve nobody."""

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        with bound_socket("127.0.0.1", 0) as sock:
            assert not os.get_blocking(sock.fileno())
            giver = Giver(sock, str(tmp_path / "port"), loop)
            try:
                assert not os.get_blocking(sock.fileno())
                second = await taken(tmp_path / "port")
                assert second is not None
                with second:
                    assert not os.get_blocking(sock.fileno())
                    second.dup().close()  # as a new holder does, to hand it on
                    assert not os.get_blocking(sock.fileno())
                    with pytest.raises(BlockingIOError):
                        sock.accept()
            finally:
                giver.close()

    asyncio.run(scene())


def test_the_address_of_a_dead_holder_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "port"
    folder.mkdir(mode=0o700)
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(folder / "1.sock"))
    dead.close()
    assert take(str(folder)) is None
    assert os.listdir(folder) == []
    assert take(str(tmp_path / "nothing")) is None


def test_a_port_that_another_program_listens_on_is_not_shared(tmp_path: Path) -> None:
    with bound_socket("127.0.0.1", 0) as sock, pytest.raises(OSError, match="in use"):
        bound_socket("127.0.0.1", sock.getsockname()[1])
