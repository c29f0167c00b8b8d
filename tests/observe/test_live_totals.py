"""Totals of a session that is written on: each event is counted once, whichever file it is read from."""

import shutil
from pathlib import Path

from sundog import events
from sundog.observe import segments
from sundog.observe.live_totals import LiveTotals

ME = b"m" * 8


def a_ring(folder: Path) -> events.Ring:
    (folder / "rings").mkdir(exist_ok=True)
    return events.Ring(f"{folder}/rings/{ME.hex()}.ring", 64, "worker")


def write(ring: events.Ring, count: int, name: str = "f", flags: int = 0) -> None:
    number = ring.name(name)
    for _ in range(count):
        ring.write(events.TASK, b"t" * 16, number, 1.0, 2.0, 3.0, flags, 0, 0.5, 100)


def counts(totals: LiveTotals) -> dict[str, tuple[int, int]]:
    return {name: (row["count"], row["failed"]) for name, row in totals.read().items()}


def test_each_look_adds_what_is_new_in_the_rings(tmp_path: Path) -> None:
    ring = a_ring(tmp_path)
    totals = LiveTotals(str(tmp_path), whole=True)
    write(ring, 3)
    assert counts(totals) == {"f": (3, 0)}
    write(ring, 2, flags=events.FAILED)
    write(ring, 1, "g")
    assert counts(totals) == counts(totals) == {"f": (5, 2), "g": (1, 0)}
    ring.close()


def test_what_a_dead_process_wrote_last_is_found_in_the_segments(tmp_path: Path) -> None:
    ring = a_ring(tmp_path)
    write(ring, 3)
    totals = LiveTotals(str(tmp_path), whole=True)
    assert counts(totals) == {"f": (3, 0)}
    write(ring, 2, "g")
    slots = events.read_slots(ring.path)
    assert slots is not None
    writer = segments.Writer(str(tmp_path), b"n" * 16, 1000, 0)
    writer.append(segments.EVENTS, slots.data, ME, role="worker", first=slots.first)
    writer.append(segments.NAMES, Path(f"{ring.path}.names").read_bytes(), ME, role="worker")
    ring.close()
    shutil.rmtree(tmp_path / "rings")
    assert counts(totals) == {"f": (3, 0), "g": (2, 0)}
    assert counts(LiveTotals(str(tmp_path), whole=True)) == {"f": (3, 0), "g": (2, 0)}
    assert counts(LiveTotals(str(tmp_path), whole=False)) == {}
    writer.close()


def test_a_session_without_records_has_no_totals(tmp_path: Path) -> None:
    assert counts(LiveTotals(str(tmp_path), whole=True)) == {}
