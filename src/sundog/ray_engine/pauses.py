"""`breakpoint()` in a task on a Ray cluster: pdb there, its prompt at `sundog debug` on the driver's machine.

::

    worker: pdb ── TCP, on its node's address, for a client that knows the token ──► sundog debug
       └── Home is told where it stands and the token ──► the driver's desk, for its user alone

Owns the stop, the token and the stream. The task waits until a user has come and let it go on; a client that vanishes
makes room for the next. Everybody on the network can connect: a client that shows no token, or a wrong one, keeps
no other client waiting and never reaches the task. Runs in the thread of the task.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import pdb  # noqa: T100
import secrets
import select
import socket
import sys
import time
from types import FrameType, TracebackType
from typing import IO

from sundog.ray_engine import process, pushes, runs

_TOKEN_MAX = 256
_CALLERS_MAX = 64  # connections that have not sent a token yet; above this the oldest one is closed


class Prompt(pdb.Pdb):
    """A pdb whose prompt is at the other end of a socket."""

    def __init__(self, sock: socket.socket, lines: IO[str]) -> None:
        # Two files: one file object for both directions would lose the input that it has read ahead when it writes.
        super().__init__(stdin=lines, stdout=sock.makefile("w"), nosigint=True)
        self.use_rawinput = False
        self.sock = sock  # kept: a finaliser that runs during the return would be traced

    def do_continue(self, arg: str) -> bool:
        """Go on; without breakpoints of its own the prompt is over."""
        super().do_continue(arg)
        if not self.get_all_breaks():
            self.leave()
        return True

    do_c = do_cont = do_continue

    def do_quit(self, arg: str) -> bool:
        """Leave the prompt; the task continues."""
        self.clear_all_breaks()
        return self.do_continue(arg)

    do_q = do_exit = do_EOF = do_quit

    def leave(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):  # the client may be gone
            self.stdout.flush()
            self.sock.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self.stdin.close()
            self.stdout.close()
        self.sock.close()


def hook(frame: FrameType) -> None:
    """Stop at a frame: `breakpoint()` in a worker."""
    prompt = _await_client(frame, "breakpoint()")
    prompt.set_trace(frame)


def post_mortem(trace: TracebackType, error: BaseException) -> None:
    """Stop where a call has failed (`post_mortem=True`)."""
    inner = trace
    while inner.tb_next is not None:
        inner = inner.tb_next
    prompt = _await_client(inner.tb_frame, f"{type(error).__name__}: {error}")
    prompt.reset()
    prompt.interaction(None, trace)
    prompt.leave()


def _await_client(frame: FrameType, why: str) -> Prompt:
    """Tell where this task stands, and wait for a client that has the token."""
    import ray

    token = secrets.token_hex(16)
    with socket.create_server((ray.util.get_node_ip_address(), 0)) as server:
        row = _row(frame, why) | {"address": list(server.getsockname()), "token": token}
        _tell("paused", row)
        print(
            f"{row['name']} (pid {row['pid']}) is paused at {row['place']} by {why}. Attach with: sundog debug",
            file=sys.stderr,
            flush=True,
        )
        sock = _await_token(server, token)
        _tell("resumed", row["id"])
        return Prompt(sock, sock.makefile("r"))


def _await_token(server: socket.socket, token: str) -> socket.socket:
    """Wait for the first connection that shows the token in its first line; all other connections are ignored."""
    server.setblocking(False)
    callers: dict[int, socket.socket] = {}
    try:
        while True:
            poll = select.poll()
            for each in (server, *callers.values()):
                poll.register(each, select.POLLIN)
            for number, _ in poll.poll():
                if number == server.fileno():
                    _take_caller(server, callers)
                elif (shown := _shown(callers[number])) is not None:
                    caller = callers.pop(number)
                    if hmac.compare_digest(shown, token.encode()):
                        caller.setblocking(True)
                        return caller
                    caller.close()
    finally:
        for each in callers.values():
            each.close()


def _take_caller(server: socket.socket, callers: dict[int, socket.socket]) -> None:
    with contextlib.suppress(OSError):  # the client may have closed the connection
        sock, _ = server.accept()
        sock.setblocking(False)
        callers[sock.fileno()] = sock
        if len(callers) > _CALLERS_MAX:
            callers.pop(next(iter(callers))).close()


def _shown(caller: socket.socket) -> bytes | None:
    """The first line of a connection, which is taken from it and no more; b"" if none will come, None if not yet."""
    try:
        seen = caller.recv(_TOKEN_MAX, socket.MSG_PEEK)
        line, end, _ = seen.partition(b"\n")
        if end:
            return caller.recv(len(line) + 1)[:-1].strip()
    except BlockingIOError:
        return None
    except OSError:
        return b""
    return None if 0 < len(seen) < _TOKEN_MAX else b""


def _row(frame: FrameType, why: str) -> dict[str, object]:
    me = process.me
    run = next((each for each in runs.now_running.values() if each.task == runs.running.get()), None)
    return {
        "id": secrets.token_hex(4),
        "name": run.name if run is not None else frame.f_code.co_qualname,
        "task": run.task.hex() if run is not None else "",
        "place": f"{frame.f_code.co_filename}:{frame.f_lineno}",
        "why": why,
        "since_s": time.time(),
        "pid": os.getpid(),
        "node": me.identity.node if me is not None else "",
    }


def _tell(verb: str, *args: object) -> None:
    import ray

    me = process.me
    if me is not None:
        # Without Home the line on stderr is all there is; the task is paused either way.
        with contextlib.suppress(Exception):
            home = ray.get_actor(pushes.home_name(me.identity.job), pushes.HOME_NAMESPACE)
            getattr(home, verb).remote(*args).future().result(10)
