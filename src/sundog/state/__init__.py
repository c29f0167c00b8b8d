"""The decisions of the runtime as pure state machines: events and a clock in, instructions out.

Nothing below this package opens a socket, starts a thread or a process, or reads a clock or the environment.
The programs in ``node/``, ``worker/`` and ``owner/`` carry events in and instructions out, one thread at a
time.
"""
