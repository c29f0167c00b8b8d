"""How a task of Ray's is named in sundog's records.

Owns the choice of eight bytes out of Ray's id. Pure; any process, Home included.
"""

from __future__ import annotations

CREATES = b"\xff" * 8  # in Ray the ids of creation tasks begin so, and continue with the actor's id


def unique_of(task: bytes) -> bytes:
    """The eight bytes by which a task of Ray's goes here: its own, or those of the actor that it creates.

    >>> unique_of(bytes.fromhex("0102030405060788" + "ff" * 16)).hex()
    '0102030405060708'
    """
    found = task[8:16] if task.startswith(CREATES) else task[:8]
    # Positive as a number, as the index needs it.
    return found if found[7] < 0x80 else found[:7] + bytes((found[7] & 0x7F,))
