"""Answers of the node that are delayed on purpose, to test how a program behaves with a slow node.

Owns the reading of the setting `testing_asio_delay_us`, in Ray's form: `NAME=MIN:MAX,…` in microseconds. NAME is a
request of `wire/requests.py`, such as `ListNamedActors`; what stands before its last dot is ignored, so Ray's names of
the same requests do too; `*` is every request. Runs in the node, main thread.
"""

from __future__ import annotations

import random


class Delays:
    """By how much each request is answered late.

    >>> Delays("Service.grpc_server.GetActor=1000:1000").seconds("GetActor")
    0.001

    Raises:
        ValueError: the text cannot be read.
    """

    def __init__(self, text: str) -> None:
        self._ranges = dict(_entry(part) for part in text.split(",") if part.strip())

    def seconds(self, request: str) -> float:
        """The delay of one request's answer; 0.0 for none."""
        found = self._ranges.get(request) or self._ranges.get("*")
        return random.uniform(*found) / 1e6 if found else 0.0


def _entry(part: str) -> tuple[str, tuple[int, int]]:
    name, _, spread = part.strip().partition("=")
    low, _, high = spread.partition(":")
    try:
        least, most = int(low), int(high)
    except ValueError:
        least, most = 0, -1
    if not name or not 0 <= least <= most:
        raise ValueError(
            f"testing_asio_delay_us has {part.strip()!r}; an entry is NAME=MIN:MAX, in microseconds"
        )
    return name.rpartition(".")[2], (least, most)
