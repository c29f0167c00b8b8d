"""Several workers that were asked for together: each with its own socket alone, told of in order.

In a process of its own, which may fork and set handlers of signals. What its children run instead of a worker tells
which sockets they hold.
"""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

_PROGRAM = """
    import os, pickle, sys
    from types import ModuleType
    from sundog.net.packets import Connection, make_pair
    from sundog.wire.zygote import Fork, Forked, ForkFailed, Import
    from sundog.wire.row import Table, on
    from sundog.worker.later_imports import import_wanted
    from sundog.worker.zygote import Zygote

    def inodes():
        found = set()
        for fd in os.listdir("/proc/self/fd"):
            try:
                found.add(os.stat(f"/proc/self/fd/{fd}").st_ino)
            except OSError:
                pass  # the listing's own
        return found

    class Parts:
        def __init__(self, common): pass
        def fit(self, common): return True

    def run(common, spec, parts, fd, lifeline):
        own = os.fstat(fd).st_ino
        others = inodes() & (set(spec) - {own})
        Connection(__import__("socket").socket(fileno=fd), "/").send((own in spec, len(others)))
        os._exit(0)

    stand_in = ModuleType("sundog.worker.process")
    stand_in.Parts, stand_in.run = Parts, run
    sys.modules["sundog.worker.process"] = stand_in

    node, ours = make_pair()
    node = Connection(node, "/")
    lifeline, _ = os.pipe()
    zygote = Zygote(Connection(ours, "/"), lifeline, import_wanted([], []))
    pairs = [make_pair() for _ in range(3)]
    theirs = [os.fstat(pair[1].fileno()).st_ino for pair in pairs]
    before = len(os.listdir("/proc/self/fd"))

    def ask(number, with_socket=True):
        fds = (pairs[number][1].fileno(),) if with_socket else ()
        node.send(Fork(bytes([number]), pickle.dumps(None), pickle.dumps(theirs)), fds)
        pairs[number][1].close()

    def told():
        rows = []
        table = Table(
            on(Forked, lambda row: rows.append(("forked", row.worker[0]))),
            on(ForkFailed, lambda row: rows.append(("failed", row.worker[0]))),
        )
        while node.wait(0):
            table.handle(node.receive()[0])
        return rows

    def held(number):
        line = Connection(pairs[number][0], "/")
        assert line.wait(30)
        return line.receive()[0]
"""


def _run(body: str) -> None:
    program = dedent(_PROGRAM) + dedent(body)
    ended = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_workers_that_are_forked_together_have_no_socket_of_each_other() -> None:
    _run("""
        zygote.complete = True
        for number in range(3):
            ask(number)
        assert zygote._read()
        assert told() == [("forked", 0), ("forked", 1), ("forked", 2)]
        assert [held(number) for number in range(3)] == [(True, 0)] * 3
        assert len(os.listdir("/proc/self/fd")) == before - 3, "the zygote keeps none of them"
    """)


def test_a_request_whose_socket_was_lost_fails_alone() -> None:
    _run("""
        zygote.complete = True
        ask(0), ask(1, with_socket=False), ask(2)
        assert zygote._read()
        assert told() == [("forked", 0), ("failed", 1), ("forked", 2)]
        assert held(0) == held(2) == (True, 0)
    """)


def test_the_first_worker_of_a_program_waits_for_no_other() -> None:
    _run("""
        ask(0), ask(1)
        assert zygote._read()
        assert told() == [("forked", 0)]
        assert zygote._read()
        assert told() == [("forked", 1)]
    """)


def test_workers_asked_for_before_an_import_do_not_wait_for_it() -> None:
    _run("""
        zygote.complete = True
        ask(0)
        node.send(Import([("antigravity_of_nobody", "/nowhere")]))
        ask(1)
        forked_before_import = []
        import sundog.worker.zygote as module
        module._load_now = lambda message: forked_before_import.append(zygote.forks)
        assert zygote._read()
        assert forked_before_import == [1]
        assert told() == [("forked", 0), ("forked", 1)]
    """)


@pytest.mark.parametrize("asked", [0, 1])
def test_no_worker_is_forked_for_a_node_that_is_gone(asked: int) -> None:
    _run(f"""
        zygote.complete = True
        if {asked}:
            ask(0)
        node.close()
        assert not zygote._read()
        assert zygote.forks == 0
    """)
