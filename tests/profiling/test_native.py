"""py-spy's file, read: the user's frames with the C code below them, by remote function."""

from __future__ import annotations

import os

import sundog
from sundog.profiling.native import read
from sundog.profiling.rows import ProfileFrame

ROOT = os.path.dirname(sundog.__file__)
WORKER = f"run ({ROOT}/worker/executor.py:10)"
BLAS = "vectorcall (/lib/libpython.so);spin (/x/program.py:7);svd (/lib/numpy.py:3);dgemm (/lib/blas.so)"
TEXT = f"""\
main (/usr/lib/libc.so.6);{WORKER};{BLAS} 3
{WORKER};spin (/x/program.py:7);get ({ROOT}/api.py:20);poll ({ROOT}/owner/waits.py:1) 2
{WORKER};epoll_wait (/usr/lib/libc.so.6) 5
{WORKER};_find_and_load (<frozen importlib._bootstrap>:1176);<module> (/lib/numpy.py:1) 4
_bootstrap (/usr/lib/python3.11/other.py:1) 9
not a row
"""


def test_frames_of_c_code_stand_below_the_users_and_the_worker_is_left_out() -> None:
    found = read(TEXT, "cpu", 0.01, "worker")
    assert found.looks == 23
    spin = ProfileFrame("spin", "/x/program.py", 7)
    assert found.stacks == {
        ("spin", (spin, ProfileFrame("svd", "/lib/numpy.py", 3), ProfileFrame("dgemm", "/lib/blas.so", 0))): (
            0.03,
            3,
        ),
        ("spin", (spin, ProfileFrame("get", f"{ROOT}/api.py", 20))): (0.02, 2),
    }


def test_a_driver_is_shown_without_the_threads_of_sundog() -> None:
    text = f"<module> (/x/program.py:9);work (/x/program.py:3) 2\nrun ({ROOT}/owner/deliveries.py:40) 7\n"
    assert list(read(text, "cpu", 0.5, "driver").stacks.items()) == [
        (
            (
                "driver",
                (ProfileFrame("<module>", "/x/program.py", 9), ProfileFrame("work", "/x/program.py", 3)),
            ),
            (1.0, 2),
        )
    ]
