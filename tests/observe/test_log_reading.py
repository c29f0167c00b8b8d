"""Lines of workers' logs: whose they are, from which part, and as they grow."""

from pathlib import Path

from sundog.observe import log_reading
from sundog.observe.log_reading import Follower
from sundog.wire.marks import mark

ONE, TWO = "a" * 32, "b" * 32


def name(task: str, attempt: int = 0) -> bytes:
    return mark(f"name=f&{task}{attempt or ''}") + b"\n"


def test_lines_come_out_as_they_were_printed(tmp_path: Path) -> None:
    log = tmp_path / "w.out"
    printed = b'{"a": 1}\n  10%\r 20%\r\n\xff\xfe\nlast, without an end'
    log.write_bytes(name(ONE) + printed)
    assert b"".join(log_reading.read(str(log))) == printed
    assert log_reading.read_tail(str(log), 2) == [b"\xff\xfe\n", b"last, without an end"]


def test_the_lines_of_one_task_and_one_attempt_are_told_apart(tmp_path: Path) -> None:
    log = tmp_path / "w.out"
    log.write_bytes(name(ONE) + b"1\n" + name(TWO) + b"2\n" + name(ONE, 1) + b"3\n4" + name(TWO) + b"5\n")
    assert b"".join(log_reading.read(str(log), ONE)) == b"1\n3\n4\n"
    assert b"".join(log_reading.read(str(log), ONE, 0)) == b"1\n"
    assert b"".join(log_reading.read(str(log), ONE, 1)) == b"3\n4\n"
    assert b"".join(log_reading.read(str(log), TWO)) == b"2\n5\n"


def test_rotated_parts_are_read_from_the_oldest_on(tmp_path: Path) -> None:
    for end, text in ((".2", b"1\n"), (".1", b"2\n"), ("", b"3\n")):
        (tmp_path / f"w.out{end}").write_bytes(text)
    assert b"".join(log_reading.read(str(tmp_path / "w.out"))) == b"1\n2\n3\n"


def test_a_follower_goes_on_where_the_history_ended_also_through_a_rotation(tmp_path: Path) -> None:
    log = tmp_path / "w.out"
    follower = Follower(str(log))
    assert follower.history() == follower.poll() == b""  # it does not exist yet
    log.write_bytes(b"1\n2\n3\nhal")
    assert follower.poll() == b"1\n2\n3\n"
    with log.open("ab") as file:
        file.write(b"f\n")
    assert follower.poll() == b"half\n"
    with log.open("ab") as file:
        file.write(b"the last of it\n")
    log.rename(tmp_path / "w.out.1")
    log.write_bytes(b"the next part\n")
    assert follower.poll() == b"the last of it\nthe next part\n"
    follower.close()


def test_a_follower_shows_a_progress_bar_that_has_not_ended(tmp_path: Path) -> None:
    log = tmp_path / "w.out"
    log.write_bytes(b"old 1\nold 2\n")
    follower = Follower(str(log))
    assert follower.history(1) == b"old 2\n"
    with log.open("ab") as file:
        file.write(b" 10%\r 20%\r 3")
        file.flush()
        assert follower.poll() == b" 10%\r 20%\r"
        file.write(b"0%\n")
    assert follower.poll() == b" 30%\n"
    follower.close()
