"""What a worker prints, in a process forked for each test, read back with the node's reader."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from sundog.node.logs import LogTail
from sundog.wire import marks
from sundog.worker import stdio

Lines = list[tuple[str, str]]


class Child:
    """Runs a body in a forked process whose output is redirected, as the zygote would start it."""

    def __init__(self, folder: Path) -> None:
        self.out_path = str(folder / "w.out")
        self.err_path = str(folder / "w.err")
        self.name = "task"
        self.max_bytes = stdio.DEFAULT_MAX_BYTES
        self.backups = stdio.DEFAULT_BACKUPS
        self._report = folder / "failure.txt"

    def run(self, body: Callable[[], object], *, expect_exit: int = 0) -> None:
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                stdio.redirect(
                    self.out_path,
                    self.err_path,
                    lambda: self.name,
                    max_bytes=self.max_bytes,
                    backups=self.backups,
                )
                body()
                stdio.flush_all()
                code = 0
            except BaseException:
                self._report.write_text(traceback.format_exc())
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        failure = self._report.read_text() if self._report.exists() else ""
        assert os.waitstatus_to_exitcode(status) == expect_exit, failure

    def tail(self) -> LogTail:
        return LogTail(b"w", 1, b"j", self.out_path, self.err_path)

    def lines(self, is_err: bool = False) -> Lines:
        tail = self.tail()
        found: Lines = []
        try:
            while batches := tail.poll(1 << 22, final=True):
                found += [(b.name, line) for b in batches if b.is_err == is_err for line in b.lines]
        finally:
            tail.close()
        return found


@pytest.fixture
def child(tmp_path: Path) -> Child:
    return Child(tmp_path)


def test_each_line_carries_the_name_that_was_running_when_it_was_printed(child: Child) -> None:
    def body() -> None:
        print("one")
        print("two")
        child.name = "resize"
        print("three")
        print("oops", file=sys.stderr)
        child.name = "task"
        print("four")

    child.run(body)
    assert child.lines() == [("task", "one"), ("task", "two"), ("resize", "three"), ("task", "four")]
    assert child.lines(is_err=True) == [("resize", "oops")]


def test_a_marker_is_written_only_when_the_name_changes(child: Child) -> None:
    child.run(lambda: [print(i) for i in range(1000)])
    assert Path(child.out_path).read_bytes().count(b"\x1e") == 1


def test_a_silent_worker_leaves_empty_files(child: Child) -> None:
    child.run(stdio.flush_all)
    assert Path(child.out_path).read_bytes() == Path(child.err_path).read_bytes() == b""


def test_names_with_newlines_and_separators_survive(child: Child) -> None:
    child.name = "a\nb\x1ename=c #d (pid=3) é%41"
    child.run(lambda: print("x"))
    assert child.lines() == [(child.name, "x")]


def test_output_that_looks_like_a_marker_is_not_taken_for_one(child: Child) -> None:
    forged = (stdio.name_mark("forged") + b"a\x1eb" + marks.mark("next=7")).decode()

    def body() -> None:
        print("before")
        print(forged)
        sys.stdout.buffer.write(forged.encode() + b"\n")
        os.write(1, b"\x1ename=c #00000000\n")

    child.run(body)
    expected = [*forged.split("\n"), *forged.split("\n")]
    assert child.lines() == [("task", line) for line in ["before", *expected, "\x1ename=c #00000000"]]


def test_writes_of_c_code_and_subprocesses_arrive_under_the_last_name(child: Child) -> None:
    def body() -> None:
        print("python")
        os.write(1, b"c level\n")
        subprocess.run(["/bin/sh", "-c", "echo from a shell; echo to stderr >&2"], check=True)
        print("python again")

    child.run(body)
    assert [line for _, line in child.lines()] == ["python", "c level", "from a shell", "python again"]
    assert child.lines(is_err=True) == [("", "to stderr")]


def test_a_partial_c_line_before_a_change_of_name_keeps_its_own_name(child: Child) -> None:
    def body() -> None:
        print("first")
        os.write(1, b"no newline")
        child.name = "other"
        print("second")

    child.run(body)
    assert child.lines() == [("task", "first"), ("task", "no newline"), ("other", "second")]


def test_partial_lines_are_joined_until_their_newline(child: Child) -> None:
    def body() -> None:
        for i in range(5):
            print(i, end=",")
        print("end")
        print("tail", end="")

    child.run(body)
    assert child.lines() == [("task", "0,1,2,3,4,end"), ("task", "tail")]


def test_a_flushed_partial_line_is_in_the_file_at_once(child: Child) -> None:
    def body() -> None:
        print("50%", end="", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    child.run(body, expect_exit=-signal.SIGKILL)
    assert child.lines() == [("task", "50%")]


def test_whole_lines_survive_sigkill_without_a_flush(child: Child) -> None:
    def body() -> None:
        print("last words")
        os.kill(os.getpid(), signal.SIGKILL)

    child.run(body, expect_exit=-signal.SIGKILL)
    assert child.lines() == [("task", "last words")]


def test_threads_never_tear_each_others_lines(child: Child) -> None:
    def body() -> None:
        def talk(k: int) -> None:
            for i in range(300):
                print(k, "x" * 50, i, sep="|")

        threads = [threading.Thread(target=talk, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    child.run(body)
    lines = [line for _, line in child.lines()]
    assert sorted(lines) == sorted(f"{k}|{'x' * 50}|{i}" for k in range(8) for i in range(300))
    for k in range(8):
        own = [line for line in lines if line.startswith(f"{k}|")]
        assert own == [f"{k}|{'x' * 50}|{i}" for i in range(300)]


def test_closing_sys_stdout_does_not_silence_later_tasks(child: Child) -> None:
    def body() -> None:
        sys.stdout.close()
        print("still here")
        with sys.stdout as stream:
            stream.write("in with\n")
        print("after with")

    child.run(body)
    assert [line for _, line in child.lines()] == ["still here", "in with", "after with"]


def test_printing_survives_the_closing_of_every_fd(child: Child) -> None:
    def body() -> None:
        print("before")
        os.closerange(0, 1024)
        print("after")
        # The numbers are taken again by us, so a file opened now is not where output goes.
        mine = os.open("/dev/null", os.O_RDONLY)
        assert mine not in (1, 2)
        print("later")
        print("err", file=sys.stderr)

    child.run(body)
    assert [line for _, line in child.lines()] == ["before", "after", "later"]
    assert child.lines(is_err=True) == [("task", "err")]


def test_a_private_descriptor_taken_over_by_another_file_is_not_written_to(
    child: Child, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"

    def body() -> None:
        print("before")
        os.closerange(3, 1024)
        for _ in range(20):
            os.open(victim, os.O_WRONLY | os.O_CREAT)
        os.close(1)
        print("after")

    child.run(body)
    assert victim.read_bytes() == b""
    assert [line for _, line in child.lines()] == ["before", "after"]


def test_dup2_captures_prints_as_in_any_process_and_can_be_undone(child: Child) -> None:
    def body() -> None:
        print("a")
        saved = os.dup(1)
        reader, writer = os.pipe()
        os.dup2(writer, 1)
        print("captured \x1e")
        os.dup2(saved, 1)
        print("b")
        assert os.read(reader, 100) == b"captured \x1e\n"

    child.run(body)
    assert child.lines() == [("task", "a"), ("task", "b")]


def test_restore_puts_streams_and_fds_back(child: Child) -> None:
    def body() -> None:
        os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
        sys.stdout = None
        stdio.restore()
        print("back")
        os.write(1, b"fd too\n")

    child.run(body)
    assert [line for _, line in child.lines()] == ["back", "fd too"]


def test_redirect_stdout_and_logging_handlers_work(child: Child) -> None:
    def body() -> None:
        held = io.StringIO()
        with contextlib.redirect_stdout(held):
            print("held")
        assert held.getvalue() == "held\n"
        logger = logging.getLogger("user")
        logger.addHandler(logging.StreamHandler())
        logger.warning("careful: %s", "ü")

    child.run(body)
    assert child.lines() == []
    assert child.lines(is_err=True) == [("task", "careful: ü")]


def test_a_forked_child_repeats_nothing_and_its_name_does_not_stick(child: Child) -> None:
    def body() -> None:
        print("partial ", end="")
        pid = os.fork()
        if pid == 0:
            child.name = "grandchild"
            print("hello")
            stdio.flush_all()
            os._exit(0)
        os.waitpid(pid, 0)
        print("parent")

    child.run(body)
    assert child.lines() == [("grandchild", "hello"), ("task", "partial parent")]


def test_a_fork_while_another_thread_prints_does_not_hang(child: Child) -> None:
    def body() -> None:
        stop = threading.Event()

        def talk() -> None:
            while not stop.is_set():
                print("noise")

        thread = threading.Thread(target=talk)
        thread.start()
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                print("from the child")
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        thread.join()

    child.run(body)
    assert [line for _, line in child.lines()].count("from the child") == 20


def test_a_signal_handler_may_print_while_the_main_thread_prints(child: Child) -> None:
    def body() -> None:
        signal.signal(signal.SIGALRM, lambda *_: print("tick"))
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        for i in range(2000):
            print(f"line {i}")
        signal.setitimer(signal.ITIMER_REAL, 0)

    child.run(body)
    text = "\n".join(line for _, line in child.lines())
    assert all(f"line {i}" in text for i in range(2000))


def test_a_hundred_megabytes_arrive_whole(child: Child) -> None:
    def body() -> None:
        line = "x" * 99 + "\n"
        sys.stdout.write(line * 500_000)
        for _ in range(500):
            sys.stdout.write(line * 1000)

    child.run(body)
    tail = child.tail()
    count = 0
    while batches := tail.poll(1 << 22, final=True):
        for batch in batches:
            assert all(len(line) == 99 for line in batch.lines)
            count += len(batch.lines)
    tail.close()
    assert count == 1_000_000


def test_text_that_is_not_utf8_is_shown_and_does_not_fail(child: Child) -> None:
    def body() -> None:
        print("lone \udce9 surrogate")
        sys.stdout.buffer.write(b"latin \xe9\n")
        os.write(1, b"raw \xff\xfe\n")

    child.run(body)
    assert [line for _, line in child.lines()] == ["lone \\udce9 surrogate", "latin \\xe9", "raw \\xff\\xfe"]


def test_carriage_returns_are_progress_lines(child: Child) -> None:
    def body() -> None:
        for percent in (10, 50, 100):
            sys.stderr.write(f"\r{percent}%")
            sys.stderr.flush()
        sys.stderr.write("\n")
        sys.stderr.write("dos\r\n")

    child.run(body)
    assert [line for _, line in child.lines(is_err=True)] == ["10%\r", "50%\r", "100%", "dos"]


def test_the_streams_answer_as_text_streams_do(child: Child) -> None:
    def body() -> None:
        assert sys.stdout.fileno() == 1 and sys.stderr.fileno() == 2
        assert not sys.stdout.isatty() and sys.stdout.writable() and not sys.stdout.closed
        assert sys.stdout.encoding == "utf-8" and sys.stdout.line_buffering
        assert sys.stdout.write("four") == 4
        sys.stdout.writelines(["a\n", "b\n"])
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        assert sys.__stdout__ is sys.stdout
        try:
            stdio._streams[0].write(b"bytes")  # type: ignore[arg-type]
        except TypeError:
            print("refused")

    child.run(body)
    assert [line for _, line in child.lines()] == ["foura", "b", "refused"]


def test_rotation_keeps_the_newest_files_and_loses_no_line_that_is_kept(child: Child) -> None:
    child.max_bytes, child.backups = 2000, 3

    def body() -> None:
        for i in range(100):
            print(f"line {i:03d} " + "x" * 40)

    child.run(body)
    names = sorted(os.listdir(os.path.dirname(child.out_path)))
    assert names == ["w.err", "w.out", "w.out.1", "w.out.2"]
    assert [line[:8] for _, line in child.lines()] == [f"line {i:03d}" for i in range(100)]


def test_old_files_beyond_the_limit_are_deleted(child: Child) -> None:
    child.max_bytes, child.backups = 500, 2
    child.run(lambda: [print("x" * 90) for _ in range(100)])
    names = sorted(os.listdir(os.path.dirname(child.out_path)))
    assert names == ["w.err", "w.out", "w.out.1", "w.out.2"]
    assert all(os.path.getsize(child.out_path + end) < 700 for end in ("", ".1", ".2"))


def test_one_huge_write_is_spread_over_files_at_line_ends(child: Child) -> None:
    child.max_bytes, child.backups = 10_000, 50
    child.run(lambda: sys.stdout.write("".join(f"{i:06d}\n" for i in range(20_000))))
    assert [line for _, line in child.lines()] == [f"{i:06d}" for i in range(20_000)]
    assert os.path.exists(child.out_path + ".10")


def test_a_file_that_cannot_be_written_does_not_fail_the_task(child: Child) -> None:
    def body() -> None:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        print("fits")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(child.out_path), hard))
        print("does not fit")
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        print("fits again")

    child.run(body)
    lines = [line for _, line in child.lines()]
    assert lines[0] == "fits" and lines[-1] == "fits again"
    assert "13 bytes of output could not be written" in lines[1]


def test_the_end_of_a_task_ends_its_line_and_leaves_progress_and_other_files_alone(
    child: Child, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"

    def body() -> None:
        for text, flush in (("held", False), ("flushed", True), ("whole\n", False), ("\rbar\r", False)):
            print(text, end="", flush=flush)
            stdio.end_lines()
            assert not stdio.holding
        keep, there = os.dup(1), os.open(elsewhere, os.O_WRONLY | os.O_CREAT)
        os.dup2(there, 1)
        print("captured", end="")
        stdio.end_lines()
        os.dup2(keep, 1)
        print("last")

    child.run(body)
    texts = [text for _, text in child.lines()]
    assert texts == ["held", "flushed", "whole", "bar\r", "last"]
    assert elsewhere.read_text() == "captured"


def test_a_log_file_that_cannot_be_made_is_made_later_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "_OPEN_AGAIN_S", 0.0)
    target = os.open(os.devnull, os.O_WRONLY)
    try:
        channel = stdio.LogChannel(str(tmp_path / "logs" / "out"), target, lambda: "", 1 << 20, 1)
        channel.write(b"lost\n")
        (tmp_path / "logs").mkdir()
        channel.write(b"kept\n")
        os.close(channel._private)
    finally:
        os.close(target)
    lines = (tmp_path / "logs" / "out").read_bytes().splitlines()
    assert lines[0] == b"[sundog] 5 bytes of output could not be written here (disk full?)"
    assert lines[-1] == b"kept"


def test_a_mark_names_the_task_too_and_no_name_can_forge_one() -> None:
    def value(name: str) -> bytes:
        found = marks.find_mark(stdio.name_mark(name).rstrip(b"\n"))
        assert found is not None and found[0] == 0
        return found[2]

    assert value("f\0ab12") == b"f&ab12"
    assert value("f") == b"f"
    assert value("a&b\0ab12") == b"a%26b&ab12"
    assert value("a\0b\nname=x") == b"a%00b%0Aname=x"
    assert value("a\0b\0ab12") == b"a%00b&ab12"
