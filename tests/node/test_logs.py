"""The reader of worker logs: parsing on bytes alone, then files written by the real writer."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog.node.logs import (
    LINE_MAX_BYTES,
    LONGEST_POLL_S,
    SHORTEST_POLL_S,
    LineParser,
    LogBatch,
    LogTail,
    LogTails,
)
from sundog.wire import marks
from sundog.worker import stdio


class Writer:
    """A worker's channel on a spare descriptor instead of fd 1, so that it can run inside the test."""

    def __init__(self, path: Path, max_bytes: int = 1 << 30, backups: int = 5) -> None:
        self.name = "f"
        self._fd = os.open("/dev/null", os.O_WRONLY)
        self.channel = stdio.LogChannel(str(path), self._fd, lambda: self.name, max_bytes, backups)

    def write(self, text: str) -> None:
        self.channel.write(text.encode(), through=True)

    def raw(self, data: bytes) -> None:
        os.write(self._fd, data)

    def close(self) -> None:
        os.close(self._fd)
        os.close(self.channel._private)


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str]:
    return str(tmp_path / "w.out"), str(tmp_path / "w.err")


@pytest.fixture
def tail(paths: tuple[str, str]) -> Iterator[LogTail]:
    made = LogTail(b"w", 7, b"job1", *paths)
    yield made
    made.close()


@pytest.fixture
def writer(paths: tuple[str, str]) -> Iterator[Writer]:
    made = Writer(Path(paths[0]))
    yield made
    made.close()


def lines_of(batches: list[LogBatch]) -> list[str]:
    return [line for batch in batches for line in batch.lines]


def test_the_parser_gives_the_same_lines_however_the_bytes_are_cut() -> None:
    data = stdio.name_mark("a") + b"one\ntwo\xff\n" + stdio.name_mark("b b") + b"\rp 1\rp 2\r\n"
    data += b"x" + marks.mark("lit") + b";y\n" + b"\xc3\xa9 open" + stdio.name_mark("c") + b"end"
    expected = [("a", "one"), ("a", "two\\xff"), ("b b", "p 1\r"), ("b b", "p 2"), ("b b", "x\x1ey")]
    expected += [("b b", "é open"), ("c", "end")]
    for seed in range(300):
        rng = random.Random(seed)
        cuts = sorted(rng.sample(range(len(data)), rng.randint(0, 20)))
        parser = LineParser()
        found: list[tuple[str, str]] = []
        for start, end in zip([0, *cuts], [*cuts, len(data)]):
            found += parser.feed(data[start:end])
        assert found + parser.finish() == expected, f"seed {seed}"


def test_a_line_of_many_megabytes_comes_in_pieces_and_whole_characters() -> None:
    parser = LineParser()
    text = "é" * 3_000_000
    raw = text.encode() + b"\nnext\n"
    found = [line for at in range(0, len(raw), 200_001) for _, line in parser.feed(raw[at : at + 200_001])]
    assert found[-1] == "next"
    assert "".join(found[:-1]) == text
    assert all(len(line.encode()) <= LINE_MAX_BYTES for line in found)


def test_progress_is_handed_over_before_its_newline() -> None:
    parser = LineParser()
    assert parser.feed(b"\r10%") == []
    assert parser.feed(b"\r20%") == [("", "10%\r")]
    assert parser.feed(b"\r") == []
    assert parser.feed(b"\n") == [("", "20%")]


def test_a_partial_line_is_held_back_until_its_newline(tail: LogTail, writer: Writer) -> None:
    writer.write("hello")
    assert tail.poll(1000) == []
    writer.write(" world\nrest")
    assert tail.poll(1000) == [LogBatch(b"w", 7, b"job1", "f", False, ["hello world"])]
    assert tail.poll(1000) == []
    assert lines_of(tail.poll(1000, final=True)) == ["rest"]


def test_batches_are_cut_where_the_name_changes(tail: LogTail, writer: Writer) -> None:
    writer.write("1\n2\n")
    writer.name = "g"
    writer.write("3\n")
    writer.raw(b"c level\n")
    assert [(b.name, b.lines) for b in tail.poll(1000)] == [("f", ["1", "2"]), ("g", ["3", "c level"])]


