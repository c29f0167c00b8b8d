"""The words of a cause: one sentence, then its evidence, and never a list of guesses."""

from __future__ import annotations

import pickle
import signal

import pytest

from sundog.wire.cause import EXIT, KERNEL_OOM, MEMORY, SIGNAL, Cause, shown_bytes, signal_name

CAUSES = [
    Cause(),
    Cause(reason="it was idle", exit_code=0, intended=True),
    Cause(exit_code=3, kind=EXIT, detail="The end of its error output:\n  no licence"),
    Cause(signal=signal.SIGTERM, kind=SIGNAL, last_line="resize.py:12 shrink, 0.1 s before", last_task="07"),
    Cause(signal=signal.SIGSEGV, kind=SIGNAL, detail="Fatal Python error: Segmentation fault"),
    Cause(
        signal=9, kind=KERNEL_OOM, facts={"counter": "/sys/x", "before": 1, "after": 2, "peak_bytes": 5000}
    ),
    Cause(signal=9, kind=MEMORY, reason="the machine had 97 % of its memory in use", facts={"used_bytes": 5}),
]


@pytest.mark.parametrize("cause", CAUSES)
def test_a_cause_survives_pickling_with_its_words(cause: Cause) -> None:
    back = pickle.loads(pickle.dumps(cause, 5))
    assert back == cause
    assert back.text() == cause.text()


@pytest.mark.parametrize("cause", CAUSES)
def test_a_cause_is_one_sentence_first_and_no_list_of_guesses(cause: Cause) -> None:
    first = cause.text().split("\n")[0]
    assert first.endswith(".")
    assert "possibl" not in first and "(1)" not in first and " or " not in first


def test_the_evidence_follows_in_lines_of_its_own() -> None:
    cause = Cause(signal=9, kind=SIGNAL, last_line="a.py:1 f, 0.0 s before", detail="more")
    assert cause.text().split("\n")[1:] == ["Its code was last seen at a.py:1 f, 0.0 s before.", "more"]


def test_a_signal_without_a_name_is_a_number() -> None:
    assert signal_name(41) == "signal 41"


@pytest.mark.parametrize(
    ("size", "shown"),
    [(7, "7 bytes"), (1500, "1.5 kB"), (268_435_456, "268.4 MB"), (5 * 10**12, "5000.0 GB")],
)
def test_sizes_are_shown_for_people(size: int, shown: str) -> None:
    assert shown_bytes(size) == shown


def test_a_kill_on_the_machine_at_that_time_is_told_as_what_may_be() -> None:
    facts = {"machine_counter": "/proc/vmstat", "machine_before": 1, "machine_after": 2}
    text = Cause(signal=signal.SIGKILL, kind=SIGNAL, facts=facts).text()
    assert text.startswith(
        "it was ended by SIGKILL, which sundog did not send. At that time the kernel killed"
    )
    assert "went from 1 to 2). It may have been this one" in text
