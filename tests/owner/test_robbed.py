"""What is let go when the program has closed descriptors of sundog's."""

from __future__ import annotations

import os
import socket

from sundog.early import make_pair
from sundog.exceptions import RaySystemError
from sundog.owner import robbed


def test_the_errors_say_what_happened_and_what_to_do() -> None:
    error = robbed.error()
    assert type(error) is RaySystemError
    assert "The program closed" in str(error) and "sundog.init()" in str(error)
    assert "this worker had to end" in robbed.WORKER


def test_a_socket_of_sundog_is_known_from_files_and_other_sockets_under_its_number() -> None:
    ours, theirs = make_pair()
    other, end = socket.socketpair()
    assert robbed.is_ours(ours) and not robbed.is_ours(other)
    number = ours.fileno()
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, number)
    assert not robbed.is_ours(ours)
    os.close(nothing)
    for each in (ours, theirs, other, end):
        each.close()
    assert not robbed.is_ours(ours)
