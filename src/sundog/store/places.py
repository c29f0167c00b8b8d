"""Where each node of a session keeps its objects, told by the names of the segments alone.

::

    /dev/shm/sundog-<pid>-<token>              the head's objects          <owner>-<maker>-<n>
    /dev/shm/sundog-<pid>-<token>.<tag>        those of another node       <owner>-<maker>-<n>@<tag>
    <spill folder>            /node-<tag>      the same on disk

The home of an object is the node that it was made on. A node that reads an object of another one makes a copy below
its own folder, under the same name: so the copies of an object are the files of its name, and no table can be wrong
about them. All nodes are on one machine, so a copy is a hard link, which is counted as bytes of its own.

Pure: names in, paths out; but for `other_roots`, which reads one folder. Used by every process of a session.
"""

from __future__ import annotations

import os

_MARK = "@"
TAG_DIGITS = 8


def tag_of_node(node_id: bytes) -> str:
    """What marks the objects of a node other than the head.

    >>> tag_of_node(bytes(range(16)))
    '00010203'
    """
    return node_id.hex()[:TAG_DIGITS]


def tag_of(name: str) -> str:
    """The tag of the node that a segment was made on; "" is the head.

    >>> tag_of("aa-bb-7@00010203"), tag_of("aa-bb-7")
    ('00010203', '')
    """
    return name.partition(_MARK)[2]


def suffix(tag: str) -> str:
    """What the names of a node's segments end with."""
    return _MARK + tag if tag else ""


def shared_root(base: str, tag: str) -> str:
    """A node's folder in shared memory, from that of the head."""
    return f"{base}.{tag}" if tag else base


def disk_root(base: str, tag: str) -> str:
    """A node's folder for objects on disk, from that of the head."""
    return f"{base}/node-{tag}" if tag else base


def base_of(root: str) -> tuple[str, str]:
    """The head's folder in shared memory, and the tag, of any node's folder.

    >>> base_of("/dev/shm/sundog-7-0a1b2c3d.00010203")
    ('/dev/shm/sundog-7-0a1b2c3d', '00010203')
    """
    folder, _, name = root.rpartition("/")
    plain, _, tag = name.partition(".")
    return f"{folder}/{plain}", tag


def other_roots(base: str, mine: str) -> list[str]:
    """The folders in shared memory of the session's other nodes that are there now."""
    folder, _, name = base.rpartition("/")
    try:
        found = os.listdir(folder)
    except OSError:
        return []
    named = (f"{folder}/{each}" for each in found if each == name or each.startswith(name + "."))
    return [root for root in named if root != mine and not root.endswith(".lock")]
