"""Amounts of memory as people write them: 2GB, 512MiB, or bytes.

Owns the reading of such a text. Pure; used by the command line and the head process.
"""

from __future__ import annotations

import re

_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
_BINARY = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)


def read_size(text: str | int, what: str) -> int:
    """The bytes that a text means.

    Args:
        what: the name of the option, for the error.

    Raises:
        ValueError: it is no amount of memory, or none above zero.

    >>> read_size("1.5GB", "memory"), read_size("64MiB", "memory"), read_size(4096, "memory")
    (1500000000, 67108864, 4096)
    """
    found = _SIZE.fullmatch(str(text))
    if found is None or (found[3] and not found[2]):
        raise ValueError(
            f"{what} must be an amount of memory like 2GB, 512MiB or a number of bytes, not {text!r}."
        )
    unit = found[2].lower()
    size = int(float(found[1]) * (_BINARY if found[3] else _UNITS)[unit])
    if size <= 0:
        raise ValueError(f"{what} must be above zero, not {text!r}.")
    return size
