"""Memory mappings without a file descriptor each.

Python's own `mmap` keeps a duplicate of the descriptor for the life of the mapping, so ten thousand
large arrays would need ten thousand descriptors. This module maps through libc and exports the bytes
as a `ctypes` array, which can be weakly referenced: that weak reference fires when the last array or
memoryview over the bytes is gone (one on a `PickleBuffer` fires while the array is still alive).

Owns nothing but the system calls. Runs in any process, any thread.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import lru_cache

from sundog import room

_libc = ctypes.CDLL(None, use_errno=True)
_mmap = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_munmap = _libc.munmap
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_FAILED = ctypes.c_void_p(-1).value


@lru_cache(maxsize=256)
def _array_type(size_bytes: int) -> type[ctypes.Array[ctypes.c_char]]:
    # Making a ctypes type costs ten times more than making an instance; sizes are few (size classes).
    return ctypes.c_char * size_bytes


def map_file(path: str, size_bytes: int, *, writable: bool, offset: int = 0) -> int:
    """Map `size_bytes` of a file, shared, from `offset` (a multiple of the page size). Returns the address.

    Raises:
        OSError: the file is gone, or the kernel refuses the mapping.
    """
    fd = os.open(path, os.O_RDWR if writable else os.O_RDONLY)
    try:
        prot = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        # The pages of a recycled segment exist: populate saves one page fault for each.
        flags = mmap.MAP_SHARED | (mmap.MAP_POPULATE if writable else 0)
        address = _mmap(None, size_bytes, prot, flags, fd, offset)
    finally:
        os.close(fd)
    if address is None or address == _FAILED:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return int(address)


def reserve(path: str, size_bytes: int) -> None:
    """Have room for this many bytes of a file, before they are written through a mapping.

    Raises:
        OSError: the file is gone, or the file system has no room.
    """
    fd = os.open(path, os.O_RDWR)
    try:
        room.reserve(fd, 0, size_bytes)
    finally:
        os.close(fd)


def unmap(address: int, size_bytes: int) -> None:
    """End a mapping; no exporter over it may be alive."""
    _munmap(address, size_bytes)


def exporter(address: int, size_bytes: int) -> ctypes.Array[ctypes.c_char]:
    """A weakly referable object over mapped bytes; `memoryview(it)` keeps it alive."""
    return _array_type(size_bytes).from_address(address)


def copy_in(address: int, source: memoryview) -> None:
    """Copy a contiguous buffer to mapped memory; the GIL is released meanwhile."""
    flat = source.cast("B") if source.format != "B" or source.ndim != 1 else source
    size = flat.nbytes
    if not size:
        return
    if flat.readonly:
        # ctypes cannot take the address of a read-only buffer; a slice assignment copies as fast.
        memoryview(_array_type(size).from_address(address)).cast("B")[:] = flat
        return
    ctypes.memmove(address, ctypes.addressof(ctypes.c_char.from_buffer(flat)), size)
