"""The head process: a session's HTTP side. Dashboard, jobs, Ray's HTTP interface, metrics.

::

    browser, Ray's clients, Prometheus ── HTTP, a token ──► head ── requests ──► node
                                                             ├─ reads ──► records, logs of the session
                                                             └─ starts ──► supervisor of a job ──► its entrypoint

A program of its own beside the node (`node/heads.py` starts it; `sundog dashboard` runs it in the terminal). The head
process is never on a task's way, and its death harms nothing. Needs the extra `sundog[default]`.
"""
