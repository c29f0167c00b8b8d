"""Markers in a worker's output files: whose lines follow, and where the next part of the log is.

Owns the bytes; `worker/stdio.py` writes them and `node/logs.py` reads them. A marker carries a checksum, so that
nothing a program prints is taken for one; a separator in the program's own output is written as `LITERAL`. Pure.
"""

from __future__ import annotations

import re
import zlib

MARK = b"\x1e"
_PATTERN = re.compile(rb"\x1e((?:name|part|next)=[^\x1e\r\n]*) #([0-9a-f]{8})$")


def mark(body: str) -> bytes:
    """The bytes of one marker, without its terminator."""
    raw = body.encode("ascii")
    return b"%s%s #%08x" % (MARK, raw, zlib.crc32(raw))


# Does not end with a separator, which together with the following text could look like a marker.
LITERAL = mark("lit") + b";"


def find_mark(line: bytes) -> tuple[int, bytes, bytes] | None:
    """Where in a line the marker at its end begins, its key and its value; None if there is none."""
    found = _PATTERN.search(line) if MARK in line else None
    if found is None or zlib.crc32(found[1]) != int(found[2], 16):
        return None
    key, _, value = found[1].partition(b"=")
    return found.start(), key, value
