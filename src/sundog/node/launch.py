"""The node's first milliseconds: fork the zygote, import the rest, and hear which session it is for.

The start of the zygote and that of the node are the longest parts of `init()` → first result. Both begin as one
process, which imports what they share and forks the zygote while it has neither a thread nor a socket of the
session's; each then imports its own part at the same time (docs/decisions/0007), while the driver imports the API
(docs/decisions/0008). Only then does either need to know its session. A zygote that dies later is replaced by
a new program (`zygotes.py`). Run as a program that inherits its end of the socket to the program that started it
(`early.SOCKET_FD`).
"""

from __future__ import annotations

import _socket
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from sundog.early import SOCKET_FD, make_pair, untuned

if TYPE_CHECKING:
    from sundog.wire.dicts import NodeParams


def fork_zygote(lifeline: tuple[int, int], wanted: tuple[list[str], list[str]] = ([], [])) -> tuple[int, int]:
    """Fork a zygote off this young process; returns its pid and the descriptor of our end of its socket."""
    ours, theirs = make_pair()
    pid = os.fork()
    if pid == 0:
        _be_zygote(ours, theirs, lifeline, wanted)
    theirs.close()
    return pid, ours.detach()


def _be_zygote(
    ours: _socket.socket,
    theirs: _socket.socket,
    lifeline: tuple[int, int],
    wanted: tuple[list[str], list[str]],
) -> NoReturn:
    try:
        ours.close()
        os.close(lifeline[1])
        os.close(SOCKET_FD)
        from sundog.worker.zygote import main

        main([str(theirs.detach()), str(lifeline[0])], wanted)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(1)


def _import_shared() -> None:
    """What both the node and the zygote need: imported once, before the one becomes two."""

    import heapq  # noqa: F401
    import select  # noqa: F401
    import zlib  # noqa: F401

    import sundog.accelerator_kinds
    import sundog.config
    import sundog.event_facts
    import sundog.events
    import sundog.job_spec
    import sundog.machine
    import sundog.net.packets
    import sundog.notices
    import sundog.owner.fault_dumps
    import sundog.state.backoff
    import sundog.state.lease_spec
    import sundog.store.segments
    import sundog.titles
    import sundog.wire.cause
    import sundog.wire.control
    import sundog.wire.marks
    import sundog.wire.pauses
    import sundog.wire.requests
    import sundog.wire.zygote  # noqa: F401


def _be_told() -> tuple[int, int, int | None] | None:
    """Files: our parameters, the lock of our shared memory, and the listening socket of the head process, if there
    is to be one. None if the program that started us needs no node after all.

    Another that comes along is the lock of the session's folder. Both locks stay open until this process ends.
    """
    sock = _socket.socket(fileno=SOCKET_FD)
    try:
        word, rights, _, _ = sock.recvmsg(1 << 16, _socket.CMSG_SPACE(16), _socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return None
    finally:
        sock.detach()
    if not word or not rights:
        return None
    files = rights[0][2]
    numbers = [int.from_bytes(files[at : at + 4], sys.byteorder) for at in range(0, len(files), 4)]
    return numbers[0], numbers[2], numbers[3] if len(numbers) > 3 else None


def _refuse(refusal: str) -> NoReturn:
    from sundog.system import process_limit

    # The driver prints the end of the log when it finds that the node is gone.
    print(f"The node cannot start the process that its workers come from: {refusal}. {process_limit.text()}")
    sys.stdout.flush()
    os._exit(1)


def main(wanted: tuple[list[str], list[str]] = ([], [])) -> None:
    """Be the node; does not return. The zygote loads what is `wanted` at once: modules for workers, and from where."""
    import gc
    import pickle
    import signal

    from sundog.system.descriptors import raise_limit
    from sundog.system.journal import write_to

    raise_limit()  # the zygote and its workers inherit it
    os.set_inheritable(SOCKET_FD, False)
    from sundog.system.orphans import adopt

    # before the first child: if the zygote dies, its children become the node's, and their exits are still
    # reported
    adopt()
    lifeline_read, lifeline_write = os.pipe2(os.O_CLOEXEC)
    _import_shared()
    from sundog.config import set_child_environ, user_environ
    from sundog.net.spare import spare

    spare.hold()  # the zygote inherits it
    set_child_environ(untuned(user_environ()))
    refusal = ""
    try:
        zygote = fork_zygote((lifeline_read, lifeline_write), wanted)
    except OSError as error:
        zygote, refusal = (0, -1), str(error)
    from sundog.node.program import run
    from sundog.store.folders import make_shared

    told = _be_told()
    if told is None:
        if zygote[0]:
            os.kill(zygote[0], signal.SIGKILL)
            os.waitpid(zygote[0], 0)
        os._exit(0)
    with open(told[0], "rb") as file:
        file.seek(0)
        params: NodeParams = pickle.load(file)
    params["head_fd"] = told[2]
    session = params["session"]
    is_member = bool(params.get("member"))
    name = f"node-{params['node_id'][:8]}.log" if is_member else "node.log"
    write_to(f"{session['path']}/logs/{name}")
    if refusal:
        _refuse(refusal)
    make_shared(session["shm_root"], session["path"], told[1])
    if params["driver_fd"] is None:
        os.close(SOCKET_FD)
    gc.freeze()
    gc.enable()
    if is_member:
        from sundog.node import member

        member.run(params, zygote, lifeline_write)
    else:
        run(params, zygote, lifeline_read, lifeline_write)
    sys.stdout.flush()
    os._exit(0)
