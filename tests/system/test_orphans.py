"""Orphans become the children of whoever adopts."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os
from sundog.system.orphans import adopt

adopt()
read, write = os.pipe()
if os.fork() == 0:
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent:
            pass
        os.write(write, str(os.getppid()).encode())
    os._exit(0)
os.wait()
assert int(os.read(read, 20)) == os.getpid()
os.wait()
"""


def test_a_grandchild_becomes_a_child_when_its_parent_ends() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)
