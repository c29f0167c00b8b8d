"""Amounts as people read them: bytes, seconds, counts.

Pure; used by every command and page that shows figures.
"""

from __future__ import annotations


def in_units(size_bytes: float) -> str:
    """Bytes in the unit that suits them.

    >>> in_units(1536)
    '1.5 KiB'
    """
    if abs(size_bytes) < 1024:
        return f"{size_bytes:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        size_bytes /= 1024
        if abs(size_bytes) < 1024:
            return f"{size_bytes:.1f} {unit}"
    return f"{size_bytes / 1024:.1f} TiB"


def in_words(seconds: float) -> str:
    """A duration in its two largest units.

    >>> in_words(3725)
    '1 h 2 min'
    """
    whole = int(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"
