"""Threads of numeric libraries (BLAS, OpenMP): as many as the lease of a worker has CPUs.

A library reads its variable when it is loaded. If a worker loads it, the variable is right. If the zygote has loaded it
for all workers, it was held to one thread meanwhile, and each worker tells it the number of its lease (threadpoolctl).

Owns the names of the variables, and what the libraries of this process were told last. Refuses to hold a library that
no worker could tell otherwise. Runs in the zygote, and in the main thread of workers.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping

from sundog.config import set_child_environ, user_environ

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# What loads none of its libraries before numpy is loaded, and starts none of their threads.
FIRST = "numpy"
# Needs only the standard library.
LIMITER = "threadpoolctl"
# threadpoolctl's name of what reads a variable; its name of a library wins over that of a kind.
_READERS = {
    "OMP_NUM_THREADS": ("openmp",),
    "MKL_NUM_THREADS": ("libmkl_rt", "mkl_rt"),
    "OPENBLAS_NUM_THREADS": ("blas",),
}

_told: tuple[str | None, ...] | None = None


@contextlib.contextmanager
def held() -> Iterator[bool]:
    """Libraries that are loaded meanwhile start with one thread; gives False, and does nothing, if workers could not
    tell them another number later.
    """
    try:
        __import__(LIMITER)
    except ImportError:
        yield False
        return
    environ = user_environ()
    before = {name: environ.get(name) for name in VARIABLES}
    set_child_environ(dict.fromkeys(VARIABLES, "1"))
    try:
        yield True
    finally:
        set_child_environ(before)


def tell(environ: Mapping[str, str]) -> None:
    """Tell the libraries that are loaded what the variables say; those that are loaded later read them.

    Nothing is told twice: what the user's code has told a library since stays.
    """
    global _told
    values = tuple(environ.get(name) for name in VARIABLES)
    if values == _told:
        return
    _told = values
    if FIRST not in sys.modules:
        return
    numbers = {name: _number(value) for name, value in zip(VARIABLES, values, strict=True)}
    limits = {reader: number for name, number in numbers.items() if number for reader in _READERS[name]}
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:  # the user's code has loaded the library
        return
    threadpool_limits(limits)


def _number(value: str | None) -> int:
    """The number of threads that a variable asks for; 0 if it names none. "4,2" is for nested regions of OpenMP.

    >>> _number("4"), _number("4,2"), _number("many"), _number(None)
    (4, 4, 0, 0)
    """
    first = (value or "").partition(",")[0].strip()
    return int(first) if first.isdecimal() else 0
