"""A cheap look at a ring: is there anything new in it?

Owns the question that the node asks of every ring several times a second. Most processes do nothing between two looks,
and `events.read_slots`, which maps the file, takes ten times as long. Refuses to read events. Runs in the node.
"""

from __future__ import annotations

import os

from sundog import events


def has_news(path: str, after: int) -> bool:
    """Whether events may have been written after number `after`; never False when `events.read_slots` finds some.

    Like the other reader it looks at a few slots more than the next: a thread that was killed within a write leaves its
    slot empty for ever.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False  # not made yet, or removed
    try:
        capacity = (os.fstat(fd).st_size - events.HEADER_BYTES) // events.EVENT_BYTES
        if capacity <= 0:
            return False
        count = min(events.HOLES_MAX, capacity)
        low = after % capacity
        data = os.pread(fd, count * events.EVENT_BYTES, events.HEADER_BYTES + low * events.EVENT_BYTES)
        rest = count - (capacity - low)
        if rest > 0:
            data += os.pread(fd, rest * events.EVENT_BYTES, events.HEADER_BYTES)
    except OSError:
        return True  # the reader finds out
    finally:
        os.close(fd)
    # A slot that holds an event has its number in its last eight bytes; an older one has a lower number.
    return len(data) % 8 != 0 or max(memoryview(data).cast("Q")[7::8].tolist(), default=0) > after