def test_a_missing_file_is_waited_for(tail: LogTail, paths: tuple[str, str]) -> None:
    assert tail.poll(1000) == []
    Path(paths[1]).write_text("now\n")
    assert tail.poll(1000) == [LogBatch(b"w", 7, b"job1", "", True, ["now"])]


def test_the_budget_bounds_a_poll_and_pending_bytes_says_what_is_left(tail: LogTail, writer: Writer) -> None:
    for i in range(1000):
        writer.write(f"{i:09d}\n")
    found: list[str] = []
    polls = 0
    while len(found) < 1000:
        new = lines_of(tail.poll(1000))
        assert len(new) <= 101
        found += new
        polls += 1
        assert bool(tail.pending_bytes) == (len(found) < 1000)
    assert found == [f"{i:09d}" for i in range(1000)] and polls >= 10


def test_a_flood_on_stdout_does_not_hold_back_stderr(tail: LogTail, paths: tuple[str, str]) -> None:
    Path(paths[0]).write_text("flood\n" * 10_000)
    Path(paths[1]).write_text("traceback\n")
    assert [b.lines for b in tail.poll(1000) if b.is_err] == [["traceback"]]


@pytest.mark.parametrize("seed", range(20))
def test_rotation_is_followed_without_loss_at_any_pace(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    writer = Writer(tmp_path / "w.out", max_bytes=rng.choice([200, 1000, 5000]), backups=200)
    tail = LogTail(b"w", 7, b"j", str(tmp_path / "w.out"), str(tmp_path / "w.err"))
    expected: list[tuple[str, str]] = []
    found: list[tuple[str, str]] = []

    def read(budget: int, final: bool = False) -> None:
        found.extend((b.name, line) for b in tail.poll(budget, final=final) for line in b.lines)

    for i in range(300):
        writer.name = rng.choice(["f", "g"])
        expected.append((writer.name, f"line {i} " + "x" * rng.randint(0, 60)))
        writer.write(expected[-1][1] + "\n")
        if rng.random() < 0.1:
            read(rng.randint(1, 3000))
    while len(found) < len(expected):
        read(100_000, final=True)
    assert found == expected
    tail.close()
    writer.close()


def test_parts_deleted_before_they_were_read_are_named(tmp_path: Path, tail: LogTail) -> None:
    writer = Writer(tmp_path / "w.out", max_bytes=100, backups=2)
    writer.write("first\n")
    assert lines_of(tail.poll(1000)) == ["first"]
    for i in range(20):
        writer.write(f"{i:02d}" + "y" * 90 + "\n")
    found = lines_of(tail.poll(100_000))
    # The open file is read to its end although its name is gone; then comes the gap, then what is kept.
    assert found[0].startswith("00y") and "were deleted before they were read" in found[1]
    assert [line[:2] for line in found[2:]] == ["17", "18", "19"]
    writer.close()


def test_a_rotation_cut_short_by_a_crash_is_still_followed(tmp_path: Path, tail: LogTail) -> None:
    (tmp_path / "w.out").write_bytes(b"old\n" + marks.mark("next=1") + b"\n")
    (tmp_path / "w.out.new").write_bytes(marks.mark("part=1") + b"\nnew\n")
    assert lines_of(tail.poll(1000, final=True)) == ["old", "new"]


def test_what_a_subprocess_writes_into_a_rotated_file_is_read(tmp_path: Path, tail: LogTail) -> None:
    writer = Writer(tmp_path / "w.out", max_bytes=100)
    writer.write("a" * 90 + "\n")
    inherited = os.dup(writer._fd)
    writer.write("b" * 90 + "\n")
    writer.write("c\n")
    assert [line[0] for line in lines_of(tail.poll(10_000))] == ["a", "b", "c"]
    os.write(inherited, b"late\n")
    assert lines_of(tail.poll(10_000)) == ["late"]
    os.close(inherited)
    writer.close()


def test_a_file_emptied_by_hand_is_read_from_its_start(tail: LogTail, paths: tuple[str, str]) -> None:
    Path(paths[0]).write_text("a long first line\n")
    assert lines_of(tail.poll(1000)) == ["a long first line"]
    os.truncate(paths[0], 0)
    with open(paths[0], "a") as file:
        file.write("short\n")
    assert lines_of(tail.poll(1000)) == ["short"]


def make_tails(tmp_path: Path, count: int, **limits: int) -> LogTails:
    tails = LogTails(**limits)
    for k in range(count):
        tails.add(bytes([k]), k, b"j", str(tmp_path / f"{k}.out"), str(tmp_path / f"{k}.err"))
    return tails


def test_a_silent_worker_is_looked_at_less_and_less_often(tmp_path: Path) -> None:
    tails = make_tails(tmp_path, 1)
    now, waits = 100.0, []
    for _ in range(10):
        assert tails.poll(now) == []
        wait = tails.next_poll_in_s(now)
        assert wait is not None
        waits.append(wait)
        now += wait
    assert waits == sorted(waits) and waits[-1] == pytest.approx(LONGEST_POLL_S)
    (tmp_path / "0.out").write_text("hello\n")
    assert lines_of(tails.poll(now)) == ["hello"]
    assert tails.next_poll_in_s(now) == pytest.approx(SHORTEST_POLL_S)
    tails.close()


def test_a_worker_whose_files_are_empty_is_silent_until_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tails = make_tails(tmp_path, 1)
    for name in ("0.out", "0.err"):
        (tmp_path / name).touch()
    read: list[int] = []
    poll = LogTail.poll

    def reading(tail: LogTail, budget_bytes: int, *, final: bool = False) -> list[LogBatch]:
        read.append(budget_bytes)
        return poll(tail, budget_bytes, final=final)

    monkeypatch.setattr(LogTail, "poll", reading)
    assert tails.poll(1.0) == [] and read == []
    (tmp_path / "0.err").write_text("hello\n")
    assert lines_of(tails.poll(2.0)) == ["hello"] and len(read) == 1
    tails.finish(b"\0")
    tails.poll(3.0)
    assert len(tails) == 0
    tails.close()


def test_a_worker_that_is_not_due_is_left_alone_until_woken(tmp_path: Path) -> None:
    tails = make_tails(tmp_path, 1)
    tails.poll(1.0)
    (tmp_path / "0.out").write_text("hello\n")
    assert tails.poll(1.0) == []
    tails.wake(b"\0")
    assert lines_of(tails.poll(1.0)) == ["hello"]
    tails.close()


def test_a_finished_worker_is_drained_and_closed(tmp_path: Path) -> None:
    tails = make_tails(tmp_path, 2, per_worker_bytes=1000)
    (tmp_path / "0.out").write_text("x\n" * 5000 + "no newline")
    tails.finish(b"\0")
    found: list[str] = []
    for _ in range(100):
        found += lines_of(tails.poll(1.0))
    assert found == ["x"] * 5000 + ["no newline"]
    assert len(tails) == 1
    tails.close()


def test_one_flooding_worker_does_not_delay_the_others(tmp_path: Path) -> None:
    tails = make_tails(tmp_path, 3, budget_bytes=10_000, per_worker_bytes=2000)
    (tmp_path / "0.out").write_text("flood\n" * 100_000)
    (tmp_path / "2.out").write_text("hello\n")
    batches = tails.poll(1.0)
    assert "hello" in lines_of([b for b in batches if b.worker_id == b"\2"])
    assert tails.pending_bytes > 500_000
    assert tails.next_poll_in_s(1.0) == 0.0
    tails.close()


def test_following_a_worker_twice_is_refused(tmp_path: Path) -> None:
    tails = make_tails(tmp_path, 1)
    with pytest.raises(ValueError, match="followed already"):
        tails.add(b"\0", 1, b"j", "a", "b")
    tails.close()


def test_finishing_or_waking_an_unknown_worker_changes_nothing() -> None:
    tails = LogTails()
    tails.finish(b"?")
    tails.wake(b"?")
    assert tails.poll(1.0) == [] and tails.next_poll_in_s(1.0) is None
