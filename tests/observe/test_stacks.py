"""Stacks as text: folded by likeness, the user's frames shown, sundog's in one line."""

from sundog.observe import fault_dumps, stacks
from sundog.observe.stacks import SeenProcess
from sundog.owner.stacks import PACKAGE_DIR
from sundog.wire.looks import ProcessStacks, RunningCall, Stack, StackFrame, Who

RUNNER = StackFrame("Executor._run_any", f"{PACKAGE_DIR}worker/executor.py", 357, True)


def seen(pid: int, *frames: StackFrame, kind: str = "worker", call: RunningCall | None = None) -> SeenProcess:
    stack = Stack("MainThread", frames, call)
    told = ProcessStacks((stack,), calls=(call,) if call is not None else ())
    return SeenProcess(
        Who(pid, f"{pid:x}", kind, "leased", "01", float(pid), entrypoint="train.py"), told, "python"
    )


def work(pid: int, start_s: float) -> SeenProcess:
    frame = StackFrame("square", "/nowhere/train.py", 7)
    return seen(pid, frame, RUNNER, call=RunningCall(f"{pid:x}", "square", start_s))


def test_equal_stacks_are_shown_once_with_their_pids_and_ages() -> None:
    [group] = stacks.fold([work(11, 95.0), work(12, 98.0)])
    assert stacks.heading(group, 100.0) == "2 × worker running square for 2.0 s to 5.0 s  (pid 11, 12)"
    assert group.lines == ["    square (/nowhere/train.py:7)"]


def test_a_worker_that_waits_for_work_is_idle_and_shows_nothing_of_ours() -> None:
    waits = StackFrame("Serving.run", f"{PACKAGE_DIR}worker/serving.py", 130, True)
    [group] = stacks.fold([seen(11, waits)])
    assert (group.title, group.lines) == ("worker, idle", [])
    [group] = stacks.fold([seen(11, waits)], everything=True)
    assert group.lines[0].startswith("    Serving.run (")


def test_frames_of_sundog_in_the_middle_are_one_line() -> None:
    get = StackFrame("get", f"{PACKAGE_DIR}api.py", 1, True)
    poll = StackFrame("Reactor.lead", f"{PACKAGE_DIR}owner/reactor.py", 1, True)
    [group] = stacks.fold([seen(11, poll, get, StackFrame("main", "/nowhere/train.py", 3), kind="driver")])
    assert group.lines == ["    [sundog] get, 1 frames deeper", "    main (/nowhere/train.py:3)"]
    assert stacks.heading(group, 0.0) == "driver train.py  (pid 11)"


def test_names_with_control_characters_are_escaped() -> None:
    [group] = stacks.fold([seen(11, StackFrame("\x1b[2J", "/a\nb.py", 3), kind="driver")])
    assert len(group.lines) == 1 and "\x1b" not in group.lines[0] and "\n" not in group.lines[0]


def test_a_dump_of_the_fault_handler_is_read_thread_by_thread() -> None:
    text = (
        "Thread 0x00007f01 (most recent call first):\n"
        f'  File "{PACKAGE_DIR}owner/reactor.py", line 161 in _run\n'
        '  File "/usr/lib/python3.11/threading.py", line 982 in run\n'
        '  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap\n'
        "\n"
        "Current thread 0x00007f02 (most recent call first):\n"
        '  File "/nowhere/train.py", line 7 in square\n'
        f'  File "{PACKAGE_DIR}worker/executor.py", line 357 in _run_any\n'
        f'  File "{PACKAGE_DIR}worker/serving.py", line 12 in _run_todo\n'
        '  File "<string>", line 1 in <module>\n'
    )
    main, reader = fault_dumps.parse(text)
    assert (main.name, main.ours, [frame.function for frame in main.frames]) == (
        "MainThread",
        False,
        ["square", "_run_any"],
    )
    assert reader.ours and reader.frames[0].line == 161


def test_a_half_written_dump_is_no_error() -> None:
    assert fault_dumps.parse("") == []
    assert fault_dumps.parse("garbage\n  File") == []
    [one] = fault_dumps.parse('Thread 0x1 (most recent call first):\n  File "a", line ??? in f\n')
    assert one.frames[0].line == 0


def test_a_process_that_does_not_exist_has_ended() -> None:
    found = fault_dumps.ask("/nowhere", 2**22 + 1)
    assert isinstance(found, fault_dumps.Silence) and found.why == "it has ended"
