"""Names of segments and folders of the nodes of one session."""

from __future__ import annotations

from pathlib import Path

from sundog.store import places


def test_a_name_tells_its_home() -> None:
    assert places.tag_of("aa-bb-1") == ""
    assert places.tag_of("aa-bb-1" + places.suffix("0a0b0c0d")) == "0a0b0c0d"


def test_a_root_tells_its_head_and_its_tag() -> None:
    base = "/dev/shm/sundog-12-0a1b2c3d"

    for tag in ("", "0a0b0c0d"):
        assert places.base_of(places.shared_root(base, tag)) == (base, tag)


def test_the_other_nodes_are_found_without_locks_and_strangers(tmp_path: Path) -> None:
    base = str(tmp_path / "sundog-12-0a1b2c3d")
    for name in ("", ".0a0b0c0d", ".0a0b0c0e"):
        Path(base + name).mkdir()
    Path(base + ".lock").touch()
    (tmp_path / "sundog-13-0a1b2c3d").mkdir()

    assert set(places.other_roots(base, base)) == {base + ".0a0b0c0d", base + ".0a0b0c0e"}
    assert set(places.other_roots(base, base + ".0a0b0c0d")) == {base, base + ".0a0b0c0e"}
    assert places.other_roots(str(tmp_path / "gone" / "x"), "") == []
