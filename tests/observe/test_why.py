"""Why: each case told from its facts alone, down to the first cause."""

from __future__ import annotations

from typing import Any

from sundog.observe.why import (
    ActorFacts,
    Attempt,
    JobFacts,
    ObjectFacts,
    ProcessEnd,
    Story,
    TaskFacts,
    Usual,
    explain,
)


def task(state: str, **more: Any) -> TaskFacts:
    facts: dict[str, Any] = {"submit_s": 90.0, "pid": 7, "call_site": "a.py:3 in main"}
    return TaskFacts(more.pop("task_id", "ab" * 16), more.pop("name", "f"), state, 100.0, **{**facts, **more})


def told(story: Story) -> str:
    return " | ".join((story.verdict, *story.because))


MEMORY = {"used_bytes": 9e9, "total_bytes": 10e9}
OOM = ProcessEnd(
    "cd" * 8,
    41,
    "NODE_OUT_OF_MEMORY",
    "it was ended because memory ran out.",
    last_line="a.py:9 in f",
    facts=MEMORY,
)


def test_a_task_that_can_never_run() -> None:
    story = explain(task("PENDING_NODE_ASSIGNMENT", shortage="no node has {CPU: 100}", infeasible=True))
    assert (
        told(story)
        == "has waited for 10 s | it can never run: no node has {CPU: 100} | it was submitted at a.py:3 in main"
    )
    assert "ask for less" in story.next[0]


def test_a_task_that_waits_for_resources_names_who_holds_them() -> None:
    story = explain(task("PENDING_NODE_ASSIGNMENT", shortage="all CPUs are held", holders=["g() in pid 9"]))
    assert "waits for a worker: all CPUs are held | held by g() in pid 9" in told(story)


def test_a_missing_argument_is_followed_to_what_it_waits_for() -> None:
    running = task("RUNNING", name="h", task_id="cc" * 16, start_s=95.0, line="b.py:1 in h")
    waiting = task("PENDING_ARGS_AVAIL", name="g", task_id="bb" * 16, missing=[running])
    story = explain(task("PENDING_ARGS_AVAIL", missing=[waiting]))
    text = told(story)
    assert (
        text.index("the result of g()") < text.index("the result of h()") < text.index("h() has run for 5 s")
    )
    assert "it is at b.py:1 in h" in text
    assert story.next == (f"sundog why {'bb' * 16}",)


def test_a_call_that_waits_for_a_dead_or_busy_actor() -> None:
    busy = ActorFacts("aa" * 16, "A", "ALIVE", pid=5, calls=12)
    assert "its turn at actor A" in told(explain(task("SUBMITTED_TO_WORKER", actor=busy)))
    coming = ActorFacts("aa" * 16, "A", "PENDING_CREATION", pending_why="all GPUs are held")
    assert "all GPUs are held" in told(explain(task("PENDING_NODE_ASSIGNMENT", actor=coming)))


def test_a_straggler_is_one_against_its_like() -> None:
    usual = Usual(50, 0.1, 0.2)
    assert "it is a straggler: 50 calls" in told(explain(task("RUNNING", start_s=95.0, usual=usual)))
    assert "that is usual" in told(explain(task("RUNNING", start_s=99.9, usual=usual)))
    assert "no usual time" in told(explain(task("RUNNING", start_s=95.0)))


def test_a_slow_task_is_told_by_phase() -> None:
    usual = Usual(50, 0.1, 0.2, 0.05)
    slow = task("FINISHED", start_s=94.0, end_s=99.0, cpu_s=0.1, usual=usual, phases=[("a worker", 3.9)])
    text = told(explain(slow))
    assert "slower than usual" in text and "it waited or slept" in text
    late = task("FINISHED", start_s=94.0, end_s=94.1, usual=usual, phases=[("a worker", 3.9)])
    assert "waited 4 s, where 50 ms is usual | of these 3.9 s for a worker" in told(explain(late))
    normal = task("FINISHED", start_s=90.0, end_s=90.1, usual=usual)
    assert "slower" not in told(explain(normal))


def test_an_exception_is_told_with_its_place() -> None:
    text = 'Traceback:\n  File "b.py", line 8, in f\n    raise\nValueError: bad input'
    failed = task(
        "FAILED", start_s=95.0, end_s=96.0, attempts=[Attempt(0, "FAILED", "TASK_EXECUTION_EXCEPTION", text)]
    )
    assert (
        "failed after 1 s | TASK_EXECUTION_EXCEPTION: ValueError: bad input | raised at b.py, line 8, in f"
        in told(explain(failed))
    )


def test_a_task_that_ran_too_long_is_told_by_its_sentence_not_by_the_advice_at_its_end() -> None:
    text = 'f() ran longer than its timeout_s=1. Its code was here:\n  File "b.py", line 8, in f\n'
    text += "    g()\nWhy: sundog why 1"
    failed = task(
        "FAILED", start_s=95.0, end_s=96.0, attempts=[Attempt(0, "FAILED", "TASK_EXECUTION_EXCEPTION", text)]
    )
    words = told(explain(failed))
    assert "f() ran longer than its timeout_s=1. Its code was here: | " in words and "Why:" not in words


