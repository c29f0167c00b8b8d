"""References of all processes joined into the rows of `sundog memory`."""

import os
from pathlib import Path

from sundog.observe import memory
from sundog.wire.looks import MemoryReport, Reference, Who

DRIVER = Who(10, "aa" * 8, "driver", "driver", "01", 0.0)
WORKER = Who(20, "bb" * 8, "worker", "actor", "01", 0.0, actor_class="Keeper")
PUT = "aa" * 8 + "01000000" * 2 + "00000000"


def reference(
    oid: str = PUT, size: int = -1, kind: str = "LOCAL_REFERENCE", site: str = "", segment: str = ""
) -> Reference:
    return Reference(oid, size, kind, "NIL", 1, site, segment, 1, 0.0)


def joined() -> list[memory.ObjectHolding]:
    owned = reference(size=800, site="train.py:3 in main", segment="s")
    small = reference(PUT[:-1] + "1", 5, site="train.py:9 in main")
    handle = reference(PUT[:-1] + "2", kind="ACTOR_HANDLE")
    borrowed = reference(kind="PINNED_IN_MEMORY")
    reports = [
        (DRIVER, MemoryReport((small, owned, handle), ())),
        (WORKER, MemoryReport((borrowed,), ())),
    ]
    return memory.join(reports, {PUT[:-1] + "1": 90.0}, {"s": ("shared memory", 98.0)}, 100.0)


def test_a_borrowers_row_has_the_size_the_site_and_the_age_that_its_owner_knows() -> None:
    borrowed = next(each for each in joined() if each.who is WORKER)
    assert (borrowed.size_bytes, borrowed.age_s, borrowed.where) == (800, 2.0, "shared memory")
    assert (borrowed.call_site, borrowed.origin) == ("made at train.py:3 in main", "train.py:3 in main")


def test_places_and_ages_are_told_apart() -> None:
    rows = {each.reference.object_id[-1]: each for each in joined() if each.who is DRIVER}
    assert (rows["1"].where, rows["1"].age_s) == ("owner's memory", 10.0)
    assert (rows["2"].where, rows["2"].age_s) == ("", None)


def test_an_object_that_several_hold_is_counted_once_in_its_group() -> None:
    picture = memory.MemoryPicture(joined(), [], {}, {})
    [node] = memory.group(picture, "node", "size")
    assert node.size_bytes == 805 and node.counts["PINNED_IN_MEMORY"] == 1
    assert [row.who.pid for row in node.rows[:2]] == [10, 20]
    lines = memory.group(picture, "stack-trace", "pid")
    assert [group.name for group in lines] == ["train.py:3 in main", "train.py:9 in main", "(unknown)"]
    assert len(lines[0].rows) == 2


def test_a_segment_that_is_not_in_shared_memory_is_on_disk() -> None:
    [row] = memory.join([(DRIVER, MemoryReport((reference(size=8, segment="t"),), ()))], {}, {}, 100.0)
    assert row.where == "disk"


def test_a_segment_of_another_node_is_looked_for_in_that_nodes_folder(tmp_path: Path) -> None:
    for folder, name in (("root", "s"), ("root.0a1b", "s@0a1b")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).touch()
    reports = [
        (DRIVER, MemoryReport(tuple(reference(size=8, segment=each) for each in ("s", "s@0a1b", "gone")), ()))
    ]
    assert sorted(memory._places(str(tmp_path / "root"), reports)) == ["s", "s@0a1b"]


def test_own_memory_is_resident_memory_without_the_shared_part() -> None:
    found = memory.read_process(os.getpid(), "driver")
    assert found is not None and found.own_bytes == found.rss_bytes - found.shared_bytes > 0
    assert memory.read_process(2**22 + 1, "nobody") is None
