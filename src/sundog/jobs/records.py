"""The files of submitted jobs: one folder each, below the session's.

::

    <session>/jobs/<submission id>/job.json    what is known, written by the holder of the lock
                                   lock        held by the job's supervisor while it runs, with its pid in it
    <session>/logs/job-driver-<id>.log         what the entrypoint printed

Owns the names, and that no id leads out of the folder. Refuses what is not this user's (`trust`). Used by head and
supervisor.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator

from sundog import trust
from sundog.jobs.rows import JobRecord, from_file, to_file

FOLDER = "jobs"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,127}")
_FILE = "job.json"
_LOCK = "lock"


def check_id(submission_id: str) -> str:
    """Give an id that can be the name of a folder.

    Raises:
        ValueError: it cannot: it might lead elsewhere.
    """
    if not _ID.fullmatch(submission_id):
        raise ValueError(
            "A submission id has 1 to 128 letters, digits, '_', '-', '+' and '.', and begins with a letter or a digit."
        )
    return submission_id


class JobFolder:
    """The folder of one job."""

    def __init__(self, session: str, submission_id: str) -> None:
        self.submission_id = check_id(submission_id)
        self.session = session
        self.path = f"{session}/{FOLDER}/{submission_id}"
        self.log = f"{session}/logs/job-driver-{submission_id}.log"

    def create(self, record: JobRecord) -> None:
        """Make the folder of a new job.

        Raises:
            FileExistsError: there is a job of that id.
        """
        trust.make_folder(os.path.dirname(self.path))
        os.mkdir(self.path, 0o700)
        os.close(trust.create_file(f"{self.path}/{_LOCK}"))
        self.write(record)

    def write(self, record: JobRecord) -> None:
        """Replace what is known. Only for the maker of the folder, and the holder of the lock."""
        temporary = f"{self.path}/{_FILE}.new"
        with open(trust.create_file(temporary), "w", encoding="utf-8") as file:
            json.dump(to_file(record), file)
        os.replace(temporary, f"{self.path}/{_FILE}")

    def read(self) -> JobRecord | None:
        """What is known; None if there is no such job."""
        try:
            return from_file(json.loads(trust.read_file(f"{self.path}/{_FILE}")))
        except (OSError, TypeError, ValueError):
            return None

    def changed_at(self) -> int:
        """When it was written last; 0 if it is not there."""
        try:
            return os.stat(f"{self.path}/{_FILE}").st_mtime_ns
        except OSError:
            return 0

    def take_lock(self) -> int | None:
        """The lock's descriptor, if no process holds it; closing the descriptor gives the lock back."""
        try:
            lock = trust.open_file(f"{self.path}/{_LOCK}", flags=os.O_RDWR)
        except OSError:
            return None
        return trust.locked(lock)

    @contextlib.contextmanager
    def locked(self) -> Iterator[bool]:
        """Hold the lock for a moment; whether that was possible."""
        lock = self.take_lock()
        try:
            yield lock is not None
        finally:
            if lock is not None:
                os.close(lock)

    def say_pid(self, lock: int) -> None:
        """Write down which process holds the lock."""
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)

    def open_holder(self) -> int | None:
        """A pidfd of the process that holds the lock; None if no process does."""
        try:
            lock = trust.open_file(f"{self.path}/{_LOCK}")
        except OSError:
            return None
        try:
            text = os.pread(lock, 32, 0)
            return trust.open_holder(int(text), lock) if text.isdigit() else None
        finally:
            os.close(lock)

    def remove(self) -> bool:
        """Forget the job; what it printed goes too."""
        with contextlib.suppress(OSError):
            os.unlink(self.log)
        return trust.remove(self.path)


def all_jobs(session: str) -> list[JobFolder]:
    """The folders of a session's jobs."""
    try:
        names = os.listdir(f"{session}/{FOLDER}")
    except OSError:
        return []
    return [JobFolder(session, name) for name in sorted(names) if _ID.fullmatch(name)]
