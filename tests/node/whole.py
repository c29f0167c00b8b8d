"""A whole node without a session: the test holds the other ends of its sockets, and turns its loop."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sundog.config import Config
from sundog.isolation import Interpreter
from sundog.job_spec import JobSpec
from sundog.net import sockets as socket
from sundog.net.loop import Loop
from sundog.net.packets import Connection, make_pair
from sundog.node import program
from sundog.node.program import Node
from sundog.plain import as_dict
from sundog.wire.control import Answer, Hello, Rpc
from sundog.wire.requests import PgCreate, Request
from sundog.wire.row import Row
from sundog.wire.zygote import Fork, Forked

NODE = b"\x0e" * 16
DRIVER = b"driver01"


class TurnedLoop(Loop):
    """A loop that handles what has come when the test says so; timers go off when the test says so."""

    def turn(self) -> None:
        while ready := self._epoll.poll(0):
            for fd, _ in ready:
                handler = self._readers.get(fd)
                if handler is not None:
                    handler()

    def ring(self) -> None:
        """All timers that are set now go off."""
        timers, self._timers = sorted(self._timers), []
        for _, _, call in timers:
            call()

    def close(self) -> None:
        self._epoll.close()


class Peer:
    """The other end of a line to the node."""

    def __init__(self, node: WholeNode, connection: Connection) -> None:
        self.node, self.connection = node, connection
        self.fds: list[int] = []
        self._numbers = iter(range(1, 1000))

    def tell(self, message: Row, *fds: int) -> None:
        self.connection.send(message, fds)
        self.node.loop.turn()

    def heard(self, row: type[Row] | None = None) -> list[Any]:
        """What has come since the last look; of one kind, if asked."""
        found: list[Any] = []
        while True:
            try:
                received = self.connection.receive()
            except BlockingIOError:
                break
            if received is None:
                break
            self.fds += received[1]
            found.append(received[0])
        return found if row is None else [each for each in found if each[0] == row.kind]

    def ask(self, question: Request[Any]) -> Any:
        """The answer to a request, if it has come."""
        number = next(self._numbers)
        self.tell(Rpc(number, question.kind, question[1:]))
        return self.answer(number)

    def answer(self, number: int) -> Any:
        for _, of, ok, value in self.heard(Answer):
            if of == number:
                if not ok:
                    raise value
                return value
        return None

    def close(self) -> None:
        self.connection.close()
        for fd in self.fds:
            os.close(fd)
        self.node.loop.turn()


class WholeNode:
    """A node with a zygote that forks nothing: the test says which worker came to be."""

    loop: TurnedLoop

    def __init__(self, folder: Path, config: Config, cpus: float) -> None:
        for name in ("shm", "rings", "logs", "records"):
            os.makedirs(folder / name, exist_ok=True)
        session: Any = {
            "name": "s1",
            "path": str(folder),
            "shm_root": str(folder / "shm"),
            "spill_folders": [str(folder / "disk")],
            "store_bytes": 1 << 20,
        }
        resources = {"CPU": cpus, "object_store_memory": float(1 << 20)}
        self.node = Node(
            {
                "session": session,
                "node_id": NODE.hex(),
                "config": as_dict(config),
                "resources": resources,
                "labels": {"zone": "a"},
                "persistent": True,
                "driver_fd": None,
                "environ": {},
            }
        )
        self.loop = self.node.loop  # type: ignore[assignment]
        self.lines: list[str] = []
        self.node.log = self.lines.append  # type: ignore[method-assign, assignment]
        self.node.leases.add_node(NODE, resources, {"zone": "a"}, self.node.now())
        ours, theirs = make_pair()
        self.node.workers.use_zygote((0, theirs.detach()), -1)
        self.peers: list[Peer] = []
        ours.recv(1 << 12)  # the folder in shared memory
        self.zygote = self._peer(Connection(ours, str(folder)))
        self._pids = iter(range(5_000_000, 6_000_000))  # no process can have such a pid

    def _peer(self, connection: Connection) -> Peer:
        made = Peer(self, connection)
        self.peers.append(made)
        return made

    def connect(self, kind: str = "client") -> Peer:
        """A program connects."""
        ours, theirs = make_pair()
        self.node._connected(theirs, kind)
        return self._peer(Connection(ours, self.node.session["shm_root"]))

    def driver(self, process_id: bytes = DRIVER, **more: Any) -> Peer:
        """A driver that has introduced itself."""
        peer = self.connect("driver")
        job = JobSpec(Interpreter([], [], []), "/", namespace="ns")
        facts: dict[str, Any] = {
            "job_id": b"",
            "log_to_driver": True,
            "versions": None,
            "preload": [],
            "loaded": [],
        }
        facts |= {"process_id": process_id, "pid": os.getpid(), "job": job, "entrypoint": "train.py"}
        peer.tell(Hello(**(facts | more)))
        return peer

    def forks(self) -> list[tuple[bytes, Peer]]:
        """Every worker that the zygote was asked for comes up: its id, and its end of its line."""
        made = []
        for _, worker, *_ in self.zygote.heard(Fork):
            fd = self.zygote.fds.pop(0)
            peer = self._peer(Connection(socket.socket(fileno=fd), self.node.session["shm_root"]))
            self.zygote.tell(Forked(worker, next(self._pids)))
            made.append((worker, peer))
        return made

    def close(self) -> None:
        for peer in self.peers:
            peer.close()
        for process in list(self.node.processes.values()):
            process.line.close()
        self.node.memory.stop()
        self.node.scrapes.stop()
        self.node.stores.close()
        self.node.records.close()
        if self.node.workers.zygote is not None:
            self.node.workers.zygote.close()
        self.loop.close()


@contextmanager
def whole_node(folder: Path, config: Config | None = None, cpus: float = 2.0) -> Iterator[WholeNode]:
    """A node as the program makes it, which does not run."""
    patch = pytest.MonkeyPatch()
    patch.setattr(program, "Loop", TurnedLoop)
    made = WholeNode(folder, config or Config(), cpus)
    made.node.stopping = False
    try:
        yield made
    finally:
        made.node.stopping = True
        made.close()
        patch.undo()


def make_group(driver: Peer, cpus: float, name: str = "") -> Any:
    """Have a placement group of one bundle made: its id, and whether it was placed at once."""
    return driver.ask(PgCreate([{"CPU": cpus}], "PACK", name, None, (), "ns", b"", ""))
