"""The session's table of small values."""

from __future__ import annotations

from sundog.state.key_values import KeyValues


def test_a_put_tells_whether_the_key_had_a_value_and_overwrites_it_unless_told() -> None:
    table = KeyValues()
    assert table.put(b"", b"key", b"1", True) is False
    assert table.put(b"", b"key", b"2", True) is True
    assert table.put(b"", b"key", b"3", False) is True
    assert table.put(b"", b"other", b"4", False) is False
    assert table.get(b"", b"key") == b"2"
    assert table.get(b"", b"other") == b"4"


def test_namespaces_have_nothing_to_do_with_each_other() -> None:
    table = KeyValues()
    table.put(b"", b"key", b"1", True)
    table.put(b"n", b"key", b"2", True)
    assert (table.get(b"", b"key"), table.get(b"n", b"key"), table.get(b"m", b"key")) == (b"1", b"2", None)
    assert table.remove(b"n", b"key", False) == 1
    assert (table.keys(b"", b""), table.keys(b"n", b"")) == ([b"key"], [])


def test_keys_are_listed_and_removed_by_prefix() -> None:
    table = KeyValues()
    for key in (b"a", b"ab", b"b"):
        table.put(b"", key, b"", True)
    assert table.keys(b"", b"a") == [b"a", b"ab"]
    assert table.remove(b"", b"x", False) == 0
    assert table.remove(b"", b"a", True) == 2
    assert table.keys(b"", b"") == [b"b"]