def test_an_argument_that_failed_is_the_first_cause() -> None:
    origin = task(
        "FAILED", name="load", task_id="cc" * 16, attempts=[Attempt(0, "FAILED", "X", "no such file")]
    )
    story = explain(task("FAILED", origin=origin, attempts=[Attempt(0, "FAILED", "X", "")]))
    assert "its argument failed: the result of load()" in told(story) and "no such file" in told(story)
    assert "cc" * 16 in story.next[0]


def test_a_task_killed_for_memory_has_the_evidence_and_every_attempt() -> None:
    kind = "OUT_OF_MEMORY"
    attempts = [Attempt(0, "FAILED", kind, "", 40, 2.0, OOM), Attempt(1, "FAILED", kind, "", 41, 3.0, OOM)]
    story = explain(task("FAILED", attempts=attempts))
    text = told(story)
    assert "it ran 2 times" in text and "attempt 0 ended after 2 s: OUT_OF_MEMORY" in text
    assert "its process (pid 41) ended while it ran" in text and "memory stood at 9.0 of 10.0 GB" in text
    assert "last seen at a.py:9 in f" in text and "memory=" in story.next[0]


def test_a_call_of_a_dead_actor_is_told_by_the_death_of_the_actor() -> None:
    creation = task(
        "FAILED", name="A.__init__", attempts=[Attempt(0, "FAILED", "E", "RuntimeError: no licence")]
    )
    actor = ActorFacts("aa" * 16, "A", "DEAD", cause="its constructor raised", creation=creation, restarts=2)
    story = explain(task("FAILED", actor=actor, attempts=[Attempt(0, "FAILED", "ACTOR_DIED", "dead")]))
    assert "its actor A" in told(story) and "no licence" in told(story) and "restarted 2 times" in told(story)


def test_actors_processes_objects_and_jobs() -> None:
    assert told(explain(ActorFacts("aa" * 16, "A", "ALIVE", pid=5))).startswith("lives in pid 5 | it is idle")
    busy = ActorFacts(
        "aa" * 16, "A", "ALIVE", pid=5, calls=3, runs=("A.f() ab, for 2 s",), answered=9, failed=1
    )
    assert "it runs A.f() ab, for 2 s | calls that wait for their turn: 2" in told(explain(busy))
    assert "calls that it has answered: 9, failed: 1" in told(explain(busy))
    assert "ended: NODE_OUT_OF_MEMORY" in told(explain(OOM))
    made = ObjectFacts("ab" * 20, task("RUNNING", start_s=99.0))
    assert "is the result of f(), which has run for 1 s" in told(explain(made))
    put = ObjectFacts("ab" * 20, call_site="a.py:1", size_bytes=8_000_000, put_by="the driver with pid 3")
    assert told(explain(put)) == "was put by the driver with pid 3, 8.0 MB | it was put at a.py:1"
    assert "not in the records" in told(explain(ObjectFacts("ab" * 20)))
    job = JobFacts("01000000", "RUNNING", "x.py", 3, 10.0, counts={"FAILED": 2}, worst=task("FAILED"))
    assert "2 FAILED" in told(explain(job)) and "nothing else about this task" in told(explain(job))


def test_a_task_that_ran_when_its_driver_was_killed_tells_of_that() -> None:
    left = Attempt(0, "FAILED", "WORKER_DIED", "It was running when its session ended.")
    story = explain(
        task("FAILED", attempts=(left,), session_end="the driver (pid 7) is gone: it was killed.")
    )
    assert "when its session ended. | the driver (pid 7) is gone" in told(story)


def test_a_task_whose_environment_is_made_waits_for_that() -> None:
    waits = task(
        "PENDING_NODE_ASSIGNMENT", environment="for 3.0 s in pid 7; /a.log ends with: Collecting pandas"
    )
    assert "a worker makes a runtime environment: for 3.0 s in pid 7; /a.log ends with: Coll" in told(
        explain(waits)
    )


def test_an_environment_that_could_not_be_made_tells_what_its_program_said() -> None:
    message = "pip failed: `pip install x`. Its last lines:\n  Looking\n  ERROR: no such package\nThe whole log: /a.log"
    failed = task("FAILED", attempts=(Attempt(0, "FAILED", "RUNTIME_ENV_SETUP_FAILED", message),))
    assert "| ERROR: no such package | The whole log: /a.log" in told(explain(failed))


def test_a_task_that_waits_in_get_is_followed_to_what_it_waits_for() -> None:
    child = task("RUNNING", task_id="cd" * 16, name="child", start_s=60.0, pid=9, line="b.py:2 child")
    story = explain(
        task("RUNNING", start_s=50.0, blocked="in get() since 3.0 s, for cd, at a.py:1 in f", awaits=child)
    )
    text = "\n".join(story.because)
    assert (
        text.index("in get() since 3.0 s")
        < text.index("result of child()")
        < text.index("has run for 40 s in pid 9")
    )
    assert text.index("pid 9") < text.index("b.py:2")


def test_a_slow_task_that_waited_for_others_is_told_so() -> None:
    usual = Usual(10, 1.9, 1.0)
    story = explain(task("FINISHED", start_s=10.0, end_s=20.0, blocked_s=9.0, cpu_s=0.1, usual=usual))
    assert any("waited 9 s of that in get() and wait()" in step for step in story.because)
