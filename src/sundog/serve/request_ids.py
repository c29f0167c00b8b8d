"""Names of requests. Any thread of any process of Serve; keeps a counter."""

from __future__ import annotations

import itertools
import os
import random

_ids = itertools.count()
_me = f"{os.urandom(6).hex()}-{os.getpid()}"
_dice = random.Random()


def _be_new() -> None:
    """In a child: its names are not those of its parent."""
    global _me
    _me = f"{os.urandom(6).hex()}-{os.getpid()}"
    _dice.seed()


os.register_at_fork(after_in_child=_be_new)


def next_internal_id() -> str:
    """A name for a request that no other request of the session has."""
    return f"{_me}-{next(_ids)}"


def new_request_id() -> str:
    """A name for users, in the form of a random UUID; without a system call, which `uuid.uuid4` makes each time."""
    text = f"{_dice.getrandbits(128):032x}"
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"
