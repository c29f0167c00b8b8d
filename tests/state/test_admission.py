"""How many of a function may start when memory is short, and that nobody is held back without need."""

from __future__ import annotations

from sundog.state.admission import KEPT_FUNCTIONS, PATIENCE_S, UNSURE_S, Admission, LeaseInUse

MB = 1_000_000
WHO = (b"driver", 1)


def seen(peaks: list[int], name: str = "f") -> Admission:
    admission = Admission()
    for peak in peaks:
        admission.observed(name, peak)
    return admission


def decide(
    admission: Admission, running: list[LeaseInUse], used: int, now: float = 0.0, name: str = "f"
) -> str:
    return admission.decide(WHO, (name,), running, used, 2000 * MB, now)


def test_the_estimate_is_the_95th_percentile_of_the_last_runs() -> None:
    admission = seen([MB * n for n in range(1, 101)])
    assert admission.estimate("f") == 97 * MB, "of the last 64 runs, 37 to 100 MB"
    assert admission.estimate("never seen") is None


def test_with_plenty_of_memory_nobody_is_held_back() -> None:
    admission = seen([100 * MB])
    running = [LeaseInUse(90 * MB, ("f",))] * 8
    assert decide(admission, running, used=800 * MB) == ""
    assert not admission.decisions, "and there is nothing to explain"


def test_plenty_is_known_without_measuring() -> None:
    admission = seen([10 * MB])
    assert admission.plenty(50, 100 * MB, 2000 * MB)
    assert not admission.plenty(150, 100 * MB, 2000 * MB)


def test_one_more_is_held_back_when_what_runs_will_still_grow_into_the_rest() -> None:
    admission = seen([500 * MB])
    fresh = [LeaseInUse(10 * MB, ("f",))] * 3
    why = decide(admission, fresh, used=100 * MB)
    assert "f() is expected to take 500 MB" in why and "430 MB of 2,000 MB are left" in why
    assert decide(admission, fresh[:2], used=100 * MB) == ""


def test_that_it_was_held_back_and_let_in_is_recorded_once_each() -> None:
    admission = seen([500 * MB])
    for now in (1.0, 1.1, 1.2):
        assert decide(admission, [LeaseInUse(0, ("f",))] * 4, 0, now)
    assert decide(admission, [], 0, 1.3) == ""
    assert [(each.at, each.admitted) for each in admission.decisions] == [(1.0, False), (1.3, True)]


def test_a_function_never_seen_is_not_held_back() -> None:
    admission = seen([500 * MB])
    assert decide(admission, [LeaseInUse(0, ("f",))] * 3, 0, name="g") == ""


def test_one_may_always_run_however_large() -> None:
    admission = seen([5000 * MB])
    assert decide(admission, [], used=1900 * MB) == ""
    assert decide(admission, [LeaseInUse(MB)], used=1900 * MB)


def test_those_blocked_in_a_get_do_not_keep_what_they_wait_for_from_running() -> None:
    admission = seen([900 * MB])
    parents = [LeaseInUse(900 * MB, ("f",), blocked=True)] * 2
    assert decide(admission, parents, used=1800 * MB) == ""


def test_after_a_while_the_estimate_is_taken_for_wrong() -> None:
    admission = seen([900 * MB])
    running = [LeaseInUse(MB)]
    assert decide(admission, running, 1900 * MB, 0.0)
    assert decide(admission, running, 1900 * MB, PATIENCE_S - 1)
    assert decide(admission, running, 1900 * MB, PATIENCE_S) == ""
    assert decide(admission, running, 1900 * MB, PATIENCE_S + 1), "one, not all"


def test_after_one_was_ended_no_more_start_beside_others_for_a_while() -> None:
    admission = Admission()
    admission.ended("f", 20 * MB, now=0.0)
    running = [LeaseInUse(20 * MB, ("f",))]
    assert "because memory ran out" in decide(admission, running, 0, 1.0)
    assert decide(admission, running, 0, UNSURE_S) == ""


def test_a_run_that_was_ended_says_only_how_little_it_takes_at_least() -> None:
    admission = seen([500 * MB])
    for _ in range(100):
        admission.ended("f", 20 * MB, now=0.0)
    assert admission.estimate("f") == 500 * MB
    admission.at_least("f", 600 * MB)
    assert admission.estimate("f") == 600 * MB


def test_what_is_remembered_is_bounded() -> None:
    admission = Admission()
    for number in range(KEPT_FUNCTIONS + 10):
        admission.observed(f"f{number}", MB)
    assert len(admission.learnt()) == KEPT_FUNCTIONS
    assert admission.estimate("f0") is None
