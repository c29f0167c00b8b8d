"""Submitted jobs: a command that runs beside the head process, and what is known of it.

::

    client ── HTTP ──► head ── writes job.json (PENDING) ── starts ──► supervisor ── starts ──► entrypoint
                        ▲                                        │ holds the lock, writes job.json
                        └────────── reads job.json ◄─────────────┘

One folder per job: `<session>/jobs/<submission id>/`. The process that holds the `lock` in it writes `job.json`; all
others read. So a job outlives its client and the head process, and a supervisor that was killed is known by its free
lock. The parts: rows.py (what is known), records.py (the files), supervisor.py (the program), entrypoint.py (the
command).
"""
